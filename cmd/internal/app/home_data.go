package app

import (
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"hermesd/agent/injection"
	"hermesd/agent/llm"
	"hermesd/agent/memory"
	"hermesd/agent/skills"
	"hermesd/agent/tools/terminal"
	"hermesd/cmd/internal/config"
	"hermesd/gateway/chat"
	"hermesd/gateway/session"
	"hermesd/internal/atomicfile"
)

// Memories returns the memory store of a user on a platform, as memory.scope selects
// it. It touches no file. Several processes may write to the same store.
func Memories(c *config.Config, home string, p chat.Platform, person string) *memory.Store {
	dir := filepath.Join(home, "memories")
	switch c.Memory.Scope {
	case "platform":
		dir = filepath.Join(dir, string(p))
	case "user":
		dir = filepath.Join(dir, string(p), dirName(person))
	}
	return memory.New(memory.Config{Dir: dir, NotesLimit: c.Memory.MemoryCharLimit, UserLimit: c.Memory.UserCharLimit})
}

// removeStaleFiles removes the incomplete files of killed processes from the directories
// of the home in which files are replaced. Other commands may replace files at the moment.
func (a *App) removeStaleFiles() {
	root, err := os.OpenRoot(a.opts.Home)
	if err == nil {
		err = atomicfile.RemoveStale(root, time.Now().Add(-time.Minute), ".", "cron/output/*", "memories", "memories/*", "memories/*/*", "byterover/.brv", "byterover-people/*/.brv")
		err = errors.Join(err, root.Close())
	}
	if err != nil {
		a.opts.Log.Warn("cannot remove incomplete files", zap.Error(err))
	}
}

// dirName escapes an ID for use as the name of a directory. Different IDs have
// different names, and no name leads out of its parent, whatever a platform uses as
// an ID.
func dirName(person string) string {
	if person == "" {
		return "%" // no escaped ID is equal to this
	}
	return strings.ReplaceAll(url.PathEscape(person), ".", "%2E")
}

// A host is the process of the daemon, and its home directory; it implements control.Host.
type host struct {
	prompts    *promptInputs
	commands   *terminal.Terminal
	canRestart bool
	restart    chan struct{} // closed when a user requests a restart
	once       sync.Once     // closes restart
}

func (h *host) Memories(r session.Record) (*memory.Store, []memory.Target) {
	return h.prompts.memories(r.Address.Platform, r.Owner), h.prompts.memoryTargets()
}

func (h *host) Skills() (*skills.Catalog, []string) {
	return h.prompts.library.Catalog(), h.prompts.c.Skills.Disabled
}

func (h *host) Background(id session.ID) (running int, end func()) {
	return h.commands.Background(string(id)), func() { h.commands.EndSession(string(id)) }
}

func (h *host) CanRestart() bool { return h.canRestart }

func (h *host) Restart() { h.once.Do(func() { close(h.restart) }) }

// Price implements control.Models: the approximate cost of sending tokens without a
// cache hit, which includes writing them to the cache where calls carry cache
// breakpoints.
func (m *models) Price(s session.Settings, tokens int) string {
	e, err := m.endpointFor(s)
	if err != nil {
		return ""
	}
	p, ok := m.prices.Price(e.Model)
	if !ok {
		return ""
	}
	u := llm.Usage{Input: tokens}
	if marked, _ := llm.CacheBreakpoints(e.Provider, e.Model, e.BaseURL); marked && llm.ValidTTL(m.ttl) {
		u = llm.Usage{CacheWrite: tokens}
		if m.ttl == "1h" {
			u.CacheWrite1h = tokens
		}
	}
	return p.Cost(u).String()
}

// Library returns the skill library of a home directory. It reads no skill yet.
func Library(c *config.Config, home string) (*skills.Library, error) {
	var external []string
	for _, dir := range c.Skills.ExternalDirs {
		external = append(external, config.InHome(home, dir))
	}
	return skills.New(skills.Options{
		Home: filepath.Join(home, "skills"), External: external, Cache: filepath.Join(home, "cache", "skills.json"),
		Scan: scan, Scanner: scanVersion(),
	})
}

// scanVersion returns the version of scan: results of another version are not
// reused. The number counts changes of the code, the rest identifies the rules.
func scanVersion() string { return "guard 3 " + injection.Version() }

// scan returns the IDs of the injection rules that match text.
func scan(text string) []string {
	var ids []string
	for _, f := range injection.Scan(text) {
		ids = append(ids, f.ID)
	}
	return ids
}
