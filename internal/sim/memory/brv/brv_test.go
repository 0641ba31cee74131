package brv_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"hermesd/internal/sim/memory/brv"
)

func TestMain(m *testing.M) {
	if brv.Called() {
		brv.Main()
	}
	os.Exit(m.Run())
}

// run runs the program in a directory and returns its output and exit code.
func run(t *testing.T, i *brv.Installation, dir string, args ...string) (string, int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), filepath.Join(i.Bin, "brv"), args...)
	cmd.Dir, cmd.Env = dir, i.Environment()
	out, err := cmd.Output()
	if err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

func TestProgram(t *testing.T) {
	i := brv.Install(t)
	dir, none := t.TempDir(), t.TempDir()
	below := filepath.Join(dir, "below")
	if err := os.Mkdir(below, 0o700); err != nil {
		t.Fatal(err)
	}
	check := func(dir, want string, code int, args ...string) {
		t.Helper()
		if got, n := run(t, i, dir, args...); !strings.Contains(got, want) || n != code {
			t.Errorf("brv %q: %d, %s", args, n, got)
		}
	}
	check(dir, "not initialized", 0, "search", "--format", "json", "--", "tea")
	check(dir, `"status":"completed"`, 0, "curate", "--timeout", "120", "--format", "json", "--", "User: I like tea.")
	check(dir, "I like tea", 0, "search", "--limit", "10", "--format", "json", "--", "tea")
	check(below, "I like tea", 0, "search", "--format", "json", "--", "tea") // the project above
	check(none, "not initialized", 0, "search", "--format", "json", "--", "tea")
	check(dir, `"event":"response"`, 0, "query", "--format", "json", "--", "tea")
	check(dir, "No knowledge.", 0, "query", "--format", "json", "--", "plums")
	check(dir, "cliVersion", 0, "status", "--format", "json")
	check(dir, `"success":false`, 0, "search", "--format", "json", "--", " ")
	check(dir, "", 2, "curate", "--limit", "3", "--", "x")
	check(dir, "", 2, "search", "--limit", "51", "--", "x")
	check(dir, "", 2, "dance")

	i.Set(t, brv.Behaviour{NoProvider: true})
	check(dir, `"success":false`, 0, "curate", "--format", "json", "--", "x")
	check(dir, "No provider connected", 0, "curate", "--", "x") // as text: no sign of failure
	check(dir, "I like tea", 0, "search", "--format", "json", "--", "tea")
	i.Set(t, brv.Behaviour{Fail: "model down"})
	check(dir, `"event":"error"`, 0, "query", "--format", "json", "--", "tea")
	i.Set(t, brv.Behaviour{Review: 2})
	check(dir, `"count":2`, 0, "curate", "--format", "json", "--", "I like plums.")
	if got := i.Calls(t); len(got) != 17 || got[1].Dir != dir || got[1].Stdin {
		t.Errorf("%d calls, %+v", len(got), got[1])
	}
}
