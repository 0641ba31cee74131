package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"sync"

	"hermesd/agent/llm"
	"hermesd/agent/memory/provider"
	"hermesd/agent/memory/provider/byterover"
	"hermesd/agent/memory/provider/hindsight"
	"hermesd/agent/memory/provider/holographic"
	"hermesd/agent/memory/provider/honcho"
	"hermesd/agent/memory/provider/mem0"
	"hermesd/agent/memory/provider/openviking"
	"hermesd/agent/memory/provider/retaindb"
	"hermesd/agent/memory/provider/supermemory"
	"hermesd/agent/tool"
	"hermesd/cmd/internal/config"
	"hermesd/cmd/internal/config/profile"
	"hermesd/gateway/access"
	"hermesd/gateway/active"
	"hermesd/gateway/chat"
	"hermesd/gateway/i18n"
	externalmemory "hermesd/gateway/memory"
	"hermesd/gateway/session"
	"hermesd/gateway/store"
)

// memoryKey is the configuration key of the external memory provider.
const memoryKey = "memory.provider"

// openProvider is the constructor of a memory provider.
type openProvider func(provider.Source) (provider.Provider, []string, error)

// memoryProviders returns the constructors of the memory providers by name.
func memoryProviders() map[string]openProvider {
	return map[string]openProvider{
		"byterover": byterover.Open, "hindsight": hindsight.Open, "holographic": holographic.Open, "honcho": honcho.Open,
		"mem0": mem0.Open, "openviking": openviking.Open, "retaindb": retaindb.Open, "supermemory": supermemory.Open,
	}
}

// MemoryProviders returns the names of the memory providers, sorted.
func MemoryProviders() []string { return slices.Sorted(maps.Keys(memoryProviders())) }

// openMemory opens the external memory that is configured.
func (a *App) openMemory() {
	notices := &a.memoryNotices
	p := externalmemory.Parts{
		Store: a.store, Log: a.opts.Log.Named("memory"), Observe: a.telemetry.MemoryCall,
		Notify:   func(_ context.Context, notice error) { notices.add(notice) },
		Settings: externalmemory.Settings{Owners: a.access.Owners},
	}
	var err error
	var warnings []string
	a.memory, warnings, err = MemoryService(a.opts.Config, a.opts.Report, a.opts.Home, p)
	a.warnOfMemory(warnings)
	if err != nil { // Usable has warned of it
		name := a.opts.Config.Memory.Provider
		a.memory = externalmemory.Unusable(name, err)
		notices.add(i18n.Errorf("The external memory (%s) cannot be used: %v. I go on without it.", name, err))
	}
	a.cleanups = append(a.cleanups, func() error { a.memory.Close(); return nil })
}

// warnOfMemory logs what is wrong with the configuration of the memory provider, unless it
// is what was logged last.
func (a *App) warnOfMemory(warnings []string) {
	if slices.Equal(warnings, a.reload.memoryWarnings) {
		return
	}
	a.reload.memoryWarnings = warnings
	for _, w := range warnings {
		a.opts.Log.Named("memory").Warn(w)
	}
}

// MemoryService returns the external memory that is configured, which the caller starts
// and closes, and what is wrong with its configuration. p needs no provider and mask, and of
// the settings Owners only.
func MemoryService(c *config.Config, r config.Report, home string, p externalmemory.Parts) (*externalmemory.Service, []string, error) {
	if c.Memory.Provider == "" {
		return externalmemory.Off(), nil, nil
	}
	opened, warnings, err := OpenMemoryProvider(c.Memory.Provider, c, r, home, nil)
	if err != nil {
		return nil, nil, err
	}
	p.Provider, p.Mask, p.Settings = opened, r.Secrets.Mask, memorySettings(c, c.Memory.Scope, p.Settings.Owners)
	return externalmemory.New(p), warnings, nil
}

// memorySettings returns the settings of the external memory. scope is memory.scope of the
// built-in one.
func memorySettings(c *config.Config, scope string, owners func() []access.Principal) externalmemory.Settings {
	return externalmemory.Settings{
		RecallWait: c.Memory.RecallWait, MaxChars: c.Memory.RecallMaxChars, People: c.Memory.People, Rooms: c.Memory.Rooms, CronRecall: c.Memory.CronRecall,
		Sync: c.Memory.Sync, SyncTools: c.Memory.SyncTools, Mirror: c.Memory.Mirror, PerUser: scope == "user", QueueMax: c.Memory.QueueMax,
		Owners: owners,
	}
}

// A memoryUse says what a reload has done with the provider of the external memory.
type memoryUse struct {
	reopened bool
	waits    bool // it could be opened, and is used after a restart only
}

// reopenMemory opens the provider of the start as it is configured now; nil if another one
// or none is configured. The caller holds a.reload.lock.
func (a *App) reopenMemory(c *config.Config, r config.Report) (provider.Provider, error) {
	name := a.opts.Config.Memory.Provider
	if name == "" || c.Memory.Provider != name {
		return nil, nil
	}
	now := *c
	now.Terminal = a.opts.Config.Terminal // tools go on in the directory of the start
	r.Secrets = a.opts.Report.Secrets     // learns the new key
	p, warnings, err := OpenMemoryProvider(name, &now, r, a.opts.Home, nil)
	if err != nil && !a.memory.On() {
		return nil, nil // as at the start
	}
	if err != nil {
		return nil, keyError(memoryKey, err)
	}
	a.warnOfMemory(warnings)
	return p, nil
}

