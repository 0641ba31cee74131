package app_test

import (
	"path/filepath"
	"testing"

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
