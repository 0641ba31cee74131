//go:build linux

// Package powercut_test takes the power away from the store.
//
// A store file is only as good as what the disk has at the moment of a power
// cut, and that is what the last fsync made sure of, plus any part of what was
// written since. So these tests build bbolt anew, with an fsync that copies the
// file to a shadow each time: shadow k is what is certain after sync k. Then
// every acknowledgement is looked up in the shadow of its moment.
package powercut_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The environment of a run on the bbolt that keeps shadows.
const (
	envShadow = "POWERCUT_SHADOW"  // directory of the shadows
	envFail   = "POWERCUT_FAIL"    // number of the sync that fails
	envBroken = "POWERCUT_ONE_OLD" // judge by a shadow one sync older than the moment
)

// fdatasync is what takes the place of bbolt's own.
const fdatasync = `package bbolt

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
)

var syncs atomic.Int64

// fdatasync makes the file last, and copies it as it is then.
func fdatasync(db *DB) error {
	dir := os.Getenv("POWERCUT_SHADOW")
	if dir == "" || !strings.HasSuffix(db.path, "watched.db") {
		return syscall.Fdatasync(int(db.file.Fd()))
	}
	n := syncs.Add(1)
	if os.Getenv("POWERCUT_FAIL") == fmt.Sprint(n) {
		return syscall.EIO
	}
	info, err := db.file.Stat()
	if err != nil {
		return err
	}
	raw, err := io.ReadAll(io.NewSectionReader(db.file, 0, info.Size()))
	if err != nil {
		return err
	}
	tmp := filepath.Join(dir, "tmp")
	if err := os.WriteFile(tmp, raw, 0o600); err != nil {
		return err
	}
	return os.Rename(tmp, filepath.Join(dir, fmt.Sprintf("shadow.%05d", n)))
}
`

// A bench is a copy of this module's build in which files are replaced.
type bench struct {
	t       *testing.T
	dir     string
	modfile string
	overlay string
}

func newBench(t *testing.T) *bench {
	t.Helper()
	if testing.Short() {
		t.Skip("builds bbolt anew; not with -short")
	}
	if _, err := exec.LookPath("go"); err != nil {
		t.Skipf("builds bbolt anew and there is no go command: %v", err)
	}
	b := &bench{t: t, dir: t.TempDir()}
	library := filepath.Join(b.dir, "bbolt")
	if err := os.CopyFS(library, os.DirFS(b.list("go.etcd.io/bbolt", "{{.Dir}}"))); err != nil {
		t.Fatal(err)
	}
	b.write(filepath.Join(library, "bolt_linux.go"), fdatasync)
	root := b.list("hermesd/storage/bolt", "{{.Module.Dir}}")
	for _, name := range []string{"go.mod", "go.sum"} {
		raw, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		if name == "go.mod" {
			raw = fmt.Appendf(raw, "\nreplace go.etcd.io/bbolt => %s\n", library)
		}
		b.write(filepath.Join(b.dir, name), string(raw))
	}
	b.modfile = filepath.Join(b.dir, "go.mod")
	return b
}

func (b *bench) write(path, text string) {
	b.t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) list(pkg, format string) string {
	b.t.Helper()
	out, err := exec.CommandContext(b.t.Context(), "go", "list", "-f", format, pkg).Output()
	if err != nil {
		b.t.Fatalf("go list %s: %v", pkg, err)
	}
	return strings.TrimSpace(string(out))
}

// change replaces old by next in a file of storage/bolt, for this build only.
func (b *bench) change(name, old, next string) {
	b.t.Helper()
	path := filepath.Join(b.list("hermesd/storage/bolt", "{{.Dir}}"), name)
	raw, err := os.ReadFile(path)
	if err != nil {
		b.t.Fatal(err)
	}
	if n := bytes.Count(raw, []byte(old)); n != 1 {
		b.t.Fatalf("%q stands %d times in %s, want once", old, n, name)
	}
	changed := filepath.Join(b.dir, name)
	b.write(changed, strings.Replace(string(raw), old, next, 1))
	b.overlay = filepath.Join(b.dir, "overlay.json")
	b.write(b.overlay, fmt.Sprintf(`{"Replace": {%q: %q}}`, path, changed))
}

// run runs a test of this package on the changed build.
func (b *bench) run(test string, env ...string) (out string, passed bool) {
	b.t.Helper()
	args := []string{"test", "-count=1", "-vet=off", "-modfile=" + b.modfile, "-run=^" + test + "$", "-v"}
	if b.overlay != "" {
		args = append(args, "-overlay="+b.overlay)
	}
	cmd := exec.CommandContext(b.t.Context(), "go", append(args, "hermesd/storage/bolt/powercut")...)
	cmd.Env = append(os.Environ(), envShadow+"="+b.t.TempDir())
	cmd.Env = append(cmd.Env, env...)
	raw, err := cmd.CombinedOutput()
	out = string(raw)
	if !strings.Contains(out, "=== RUN   "+test) {
		b.t.Fatalf("%s did not run: %v\n%s", test, err, out)
	}
	return out, err == nil
}

// pass runs a test that must pass.
func (b *bench) pass(test string, env ...string) {
	b.t.Helper()
	out, passed := b.run(test, env...)
	if !passed {
		b.t.Fatalf("%s:\n%s", test, out)
	}
	for line := range strings.Lines(out) {
		if strings.Contains(line, "_test.go:") {
			b.t.Log(strings.TrimSpace(line))
		}
	}
}

// fail runs a test that must fail by saying want.
func (b *bench) fail(want, test string, env ...string) {
	b.t.Helper()
	out, passed := b.run(test, env...)
	if passed || !strings.Contains(out, want) {
		b.t.Fatalf("%s passed, or did not say %q:\n%s", test, want, out)
	}
}

func TestWhatWasAcknowledgedSurvivesAPowerCut(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.pass("TestShadows")
	b.pass("TestASyncThatFails", envFail+"=8")
	b.pass("TestASyncThatFails", envFail+"=9")
	b.fail("is not in shadow", "TestShadows", envBroken+"=1")
}

// TestAnEarlyAnswerIsNoticed is the other half of the proof: a store that
// answers before its commit fails the same test.
func TestAnEarlyAnswerIsNoticed(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.change("writer.go",
		"\tbefore := s.backupMeta(tx)\n",
		"\tbefore := s.backupMeta(tx)\n\ts.mirror.apply(b)\n\tb = s.newBatch(tx)\n\tfor _, o := range ops {\n\t\tclose(o.done)\n\t\to.done = make(chan struct{})\n\t}\n")
	b.fail("is not in shadow", "TestShadows")
}