// memoryNotices are what owners are to be told about the external memory, with the next
// answer that one of them gets.
type memoryNotices struct {
	mu   sync.Mutex
	list []error
}

func (n *memoryNotices) add(notice error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.list = append(n.list, notice)
}

// take returns the notices if only an owner reads the answer of t, and forgets them.
func (n *memoryNotices) take(t externalmemory.Turn) []error {
	if t.Level < access.Owner || t.Record.Shared || t.Cron {
		return nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	list := n.list
	n.list = nil
	return list
}

// ownTurn describes a session to the external memory as its prompt is built: the person
// speaks whose session it is.
func (m *promptInputs) ownTurn(r session.Record) externalmemory.Turn {
	t := externalmemory.OwnTurn(r)
	if m.external.On() && t.Level < access.Owner && !r.Shared {
		if grant, _ := m.access.Check(chat.Inbound{Address: r.Address, Sender: chat.Person{ID: r.Owner}}); grant.Principal().ID == r.Owner {
			t.Level = min(grant.Principal().Level, access.Member) // an owner's session would be OwnersOnly
		}
	}
	return t
}

// memoryEntries returns the entries of the built-in memory of a session by target; nil if
// it has none.
func (m *promptInputs) memoryEntries(r session.Record) (map[string][]string, error) {
	if !m.mayUseMemories(r) {
		return nil, nil
	}
	s, all := m.memories(r.Address.Platform, r.Owner), make(map[string][]string)
	for _, t := range m.memoryTargets() {
		entries, err := s.Entries(t)
		if err != nil {
			return nil, err
		}
		all[string(t)] = entries
	}
	return all, nil
}

// A providerTool is a tool of the external memory.
type providerTool struct {
	store  store.Sessions
	active *active.Turns
	memory *externalmemory.Service
	tool   provider.Tool
}

// memoryTools returns the tools of the external memory.
func (a *App) memoryTools() (ts []tool.Tool) {
	for _, t := range a.memory.Tools() {
		ts = append(ts, providerTool{a.store, &a.active, a.memory, t})
	}
	return ts
}

// Spec implements tool.Tool. A write is at most once: providers cannot tell repetitions of
// calls by a model apart.
func (p providerTool) Spec() tool.Spec {
	effect := tool.Pure
	if p.tool.Writes {
		effect = tool.AtMostOnce
	}
	return tool.Spec{Tool: llm.Tool{Name: p.tool.Name, Description: p.tool.Description, Schema: p.tool.Schema}, Effect: effect}
}

// Run implements tool.Tool. The memory is that of the person who speaks in the turn.
func (p providerTool) Run(ctx context.Context, c tool.Call) (string, error) {
	rec, ok, err := p.store.SessionByID(ctx, session.ID(c.Session))
	if err != nil || !ok {
		return "", errors.Join(errors.New("the memory of this conversation cannot be found: it is not stored"), err)
	}
	actor, ok := p.active.Actor(rec.ID)
	if !ok {
		return "", errors.New("nobody speaks in this conversation now")
	}
	return p.memory.Call(ctx, externalmemory.TurnOf(rec, actor.Principal), p.tool.Name, c.Input)
}

// providerToolDenied returns an error if a tool of the external memory may not be used in
// a turn; ours is false if it is another tool.
func (m *promptInputs) providerToolDenied(t externalmemory.Turn, name string) (ours bool, err error) {
	tools := m.external.Tools()
	i := slices.IndexFunc(tools, func(t provider.Tool) bool { return t.Name == name })
	switch {
	case i < 0:
		return false, nil
	case !m.external.Allows(t):
		return true, errors.New("the external memory is not used for who speaks here (memory.people, memory.rooms)")
	case tools[i].Owners && t.Level < access.Owner:
		return true, fmt.Errorf("%s is for people of level %s; who asks is %s", name, access.Owner, t.Level)
	}
	return true, nil
}

// OpenMemoryProvider returns the client of the provider called name, as it is configured
// in home, and what is wrong with its configuration. planned has contents of its files
// that are not written yet. It accesses no network.
func OpenMemoryProvider(name string, c *config.Config, r config.Report, home string, planned map[string][]byte) (provider.Provider, []string, error) {
	open := memoryProviders()[name]
	if open == nil {
		return nil, nil, fmt.Errorf("there is no memory provider %q; there are %v", name, MemoryProviders())
	}
	s := provider.Source{
		Home: home, Getenv: r.Getenv, Profile: profile.FromHome(home), Secrets: r.Secrets, Planned: planned,
		Open: func(path string) (fs.File, error) { return openInWorkspace(c.Workspace(home), path) },
	}
	var section any
	switch name {
	case "honcho":
		section = c.Honcho
	case "openviking":
		section = c.Memory.OpenViking
	case "retaindb":
		section = c.Memory.RetainDB
	case "byterover":
		section = c.Memory.ByteRover
	case "holographic":
		section = c.Plugins.Holographic
	}
	if section != nil {
		raw, err := json.Marshal(section)
		if err != nil {
			return nil, nil, err
		}
		s.Section = raw
	}
	return open(s)
}

// openInWorkspace opens a file of the workspace.
func openInWorkspace(workspace, path string) (fs.File, error) {
	f, _, err := openRegular(workspace, path)
	switch {
	case errors.Is(err, errOutside):
		return nil, fmt.Errorf("only files in %s can be sent", workspace)
	case err != nil:
		return nil, err
	}
	return f, nil
}
