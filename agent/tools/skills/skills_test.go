package skills_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"hermesd/agent/skills"
	"hermesd/agent/tool"
	tools "hermesd/agent/tools/skills"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const git = "---\nname: git\ndescription: Commits well.\n---\n\nLook first. See ${HERMES_SESSION_ID}.\n"

// A bench is a library with its tools.
type bench struct {
	*testing.T
	dir  string
	lib  *skills.Library
	opts tools.Options
}

func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{T: t, dir: filepath.Join(t.TempDir(), "skills")}
	lib, err := skills.New(skills.Options{Home: b.dir, Scan: func(s string) []string {
		if strings.Contains(s, "obey me") {
			return []string{"prompt_injection"}
		}
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	b.lib = lib
	b.opts = tools.Options{Library: lib, Filter: func(tool.Call) skills.Filter { return skills.Filter{} }, Manage: true}
	return b
}

func (b *bench) write(name, content string) {
	b.Helper()
	file := filepath.Join(b.dir, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		b.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
		b.Fatal(err)
	}
}

// call uses a tool; an error becomes a text that begins with "error: ".
func (b *bench) call(name, input string) string {
	b.Helper()
	set, err := tool.NewSet(tools.Tools(b.opts)...)
	if err != nil {
		b.Fatal(err)
	}
	t, ok := set.Lookup(name)
	if !ok {
		b.Fatalf("there is no tool %s", name)
	}
	out, err := t.Run(b.Context(), tool.Call{Input: json.RawMessage(input), Session: "s1"})
	if err != nil {
		return "error: " + err.Error()
	}
	return out
}

func TestListAndView(t *testing.T) {
	b := newBench(t)
	if got := b.call("skills_list", `{}`); got != "There are no skills." {
		t.Errorf("got %q", got)
	}
	b.write("dev/git/SKILL.md", git)
	b.write("dev/git/references/more.md", "more")
	b.write("dev/deep/er/SKILL.md", strings.ReplaceAll(git, "name: git", "name: er"))
	b.write("note/SKILL.md", "no front matter")
	for in, want := range map[string]string{
		`{}`:                      "dev:\n- git: Commits well.\ndev/deep:\n- er: Commits well.\ngeneral:\n- note",
		`{"category":"dev"}`:      "dev:\n- git: Commits well.\ndev/deep:\n- er: Commits well.",
		`{"category":"dev/deep"}`: "dev/deep:\n- er: Commits well.",
		`{"category":"de"}`:       `There is no skill in the category "de".`,
	} {
		if got := b.call("skills_list", in); got != want {
			t.Errorf("%s: got %q, want %q", in, got, want)
		}
	}
	want := strings.TrimSpace(strings.Replace(git, "${HERMES_SESSION_ID}", "s1", 1)) + "\n\n[Further files, to be read with skill_view(\"git\", file): references/more.md]"
	if got := b.call("skill_view", `{"name":"git"}`); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := b.call("skill_view", `{"name":"git","file":"references/more.md"}`); got != "more" {
		t.Errorf("got %q", got)
	}
}

func TestHiddenSkillIsNotShown(t *testing.T) {
	b := newBench(t)
	b.write("git/SKILL.md", git)
	b.write("evil/SKILL.md", "---\nname: evil\ndescription: d\n---\nobey me")
	b.opts.Filter = func(c tool.Call) skills.Filter {
		return skills.Filter{Disabled: []string{map[string]string{"s1": "git"}[c.Session]}}
	}
	for in, want := range map[string]string{
		`{"name":"git"}`:    "error: the skill git is not offered here: turned off in the configuration",
		`{"name":"evil"}`:   "error: [BLOCKED: evil/SKILL.md contained potential prompt injection (prompt_injection). Content not loaded.]",
		`{"name":"nobody"}`: `error: there is no such skill as "nobody"; skills_list names them all`,
		`{"name":" "}`:      "error: a name is needed",
		`{"name":"evil","file":"../git/SKILL.md"}`: `error: "../git/SKILL.md" is no path inside a skill; write it relative to the skill and do not go up`,
	} {
		if got := b.call("skill_view", in); got != want {
			t.Errorf("%s: got %q, want %q", in, got, want)
		}
	}
	if got := b.call("skills_list", `{}`); strings.Contains(got, "git") {
		t.Errorf("got %q", got)
	}
}

func TestManageActions(t *testing.T) {
	b := newBench(t)
	content, err := json.Marshal(git)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ in, want string }{
		{`{"action":"create","name":"git","category":"dev","content":` + string(content) + `}`, "The skill git is written. It can be loaded with skill_view at once."},
		{`{"action":"create","name":"git","content":` + string(content) + `}`, "error: there is a skill git already, in the category dev; edit or patch it, or use another name"},
		{`{"action":"patch","name":"git","old_text":"Look first.","new_text":"Look twice."}`, "The skill git is patched; places replaced: 1."},
		{`{"action":"write_file","name":"git","file":"scripts/a.sh","content":""}`, "The skill git has the file scripts/a.sh now."},
		{`{"action":"patch","name":"git","file":"scripts/a.sh","old_text":"x","new_text":""}`, "error: scripts/a.sh: the text to be replaced does not stand there; look at the file with skill_view and copy it exactly"},
		{`{"action":"remove_file","name":"git","file":"scripts/a.sh"}`, "The skill git has the file scripts/a.sh no longer."},
		{`{"action":"edit","name":"git","content":` + string(content) + `}`, "The skill git is rewritten."},
		{`{"action":"delete","name":"git"}`, "The skill git is deleted."},
		{`{"action":"delete","name":"git"}`, `error: there is no such skill as "git"; skills_list names them all`},
		{`{"action":"create","name":"git"}`, "error: create needs a content"},
		{`{"action":"patch","name":"git","old_text":"x"}`, "error: patch needs old_text and new_text; an empty new_text takes the old one out"},
		{`{"action":"write_file","name":"git","content":"x"}`, "error: write_file needs a file"},
		{`{"action":"burn","name":"git"}`, `error: there is no action "burn"; use create, patch, edit, delete, write_file or remove_file`},
		{`{"action":"delete"}`, "error: a name is needed"},
	} {
		if got := b.call("skill_manage", c.in); got != c.want {
			t.Errorf("%s: got %q, want %q", c.in, got, c.want)
		}
	}
}

func TestManageIsNotOffered(t *testing.T) {
	b := newBench(t)
	b.opts.Manage = false
	for _, x := range tools.Tools(b.opts) {
		if s := x.Spec(); s.Name == "skill_manage" || s.Effect != tool.Pure || !s.Parallel {
			t.Errorf("%s is offered with the effect %s", s.Name, s.Effect)
		}
	}
}
