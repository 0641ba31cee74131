// Package skills implements the tools with which a model uses skills: skills_list,
// skill_view and skill_manage. The skills themselves are loaded and stored by agent/skills.
package skills

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"slices"
	"strings"

	"hermesd/agent/skills"
	"hermesd/agent/tool"
)

//go:embed *.md *.json
var texts embed.FS

// Options configure the tools.
type Options struct {
	Library *skills.Library
	// Filter returns which skills the turn of a call is offered.
	Filter func(c tool.Call) skills.Filter
	Manage bool // there is skill_manage
}

// A toolSet implements the tools of one library.
type toolSet struct{ o Options }

// Tools returns the tools. A skill that is hidden from a session is neither listed nor
// shown there, and the model is told why.
func Tools(o Options) []tool.Tool {
	s := toolSet{o}
	tools := []tool.Tool{
		tool.New(spec("skills_list", tool.Pure), s.list),
		tool.New(spec("skill_view", tool.Pure), s.view),
	}
	if o.Manage {
		tools = append(tools, tool.New(spec("skill_manage", tool.AtMostOnce), s.manage))
	}
	return tools
}

func spec(name string, effect tool.Effect) tool.Spec {
	return tool.Spec{
		Tool:   tool.Definition(texts, name),
		Effect: effect, Parallel: effect == tool.Pure,
	}
}

// maxDescription is the number of characters of a description that skills_list shows.
const maxDescription = 500

type listInput struct {
	Category string `json:"category"`
}

func (s toolSet) list(_ context.Context, c tool.Call, in listInput) (string, error) {
	visible := s.o.Library.Catalog().Visible(s.o.Filter(c))
	want := strings.Trim(strings.TrimSpace(in.Category), "/")
	if want != "" {
		visible = slices.DeleteFunc(visible, func(k skills.Skill) bool {
			return k.Category != want && !strings.HasPrefix(k.Category, want+"/")
		})
	}
	switch {
	case len(visible) > 0:
		return strings.TrimSpace(skills.Lines(visible, maxDescription)), nil
	case want != "":
		return fmt.Sprintf("There is no skill in the category %q.", want), nil
	}
	return "There are no skills.", nil
}

type viewInput struct {
	Name string `json:"name"`
	File string `json:"file"`
}

func (s toolSet) view(_ context.Context, c tool.Call, in viewInput) (string, error) {
	if strings.TrimSpace(in.Name) == "" {
		return "", fmt.Errorf("a name is needed")
	}
	if k, ok := s.o.Library.Catalog().Find(in.Name); ok {
		if why := k.Hidden(s.o.Filter(c)); why != "" {
			return "", fmt.Errorf("the skill %s is not offered here: %s", k.Name, why)
		}
	}
	v, err := s.o.Library.View(in.Name, in.File)
	if err != nil {
		return "", err
	}
	v = v.Expanded(c.Session)
	if in.File != "" || len(v.Files) == 0 {
		return v.Text, nil
	}
	return fmt.Sprintf("%s\n\n[Further files, to be read with skill_view(%q, file): %s]", strings.TrimSpace(v.Text), v.Skill.Name, strings.Join(v.Files, ", ")), nil
}

type manageInput struct {
	Action   string  `json:"action"`
	Name     string  `json:"name"`
	Category string  `json:"category"`
	Content  *string `json:"content"`
	File     string  `json:"file"`
	Old      string  `json:"old_text"`
	New      *string `json:"new_text"`
	All      bool    `json:"replace_all"`
}

func (s toolSet) manage(ctx context.Context, _ tool.Call, in manageInput) (string, error) {
	if err := in.check(); err != nil {
		return "", err
	}
	l := s.o.Library
	var err error
	var done string
	switch in.Action {
	case "create":
		done, err = "is written. It can be loaded with skill_view at once", l.Create(ctx, in.Name, in.Category, *in.Content)
	case "edit":
		done, err = "is rewritten", l.Edit(ctx, in.Name, *in.Content)
	case "patch":
		var n int
		n, err = l.Patch(ctx, in.Name, in.File, skills.Replacement{Old: in.Old, New: *in.New, Everywhere: in.All})
		done = fmt.Sprintf("is patched; places replaced: %d", n)
	case "delete":
		done, err = "is deleted", l.Delete(ctx, in.Name)
	case "write_file":
		done, err = "has the file "+in.File+" now", l.WriteFile(ctx, in.Name, in.File, *in.Content)
	case "remove_file":
		done, err = "has the file "+in.File+" no longer", l.RemoveFile(ctx, in.Name, in.File)
	}
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("The skill %s %s.", in.Name, done), nil
}

func (in manageInput) check() error {
	if in.Name == "" {
		return errors.New("a name is needed")
	}
	switch in.Action {
	case "create", "edit", "write_file":
		if in.Content == nil {
			return fmt.Errorf("%s needs a content", in.Action)
		}
	case "patch":
		if in.Old == "" || in.New == nil {
			return errors.New("patch needs old_text and new_text; an empty new_text takes the old one out")
		}
	case "delete", "remove_file":
	default:
		return fmt.Errorf("there is no action %q; use create, patch, edit, delete, write_file or remove_file", in.Action)
	}
	if in.File == "" && (in.Action == "write_file" || in.Action == "remove_file") {
		return fmt.Errorf("%s needs a file", in.Action)
	}
	return nil
}
