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
	"hermesd/gateway/access"
	"hermesd/gateway/chat"
	"hermesd/gateway/delivery"
	"hermesd/gateway/failure"
	"hermesd/gateway/inbox"
	"hermesd/gateway/outbox"
)

// A SupersededError is the cause with which a run is interrupted by a newer message.
type SupersededError struct{ Entry inbox.ID }

func (n SupersededError) Error() string { return "interrupted by " + n.Entry.String() }

// A StoppedError is the cause with which a person stops a run.
type StoppedError struct{ Person string }

func (s StoppedError) Error() string { return "stopped by " + s.Person }

const (
	stillWorking = 3 * time.Minute
	restarted    = "I was restarted, working on your message again."
	placeholder  = "Thinking…"
)

// runAgent leads the claim through the agent to its commit.
func (t *turn) runAgent(ctx context.Context) {
	t.trace.Started = time.Now()
	t.trace.Resumed = t.claim.Crashed
	if err := t.gather(ctx); err != nil {
		t.endInterrupted(ctx, err)
		return
	}
	s, err := t.enter(ctx)
	switch {
	case err != nil && ctx.Err() != nil:
		t.endInterrupted(ctx, context.Cause(ctx))
		return
	case err != nil:
		t.fail(ctx, err)
		return
	}
	defer t.runner.locks.release(s.record.ID)
	defer t.runner.active.remove(s.record.ID)
	t.session, t.trace.Session = s, string(s.record.ID)
	t.updateActor()
	t.stored = s.transcript.Len()
	t.react(chat.ReactionSeen)
	input, steps, problems, err := t.input(ctx)
	if err != nil {
		t.fail(ctx, err)
		return
	}
	stream := t.runner.opts.Delivery.Stream(t.draft(), t.prior())
	switch {
	case t.claim.Crashed && t.runner.opts.RestartNotice:
		stream.ShowStatus(t.T(restarted))
	case t.runner.opts.EditFirst:
		stream.ShowStatus(t.T(placeholder))
	}
	if s.over != "" {
		problems = append([]string{s.over}, problems...)
	}
	var wrong error
	if s.model, wrong = t.runner.choose(s.record.Settings); wrong != nil {
		problems = append(problems, t.T("The model of this conversation cannot be used (%s); %s answers. `/model` chooses another.", t.LocalizeError(wrong), s.model.Model))
	}
	problems, s.notes = append(s.notes, problems...), nil
	w, cleaned := t.window(ctx, len(steps) > 0)
	rows := append(t.notices(problems), cleaned...)
	final, said, err := t.consumeEvents(ctx, stream, w, input, steps)
	rows = append(rows, said...)
	preview, settled := stream.Finish()
	if err != nil {
		t.endFailed(ctx, err, preview)
		return
	}
	rows = append(rows, t.reply(t.answering(), stream.FinalText(final.Text), preview, settled)...)
	m := inbox.Commit{Outcome: inbox.Outcome{Result: inbox.Replied}, Rows: rows}
	t.endUnprocessed(&m)
	if t.commit(ctx, m) {
		t.speak(final.Text)
		t.title(final.Text)
	}
}

// endUnprocessed ends the entries of which the model has not heard: the process died
// after they had joined the turn and before they were given to it.
func (t *turn) endUnprocessed(m *inbox.Commit) {
	for _, e := range t.claim.Entries {
		if e.ID <= t.lastSeen {
			continue
		}
		if m.Outcomes == nil {
			m.Outcomes = make(map[inbox.ID]inbox.Outcome)
		}
		m.Outcomes[e.ID] = inbox.Outcome{Result: inbox.Failed, Reason: "the daemon was restarted before it was read"}
		f := t.draft()
		f.ReplyTo, f.Purpose, f.ReplyToIDs = e.Inbound.ID, chat.PurposeFailure, []string{e.Inbound.ID}
		m.Rows = append(m.Rows, t.runner.opts.Delivery.Render(t.T("⚠️ I was restarted before I could read this message. Send it again."), f)...)
	}
}

