//go:build unix

package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// What root has written in the home directory of another account is named, with the command
// that gives it to that account.
func TestFilesOfRootInAnothersHomeAreNamed(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("only root may write everywhere")
	}
	home := filepath.Join(t.TempDir(), "Ann's home")
	if err := os.Mkdir(home, 0o700); err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) (notes string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "hermesd", append(args, "--home", home)...)
		var errs strings.Builder
		cmd.Stderr = &errs
		if err := cmd.Run(); err != nil {
			t.Fatalf("%q: %v: %s", args, err, errs.String())
		}
		return errs.String()
	}
	if said := run("approvals", "add", "ls * in /w"); said != "" {
		t.Errorf("a home of root: %s", said)
	}
	own, other := filepath.Join(home, "config.yaml"), filepath.Join(home, "hermesd.db")
	err := errors.Join(os.RemoveAll(home), os.Mkdir(home, 0o700), os.WriteFile(own, nil, 0o640), os.Chown(home, 65534, 65534), os.Chown(own, 65534, 65534))
	if err != nil {
		t.Fatal(err)
	}
	said := run("approvals", "add", "ls * in /w")
	_, command, ok := strings.Cut(strings.TrimSpace(said), "give it that: ")
	if !ok || !strings.Contains(command, filepath.Base(other)) || strings.Contains(command, filepath.Base(own)) {
		t.Fatalf("it says %q", said)
	}
	if out, err := exec.CommandContext(t.Context(), "sh", "-c", command).CombinedOutput(); err != nil {
		t.Skipf("%v: %s", err, out) // --reference is not everywhere
	}
	if info, err := os.Stat(other); err != nil || ownerOf(info) != 65534 {
		t.Errorf("%s: %v", command, err)
	}
	if said := run("version"); said != "" {
		t.Errorf("nothing is root's: %s", said)
	}
}
