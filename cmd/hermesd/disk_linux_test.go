package main

import (
	"bytes"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// A disk can be made to refuse writes while the daemon runs.
type disk interface {
	fill()
	// fillAgain waits until the search index has given its space to the store, and fills
	// that too.
	fillAgain()
	free()
}

// outage tests a disk that refuses writes while turns run and messages arrive.
func outage(c *city, d disk, why string) {
	c.Helper()
	if err := c.Start(c.Context()); err != nil {
		c.Fatal(err)
	}
	all := c.say("hello", "")
	c.answered(all)
	calls := c.Model.Count()
	held := c.say("hold", "")
	if err := c.Model.Await(c.Context(), calls+len(held)); err != nil {
		c.Fatal(err)
	}
	d.fill()
	var during []string
	say := func() { // what is free inside of the store is used first
		if len(during) < 300 {
			during = append(during, c.say("during", strings.Repeat(" word", 600))...)
		}
	}
	until(c.T, "people are told", func() bool {
		say()
		return c.times("cannot store") == 3
	})
	d.fillAgain()
	close(c.hold) // the turns that run go on, and cannot keep what they did
	// A write that fits into free pages of the store succeeds. For a moment after it, neither
	// status nor /readyz report the problem.
	until(c.T, "status says that the store does not take writes", func() bool {
		say()
		s := c.status()
		return c.Bot.Pending() > 0 && strings.Contains(s, "PROBLEM") && strings.Contains(s, "the store cannot be written") && strings.Contains(s, why) && strings.Contains(s, "hermesd doctor")
	})
	until(c.T, "/readyz says that the store does not take writes", func() bool {
		code, body := c.readyz()
		return code == http.StatusServiceUnavailable && strings.Contains(body, "the store does not take writes")
	})
	// A short message might fit into free pages of the store, and would wait for its answer.
	if out := c.ask("chat", "-q", "hello there"+strings.Repeat(" word", 8000)); !strings.Contains(out, why) {
		c.Errorf("the terminal says %q", out)
	}
	if c.Bot.Pending() == 0 {
		c.Error("a message was acknowledged that is on no disk")
	}
	d.free()
	all = slices.Concat(all, held, during)
	c.answered(all)
	all = append(all, c.say("after", "")...)
	c.answered(all)
	c.once(all)
	if s := c.status(); strings.Contains(s, "the store cannot") {
		c.Errorf("status goes on about it:\n%s", s)
	}
	if code, body := c.readyz(); code != http.StatusOK {
		c.Errorf("readyz: %d %s", code, body)
	}
	c.waitFound("during")
	if n := c.times("cannot store"); n != 3 {
		c.Errorf("people are told %d times", n)
	}
	c.sound()
}

// A mounted disk is a small file system for the test.
type mounted struct {
	t   *testing.T
	dir string
}

const ownDisk = "HERMESD_OWN_DISK"

// mount returns an empty file system that no other process sees. It runs the test
// again in a process that may mount one; in the original process ok is false.
func mount(t *testing.T) (d mounted, ok bool) {
	t.Helper()
	if os.Getenv(ownDisk) == t.Name() {
		d = mounted{t, filepath.Join(t.TempDir(), "home")}
		if err := os.Mkdir(d.dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := unix.Mount("tmpfs", d.dir, "tmpfs", 0, "size=24m,mode=0700"); err != nil {
			t.Skipf("no file system can be mounted here: %v", err)
		}
		t.Cleanup(func() { _ = unix.Unmount(d.dir, unix.MNT_DETACH) }) // it goes with the process anyway
		return d, true
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^"+t.Name()+"$", "-test.v", "-test.timeout", "8m") // if it hangs, its output says where
	cmd.Env = append(os.Environ(), ownDisk+"="+t.Name())
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWNS | syscall.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
	}
	out, err := cmd.CombinedOutput()
	switch {
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENOSPC):
		t.Skipf("a process cannot have a file system of its own here: %v", err)
	case err != nil:
		t.Errorf("%v\n%s", err, out)
	case bytes.Contains(out, []byte("--- SKIP")):
		t.Skipf("%s", out)
	}
	return d, false
}

func (d mounted) ballast() string { return filepath.Join(d.dir, "ballast") }

func (d mounted) fill() {
	f, err := os.OpenFile(d.ballast(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		d.t.Fatal(err)
	}
	for size := 1 << 20; size > 0; size /= 2 {
		for err = nil; err == nil; {
			_, err = f.Write(make([]byte, size))
		}
		if !errors.Is(err, unix.ENOSPC) {
			d.t.Fatal(err)
		}
	}
	if err := f.Close(); err != nil {
		d.t.Fatal(err)
	}
}

// hasIndex reports whether there is a file of the search index.
func (d mounted) hasIndex() bool {
	names, err := filepath.Glob(filepath.Join(d.dir, "search.db*"))
	return err != nil || len(names) > 0
}

func (d mounted) fillAgain() {
	d.t.Helper()
	until(d.t, "the search index gives way to the store", func() bool { return !d.hasIndex() })
	d.fill()
}

func (d mounted) free() {
	if err := os.Remove(d.ballast()); err != nil {
		d.t.Fatal(err)
	}
}

func TestAFullDiskIsToldAndSurvived(t *testing.T) {
	t.Parallel()
	if d, ok := mount(t); ok {
		outage(settle(t, d.dir, 1, ""), d, "no space left")
	}
}

// What is said is answered on a full disk, as long as it fits into the space that the
// search index had.
func TestTheSearchIndexGivesWayToTheStore(t *testing.T) {
	t.Parallel()
	d, ok := mount(t)
	if !ok {
		return
	}
	c := settle(t, d.dir, 1, "")
	if err := c.Start(c.Context()); err != nil {
		t.Fatal(err)
	}
	var all []string
	say := func(word string) {
		all = append(all, c.say(word, strings.Repeat(" word", 600))...)
	}
	for range 30 {
		say("before")
		c.answered(all[len(all)-3:])
	}
	c.waitFound("before")
	d.fill()
	for d.hasIndex() { // what is free inside of the store is used first
		say("during")
		until(t, "it is answered, or the search index gives way to the store", func() bool {
			return c.times("echo: "+all[len(all)-1]) > 0 || !d.hasIndex()
		})
	}
	// It is rebuilt if the store needs little of the space.
	if s := c.ask("sessions", "search", "before"); !strings.Contains(s, "disk is full, and search index will be rebuilt") && !strings.Contains(s, "before #") {
		t.Errorf("a search says %q", s)
	}
	c.answered(all)
	until(t, "the store is written", func() bool { return !strings.Contains(c.status(), "the store cannot") })
	d.free()
	c.waitFound("before", "during")
	c.once(all)
	c.sound()
}

// limited is a daemon whose file size limit can be set to zero, as if every disk
// were full. This needs no privileges.
type limited struct{ c *city }

func (l limited) fill()      { l.set(0) }
func (l limited) fillAgain() {} // other files than the store need not give way
func (l limited) free()      { l.set(unix.RLIM_INFINITY) }

func (l limited) set(most uint64) {
	limit := unix.Rlimit{Cur: most, Max: unix.RLIM_INFINITY}
	if err := unix.Prlimit(l.c.pid(), unix.RLIMIT_FSIZE, &limit, nil); err != nil {
		l.c.Fatal(err)
	}
}

func TestADaemonThatMayNotWriteAnyMoreSaysSoAndGoesOnWhenItMay(t *testing.T) {
	t.Parallel()
	c := settle(t, filepath.Join(t.TempDir(), "home"), 1, "")
	outage(c, limited{c}, "file too large")
}

// A daemon that is stopped while it cannot write does not wait for the disk: its
// turns run again in the next process.
func TestAStopDoesNotWaitForAFullDisk(t *testing.T) {
	t.Parallel()
	c := settle(t, filepath.Join(t.TempDir(), "home"), 1, "gateway:\n  drain_timeout: 500ms\n")
	if err := c.Start(c.Context()); err != nil {
		t.Fatal(err)
	}
	all := c.say("hello", "")
	c.answered(all) // Discord's checkpoint of a chat is stored a moment after its first message
	calls := c.Model.Count()
	held := c.say("hold", "")
	if err := c.Model.Await(c.Context(), calls+len(held)); err != nil {
		t.Fatal(err)
	}
	limited{c}.fill()
	during := c.say("during", "")
	until(t, "people are told", func() bool { return c.times("cannot store") == 3 })
	close(c.hold)
	until(t, "a turn has something to keep", func() bool { return strings.Contains(c.out.String(), "record a step") })
	if err := c.Stop(patience); err != nil { // the disk stays full
		t.Errorf("it ends with %v", err)
	}
	if err := c.Start(c.Context()); err != nil {
		t.Fatal(err)
	}
	all = slices.Concat(all, held, during)
	c.answered(all)
	c.once(all)
	c.sound()
}

// begin runs a command that is expected to end at once, and returns its output.
func begin(t *testing.T, program, home string, as *syscall.SysProcAttr, command string) (code int, said string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, command, "--home", home)
	cmd.Env, cmd.SysProcAttr = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home}, as
	raw, err := cmd.CombinedOutput()
	if _, ok := errors.AsType[*exec.ExitError](err); err != nil && !ok {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), string(raw)
}

