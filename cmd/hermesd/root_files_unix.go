//go:build unix

package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"hermesd/cmd/internal/config"
	"hermesd/cmd/internal/tui/text"
)

// noteRootFiles names what root has written since a time in a home directory that belongs
// to another account, whose daemon cannot open it. It stays root's: a change of its owner by
// name could be led to another file by that account.
func (c *cli) noteRootFiles(since time.Time) {
	home, err := config.ResolveHome(c.home, c.env)
	if os.Geteuid() != 0 || err != nil {
		return
	}
	if info, err := os.Stat(home); err != nil || ownerOf(info) == 0 {
		return
	}
	var names []string
	_ = fs.WalkDir(os.DirFS(home), ".", func(name string, d fs.DirEntry, err error) error { // what cannot be read is not named
		if err != nil || name == "." {
			return nil
		}
		if info, err := d.Info(); err == nil && ownerOf(info) == 0 && !info.ModTime().Before(since) {
			names = append(names, shellWord(filepath.Join(home, name)))
		}
		if d.IsDir() && strings.Contains(name, "/") { // what it contains may be the work of the agent
			return fs.SkipDir
		}
		return nil
	})
	if len(names) > 0 {
		_, _ = fmt.Fprintf(c.errs, "hermesd: root has written what the account of %s cannot open; give it that: chown -h --reference=%s %s\n", home, shellWord(home), text.Line(strings.Join(names, " ")))
	}
}

// ownerOf returns the user ID of the owner of a file.
func ownerOf(info fs.FileInfo) uint32 {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return s.Uid
	}
	return 0
}
