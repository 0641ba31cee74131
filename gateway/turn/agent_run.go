package turn

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"hermesd/agent"
	"hermesd/agent/llm"
	"hermesd/agent/llm/ledger"
	"hermesd/agent/tool"
	"hermesd/gateway/approval"
	"hermesd/gateway/chat"
	"hermesd/gateway/conversation"
	"hermesd/gateway/delivery"
	"hermesd/gateway/failure"
	"hermesd/gateway/inbox"
	"hermesd/gateway/outbox"
	"hermesd/gateway/reply"
	"hermesd/gateway/session"
	"hermesd/gateway/store"
)

const (
	stillWorkingInterval = 3 * time.Minute
	restartNotice        = "I was restarted, working on your message again."
	placeholder          = "Thinking…"
)

// runAgent runs the agent for the claim and commits the result.
func (c *claim) runAgent(ctx context.Context) {
	c.trace.Started = time.Now()
	c.trace.Resumed = c.Crashed
	if err := c.gatherParts(ctx); err != nil {
		c.endInterrupted(ctx, err)
		return
	}
	s, err := c.acquireSession(ctx)
	t := c.with(ctx, s, err)
	if t == nil {
		return
	}
	defer t.close()
	t.begin()
	t.beginRecall(inboundText(t.claim.Entries))
	t.reply.React(chat.ReactionSeen)
	input, steps, problems, err := t.loadInput(ctx)
	if err != nil {
		t.fail(ctx, err)
		return
	}
	stream := t.reply.Stream()
	switch {
	case t.claim.Crashed && t.runner.parts.Settings.RestartNotice:
		stream.ShowStatus(t.T(restartNotice))
	case t.runner.parts.Settings.EditFirst:
		stream.ShowStatus(t.T(placeholder))
	}
	if s.ResetNotice != "" {
		problems = append([]string{s.ResetNotice}, problems...)
	}
	var modelErr error
	if s.Model, modelErr = t.runner.parts.Agent.Choose(s.Record.Settings); modelErr != nil {
		problems = append(problems, t.T("The model of this conversation cannot be used (%s); %s answers. `/model` chooses another.", t.LocalizeError(modelErr), s.Model.Model))
	}
	problems, s.Notes = append(s.Notes, problems...), nil
	w, texts := t.compaction.Window(ctx, len(steps) > 0)
	t.recalled = t.recall.Await(ctx)
	rows := t.reply.Notices(slices.Concat(problems, texts))
	final, noticeRows, err := t.consumeEvents(ctx, stream, w, input, steps)
	rows = append(rows, noticeRows...)
	preview, settled := stream.Finish()
	if err != nil {
		t.endFailed(ctx, err, preview)
		return
	}
	rows = append(rows, t.reply.Notices(t.memoryNotices())...)
	rows = append(rows, t.reply.Rows(t.reply.AnswerDraft(t.lastSeen, t.tokenUsage), stream.FinalText(final.Text), reply.Preview{ID: preview, Settled: settled}, t.session)...)
	m := store.Turn{End: store.End{Outcome: inbox.Outcome{Result: inbox.Replied}, Rows: rows, Events: t.memoryEvents(final.Text)}}
	t.endUnprocessed(&m.End)
	isFirst := t.session.Stored() == 0
	if t.commit(ctx, m) {
		t.mirrorMemory(isFirst)
		t.speak(final.Text)
		t.generateTitle(isFirst, final.Text)
	}
}

// acquireSession returns the locked session of the turn, once no other turn holds it.
// A resumed turn continues in the session in which it started, even if another one is
// the current session of the conversation now.
func (c *claim) acquireSession(ctx context.Context) (*conversation.Conversation, error) {
	if len(c.Steps) == 0 {
		return c.runner.parts.Sessions.Use(ctx, c.first(), false)
	}
	var first step
	if err := json.Unmarshal(c.Steps[0], &first); err != nil {
		return nil, fmt.Errorf("decode step 0: %w", err)
	}
	if first.Session != "" {
		if s, err := c.runner.parts.Sessions.UseStored(ctx, first.Session); s != nil || err != nil {
			return s, err
		}
	}
	return c.runner.parts.Sessions.Use(ctx, c.first(), true)
}

// endUnprocessed sets the outcome of entries that the model has not received,
// because the process died after they joined the turn and before the next call.
func (t *turn) endUnprocessed(m *store.End) {
	for _, e := range t.claim.Entries {
		if e.ID <= t.lastSeen {
			continue
		}
		if m.Outcomes == nil {
			m.Outcomes = make(map[inbox.ID]inbox.Outcome)
		}
		m.Outcomes[e.ID] = inbox.Outcome{Result: inbox.Failed, Reason: "the daemon was restarted before it was read"}
		f := t.reply.Draft()
		f.ReplyTo, f.Purpose, f.ReplyToIDs = e.Inbound.ID, chat.PurposeFailure, []string{e.Inbound.ID}
		m.Rows = append(m.Rows, t.reply.Delivery.Render(t.T("⚠️ I was restarted before I could read this message. Send it again."), f)...)
	}
}

