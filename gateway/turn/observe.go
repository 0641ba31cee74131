package turn

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"time"

	"go.uber.org/zap"

	"hermesd/agent"
	"hermesd/agent/llm"
	"hermesd/agent/llm/ledger"
	"hermesd/gateway/inbox"
	"hermesd/gateway/observe"
	"hermesd/gateway/store"
	"hermesd/gateway/usage"
)

// runObserved runs the turn, and emits events for its start and its end.
func (c *claim) runObserved(ctx context.Context) {
	emit := c.runner.parts.Settings.Observe
	e := c.first()
	started := observe.TurnStarted{
		Turn: c.Turn, Kind: observe.Message, Platform: e.Inbound.Address.Platform, Accepted: e.Accepted, At: time.Now(), Resumed: c.Crashed,
	}
	switch {
	case e.Exclusive:
		started.Kind = observe.Command
	case e.Occurrence != nil:
		started.Kind = observe.Scheduled
	}
	emit(started)
	c.run(ctx)
	emit(observe.TurnEnded{TurnStarted: started, Result: cmp.Or(c.result, observe.Released), Took: time.Since(started.At)})
}

// encodeTrace returns the stored form of the trace, masked.
func (c *claim) encodeTrace() store.Doc[store.Trace] {
	t, mask := c.trace, c.runner.parts.Agent.Agent.Mask
	t.Took, t.Error = time.Since(t.Started), mask(t.Error)
	for i, n := range t.Notices {
		t.Notices[i] = mask(n)
	}
	raw, err := json.Marshal(t)
	if err != nil {
		return nil
	}
	return raw
}

// resultOf returns the observe.Result of an outcome.
func resultOf(o inbox.Outcome) observe.Result {
	switch {
	case o.MergedInto != 0:
		return observe.Superseded
	case o.Result == inbox.Silent:
		return observe.Silent
	case o.Result == inbox.Failed:
		return observe.Failed
	case o.Result == inbox.Cancelled:
		return observe.Cancelled
	}
	return observe.Replied
}

// reportModelCall emits the event of a successful model call.
func (t *turn) reportModelCall(c agent.Call) {
	t.runner.parts.Settings.Observe(observe.ModelCalled{Turn: t.claim.Turn, Provider: c.Provider, Model: c.Model, Usage: c.Usage, Stop: c.Stop, Took: c.Took})
}

// recordCall adds a model call to the ledger, the trace and the usage, and logs an
// error if its prefix broke for an undeclared reason.
func (t *turn) recordCall(c agent.Call) {
	t.trace.Calls = append(t.trace.Calls, store.ModelCall{Provider: c.Provider, Model: c.Model, Took: c.Took, Usage: c.Usage})
	t.tokenUsage = t.tokenUsage.Add(c.Usage)
	rec, err := t.session.RecordCall(c)
	if err != nil {
		t.log.Error("cannot record call", zap.Error(err))
	}
	t.runner.parts.Agent.Usage.Called(rec)
	if rec.Break == ledger.Undeclared {
		t.log.Error("undeclared prefix break",
			zap.Int("call", rec.N), zap.String("where", rec.BreakLayer), zap.String("model", usage.ModelName(c.Provider, c.Model)))
	}
}

// reportModelRetry emits the event of a model call that is retried, if n is one.
func (t *turn) reportModelRetry(n agent.Notice) {
	if n.Kind != agent.Retry && n.Kind != agent.Fallback {
		return
	}
	e := observe.ModelRetried{Turn: t.claim.Turn, Fallback: n.Fallback}
	if le, ok := errors.AsType[*llm.Error](n.Err); ok {
		e.Class = le.Class
	}
	t.runner.parts.Settings.Observe(e)
}

// reportToolCall emits the event of a finished tool call.
func (t *turn) reportToolCall(ev agent.ToolFinished) {
	t.runner.parts.Settings.Observe(observe.ToolCalled{Turn: t.claim.Turn, Tool: ev.Name, Failed: ev.Failed, Took: ev.Took})
}
