package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// A home directory that cannot be written can be read, and backed up to another disk.
func TestAHomeThatCannotBeWrittenIsRead(t *testing.T) {
	t.Parallel()
	d, ok := mount(t)
	if !ok {
		return
	}
	c := settle(t, d.dir, 1, "memory:\n  provider: holographic\n")
	if err := c.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.answered(c.say("hello", ""))
	d.fill()
	backUp(c, "running")
	d.free()
	if err := c.Stop(patience); err != nil {
		t.Fatal(err)
	}
	d.fill()
	onlyRead(c, "full", "file system is full")
	d.free()
	if err := unix.Mount("", d.dir, "", unix.MS_REMOUNT|unix.MS_RDONLY, "size=24m"); err != nil {
		t.Skipf("it cannot be mounted again: %v", err)
	}
	onlyRead(c, "read-only", "file system is mounted read-only")
}

// onlyRead runs commands that only read, and one that writes: it fails and says why.
func onlyRead(c *city, name, why string) {
	c.Helper()
	before := fileNames(c)
	for command, want := range map[string]string{
		"sessions list": "telegram:", "outbox list": "Nothing waits", "cron list": "no scheduled prompts", "approvals add x": "is no shape",
	} {
		if said := c.ask(strings.Fields(command)...); !strings.Contains(said, want) {
			c.Errorf("%s: %s: %s", name, command, said)
		}
	}
	if said := c.ask("approvals", "add", "ls * in /w"); !strings.Contains(said, why) {
		c.Errorf("%s: a command that writes: %s", name, said)
	}
	backUp(c, name)
	if diff := cmp.Diff(before, fileNames(c)); diff != "" {
		c.Errorf("%s: the files of the home (-before +after):\n%s", name, diff)
	}
}

// fileNames returns the names of the files in the home directory, without those that SQLite
// adds to read a database.
func fileNames(c *city) (names []string) {
	c.Helper()
	entries, err := os.ReadDir(c.Home())
	if err != nil {
		c.Fatal(err)
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), "memory_store.db-") {
			names = append(names, e.Name())
		}
	}
	return names
}

// backUp backs the home up to another disk and restores that.
func backUp(c *city, name string) {
	c.Helper()
	to := c.TempDir()
	archive, home := filepath.Join(to, "backup.tar.gz"), filepath.Join(to, "home")
	if said := c.ask("backup", archive); !strings.Contains(said, archive+" holds") || strings.Contains(said, "memory_store.db") {
		c.Errorf("%s: backup: %s", name, said)
		return
	}
	for _, args := range [][]string{{"restore", archive}, {"sessions", "list"}} {
		said, err := exec.CommandContext(c.Context(), "hermesd", append(args, "--home", home)...).CombinedOutput()
		if err != nil || args[0] == "sessions" && !strings.Contains(string(said), "telegram:") {
			c.Errorf("%s: %q: %v: %s", name, args, err, said)
		}
	}
	if _, err := os.Stat(filepath.Join(home, "memory_store.db")); err != nil {
		c.Errorf("%s: %v", name, err)
	}
	if left, err := os.ReadDir(to); err != nil || len(left) != 2 {
		c.Errorf("%s: left behind: %v, %v", name, left, err)
	}
}
