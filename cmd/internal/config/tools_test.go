package config_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestAToolThatIsNoneIsWarnedOf(t *testing.T) {
	_, r := setup{yaml: "toolsets: [web, kitchen, all, read_file, hermes-cli, browser]\nplatforms: {telegram: {toolsets: [file, wbe]}}\n"}.good(t)
	said := ""
	for _, w := range r.Warnings {
		said += w.String() + "\n"
	}
	for want, n := range map[string]int{`"kitchen"`: 1, `"wbe"`: 1, "there is no tool or toolset called": 2} {
		if got := strings.Count(said, want); got != n {
			t.Errorf("%s is said %d times in\n%s", want, got, said)
		}
	}
}

// TestReadPathsMustNotRevealHome shows that no path of terminal.read_paths makes files
// of the home directory visible to commands, also not by a symbolic link.
func TestReadPathsMustNotRevealHome(t *testing.T) {
	home := t.TempDir()
	links := t.TempDir()
	for _, dir := range []string{home, filepath.Dir(home)} {
		if err := os.Symlink(dir, filepath.Join(links, filepath.Base(dir))); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct{ yaml, want string }{
		{"read_paths: [go]", `want an absolute path, or one that begins with ~/, not "go"`},
		{"read_paths: [/]", "/ contains the home of the daemon"},
		{"read_paths: [/opt, " + home + "]", home + " contains the home of the daemon"},
		{"read_paths: [" + filepath.Dir(home) + "]", "contains the home of the daemon"},
		{"read_paths: [" + filepath.Join(links, filepath.Base(home)) + "]", "contains the home of the daemon"},
		{"read_paths: [" + filepath.Join(links, filepath.Base(home), "memories") + "]", "is in the home of the daemon"},
		{"read_paths: [" + filepath.Join(links, filepath.Base(filepath.Dir(home))) + "]", "contains the home of the daemon"},
		{"read_paths: [" + home + "/memories]", "is in the home of the daemon"},
		{"read_paths: [" + home + "/.env]\n  cwd: ./", "is in the home of the daemon"},
	} {
		if got := (setup{home: home, yaml: "terminal:\n  " + c.yaml + "\n"}).problems(t); !strings.Contains(got, "terminal.read_paths") || !strings.Contains(got, c.want) {
			t.Errorf("%s: got %s", c.yaml, got)
		}
	}
	user, err := os.UserHomeDir()
	if err != nil {
		t.Skip(err)
	}
	c, _ := setup{home: home, yaml: "terminal:\n  read_paths: [/opt/go, ~/.cargo, " + home + "/workspace/tools]\n"}.good(t)
	want := []string{"/opt/go", filepath.Join(user, ".cargo"), filepath.Join(home, "workspace", "tools")}
	if got := c.ReadPaths(home); strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("got %q, want %q", got, want)
	}
}