// loadInput returns the first message of the turn and its completed steps: those
// that an earlier run has recorded, or a new message and no steps. problems are
// texts for the user.
func (t *turn) loadInput(ctx context.Context) (m llm.Message, steps []agent.Step, problems []string, err error) {
	var calls []store.Doc[ledger.Record]
	var engine json.RawMessage
	for i, raw := range t.claim.Steps {
		var st step
		if err := json.Unmarshal(raw, &st); err != nil {
			return m, nil, nil, fmt.Errorf("decode step %d: %w", i, err)
		}
		if i == 0 {
			if err := json.Unmarshal(st.Input, &m); err != nil {
				return m, nil, nil, fmt.Errorf("decode turn input: %w", err)
			}
		}
		steps = append(steps, st.Agent)
		t.lastSeen = st.LastSeen
		calls = append(calls, st.Calls...)
		if st.Engine != nil {
			engine = st.Engine
		}
	}
	if len(steps) > 0 {
		return m, steps, nil, t.runner.parts.Sessions.Resume(ctx, t.session, calls, engine)
	}
	t.lastSeen = t.last().ID
	m, problems = t.composeInput(ctx, t.claim.Entries, &t.session.Record)
	if text := t.announcements(ctx, t.session.Record); text != "" {
		m.Blocks = append([]llm.Block{{Type: llm.Text, Text: text}}, m.Blocks...)
	}
	if len(problems) > 1 { // one message, because the answer waits until all earlier rows are sent
		problems = []string{strings.Join(problems, "\n")}
	}
	return m, nil, problems, nil
}

// newAgentTurn returns the input of Agent.Run, and declares the reasons for which the
// prefix of the first call may break.
func (t *turn) newAgentTurn(ctx context.Context, win *agent.ContextWindow, input llm.Message, steps []agent.Step) agent.Turn {
	run := agent.Turn{
		Prefix: t.session.Prefix, Prefill: t.runner.parts.Settings.Prefill, Transcript: t.session.Transcript, ContextWindow: win,
		Provider: t.session.Model.Provider, Model: t.session.Model.Model, Effort: t.session.Model.Effort, CacheTTL: t.session.Model.CacheTTL,
		Session: string(t.session.Record.ID), Input: []llm.Message{input}, Steps: steps, Steer: t.newSteerFunc(ctx),
	}
	rec := t.session.Record
	run.CheckTool = func(tool string) error {
		actor, _ := t.runner.parts.Agent.Active.Actor(rec.ID)
		return t.runner.parts.Agent.CheckTool(rec, actor.Principal, tool)
	}
	run.User = t.newUserChannel()
	found := t.discovery()
	run.AfterTool = func(_ string, input json.RawMessage) string { return found.After(input) }
	overlay := t.runner.parts.Agent.Overlay(t.session.Record, t.last())
	overlay.Recall = t.recalled
	run.Overlay = overlay.Render(t.runner.parts.Settings.Placement, t.session.Model.Reasons())
	t.session.DeclareUnstored(t.runner.parts.Settings.Prefill, run.Overlay.System)
	if !run.Overlay.Turn.Empty() && t.session.HasCalls() {
		t.session.DeclareBreak(string(ledger.Overlay)) // the overlay of the previous turn is removed
	}
	if t.session.Record.PendingBreak != "" {
		t.session.DeclareBreak(t.session.Record.PendingBreak)
	}
	return run
}