// input is the message with which the turn begins: the one that a dead run of
// it recorded, or a new one.
func (t *turn) input(ctx context.Context) (llm.Message, []agent.Step, []string, error) {
	var m llm.Message
	var steps []agent.Step
	for i, raw := range t.claim.Steps {
		var st step
		if err := json.Unmarshal(raw, &st); err != nil {
			return m, nil, nil, fmt.Errorf("step %d: %w", i, err)
		}
		if i == 0 {
			if err := json.Unmarshal(st.Input, &m); err != nil {
				return m, nil, nil, fmt.Errorf("input of the turn: %w", err)
			}
		}
		steps = append(steps, st.Agent)
		t.lastSeen = st.Through
		t.calls = append(t.calls, st.Calls...)
		if st.Engine != nil {
			t.noted = st.Engine
		}
	}
	if len(steps) > 0 {
		t.kept = len(t.calls)
		return m, steps, nil, t.session.account(ctx, t.runner.opts.Store, t.calls)
	}
	t.lastSeen = t.last().ID
	m, problems := t.runner.composeInput(ctx, t.claim.Entries, &t.session.record)
	if said := t.announced(ctx, t.session.record); said != "" {
		m.Blocks = append([]llm.Block{{Type: llm.Text, Text: said}}, m.Blocks...)
	}
	if len(problems) > 1 { // one message: the answer waits until all that is ahead of it is sent
		problems = []string{strings.Join(problems, "\n")}
	}
	return m, nil, problems, nil
}

// begin is what the agent is to do, with what may break its prefix declared.
func (t *turn) begin(ctx context.Context, win *agent.ContextWindow, input llm.Message, steps []agent.Step) agent.Turn {
	run := agent.Turn{
		Prefix: t.session.prefix, Prefill: t.runner.opts.Prefill, Transcript: t.session.transcript, ContextWindow: win,
		Provider: t.session.model.Provider, Model: t.session.model.Model, Effort: t.session.model.Effort, CacheTTL: t.session.model.CacheTTL,
		Session: string(t.session.record.ID), Input: []llm.Message{input}, Steps: steps, Steer: t.steer(ctx),
	}
	if rec := t.session.record; t.runner.opts.CheckTool != nil {
		run.CheckTool = func(tool string) error { return t.runner.opts.CheckTool(rec, t.runner.actorPrincipal(rec.ID), tool) }
	}
	run.User = t.toolUser()
	if d := t.discovery(); d != nil {
		run.AfterTool = func(_ string, input json.RawMessage) string { return d.After(input) }
	}
	if t.runner.opts.Overlay != nil {
		run.Overlay = t.runner.opts.Overlay(t.session.record, t.last()).Render(t.runner.opts.Placement, t.session.model.Reasons())
	}
	t.session.record.UnstoredDigest = t.beside(run.Overlay.System)
	if !run.Overlay.Turn.Empty() && t.session.lastModel != "" {
		t.declare(string(ledger.Overlay)) // that of the turn before is left out now
	}
	if t.session.record.PendingBreak != "" {
		t.declare(t.session.record.PendingBreak)
	}
	return run
}

// leastPrivileged is who may least of those whose words the turn has: what one of them may
// not do is not done because another has spoken too.
func (t *turn) leastPrivileged() access.Principal {
	by := t.first().Principal
	for _, e := range t.claim.Entries {
		if e.Principal.Level < by.Level {
			by = e.Principal
		}
	}
	return by
}

// consumeEvents runs the agent, shows what it says and records its steps.
func (t *turn) consumeEvents(ctx context.Context, stream *delivery.Stream, win *agent.ContextWindow, input llm.Message, steps []agent.Step) (final agent.Final, said []outbox.Row, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	w := t.watch(cancel)
	defer w.stop()
	run := t.begin(ctx, win, input, steps)
	first := len(steps) == 0
	for ev, err := range t.runner.opts.Agent.Run(ctx, run) {
		if err != nil {
			return final, said, err
		}
		w.alive()
		t.absorb()
		switch ev := ev.(type) {
		case agent.Text:
			stream.Write(string(ev))
		case agent.Retracted:
			stream.Retract()
		case agent.Notice:
			said = append(said, t.noticed(ev)...)
		case agent.ToolCall:
			t.part(ctx, stream)
			stream.Progress(t.progress(ev))
			t.trace.Tools = append(t.trace.Tools, ev.Name)
		case agent.ToolFinished:
			t.reportToolCall(ev)
		case agent.Call:
			t.answered(ev)
			t.called(ev)
		case agent.Compacted:
			if err := t.compacted(ev); err != nil {
				return final, said, err
			}
		case agent.ContextLengthLearned:
			if learn := t.runner.opts.Compression.Learn; learn != nil {
				learn(ev.Provider, ev.Model, ev.Window)
			}
		case agent.Record:
			if ev.Step.Final { // the commit that follows keeps the answer
				continue
			}
			if err := t.record(ctx, first, input, ev.Step, w.alive); err != nil {
				return final, said, err
			}
			first = false
		case agent.Final:
			final, t.tokenUsage = ev, ev.Usage
		}
	}
	return final, said, nil
}

