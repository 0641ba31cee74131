package turn

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.uber.org/zap"

	"hermesd/agent"
	"hermesd/agent/llm"
	"hermesd/agent/llm/tokens"
	"hermesd/agent/prompt"
	"hermesd/gateway/inbox"
	"hermesd/gateway/outbox"
	"hermesd/gateway/session"
	"hermesd/hygiene"
)

// CompactionOptions is what keeps the contexts of sessions small.
type CompactionOptions struct {
	hygiene.Settings
	// MaxWait bounds how long a message waits for a pass of hygiene that is not
	// urgent.
	MaxWait time.Duration
	// Engine makes the context engine of a session out of what it had kept; nil:
	// contexts are not made smaller.
	Engine func(rec session.Record, model ModelChoice, state json.RawMessage) (agent.Engine, error)
	// Refresh reads again, at a compaction, what of a prompt is kept in files; nil:
	// the prompt stays as it is.
	Refresh func(session.Record, prompt.Prefix) prompt.Prefix
	// Learn keeps the length of a model's context that an error named.
	Learn func(provider, model string, window int)
}

// engine returns the context engine of the turn's session; nil if there is none.
func (t *turn) engine(ctx context.Context) agent.Engine {
	if t.runner.opts.Compression.Engine == nil {
		return nil
	}
	if t.session.engine != nil {
		t.limit()
		return t.session.engine
	}
	var state json.RawMessage
	var err error
	if t.session.created == nil {
		if state, err = t.runner.opts.Store.Engine(ctx, t.session.record.ID); err != nil {
			t.log.Error("context engine", zap.Error(err))
			return nil
		}
	}
	made := state
	if t.noted != nil { // by a run of the turn that died
		made = t.noted
	}
	e, err := t.runner.opts.Compression.Engine(t.session.record, t.session.model, made)
	if err != nil {
		t.log.Error("context engine", zap.Error(err))
		return nil
	}
	t.session.engine, t.session.savedEngineState, t.session.limits = e, state, t.limits()
	return e
}

func (t *turn) limits() agent.Limits {
	return agent.Limits{Model: t.session.model.Model, Window: t.session.model.Window}
}

// limit tells the engine which model answers now, unless a pass has it.
func (t *turn) limit() {
	now := t.limits()
	if now == t.session.limits || t.runner.compactions.of(t.session.record.ID) != nil {
		return
	}
	if l, ok := t.session.engine.(agent.Lifecycle); ok {
		l.Limits(now)
	}
	t.session.limits = now
}

// window returns what the run keeps its context small with, after what hygiene
// had to do.
func (t *turn) window(ctx context.Context, resumed bool) (*agent.ContextWindow, []outbox.Row) {
	e := t.engine(ctx)
	if e == nil {
		return nil, nil
	}
	w := t.fresh(e)
	if resumed { // what was due then is among the steps
		return w, nil
	}
	rows, busy := t.compactBeforeTurn(ctx, w)
	if busy { // the engine is at work for this session already
		return nil, rows
	}
	return w, rows
}

// fresh is the window of a session as it is stored.
func (t *turn) fresh(e agent.Engine) *agent.ContextWindow {
	w := &agent.ContextWindow{Engine: e, First: t.session.record.Start, Reported: t.session.record.PromptTokens, At: t.session.record.PromptMessages}
	if refresh := t.runner.opts.Compression.Refresh; refresh != nil {
		w.Refresh = func(p prompt.Prefix) prompt.Prefix { return refresh(t.session.record, p) }
	}
	return w
}

// compactBeforeTurn has a session compacted before the turn, if hygiene says so. busy: a
// pass is still under way, and is adopted by a later turn.
func (t *turn) compactBeforeTurn(ctx context.Context, w *agent.ContextWindow) (rows []outbox.Row, busy bool) {
	at := agent.Turn{Prefix: t.session.prefix, Prefill: t.runner.opts.Prefill, Transcript: t.session.transcript}
	p := t.runner.compactions.of(t.session.record.ID)
	facts := hygiene.Facts{
		Reported: t.session.record.PromptTokens, Since: tokens.Since(t.session.transcript, min(t.session.record.PromptMessages, t.session.transcript.Len())),
		Window: t.session.model.Window, Messages: t.session.transcript.Len(), Busy: p != nil, CoolingDown: w.Engine.Status().Cooldown != "",
	}
	if facts.Reported == 0 {
		facts.Estimate = w.Size(&at)
	}
	d := hygiene.Decide(facts, t.runner.opts.Compression.Settings)
	if p == nil && d.Compress {
		v := w.View(&at, "")
		v.Messages, v.Force = slices.Clone(v.Messages), d.Urgent
		p = t.startCompaction(w.Engine, v, agent.WhyHygiene)
		t.log.Info("hygiene", zap.Int("tokens", d.Tokens), zap.Int("window", facts.Window), zap.String("why", d.Reason))
	}
	if p == nil {
		return nil, false
	}
	if !t.await(ctx, p, d.Urgent) {
		return nil, true
	}
	t.take(p)
	w.Engine = p.engine
	return t.adopt(w, p, d), false
}

