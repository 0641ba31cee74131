//go:build linux

// Package powercut_test tests the store under simulated power cuts.
//
// After a power cut the disk holds what the last fsync made durable, plus any
// part of what was written since. These tests build bbolt with an fsync that
// copies the file to a shadow each time: shadow k is the durable state after
// sync k. Then every acknowledged fact is looked up in the shadow of its
// moment.
//
// The same bbolt fails one write or sync, in the store and in the daemon.
package powercut_test

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// Environment variables of a run with the bbolt that keeps shadows.
const (
	envShadow = "POWERCUT_SHADOW"  // directory of the shadows
	envOneOld = "POWERCUT_ONE_OLD" // check each fact in a shadow that is one sync too old
)

// A failure is what a file next to the store, with suffix ".fail", makes fail once.
type failure string

const (
	dataWrite     failure = "write of data"
	dataSync      failure = "sync of data"
	metaWrite     failure = "write of meta" // which writes nothing
	halfMetaWrite failure = "half write of meta"
	fullMetaWrite failure = "full write of meta"
	metaSync      failure = "sync of meta"
)

// disk is the file that replaces bbolt's own fdatasync.
const disk = `package bbolt

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
)

// fails reports whether this is to fail, now and not again.
func fails(db *DB, what string) bool {
	text, err := os.ReadFile(db.path + ".fail")
	return err == nil && string(bytes.TrimSpace(text)) == what && os.Remove(db.path+".fail") == nil
}

var wroteMeta sync.Map // databases whose last write was of a meta page

// writeAt replaces db.file.WriteAt.
func (db *DB) writeAt(b []byte, at int64) (int, error) {
	meta := at < 2*int64(db.pageSize)
	wroteMeta.Store(db, meta)
	n := len(b)
	switch {
	case !meta && fails(db, "write of data"), meta && fails(db, "write of meta"):
		return 0, syscall.EIO
	case meta && fails(db, "half write of meta"):
		n = 40 // in the middle of what the checksum covers
	case !meta || !fails(db, "full write of meta"):
		return db.file.WriteAt(b, at)
	}
	if _, err := db.file.WriteAt(b[:n], at); err != nil {
		return 0, err
	}
	return n, syscall.EIO
}

var syncs atomic.Int64

// fdatasync syncs the file and copies its state.
func fdatasync(db *DB) error {
	what := "sync of data"
	if meta, _ := wroteMeta.Load(db); meta == true {
		what = "sync of meta"
	}
	if fails(db, what) {
		return syscall.EIO
	}
	dir := os.Getenv("POWERCUT_SHADOW")
	if dir == "" || !strings.HasSuffix(db.path, "watched.db") {
		return syscall.Fdatasync(int(db.file.Fd()))
	}
	n := syncs.Add(1)
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

// A bench is a copy of the build of this module in which files are replaced.
type bench struct {
	t       *testing.T
	dir     string
	modfile string
	overlay string
	program string // the tests of this package on the changed build; "" before the first run
}

// library is the directory of the changed bbolt, which all benches use. It is in the build
// cache and stays there: what is compiled depends on its path, and is compiled once only.
var (
	library     string
	copyLibrary sync.Once
)

// The change of db.go makes bbolt write with the function of disk.
const ownWrite, changedWrite = "db.ops.writeAt = db.file.WriteAt", "db.ops.writeAt = db.writeAt"

func newBench(t *testing.T) *bench {
	t.Helper()
	if testing.Short() {
		t.Skip("builds bbolt from source; not with -short")
	}
	if _, err := exec.LookPath("go"); err != nil {
		t.Skipf("builds bbolt from source and there is no go command: %v", err)
	}
	b := &bench{t: t, dir: t.TempDir()}
	copyLibrary.Do(b.makeLibrary)
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

// makeLibrary sets library. What makes its files differ is in its name.
func (b *bench) makeLibrary() {
	b.t.Helper()
	from, cache := b.list("go.etcd.io/bbolt", "{{.Dir}}"), b.goCommand("env", "GOCACHE")
	sum := sha256.Sum256([]byte(from + disk + changedWrite))
	dir := filepath.Join(cache, fmt.Sprintf("hermesd-powercut-%x", sum[:8]))
	if _, err := os.Stat(dir); err == nil {
		library = dir
		return
	}
	tmp, err := os.MkdirTemp(cache, "hermesd-powercut-")
	if err != nil {
		b.t.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(tmp) }() // it is gone, unless something failed
	if err := os.CopyFS(tmp, os.DirFS(from)); err != nil {
		b.t.Fatal(err)
	}
	b.write(filepath.Join(tmp, "bolt_linux.go"), disk)
	b.replace(filepath.Join(tmp, "db.go"), "", ownWrite, changedWrite)
	if err := os.Rename(tmp, dir); err != nil {
		if _, made := os.Stat(dir); made != nil { // by another process meanwhile
			b.t.Fatal(err)
		}
	}
	library = dir
}

func (b *bench) write(path, text string) {
	b.t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) list(pkg, format string) string {
	b.t.Helper()
	return b.goCommand("list", "-f", format, pkg)
}

// goCommand runs the go command and returns its output.
func (b *bench) goCommand(args ...string) string {
	b.t.Helper()
	out, err := exec.CommandContext(b.t.Context(), "go", args...).Output()
	if err != nil {
		b.t.Fatalf("go %s: %v", strings.Join(args, " "), err)
	}
	return strings.TrimSpace(string(out))
}

// replace writes a copy of the file at path to the path to ("": over it) in which old
// is replaced by next.
func (b *bench) replace(path, to, old, next string) {
	b.t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		b.t.Fatal(err)
	}
	if n := bytes.Count(raw, []byte(old)); n != 1 {
		b.t.Fatalf("%q occurs %d times in %s, want once", old, n, path)
	}
	b.write(cmp.Or(to, path), strings.Replace(string(raw), old, next, 1))
}

// change replaces old by next in a file of storage/bolt, for this build only.
func (b *bench) change(name, old, next string) {
	b.t.Helper()
	path, changed := filepath.Join(b.list("hermesd/storage/bolt", "{{.Dir}}"), name), filepath.Join(b.dir, name)
	b.replace(path, changed, old, next)
	b.overlay = filepath.Join(b.dir, "overlay.json")
	b.write(b.overlay, fmt.Sprintf(`{"Replace": {%q: %q}}`, path, changed))
}

// run runs a test of this package on the changed build.
func (b *bench) run(test string, env ...string) (out string, passed bool) {
	b.t.Helper()
	if b.program == "" {
		b.program = filepath.Join(b.dir, "powercut.test")
		args := []string{"test", "-c", "-o", b.program, "-vet=off", "-ldflags", "-s -w", "-modfile=" + b.modfile}
		if b.overlay != "" {
			args = append(args, "-overlay="+b.overlay)
		}
		if out, err := exec.CommandContext(b.t.Context(), "go", append(args, "hermesd/storage/bolt/powercut")...).CombinedOutput(); err != nil {
			b.t.Fatalf("%v\n%s", err, out)
		}
	}
	cmd := exec.CommandContext(b.t.Context(), b.program, "-test.run=^"+test+"$", "-test.v")
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

// fail runs a test that must fail with an output that contains want.
func (b *bench) fail(want, test string, env ...string) {
	b.t.Helper()
	out, passed := b.run(test, env...)
	if passed || !strings.Contains(out, want) {
		b.t.Fatalf("%s passed, or did not say %q:\n%s", test, want, out)
	}
}

func TestPowerCutKeepsAcknowledgedFacts(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.pass("TestShadows")
	b.pass("TestFailures")
	b.fail("is not in shadow", "TestShadows", envOneOld+"=1")
}

// TestPowerCutDetectsEarlyAnswer proves that the check works: a store that
// answers before its commit fails the same test.
func TestPowerCutDetectsEarlyAnswer(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.change("writer.go",
		"\tid := tx.ID()\n",
		"\tid := tx.ID()\n\ts.mirror.apply(b)\n\tb = s.newBatch(tx)\n\tfor _, o := range ops {\n\t\tclose(o.done)\n\t\to.done = make(chan struct{})\n\t}\n")
	b.fail("is not in shadow", "TestShadows")
}
