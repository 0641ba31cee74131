package turn

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"go.uber.org/zap"

	"hermesd/agent"
	"hermesd/agent/llm"
	"hermesd/agent/llm/ledger"
	"hermesd/gateway/usage"
)

// maxLoadedCalls is the number of a session's last calls that are loaded to restore
// its ledger.
const maxLoadedCalls = 500

// loadLedger restores the ledger and the last model of s from the store. more are
// calls of an earlier run of the turn, which are only in its steps.
func (s *sessionState) loadLedger(ctx context.Context, store Store, more []json.RawMessage) error {
	stored, err := store.Calls(ctx, s.record.ID, max(0, s.record.Calls-maxLoadedCalls))
	if err != nil {
		return fmt.Errorf("load ledger of %s: %w", s.record.ID, err)
	}
	records, err := decodeRecords(append(stored, more...))
	if err != nil {
		return fmt.Errorf("decode ledger of %s: %w", s.record.ID, err)
	}
	s.ledger = ledger.Restore(records)
	if n := len(records); n > 0 {
		s.lastModel = usage.ModelName(records[n-1].Provider, records[n-1].Model)
	}
	return nil
}

func decodeRecords(rows []json.RawMessage) ([]ledger.Record, error) {
	records := make([]ledger.Record, len(rows))
	for i, row := range rows {
		if err := json.Unmarshal(row, &records[i]); err != nil {
			return nil, fmt.Errorf("call %d: %w", i, err)
		}
	}
	return records, nil
}

// declareBreak declares the reason for which the prefix of the turn's next call may
// break.
func (t *turn) declareBreak(reason string) { t.session.ledger.Declare(ledger.Reason(reason)) }

// recordCall adds a model call to the ledger, the trace and the usage, and logs an
// error if its prefix broke for an undeclared reason.
func (t *turn) recordCall(c agent.Call) {
	t.trace.Calls = append(t.trace.Calls, Call{c.Provider, c.Model, c.Took, c.Usage})
	t.tokenUsage = t.tokenUsage.Add(c.Usage)
	if n := c.Usage.Prompt(); n > 0 {
		t.session.record.PromptTokens, t.session.record.PromptMessages = n, t.session.transcript.Len()
	}
	model := usage.ModelName(c.Provider, c.Model)
	if t.session.lastModel != "" && t.session.lastModel != model && t.session.ledger.Declared() == "" {
		t.declareBreak(string(ledger.Fallback)) // back from a fallback, unless another reason is declared
	}
	t.session.lastModel = model
	rec := t.session.ledger.RecordCall(ledger.Call{Request: c.Request, Provider: c.Provider, Model: c.Model, Usage: c.Usage, At: time.Now().UTC()})
	t.session.record.PendingBreak = ""
	t.runner.opts.Usage.Called(rec)
	if rec.Break == ledger.Undeclared {
		t.log.Error("undeclared prefix break",
			zap.Int("call", rec.N), zap.String("where", rec.BreakLayer), zap.String("model", c.Provider+"/"+c.Model))
	}
	raw, err := json.Marshal(rec)
	if err != nil {
		t.log.Error("cannot encode ledger record", zap.Error(err))
		return
	}
	t.calls = append(t.calls, raw)
}

// updateUnstoredDigest returns the digest of the parts of each request that are not
// stored with the session: the prefill and the system part of the overlay. If they
// changed since the last turn, the prefix breaks, and it declares that.
func (t *turn) updateUnstoredDigest(system string) string {
	var prefill llm.Digest
	for _, m := range t.runner.opts.Prefill {
		prefill = prefill.Message(m)
	}
	current := prefill.String() + " " + llm.Digest{}.Add(system).String()
	if oldPrefill, _, ok := strings.Cut(t.session.record.UnstoredDigest, " "); ok && t.session.record.UnstoredDigest != current {
		if t.declareBreak(string(ledger.Overlay)); oldPrefill != prefill.String() {
			t.declareBreak(string(ledger.Prefill))
		}
	}
	return current
}