// consumeEvents runs the agent, streams its text and records its steps. It returns
// the final answer, and rows for notices of the agent.
func (t *turn) consumeEvents(ctx context.Context, stream *delivery.Stream, win *agent.ContextWindow, input llm.Message, steps []agent.Step) (final agent.Final, notices []outbox.Row, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	w := t.startInactivityTimer(cancel)
	defer w.stop()
	first := len(steps) == 0
	if first { // otherwise it is stored already
		input = t.runner.parts.Agent.Agent.MaskMessage(input)
	}
	run := t.newAgentTurn(ctx, win, input, steps)
	for ev, err := range t.runner.parts.Agent.Agent.Run(ctx, run) {
		if err != nil {
			return final, notices, err
		}
		w.touch()
		t.absorbReplies()
		switch ev := ev.(type) {
		case agent.Text:
			stream.Write(string(ev))
		case agent.Retracted:
			stream.Retract()
		case agent.Notice:
			notices = append(notices, t.handleNotice(ev)...)
		case agent.ToolCall:
			t.reply.SendPreamble(ctx, stream, t.session)
			stream.Progress(t.reply.ProgressLine(ev, t.trace.Tools, t.session))
			t.trace.Tools = append(t.trace.Tools, ev.Name)
		case agent.ToolFinished:
			t.reportToolCall(ev)
		case agent.Call:
			t.reportModelCall(ev)
			t.recordCall(ev)
		case agent.Compacted:
			if err := t.recordCompaction(ev); err != nil {
				return final, notices, err
			}
			if text := strings.TrimSpace(t.compaction.Note(ev.Compaction)); text != "" && ev.Reason == agent.WhyCompression {
				notices = append(notices, t.reply.Notices([]string{text})...)
			}
		case agent.ContextLengthLearned:
			t.runner.parts.Compactor.Options.Learn(ev.Provider, ev.Model, ev.Window)
		case agent.Record:
			if ev.Step.Final { // the following commit stores the answer
				continue
			}
			if err := t.recordStep(ctx, first, input, ev.Step, w.touch); err != nil {
				return final, notices, err
			}
			first = false
		case agent.Final:
			final, t.tokenUsage = ev, ev.Usage
		}
	}
	return final, notices, nil
}

// discovery returns the session's Discovery. A new one is told which project files are
// already in tool results of the transcript.
func (t *turn) discovery() conversation.Discovery {
	if t.session.Discovery != nil {
		return t.session.Discovery
	}
	d := t.runner.parts.Agent.Discover(t.session.Model.Window)
	for _, m := range t.session.Transcript.Since(0) {
		for _, b := range m.Blocks {
			if b.Type == llm.ToolResult {
				d.MarkSeen(b.Text)
			}
		}
	}
	t.session.Discovery = d
	return d
}

// recordStep stores a step. It returns once the step is on disk, and calls touch
// while it waits for the store.
func (t *turn) recordStep(ctx context.Context, first bool, input llm.Message, agentStep agent.Step, touch func()) error {
	st := step{Agent: agentStep, LastSeen: t.lastSeen, Calls: t.session.UnrecordedCalls()}
	if first {
		raw, err := json.Marshal(input)
		if err != nil {
			return fmt.Errorf("encode turn input: %w", err)
		}
		st.Input, st.Session = raw, t.session.Record.ID
	}
	if state := t.runner.parts.Sessions.UnsavedEngine(t.session); state != nil {
		st.Engine, t.session.Engine.Recorded = state, state
	}
	raw, err := json.Marshal(st)
	if err != nil {
		return fmt.Errorf("encode step: %w", err)
	}
	err = t.writeUntilStored(ctx, "cannot record step", touch, func(ctx context.Context) error {
		return t.runner.parts.Store.RecordStep(ctx, t.Claim, store.Step{Create: t.session.Creation(), Doc: raw})
	})
	if err != nil {
		return fmt.Errorf("record step: %w", err)
	}
	t.claim.Steps = append(t.claim.Steps, raw)
	t.session.CallsRecorded()
	return nil
}

// joinEntries adds the entries that steer the running turn to its claim and returns
// them.
func (t *turn) joinEntries(ctx context.Context) []inbox.Entry {
	if t.runner.parts.Store.Waiting(t.claim.Lane) == 0 {
		return nil
	}
	more, err := t.runner.parts.Store.Join(context.WithoutCancel(ctx), t.Claim, true)
	if err != nil || len(more) == 0 {
		return nil
	}
	t.addEntries(more)
	t.lastSeen = more[len(more)-1].ID
	t.runner.parts.Agent.Active.Set(t.session.Record.ID, t.Claim)
	return more
}

// newSteerFunc returns a function that returns the content of new steering entries
// for the model.
func (t *turn) newSteerFunc(ctx context.Context) func() []llm.Block {
	return func() []llm.Block {
		more := t.joinEntries(ctx)
		if len(more) == 0 {
			return nil
		}
		m, _ := t.composeInput(ctx, more, &t.session.Record)
		return m.Blocks
	}
}

// handleNotice logs a notice of the agent. It returns rows for the user if the model
// changed or the context cannot be compacted.
func (t *turn) handleNotice(n agent.Notice) []outbox.Row {
	t.trace.Notices = append(t.trace.Notices, n.String())
	t.log.Warn("agent notice", zap.String("notice", n.String()))
	t.reportModelRetry(n)
	if n.Kind == agent.ContextFull {
		t.compaction.Report(agent.WhyCompression, true, agent.Compaction{})
		return t.reply.Notices([]string{t.T("I could not make this long conversation shorter (%v). I go on with it as it is.", n.Err)})
	}
	if n.Fallback == "" {
		return nil
	}
	t.session.DeclareBreak(string(ledger.Fallback))
	t.runner.parts.Agent.Usage.FellBack(n.Fallback, n.Err)
	return t.reply.Notices([]string{t.T("%s answers this time: %s.", n.Fallback, failure.Summary(t.Printer, n.Err))})
}

