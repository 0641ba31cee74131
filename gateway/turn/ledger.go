package turn

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"hermesd/agent"
	"hermesd/agent/llm"
	"hermesd/agent/llm/ledger"
	"hermesd/gateway/failure"
)

// knownCalls is how many of a session's last calls are read to know its prefix
// again.
const knownCalls = 500

// account reads the ledger of a session from the store. more are calls of a dead
// run, which only its steps have.
func (s *sessionState) account(ctx context.Context, store Store, more []json.RawMessage) error {
	stored, err := store.Calls(ctx, s.record.ID, max(0, s.record.Calls-knownCalls))
	if err != nil {
		return fmt.Errorf("ledger of %s: %w", s.record.ID, err)
	}
	records, err := ledgerRecords(append(stored, more...))
	if err != nil {
		return fmt.Errorf("ledger of %s: %w", s.record.ID, err)
	}
	s.ledger = ledger.Restore(records)
	if n := len(records); n > 0 {
		s.lastModel = target(records[n-1].Provider, records[n-1].Model)
	}
	return nil
}

func target(provider, model string) string { return provider + "/" + model }

func ledgerRecords(rows []json.RawMessage) ([]ledger.Record, error) {
	records := make([]ledger.Record, len(rows))
	for i, row := range rows {
		if err := json.Unmarshal(row, &records[i]); err != nil {
			return nil, fmt.Errorf("call %d: %w", i, err)
		}
	}
	return records, nil
}

// declare says why the prefix of the turn's next call may differ.
func (t *turn) declare(why string) { t.session.ledger.Declare(ledger.Reason(why)) }

// called takes down a model call, and says so loudly if its prefix is not what
// it must be.
func (t *turn) called(c agent.Call) {
	t.trace.Calls = append(t.trace.Calls, Call{c.Provider, c.Model, c.Took, c.Usage})
	t.tokenUsage = t.tokenUsage.Add(c.Usage)
	if n := c.Usage.Prompt(); n > 0 {
		t.session.record.PromptTokens, t.session.record.PromptMessages = n, t.session.transcript.Len()
	}
	now := target(c.Provider, c.Model)
	if t.session.lastModel != "" && t.session.lastModel != now && t.session.ledger.Declared() == "" {
		t.declare(string(ledger.Fallback)) // on the way back, if that was not asked before
	}
	t.session.lastModel = now
	rec := t.session.ledger.RecordCall(ledger.Call{Request: c.Request, Provider: c.Provider, Model: c.Model, Usage: c.Usage, At: time.Now().UTC()})
	t.session.record.PendingBreak = ""
	t.runner.breaks.add(rec.Break)
	t.runner.spending.add(rec)
	if rec.Break == ledger.Undeclared {
		t.log.Error("the prefix of a model call is not what the provider has, and nobody said why",
			zap.Int("call", rec.N), zap.String("where", rec.BreakLayer), zap.String("model", c.Provider+"/"+c.Model))
	}
	raw, err := json.Marshal(rec)
	if err != nil {
		t.log.Error("ledger", zap.Error(err))
		return
	}
	t.calls = append(t.calls, raw)
}

// beside names what stands in every request though it is not stored with the
// session: the prefill and a system block of our own. If it changes between two
// lives of the daemon, the prefix breaks, and that is declared.
func (t *turn) beside(system string) string {
	var prefill llm.Digest
	for _, m := range t.runner.opts.Prefill {
		prefill = prefill.Message(m)
	}
	now := prefill.String() + " " + llm.Digest{}.Add(system).String()
	if was, _, ok := strings.Cut(t.session.record.UnstoredDigest, " "); ok && t.session.record.UnstoredDigest != now {
		if t.declare(string(ledger.Overlay)); was != prefill.String() {
			t.declare(string(ledger.Prefill))
		}
	}
	return now
}

// breaks counts the breaks of prefixes since the start, by reason.
type breaks struct {
	mu sync.Mutex // guards what follows
	n  map[string]int
}

func (b *breaks) add(why ledger.Reason) {
	if why == "" {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.n == nil {
		b.n = make(map[string]int)
	}
	b.n[string(why)]++
}

func (b *breaks) counts() map[string]int {
	b.mu.Lock()
	defer b.mu.Unlock()
	m := make(map[string]int, len(b.n))
	for k, v := range b.n {
		m[k] = v
	}
	return m
}

// Breaks returns how often the prefix of a call broke since the start, by
// reason; "undeclared" are bugs.
func (r *Runner) Breaks() map[string]int { return r.breaks.counts() }

// Fallbacks returns how often another model answered.
func (r *Runner) Fallbacks() failure.FallbackStats { return r.fallbacks.Snapshot() }