// discovery returns what finds project files for the session. One that was read
// from the store knows what its tools' results hold already.
func (t *turn) discovery() Discovery {
	if t.session.found != nil || t.runner.opts.Discover == nil {
		return t.session.found
	}
	d := t.runner.opts.Discover()
	if d == nil {
		return nil
	}
	for _, m := range t.session.transcript.Since(0) {
		for _, b := range m.Blocks {
			if b.Type == llm.ToolResult {
				d.MarkSeen(b.Text)
			}
		}
	}
	t.session.found = d
	return d
}

// record keeps a step. It returns once the step is on disk.
func (t *turn) record(ctx context.Context, first bool, input llm.Message, as agent.Step, alive func()) error {
	st := step{Agent: as, Through: t.lastSeen, Calls: t.calls[t.kept:]}
	if first {
		raw, err := json.Marshal(input)
		if err != nil {
			return fmt.Errorf("input of the turn: %w", err)
		}
		st.Input, st.Session = raw, t.session.record.ID
	}
	if state := t.unkept(); state != nil {
		st.Engine, t.noted = state, state
	}
	raw, err := json.Marshal(st)
	if err != nil {
		return fmt.Errorf("step: %w", err)
	}
	err = t.commitUntilStored(ctx, "record a step", alive, func(ctx context.Context) error {
		return t.runner.opts.Store.RecordStep(ctx, t.claim, t.session.created, raw)
	})
	if err != nil {
		return fmt.Errorf("record step: %w", err)
	}
	t.claim.Steps = append(t.claim.Steps, raw)
	t.kept = len(t.calls)
	return nil
}

// join takes what people have said to the running turn into it.
func (t *turn) join(ctx context.Context) []inbox.Entry {
	if t.runner.opts.Store.Waiting(t.claim.Lane) == 0 {
		return nil
	}
	more, err := t.runner.opts.Store.Join(context.WithoutCancel(ctx), t.claim, true)
	if err != nil || len(more) == 0 {
		return nil
	}
	t.claim.Entries = append(t.claim.Entries, more...)
	t.lastSeen = more[len(more)-1].ID
	t.updateActor()
	return more
}

// steer gives the model what people have said to the running turn.
func (t *turn) steer(ctx context.Context) func() []llm.Block {
	return func() []llm.Block {
		more := t.join(ctx)
		if len(more) == 0 {
			return nil
		}
		m, _ := t.runner.composeInput(ctx, more, &t.session.record)
		return m.Blocks
	}
}

// draft says where the turn's answer goes and what it quotes.
func (t *turn) draft() delivery.Draft {
	e := t.last()
	mode := t.runner.opts.ReplyToMode[e.Inbound.Address.AccountID()]
	f := delivery.Draft{To: e.Inbound.Address, Turn: t.claim.Turn, Role: outbox.Reply, QuoteEveryPart: mode == "all", ReplyToIDs: t.about(nil)}
	if e.Background || mode != "off" && (e.Inbound.Address.Kind != chat.DM || t.claim.Remaining > 0) {
		f.ReplyTo = e.Inbound.ID
	}
	return f
}

// prior is the preview that an earlier run of the turn left.
func (t *turn) prior() outbox.ID {
	if n := len(t.claim.Previews); n > 0 {
		return t.claim.Previews[n-1].ID
	}
	return 0
}

// answering is the draft of the turn's answer.
func (t *turn) answering() delivery.Draft {
	f := t.draft()
	f.Purpose, f.ReplyToIDs, f.Usage = chat.PurposeAnswer, t.about(t.listened), t.cost()
	return f
}