// An inactivityTimer cancels a turn that makes no progress for limit, warns the user
// after half of it, and reports every stillWorkingInterval that a turn still runs.
type inactivityTimer struct {
	limit     time.Duration
	end, warn *time.Timer
	mu        sync.Mutex // guards what follows; notice restarts itself
	notice    *time.Timer
	stopped   bool
}

func (t *turn) startInactivityTimer(cancel context.CancelCauseFunc) *inactivityTimer {
	w := &inactivityTimer{limit: t.runner.parts.Settings.Inactivity}
	if t.first().Occurrence != nil {
		w.limit = runInactivity
	}
	start := time.Now()
	w.mu.Lock()
	w.notice = time.AfterFunc(stillWorkingInterval, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.stopped {
			return
		}
		if !t.runner.parts.Chat.Approval.Questions.HasPending(t.claim.Lane) { // else it waits for the user, who knows
			t.reply.Notify(t.T("Still working (%d min). `/stop` ends it.", int(time.Since(start).Minutes())))
		}
		w.notice.Reset(stillWorkingInterval)
	})
	w.mu.Unlock()
	if w.limit > 0 {
		w.end = time.AfterFunc(w.limit, func() { cancel(failure.ErrInactive) })
		w.warn = time.AfterFunc(w.limit/2, func() {
			t.reply.Notify(t.T("Nothing has happened for %v. I give up after %v.", w.limit/2, w.limit))
		})
	}
	return w
}

func (w *inactivityTimer) touch() {
	if w.limit > 0 {
		w.end.Reset(w.limit)
		w.warn.Reset(w.limit / 2)
	}
}

func (w *inactivityTimer) stop() {
	w.mu.Lock()
	w.stopped = true // for a notice function that waits for mu
	w.notice.Stop()
	w.mu.Unlock()
	if w.limit > 0 {
		w.end.Stop()
		w.warn.Stop()
	}
}

// A userChannel connects the turn's tools to the users of the chat.
type userChannel struct {
	turn  *turn
	entry inbox.Entry
	at    approval.Turn
}

func (t *turn) newUserChannel() userChannel {
	c, e := t.runner.parts.Chat, t.last()
	return userChannel{t, e, approval.Turn{
		Session: t.session.Record.ID, Lane: t.claim.Lane, Entry: e, Draft: t.reply.Draft(),
		Unattended: c.Reply.Accounts.Profile(e.Inbound.Address.Platform).Unattended, Join: t.joinAnswer,
	}}
}

// Ask implements tool.UserChannel.
func (u userChannel) Ask(ctx context.Context, q tool.Question) (tool.Answer, error) {
	return u.turn.runner.parts.Chat.Approval.Ask(ctx, u.at, q)
}

// Approve implements tool.UserChannel.
func (u userChannel) Approve(ctx context.Context, r tool.ApprovalRequest) error {
	return u.turn.runner.parts.Chat.Approval.Approve(ctx, u.at, r)
}

// Send implements tool.UserChannel.
func (u userChannel) Send(ctx context.Context, m tool.Message) (string, error) {
	return u.turn.reply.SendMessage(ctx, u.entry, m, u.turn.session)
}

// joinAnswer joins the new entries of the lane to the turn and returns their text.
func (t *turn) joinAnswer(ctx context.Context) string {
	more, err := t.runner.parts.Store.Join(context.WithoutCancel(ctx), t.Claim, true)
	if err != nil {
		t.log.Error("cannot join answer", zap.Error(err))
		return ""
	}
	t.runner.runs.Add(t.claim.Lane, more...)
	t.repliesMu.Lock()
	t.replies = append(t.replies, more...)
	t.repliesMu.Unlock()
	var texts []string
	for _, e := range more {
		text, _, _ := t.runner.parts.Chat.Input.Entry(ctx, e, &session.Record{ID: t.session.Record.ID}, false)
		texts = append(texts, text)
	}
	return strings.Join(texts, "\n")
}

// absorbReplies adds the entries of replies to the claim.
func (t *turn) absorbReplies() {
	t.repliesMu.Lock()
	defer t.repliesMu.Unlock()
	for _, e := range t.replies {
		t.claim.Entries = append(t.claim.Entries, e)
		t.lastSeen = max(t.lastSeen, e.ID)
	}
	if len(t.replies) > 0 {
		t.runner.parts.Agent.Active.Set(t.session.Record.ID, t.Claim)
	}
	t.replies = nil
}
