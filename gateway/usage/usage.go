// Package usage counts, since the start of the process, what model calls have used, why
// prefixes broke and how often a fallback model answered. The main type is Meter.
package usage

import (
	"maps"
	"sync"

	"hermesd/agent"
	"hermesd/agent/llm/ledger"
	"hermesd/gateway/active"
	"hermesd/gateway/failure"
	"hermesd/gateway/session"
)

// A Meter counts model calls. Its methods may be called from any goroutine.
type Meter struct {
	turns     *active.Turns
	fallbacks failure.FallbackCounter

	mu      sync.Mutex // guards what follows
	byModel map[string]ledger.Summary
	breaks  map[string]int
}

// NewMeter returns a Meter that charges calls of tools to turns.
func NewMeter(turns *active.Turns) *Meter {
	return &Meter{turns: turns, byModel: make(map[string]ledger.Summary), breaks: make(map[string]int)}
}

// Called counts a model call of a conversation.
func (m *Meter) Called(r ledger.Record) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r.Break != "" {
		m.breaks[string(r.Break)]++
	}
	m.addLocked(r)
}

// Charge counts a model call that is not part of a conversation, such as one of a
// sub-agent, and adds its usage to the running turn of the session, if there is one.
func (m *Meter) Charge(id session.ID, c agent.Call) {
	m.turns.Charge(id, c.Usage)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.addLocked(ledger.Record{Provider: c.Provider, Model: c.Model, Usage: c.Usage})
}

func (m *Meter) addLocked(r ledger.Record) {
	name := ModelName(r.Provider, r.Model)
	sum, ok := m.byModel[name]
	if !ok {
		sum.Breaks = make(map[ledger.Reason]int)
	}
	sum.Add(r)
	m.byModel[name] = sum
}

// FellBack counts an answer of a fallback model because of err.
func (m *Meter) FellBack(model string, err error) { m.fallbacks.Add(model, err) }

// ByModel returns the usage by ModelName. The caller may change the map.
func (m *Meter) ByModel() map[string]ledger.Summary {
	m.mu.Lock()
	defer m.mu.Unlock()
	totals := maps.Clone(m.byModel)
	for name, sum := range totals {
		sum.Breaks = maps.Clone(sum.Breaks)
		totals[name] = sum
	}
	return totals
}

// Breaks returns the number of prefix breaks by reason. "undeclared" counts bugs.
func (m *Meter) Breaks() map[string]int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.breaks)
}

// Fallbacks returns how often a fallback model answered.
func (m *Meter) Fallbacks() failure.FallbackStats { return m.fallbacks.Snapshot() }

// ModelName returns the name of a model as provider/model.
func ModelName(provider, model string) string { return provider + "/" + model }
