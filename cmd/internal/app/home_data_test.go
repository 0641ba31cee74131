package app_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"hermesd/agent/memory"
	"hermesd/cmd/internal/app"
	"hermesd/cmd/internal/config"
	"hermesd/gateway/chat"
)

func TestMemoriesHaveFolderPerUser(t *testing.T) {
	c := &config.Config{Memory: config.Memory{Scope: "user"}}
	seen := map[string]string{}
	for _, id := range []string{"7", "U01ABC", "", ".", "..", "../7", "a/7", "/", "%", "a\\b"} {
		dir := filepath.Dir(app.Memories(c, "/h", chat.Slack, id).Path(memory.Notes))
		if filepath.Dir(dir) != filepath.FromSlash("/h/memories/slack") {
			t.Errorf("%q has the folder %s", id, dir)
		}
		if other, taken := seen[dir]; taken {
			t.Errorf("%q and %q share %s", id, other, dir)
		}
		seen[dir] = id
	}
}

// A start removes what a killed process has left incomplete: where a file of the home is
// replaced, and not in the workspace.
func TestStartRemovesIncompleteFiles(t *testing.T) {
	t.Parallel()
	w := newHarness(t, fault{sentence: "killed while it replaced a file"})
	w.scriptModel()
	put := func(name string, age time.Duration) {
		w.must(os.MkdirAll(filepath.Dir(w.path(name)), 0o700))
		w.writeFile(name, "half of")
		at := time.Now().Add(-age)
		w.must(os.Chtimes(w.path(name), at, at))
	}
	stale := []string{".hermesd-1", "cron/output/j/.hermesd-1", "memories/.hermesd-1", "memories/slack/.hermesd-1", "memories/slack/U1/.hermesd-1", "byterover/.brv/.hermesd-1", "byterover-people/p1/.brv/.hermesd-1"}
	kept := []string{".hermesd-backup", "workspace/.hermesd-1", "memories/.hermesd-2"}
	for _, name := range append(stale, kept...) {
		put(name, time.Hour)
	}
	put("memories/.hermesd-2", time.Second)
	w.start()
	for _, name := range stale {
		if _, err := os.Lstat(w.path(name)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is not removed: %v", name, err)
		}
	}
	for _, name := range kept {
		if _, err := os.Lstat(w.path(name)); err != nil {
			t.Error(err)
		}
	}
}