// refuses fails unless the daemon refuses to start and prints the reason in one
// line.
func refuses(t *testing.T, words, program, home string, as *syscall.SysProcAttr) {
	t.Helper()
	if code, said := begin(t, program, home, as, "run"); code != exitFailed || !strings.Contains(said, words) || !strings.Contains(said, home) || strings.Count(said, "\n") != 1 {
		t.Errorf("exit code %d: %s", code, said)
	}
}

func TestAHomeThatIsSomebodyElsesIsNamedAtTheStart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	home, program := filepath.Join(dir, "home"), "hermesd"
	err := errors.Join(os.Mkdir(home, 0o700), os.WriteFile(filepath.Join(home, "config.yaml"), nil, 0o644), os.Chmod(home, 0o555))
	if err != nil {
		t.Fatal(err)
	}
	var as *syscall.SysProcAttr
	if os.Getuid() == 0 { // who may write everything; so another user tries, with a program that it may run
		as = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		program = filepath.Join(dir, "hermesd")
		raw, err := os.ReadFile(os.Args[0])
		syscall.ForkLock.RLock() // a process that is started meanwhile would keep the file open for writing
		err = errors.Join(err, os.WriteFile(program, raw, 0o755))
		syscall.ForkLock.RUnlock()
		if err := errors.Join(err, os.Chmod(filepath.Dir(dir), 0o755), os.Chmod(dir, 0o755)); err != nil {
			t.Fatal(err)
		}
	}
	refuses(t, "not writable for this user", program, home, as)

	// A home that cannot even be searched may have a daemon or not.
	if err := os.Chmod(home, 0); err != nil {
		t.Fatal(err)
	}
	code, said := begin(t, program, home, as, "status")
	if err := os.Chmod(home, 0o700); err != nil {
		t.Fatal(err)
	}
	if code != exitFailed || !strings.Contains(said, "as the user of that home directory") || strings.Contains(said, "log") {
		t.Errorf("exit code %d: %s", code, said)
	}
}