// reply makes the rows of an answer, or of a part of one. The first becomes an
// edit of the preview if there is one; other previews are taken back.
func (t *turn) reply(f delivery.Draft, text string, preview outbox.ID, settled bool) []outbox.Row {
	var files []outbox.Row
	if !t.runner.opts.Delivery.RawMarkdown(f.To) {
		text, files = t.attach(text, f)
	}
	rows := t.runner.opts.Delivery.Render(text, f)
	if strings.TrimSpace(text) == "" { // only files
		rows = nil
	}
	for _, p := range t.claim.Previews {
		if p.ID != preview {
			rows = append(rows, delivery.DeletePreviewRow(t.last().Inbound.Address, t.claim.Turn, p.ID))
		}
	}
	switch {
	case preview == 0:
	case settled && len(rows) > 0:
		rows[0].Replaces = preview
	default:
		rows = append(rows, delivery.DeletePreviewRow(t.last().Inbound.Address, t.claim.Turn, preview))
	}
	return append(rows, files...)
}

// notices are rows for what the person should know besides the answer.
func (t *turn) notices(texts []string) []outbox.Row {
	if t.first().Occurrence != nil { // nobody listens; it is in the log
		return nil
	}
	var rows []outbox.Row
	for _, s := range texts {
		f := t.draft()
		f.Role, f.Quiet = outbox.Notice, true
		rows = append(rows, t.runner.opts.Delivery.Render(s, f)...)
	}
	return rows
}

// noticed logs what the agent met, and tells the person of a fallback, once.
func (t *turn) noticed(n agent.Notice) []outbox.Row {
	t.trace.Notices = append(t.trace.Notices, n.String())
	t.log.Warn("model call", zap.String("notice", n.String()))
	t.reportModelRetry(n)
	if n.Kind == agent.ContextFull {
		t.shrunk(agent.WhyCompression, true, agent.Compaction{})
		return t.notices([]string{t.T("I could not make this long conversation shorter (%v). I go on with it as it is.", n.Err)})
	}
	if n.Fallback == "" {
		return nil
	}
	t.declare(string(ledger.Fallback))
	t.runner.fallbacks.Add(n.Fallback, n.Err)
	return t.notices([]string{t.T("%s answers this time: %s.", n.Fallback, failure.Summary(t.Printer, n.Err))})
}

// A inactivityTimer ends a turn that shows no sign of life, and says that a long one
// still goes on.
type inactivityTimer struct {
	limit     time.Duration
	end, warn *time.Timer
	mu        sync.Mutex // guards what follows; notice sets itself again
	notice    *time.Timer
	over      bool
}

func (t *turn) watch(cancel context.CancelCauseFunc) *inactivityTimer {
	w := &inactivityTimer{limit: t.runner.opts.Inactivity}
	if t.first().Occurrence != nil {
		w.limit = runInactivity
	}
	began := time.Now()
	w.mu.Lock()
	w.notice = time.AfterFunc(stillWorking, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.over {
			return
		}
		if !t.runner.asking.any(t.claim.Lane) { // it waits for the person, who knows
			t.notify(t.T("Still working (%d min). `/stop` ends it.", int(time.Since(began).Minutes())))
		}
		w.notice.Reset(stillWorking)
	})
	w.mu.Unlock()
	if w.limit > 0 {
		w.end = time.AfterFunc(w.limit, func() { cancel(failure.ErrInactive) })
		w.warn = time.AfterFunc(w.limit/2, func() {
			t.notify(t.T("Nothing has happened for %v. I give up after %v.", w.limit/2, w.limit))
		})
	}
	return w
}

func (w *inactivityTimer) alive() {
	if w.limit > 0 {
		w.end.Reset(w.limit)
		w.warn.Reset(w.limit / 2)
	}
}

func (w *inactivityTimer) stop() {
	w.mu.Lock()
	w.over = true // also for a notice whose time has come
	w.notice.Stop()
	w.mu.Unlock()
	if w.limit > 0 {
		w.end.Stop()
		w.warn.Stop()
	}
}

// notify says something by the way, if somebody is there.
func (t *turn) notify(text string) {
	if t.first().Occurrence != nil {
		return
	}
	f := t.draft()
	f.Role, f.Quiet, f.ReplyTo = outbox.Notice, true, ""
	if err := t.runner.opts.Delivery.SendNotice(context.Background(), text, f); err != nil {
		t.log.Error("notice", zap.Error(err))
	}
}
