package skills_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"hermesd/agent/skills"
)

// old is the modification time of a test's files: old enough for their stamps
// to be relied on.
func old() time.Time { return time.Now().Add(-time.Hour) }

// A world is a home directory with skills.
type world struct {
	testing.TB
	home, dir, cache string
}

func newWorld(t testing.TB) *world {
	home := t.TempDir()
	return &world{t, home, filepath.Join(home, "skills"), filepath.Join(home, "cache", "skills.json")}
}

func (w *world) options() skills.Options {
	return skills.Options{Home: w.dir, Cache: w.cache, Scan: scan, Scanner: "test-1"}
}

// scan finds one phrase and one command.
func scan(text string) []string {
	var found []string
	if strings.Contains(strings.ToLower(text), "ignore all previous instructions") {
		found = append(found, "prompt_injection")
	}
	if strings.Contains(text, "curl") && strings.Contains(text, "$API_KEY") {
		found = append(found, "exfil_curl")
	}
	return found
}

func (w *world) library(o skills.Options) *skills.Library {
	w.Helper()
	l, err := skills.New(o)
	if err != nil {
		w.Fatal(err)
	}
	return l
}

// write writes a file below the skill directory.
func (w *world) write(name, content string) {
	w.Helper()
	w.writeAt(filepath.Join(w.dir, name), content)
}

func (w *world) writeAt(file, content string) {
	w.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		w.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
		w.Fatal(err)
	}
}

func (w *world) link(target, name string) {
	w.Helper()
	file := filepath.Join(w.dir, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		w.Fatal(err)
	}
	if err := os.Symlink(target, file); err != nil {
		w.Fatal(err)
	}
}

// age sets the times of everything in the home directory to old.
func (w *world) age() {
	w.Helper()
	err := filepath.Walk(w.home, func(p string, info os.FileInfo, err error) error {
		if err != nil || info.Mode()&os.ModeSymlink != 0 {
			return err
		}
		return os.Chtimes(p, old(), old())
	})
	if err != nil {
		w.Fatal(err)
	}
}

func skill(name, description string) string {
	return "---\nname: " + name + "\ndescription: " + description + "\n---\n\n# " + name + "\n\nDo it well.\n"
}

func names(list []skills.Skill) string {
	var out []string
	for _, s := range list {
		out = append(out, s.Category+"/"+s.Name)
	}
	return strings.Join(out, " ")
}

// problems returns the result of Check, one line each, without the home
// directory.
func (w *world) problems(l *skills.Library) string {
	var out []string
	for _, p := range l.Check() {
		line := p.Path + ": " + p.Text
		if p.Skill != "" {
			line = p.Path + " (" + p.Skill + "): " + p.Text
		}
		out = append(out, strings.ReplaceAll(line, w.home, "~"))
	}
	return strings.Join(out, "\n")
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
