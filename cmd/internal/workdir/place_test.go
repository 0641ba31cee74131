package workdir_test

import (
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	"hermesd/cmd/internal/workdir"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestCurrentWorkdir(t *testing.T) {
	root := t.TempDir()
	for _, dir := range []string{"me/.hermes/workspace", "me/proj/sub", "else"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(filepath.Join(root, "me"), filepath.Join(root, "link")); err != nil {
		t.Fatal(err)
	}
	home := filepath.Join(root, "link", ".hermes")
	t.Setenv("HOME", filepath.Join(root, "me"))
	for dir, may := range map[string]bool{
		"me/proj": true, "me/proj/sub": true, "else": true, "link/proj": true,
		"me": false, "link": false, ".": false, "me/.hermes": false, "me/.hermes/workspace": false,
	} {
		t.Chdir(filepath.Join(root, dir))
		if got := workdir.Current("", home); (got != "") != may || may && !workdir.SamePath(got, filepath.Join(root, dir)) {
			t.Errorf("%s: %q", dir, got)
		}
		if got := workdir.Current("/srv", home); got != "" {
			t.Errorf("%s, though another is configured: %q", dir, got)
		}
	}
	t.Chdir("/")
	if got := workdir.Current("", home); got != "" {
		t.Errorf("everything: %q", got)
	}
}
