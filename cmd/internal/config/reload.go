package config

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"hermesd/cmd/internal/config/yamlconf"
)

// Changed returns the keys whose values differ between two configurations, in
// the order of their names; secrets are compared by value. A model with
// another key or address counts as changed, and so do prices.
func Changed(old, now *Config, oldReport, nowReport Report) []string {
	values := func(c *Config) map[string]any {
		m := map[string]any{}
		yamlconf.Walk(c, func(path string, v any) { m[path] = v })
		return m
	}
	was, is := values(old), values(now)
	var names []string
	for name, v := range is {
		if w, ok := was[name]; !ok || !reflect.DeepEqual(w, v) {
			names = append(names, name)
		}
	}
	for name := range was {
		if _, ok := is[name]; !ok {
			names = append(names, name)
		}
	}
	if !slices.Contains(names, "model.api_key") &&
		(oldReport.Model != nowReport.Model || oldReport.Summary != nowReport.Summary || oldReport.Vision != nowReport.Vision || oldReport.Titles != nowReport.Titles || oldReport.Approval != nowReport.Approval || !slices.Equal(oldReport.Fallbacks, nowReport.Fallbacks)) {
		names = append(names, "model")
	}
	if !slices.Contains(names, "prices_file") && !reflect.DeepEqual(oldReport.Prices, nowReport.Prices) {
		names = append(names, "prices_file") // the content of the file changed
	}
	slices.Sort(names)
	return names
}

// live returns the keys that a running daemon applies at once; * matches one part
// of a path. All others need a restart.
func live() []string {
	ks := []string{"logging.level", "agent.ephemeral_system_prompt", "agent.personalities", "agent.personalities.*", "access.*", "unauthorized_dm_behavior"}
	for _, k := range []string{"allow_from", "allow_all", "allow_admin_from", "group_allowed_chats", "allowed_roles", "allow_bots", "unauthorized_dm_behavior", "home_channel", "dm_policy", "group_policy", "allowed_topics", "ignored_threads", "disable_dms"} {
		ks = append(ks, "platforms.*."+k, "platforms.*.accounts.*."+k)
	}
	return append(ks, ofExternalMemory()...)
}

// ofExternalMemory returns the keys of the external memory that are live.
func ofExternalMemory() []string {
	ks := []string{"memory.openviking.*", "memory.retaindb.*", "memory.byterover.*", "honcho.*", "plugins.hermes-memory-store.*"}
	for _, k := range []string{"people", "rooms", "cron_recall", "recall_wait", "recall_max_chars", "sync", "sync_tools", "mirror", "queue_max"} {
		ks = append(ks, "memory."+k)
	}
	return ks
}

// IsLive reports whether a running daemon applies a change of the key at once.
func IsLive(name string) bool { return matches(live(), name) }

// IsOfExternalMemory reports whether a live key is one of the external memory. It needs a
// restart if another provider is configured than that of the start: what is meant for the
// one must not apply to the other.
func IsOfExternalMemory(name string) bool { return matches(ofExternalMemory(), name) }

func matches(patterns []string, name string) bool {
	slashed := func(s string) string { return strings.ReplaceAll(s, ".", "/") } // so that * of path.Match matches one part
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		ok, err := path.Match(slashed(pattern), slashed(name))
		return err == nil && ok
	})
}

// quiet is how long the files must be unchanged before they are read, since editors
// write in several steps.
const quiet = 300 * time.Millisecond

// Watch calls changed once at its start, and then whenever the content of the files
// changed and they were not touched for a moment, until ctx ends. It watches their
// directories and so notices files that are replaced or created later. A write that
// leaves all bytes the same is ignored. If watching is not possible, it returns an
// error and never calls changed.
func Watch(ctx context.Context, files []string, changed func()) error {
	dirs := make([]string, len(files))
	for i, f := range files {
		dirs[i] = filepath.Dir(f)
	}
	touched, stop, err := watchDirs(dirs)
	if err != nil {
		return fmt.Errorf("watch the configuration: %w", err)
	}
	defer stop()
	var last [sha256.Size]byte
	timer := time.NewTimer(0) // fires at once: the files may have changed since they were read
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case name, ok := <-touched:
			if !ok {
				return errors.New("watch the configuration: it has ended by itself")
			}
			if name == "" || slices.Contains(files, filepath.Clean(name)) {
				timer.Reset(quiet)
			}
		case <-timer.C:
			if now := digest(files); now != last {
				last = now
				changed()
			}
		}
	}
}

// digest returns a hash of the content of the files.
func digest(files []string) [sha256.Size]byte {
	sum := sha256.New()
	for _, f := range files {
		raw, err := yamlconf.ReadFile(f, maxFile)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			raw = nil
		case err != nil:
			raw = []byte(err.Error()) // differs once the file is readable again
		}
		info, _ := os.Stat(f)                                          // an empty file differs from a missing one
		_, _ = fmt.Fprintf(sum, "%s %t %d ", f, info != nil, len(raw)) // a hash never fails
		_, _ = sum.Write(raw)
	}
	return [sha256.Size]byte(sum.Sum(nil))
}
