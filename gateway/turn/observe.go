package turn

import (
	"cmp"
	"context"
	"errors"
	"time"

	"hermesd/agent"
	"hermesd/agent/llm"
	"hermesd/gateway/inbox"
	"hermesd/gateway/observe"
	"hermesd/gateway/session"
)

// observed runs the turn, and tells that it begins and how it ends.
func (t *turn) observed(ctx context.Context) {
	tell := t.runner.opts.Observe
	if tell == nil {
		t.run(ctx)
		return
	}
	e := t.first()
	began := observe.TurnStarted{
		Turn: t.claim.Turn, Kind: observe.Message, Platform: e.Inbound.Address.Platform, Accepted: e.Accepted, At: time.Now(), Resumed: t.claim.Crashed,
	}
	switch {
	case e.Exclusive:
		began.Kind = observe.Command
	case e.Occurrence != nil:
		began.Kind = observe.Scheduled
	}
	tell(began)
	t.run(ctx)
	tell(observe.TurnEnded{TurnStarted: began, Result: cmp.Or(t.result, observe.Released), Took: time.Since(began.At)})
}

// resultOf is an outcome as observers know it.
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

// answered tells of a model call that was answered.
func (t *turn) answered(c agent.Call) {
	t.runner.opts.Observe.Emit(observe.ModelCalled{Turn: t.claim.Turn, Provider: c.Provider, Model: c.Model, Usage: c.Usage, Stop: c.Stop, Took: c.Took})
}

// reportModelRetry tells of a model call that is tried again.
func (t *turn) reportModelRetry(n agent.Notice) {
	if n.Kind != agent.Retry && n.Kind != agent.Fallback {
		return
	}
	e := observe.ModelRetried{Turn: t.claim.Turn, Fallback: n.Fallback}
	if le, ok := errors.AsType[*llm.Error](n.Err); ok {
		e.Class = le.Class
	}
	t.runner.opts.Observe.Emit(e)
}

// reportToolCall tells of a tool call that is over.
func (t *turn) reportToolCall(ev agent.ToolFinished) {
	t.runner.opts.Observe.Emit(observe.ToolCalled{Turn: t.claim.Turn, Tool: ev.Name, Failed: ev.Failed, Took: ev.Took})
}

// ReportToolCall tells of a tool call that a sub-agent made in the turn of a session.
func (r *Runner) ReportToolCall(id session.ID, ev agent.ToolFinished) {
	who, _ := r.Actor(id)
	r.opts.Observe.Emit(observe.ToolCalled{Turn: who.Turn, Tool: ev.Name, Failed: ev.Failed, Took: ev.Took})
}

// reportMediaTask tells of a call of a service for voices and pictures.
func (r *Runner) reportMediaTask(s observe.MediaTask, began time.Time, err error) {
	r.opts.Observe.Emit(observe.MediaProcessed{Task: s, Failed: err != nil, Took: time.Since(began)})
}

// shrunk tells of a pass of the context engine: one that became part of the turn,
// or one that could not be made.
func (t *turn) shrunk(why string, failed bool, p agent.Compaction) {
	name := ""
	if t.session != nil && t.session.engine != nil {
		name = t.session.engine.Name()
	}
	t.runner.opts.Observe.Emit(observe.Compacted{Turn: t.claim.Turn, Engine: name, Reason: why, Failed: failed, Before: p.Before, After: p.After})
}
