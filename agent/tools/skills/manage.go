package skills

import (
	"context"
	"errors"
	"fmt"

	"hermesd/agent/skills"
	"hermesd/agent/tool"
)

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

// manage implements skill_manage.
func (s toolSet) manage(ctx context.Context, c tool.Call, in manageInput) (string, error) {
	if err := in.check(); err != nil {
		return "", err
	}
	if err := s.o.Manage(ctx, c.Session, in.Action); err != nil {
		return "", err
	}
	l := s.o.Library
	var err error
	var done string
	switch in.Action {
	case "create":
		done, err = "is written. It can be loaded with skill_view at once", l.Create(ctx, in.Name, in.Category, *in.Content)
	case "edit":
		done, err = "is written anew", l.Edit(ctx, in.Name, *in.Content)
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

// check returns an error if an argument of the action is missing.
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
