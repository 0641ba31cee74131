package files_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"hermesd/agent/tool"
	"hermesd/agent/tools/files"
)

// asking uses a tool as a user whose approval function is approve, and returns the requests
// and what the model reads.
func asking(t *testing.T, set tool.Set, name string, in map[string]any, approve func() error) (asked []tool.ApprovalRequest, out string) {
	t.Helper()
	tl, _ := set.Lookup(name)
	raw, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	u := &user{approve: approve}
	out, err = tl.Run(t.Context(), tool.Call{Input: raw, User: u})
	if err != nil {
		out = "error: " + err.Error()
	}
	return u.asked, out
}

// A user answers approval requests.
type user struct {
	tool.Unattended
	asked   []tool.ApprovalRequest
	approve func() error
}

func (u *user) Approve(_ context.Context, r tool.ApprovalRequest) error {
	u.asked = append(u.asked, r)
	return u.approve()
}

func yes() error { return nil }

func TestApprovalShowsTheChange(t *testing.T) {
	dir, _, set := editable(t, allow, map[string]string{".envrc": "one\ntwo\n"})
	for _, c := range []struct {
		sentence, tool string
		in             map[string]any
		command        string // of the request
		key            string // after "change-file:" and the workspace
	}{
		{"a difference", "write_file", map[string]any{"path": ".envrc", "content": "one\n2\n"}, "write_file .envrc\n@@ line 1 @@\n one\n-two\n+2", "/.envrc"},
		{"a character that is not seen", "patch", map[string]any{"path": "./.envrc", "old_string": "one", "new_string": "a\u202eb"}, "patch .envrc\n@@ line 1 @@\n-one\n+a\\u202eb\n 2", "/.envrc"},
		{"a name that is not seen as what it is", "write_file", map[string]any{"path": "a\u202e/.envrc", "content": "x\n"}, "write_file a\\u202e/.envrc\n@@ line 1 @@\n+x", ""},
		{"a name of two lines", "write_file", map[string]any{"path": "a\nchange-file:b/.envrc", "content": "x\n"}, "write_file a\nchange-file:b/.envrc\n@@ line 1 @@\n+x", ""},
		{"a name that is too long for a key", "write_file", map[string]any{"path": strings.Repeat("a/", 150) + ".envrc", "content": "x\n"}, "write_file " + strings.Repeat("a/", 150) + ".envrc\n@@ line 1 @@\n+x", ""},
	} {
		asked, out := asking(t, set, c.tool, c.in, yes)
		var want []string
		if c.key != "" {
			want = []string{"change-file:" + filepath.ToSlash(dir) + c.key}
		}
		if len(asked) != 1 || asked[0].Command != c.command || !slices.Equal(asked[0].Shapes, want) || asked[0].Tool != c.tool || len(asked[0].Reasons) != 1 {
			t.Errorf("%s: asked %+v, want %q %q", c.sentence, asked, c.command, want)
		}
		if !strings.HasPrefix(out, "[") {
			t.Errorf("%s: %s", c.sentence, out)
		}
	}
	asked, _ := asking(t, set, "write_file", map[string]any{"path": ".envrc", "content": strings.Repeat("x\n", 50_000)}, yes)
	if len(asked) != 1 || len(asked[0].Command) > 20_000 || !strings.Contains(asked[0].Command, "[only the first 16384 of ") {
		t.Errorf("asked %+v", asked)
	}
}

func TestDeniedChangeLeavesNothing(t *testing.T) {
	dir, _, set := editable(t, allow, map[string]string{"a.txt": "one\n"})
	denied := errors.New("denied")
	for _, in := range []map[string]any{
		{"mode": "patch", "patch": "*** Update File: a.txt\n-one\n+two\n*** Add File: new/.envrc\n+x"},
		{"mode": "patch", "patch": "*** Add File: new/b.txt\n+x\n*** Add File: .git/hooks/x\n+x"},
	} {
		if asked, out := asking(t, set, "patch", in, func() error { return denied }); len(asked) != 1 || !strings.Contains(out, "nothing is written") || !strings.Contains(out, "denied") {
			t.Errorf("asked %+v: %s", asked, out)
		}
	}
	if got := use(t, set, "write_file", map[string]any{"path": "new/.envrc", "content": "x"}); !strings.Contains(got, "nobody is there to give it") {
		t.Errorf("unattended: %s", got)
	}
	onlyThese(t, dir, "a.txt")
	if found, _ := filepath.Glob(filepath.Join(dir, "*")); len(found) != 1 {
		t.Errorf("there are %q", found)
	}
}

// What is written is what was approved: a file that has changed meanwhile stays as it is.
func TestFileChangedWhileAsking(t *testing.T) {
	dir, _, set := editable(t, allow, map[string]string{".envrc": "one\n"})
	asked, out := asking(t, set, "patch", map[string]any{"path": ".envrc", "old_string": "one", "new_string": "two"}, func() error {
		return os.WriteFile(filepath.Join(dir, ".envrc"), []byte("one\nthree\n"), 0o644)
	})
	if len(asked) != 1 || !strings.Contains(out, "somebody else has changed .envrc") || held(t, dir, ".envrc") != "one\nthree\n" {
		t.Errorf("asked %+v: %s; the file holds %q", asked, out, held(t, dir, ".envrc"))
	}
}

// TestSettingsOfHomeInWorkspace: if the workspace contains the user's home directory, the
// settings in it are protected.
func TestSettingsOfHomeInWorkspace(t *testing.T) {
	for _, home := range []string{"", "ann"} {
		dir := t.TempDir()
		real, err := filepath.EvalSymlinks(dir)
		if err != nil {
			t.Fatal(err)
		}
		w, err := files.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { w.Close() })
		set, err := tool.NewSet(w.Writers(files.Options{Deny: allow, Homes: []string{filepath.Join(real, home)}, Protect: unprotected})...)
		if err != nil {
			t.Fatal(err)
		}
		for name, want := range map[string]int{".config/foo/foorc": 1, ".cache/x": 0, "notes/.foorc": 0, "a.txt": 0} {
			if asked, out := asking(t, set, "write_file", map[string]any{"path": filepath.Join(home, name), "content": "x"}, yes); len(asked) != want {
				t.Errorf("%s in %q: asked %+v: %s", name, home, asked, out)
			}
		}
	}
}
