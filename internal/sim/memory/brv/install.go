package brv

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// An Installation is the program as a test has it.
type Installation struct {
	Bin  string // the directory of the program
	Home string // of the user
	data string
}

// Install makes the binary of the test the program brv. The program is not in PATH until
// Bin is.
func Install(t testing.TB) *Installation {
	t.Helper()
	dir := t.TempDir()
	i := &Installation{Bin: filepath.Join(dir, "bin"), Home: dir, data: filepath.Join(dir, "data")}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{i.Bin, i.data} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(self, filepath.Join(i.Bin, "brv")); err != nil {
		t.Fatal(err)
	}
	return i
}

// Environment returns the variables with which the program is found, NAME=value.
func (i *Installation) Environment() []string {
	return []string{"HOME=" + i.Home, "BRV_DATA_DIR=" + i.data, "PATH=/usr/bin:/bin:" + i.Bin}
}

// Set changes how the program fails from now on.
func (i *Installation) Set(t testing.TB, b Behaviour) {
	t.Helper()
	raw, err := json.Marshal(b)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(i.data, "behaviour.json"), raw, 0o600); err != nil {
		t.Fatal(err)
	}
}

// Calls returns all runs of the program so far.
func (i *Installation) Calls(t testing.TB) []Call {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(i.data, "calls.jsonl"))
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	var out []Call
	for line := range strings.Lines(string(raw)) {
		var c Call
		if err := json.Unmarshal([]byte(line), &c); err != nil {
			t.Fatal(err)
		}
		out = append(out, c)
	}
	return out
}