func TestAHomeThatCannotBeWrittenIsNamedAtTheStart(t *testing.T) {
	t.Parallel()
	d, ok := mount(t)
	if !ok {
		return
	}
	if err := os.WriteFile(filepath.Join(d.dir, "config.yaml"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	d.fill()
	refuses(t, "file system is full", "hermesd", d.dir, nil)
	if code, said := begin(t, "hermesd", d.dir, nil, "doctor"); code != exitFailed || !strings.Contains(said, "→ make space, or mount") {
		t.Errorf("exit code %d: %s", code, said)
	}
	d.free()
	remount := func(flags uintptr) {
		if err := unix.Mount("", d.dir, "", unix.MS_REMOUNT|flags, "size=24m"); err != nil {
			t.Skipf("it cannot be mounted again: %v", err)
		}
	}
	remount(unix.MS_RDONLY)
	refuses(t, "file system is mounted read-only", "hermesd", d.dir, nil)
	remount(0)
	c := settle(t, d.dir, 1, "")
	if err := c.Start(c.Context()); err != nil {
		t.Fatal(err)
	}
	said := c.say("hello", "")
	c.answered(said)
	c.sound()
}

// TestAFileSystemThatTurnsReadOnlyIsToldAndSurvived makes the kernel detect an error
// in a file system, as with a failing disk: it becomes read-only while the daemon
// runs. After a repair the next process answers everything. The test needs root and
// a loop device; `make disks` runs it.
func TestAFileSystemThatTurnsReadOnlyIsToldAndSurvived(t *testing.T) {
	if os.Getenv("HERMESD_DISKS") == "" {
		t.Skip("it mounts an ext4 and breaks it, as root: `make disks`")
	}
	image, dir := filepath.Join(t.TempDir(), "image"), t.TempDir()
	do := func(name string, args ...string) {
		t.Helper()
		if out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput(); err != nil && name != "e2fsck" { // its exit code reports repairs
			t.Skipf("%s %q: %v: %s", name, args, err, out)
		}
	}
	do("truncate", "-s", "48M", image)
	do("mkfs.ext4", "-q", "-O", "^has_journal", image)
	attach := func() { do("mount", "-o", "loop,errors=remount-ro", image, dir) }
	attach()
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	c := settle(t, filepath.Join(dir, "home"), 1, "gateway:\n  drain_timeout: 500ms\n")
	if err := c.Start(c.Context()); err != nil {
		t.Fatal(err)
	}
	all := c.say("hello", "")
	c.answered(all)
	calls := c.Model.Count()
	all = append(all, c.say("hold", "")...)
	if err := c.Model.Await(c.Context(), calls+3); err != nil {
		t.Fatal(err)
	}
	do("sync", "-f", dir) // the configuration is not the daemon's to sync
	do("sh", "-c", `echo 1 > /sys/fs/ext4/$(basename $(findmnt -no SOURCE "$0"))/trigger_fs_error`, dir)
	all = append(all, c.say("during", "")...)
	until(t, "people are told", func() bool { return c.times("cannot store") == 3 })
	close(c.hold)
	if s := c.status(); !strings.Contains(s, "the store cannot be written") || !strings.Contains(s, "read-only file system") {
		t.Errorf("status does not say it:\n%s", s)
	}
	if said := c.ask("sessions", "list"); !strings.Contains(said, "telegram:") {
		t.Errorf("what is stored is not read: %s", said)
	}
	if code, body := c.readyz(); code != http.StatusServiceUnavailable {
		t.Errorf("readyz: %d %s", code, body)
	}
	if err := c.Stop(patience); err != nil {
		t.Errorf("stop: %v", err)
	}
	do("umount", dir)
	do("e2fsck", "-fy", image)
	attach()
	if err := c.Start(c.Context()); err != nil {
		t.Fatal(err)
	}
	c.answered(all)
	c.once(all)
	c.sound()
}
