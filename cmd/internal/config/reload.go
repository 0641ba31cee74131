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

	"github.com/fsnotify/fsnotify"

	"hermesd/cmd/internal/config/yamlconf"
)

// Changed returns the keys whose values differ between two configurations, in
// the order of their names; secrets are compared as they are. Models that are
// asked with another key or at another address are changed too, and prices.
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
	if !slices.ContainsFunc(names, func(n string) bool { return n == "model.api_key" }) &&
		(oldReport.Model != nowReport.Model || oldReport.Summary != nowReport.Summary || oldReport.Vision != nowReport.Vision || oldReport.Titles != nowReport.Titles || oldReport.Approval != nowReport.Approval || !slices.Equal(oldReport.Fallbacks, nowReport.Fallbacks)) {
		names = append(names, "model")
	}
	if !slices.Contains(names, "prices_file") && !reflect.DeepEqual(oldReport.Prices, nowReport.Prices) {
		names = append(names, "prices_file") // what the file says has changed
	}
	slices.Sort(names)
	return names
}

// live are the keys that a running daemon takes at once; * is one part of a
// name. All others wait for the next start.
func live() []string {
	ks := []string{"logging.level", "agent.ephemeral_system_prompt", "agent.personalities", "agent.personalities.*", "access.*", "unauthorized_dm_behavior"}
	for _, k := range []string{"allow_from", "allow_all", "allow_admin_from", "group_allowed_chats", "allowed_roles", "allow_bots", "unauthorized_dm_behavior", "home_channel"} {
		ks = append(ks, "platforms.*."+k, "platforms.*.accounts.*."+k)
	}
	return ks
}

// IsLive says whether a running daemon takes a change of the key at once.
func IsLive(name string) bool {
	slashed := func(s string) string { return strings.ReplaceAll(s, ".", "/") } // for path.Match * is one part then
	return slices.ContainsFunc(live(), func(pattern string) bool {
		ok, err := path.Match(slashed(pattern), slashed(name))
		return err == nil && ok
	})
}

// quiet is how long the files must have been left alone to be read: editors
// write in several steps.
const quiet = 300 * time.Millisecond

// Watch calls changed once at its start, and then when what the files hold has changed and nobody has
// touched them for a moment, until ctx ends. It looks at their directories, so it
// sees a file that is replaced, and one that is made later. A change that leaves
// every byte as it was is none. The error says that nobody can look; changed is
// then never called.
func Watch(ctx context.Context, files []string, changed func()) error {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return fmt.Errorf("watch the configuration: %w", err)
	}
	defer func() { _ = w.Close() }() // it was only listened to
	for _, f := range files {
		if err := w.Add(filepath.Dir(f)); err != nil {
			return fmt.Errorf("watch %s: %w", filepath.Dir(f), err)
		}
	}
	var last [sha256.Size]byte
	timer := time.NewTimer(0) // once at first: something may have changed since the files were read
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case e, ok := <-w.Events:
			if !ok {
				return errors.New("watch the configuration: it has ended by itself")
			}
			if slices.Contains(files, filepath.Clean(e.Name)) {
				timer.Reset(quiet)
			}
		case err, ok := <-w.Errors:
			if !ok {
				return errors.New("watch the configuration: it has ended by itself")
			}
			if errors.Is(err, fsnotify.ErrEventOverflow) { // some were lost
				timer.Reset(quiet)
				continue
			}
			return fmt.Errorf("watch the configuration: %w", err)
		case <-timer.C:
			if now := digest(files); now != last {
				last = now
				changed()
			}
		}
	}
}

// digest is the same for the same bytes in the files.
func digest(files []string) [sha256.Size]byte {
	sum := sha256.New()
	for _, f := range files {
		raw, err := yamlconf.ReadFile(f, maxFile)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			raw = nil
		case err != nil:
			raw = []byte(err.Error()) // once readable again it is another
		}
		info, _ := os.Stat(f)                                          // a file that is empty is not one that is not there
		_, _ = fmt.Fprintf(sum, "%s %t %d ", f, info != nil, len(raw)) // a hash never fails
		_, _ = sum.Write(raw)
	}
	return [sha256.Size]byte(sum.Sum(nil))
}
