package app

import (
	"net/url"
	"path/filepath"
	"strings"

	"hermesd/agent/injection"
	"hermesd/agent/llm"
	"hermesd/agent/memory"
	"hermesd/agent/skills"
	"hermesd/cmd/internal/config"
	"hermesd/gateway"
	"hermesd/gateway/chat"
	"hermesd/gateway/session"
)

// Memories returns the store of memories that somebody on a platform has, by
// memory.scope. It touches no file. Any number of processes may write to it.
func Memories(c *config.Config, home string, p chat.Platform, person string) *memory.Store {
	dir := filepath.Join(home, "memories")
	switch c.Memory.Scope {
	case "platform":
		dir = filepath.Join(dir, string(p))
	case "user":
		dir = filepath.Join(dir, string(p), personDir(person))
	}
	return memory.New(memory.Config{Dir: dir, NotesLimit: c.Memory.MemoryCharLimit, UserLimit: c.Memory.UserCharLimit})
}

// personDir names a person's folder. Two people never share one, and none leads
// out of where it stands, whatever a platform takes for an id.
func personDir(person string) string {
	if person == "" {
		return "%" // no escaped id is that
	}
	return strings.ReplaceAll(url.PathEscape(person), ".", "%2E")
}

// about is what commands tell of the home and of prices.
func (a *App) about() gateway.HomeInfo {
	main := a.opts.Report.Model
	return gateway.HomeInfo{
		Memories: func(r session.Record) (*memory.Store, []memory.Target) {
			return a.prompts.memories(r.Address.Platform, r.Owner), a.prompts.targets()
		},
		Skills:  func() (*skills.Catalog, []string) { return a.prompts.library.Catalog(), a.opts.Config.Skills.Disabled },
		Prices:  a.opts.Report.Prices,
		Caching: llm.CachingLine(main.Provider, main.Model, main.BaseURL, a.opts.Config.PromptCaching.CacheTTL),
	}
}

// Price implements gateway.Models: about what it costs to read tokens anew, which is
// to write them to the cache where calls carry marks.
func (m *models) Price(s session.Settings, tokens int) string {
	e, err := m.of(s)
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

// Library returns the skills of home. Nothing is read yet.
func Library(c *config.Config, home string) (*skills.Library, error) {
	var external []string
	for _, dir := range c.Skills.ExternalDirs {
		external = append(external, config.InHome(home, dir))
	}
	return skills.New(skills.Options{
		Home: filepath.Join(home, "skills"), External: external, Cache: filepath.Join(home, "cache", "skills.json"),
		Scan: scan, Scanner: scanner(),
	})
}

// scanner names the version of scan: what an earlier one found of a skill is not
// believed. The number counts changes of its code, the rest those of its rules.
func scanner() string { return "guard 3 " + injection.Version() }

// scan names what is suspicious in a text.
func scan(text string) []string {
	var ids []string
	for _, f := range injection.Scan(text) {
		ids = append(ids, f.ID)
	}
	return ids
}