// await waits for a pass: for one that is urgent until it is there, and says so.
func (t *turn) await(ctx context.Context, p *backgroundCompaction, urgent bool) bool {
	limit := time.NewTimer(t.runner.opts.Compression.MaxWait)
	defer limit.Stop()
	for {
		select {
		case <-p.done:
			return true
		case <-ctx.Done():
			return false
		case <-limit.C:
			if !urgent {
				return false
			}
			t.notify(t.T("This conversation has become very long; I am summarising its older part before I answer."))
		}
	}
}

// adopt makes a pass part of the turn, if nothing has touched what it was made
// of.
func (t *turn) adopt(w *agent.ContextWindow, p *backgroundCompaction, d hygiene.Decision) []outbox.Row {
	switch {
	case errors.Is(p.err, agent.ErrCoolingDown):
		return nil
	case p.err != nil:
		t.log.Warn("hygiene", zap.Error(p.err))
		t.shrunk(p.reason, true, p.pass)
		return t.notices([]string{t.T("I could not summarise the older part of this conversation (%v). Nothing is lost; I try again later.", p.err)})
	case !p.fits(t.session):
		t.log.Info("a pass of hygiene came too late: the conversation has changed meanwhile")
		return nil
	}
	w.Ready, w.AdoptAt, w.Reason = &p.pass, len(p.view.Messages), p.reason
	if after := p.pass.After; after >= hygiene.Urgent(t.session.model.Window) {
		t.log.Warn("the conversation is too long also after a compaction", zap.Int("tokens", after), zap.Int("window", t.session.model.Window))
	}
	t.runner.compactions.count(func(n *CompactionStats) { n.Adopted++ })
	text := t.T("I have summarised the older part of this conversation: about %d tokens became %d. Nothing is deleted.", d.Tokens, p.pass.After)
	return t.notices([]string{text + t.told(p.pass)})
}

// told is what an engine says of its pass, to follow a sentence.
func (t *turn) told(p agent.Compaction) (text string) {
	if len(p.Sentences) == 0 && p.Explanation != "" {
		return " " + p.Explanation
	}
	for _, s := range p.Sentences {
		args := make([]any, len(s.Args))
		for i, a := range s.Args {
			args[i] = a
		}
		text += " " + t.T(s.English, args...)
	}
	return text
}

// compacted takes down that the agent has made the transcript smaller.
func (t *turn) compacted(ev agent.Compacted) error {
	added, err := rows(ev.Replaced[min(t.stored, len(ev.Replaced)):])
	if err != nil {
		return err
	}
	active, err := rows(ev.Messages)
	if err != nil {
		return err
	}
	t.passes = append(t.passes, inbox.Compaction{Length: t.stored, Append: added, From: ev.From, To: ev.To, Active: active})
	t.stored = len(active)
	t.session.bytes = 0
	for _, row := range active {
		t.session.bytes += int64(len(row))
	}
	t.session.record.PromptTokens, t.session.record.PromptMessages = 0, 0
	if ev.Prefix.Hash() != t.session.prefix.Hash() {
		t.session.prefix, t.reprompt = ev.Prefix, true
	}
	t.declare(ev.Reason)
	t.shrunk(ev.Reason, false, ev.Compaction)
	t.summarised = t.summarised.Add(ev.Usage)
	t.trace.Notices = append(t.trace.Notices, fmt.Sprintf("%s: about %d tokens became %d, %d messages archived", ev.Reason, ev.Before, ev.After, ev.To-ev.From))
	return nil
}

// rows are messages as they are stored.
func rows(ms []llm.Message) ([]json.RawMessage, error) {
	out := make([]json.RawMessage, len(ms))
	for i, m := range ms {
		raw, err := json.Marshal(m)
		if err != nil {
			return nil, fmt.Errorf("message %d: %w", i, err)
		}
		out[i] = raw
	}
	return out, nil
}
