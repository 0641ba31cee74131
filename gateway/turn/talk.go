package turn

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"hermesd/agent"
	"hermesd/agent/llm"
	"hermesd/agent/prompt"
	"hermesd/gateway/chat"
	"hermesd/gateway/delivery"
	"hermesd/gateway/inbox"
	"hermesd/gateway/outbox"
)

// ErrInactive is the cause with which a turn ends that shows no sign of life.
var ErrInactive = errors.New("turn: no progress")

// A Newer is the cause with which a run is interrupted by a newer message.
type Newer struct{ By inbox.ID }

func (n Newer) Error() string { return "interrupted by " + n.By.String() }

// A Stopped is the cause with which a person stops a run.
type Stopped struct{ By string }

func (s Stopped) Error() string { return "stopped by " + s.By }

const (
	stillWorking = 3 * time.Minute
	restarted    = "I was restarted, working on your message again."
	placeholder  = "Thinking…"
)

// talk leads the claim through the agent to its commit.
func (t *turn) talk(ctx context.Context) {
	t.trace.Began = time.Now()
	t.trace.Resumed = t.c.Crashed
	if err := t.gather(ctx); err != nil {
		t.cut(ctx, err, 0)
		return
	}
	s, err := t.r.use(ctx, t.first(), len(t.c.Steps) > 0)
	switch {
	case err != nil && ctx.Err() != nil:
		t.cut(ctx, context.Cause(ctx), 0)
		return
	case err != nil:
		t.fail(ctx, err)
		return
	}
	defer t.r.sole.leave(s.rec.ID)
	t.s, t.trace.Session = s, string(s.rec.ID)
	before := s.tr.Len()
	input, steps, problems, err := t.input(ctx)
	if err != nil {
		t.fail(ctx, err)
		return
	}
	stream := t.r.o.Delivery.Stream(t.draft(), t.prior())
	switch {
	case t.c.Crashed && t.r.o.RestartNotice:
		stream.Note(restarted)
	case t.r.o.EditFirst:
		stream.Note(placeholder)
	}
	if s.over != "" {
		problems = append([]string{s.over}, problems...)
	}
	rows := t.notices(problems)
	final, said, err := t.listen(ctx, stream, input, steps)
	rows = append(rows, said...)
	preview, settled := stream.Finish()
	if err != nil {
		t.broken(ctx, err, before, preview)
		return
	}
	rows = append(rows, t.reply(final.Text, preview, settled)...)
	m := inbox.Commit{Outcome: inbox.Outcome{Result: inbox.Replied}, Rows: rows}
	t.unheard(&m)
	t.commit(ctx, before, m)
}

// unheard ends the entries of which the model has not heard: the process died
// after they had joined the turn and before they were given to it.
func (t *turn) unheard(m *inbox.Commit) {
	for _, e := range t.c.Entries {
		if e.ID <= t.heard {
			continue
		}
		if m.Outcomes == nil {
			m.Outcomes = make(map[inbox.ID]inbox.Outcome)
		}
		m.Outcomes[e.ID] = inbox.Outcome{Result: inbox.Failed, Why: "the daemon was restarted before it was read"}
		f := t.draft()
		f.ReplyTo = e.In.ID
		m.Rows = append(m.Rows, t.r.o.Delivery.Render("⚠️ I was restarted before I could read this message. Send it again.", f)...)
	}
}

// input is the message with which the turn begins: the one that a dead run of
// it recorded, or a new one.
func (t *turn) input(ctx context.Context) (llm.Message, []agent.Step, []string, error) {
	var m llm.Message
	var steps []agent.Step
	for i, raw := range t.c.Steps {
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
		t.heard = st.Through
	}
	if len(steps) > 0 {
		return m, steps, nil, nil
	}
	t.heard = t.last().ID
	m, problems := t.r.compose(ctx, t.c.Entries, t.s.rec.Shared)
	return m, nil, problems, nil
}

// listen runs the agent, shows what it says and records its steps.
func (t *turn) listen(ctx context.Context, stream *delivery.Stream, input llm.Message, steps []agent.Step) (final agent.Final, said []outbox.Row, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	w := t.watch(cancel)
	defer w.stop()
	run := agent.Turn{
		Prefix: t.s.prefix, Transcript: t.s.tr, Model: t.r.o.Model, Effort: t.r.o.Effort, CacheTTL: t.r.o.CacheTTL,
		Session: string(t.s.rec.ID), Input: []llm.Message{input}, Steps: steps, Steer: t.steer(ctx),
	}
	if t.r.o.Overlay != nil {
		run.Overlay = prompt.NewOverlay(t.r.o.Overlay(t.s.rec, t.last())...)
	}
	first := len(steps) == 0
	for ev, err := range t.r.o.Agent.Run(ctx, run) {
		if err != nil {
			return final, said, err
		}
		w.alive()
		switch ev := ev.(type) {
		case agent.Text:
			stream.Write(string(ev))
		case agent.Retracted:
			stream.Retract()
		case agent.Notice:
			said = append(said, t.noticed(ev)...)
		case agent.ToolCall:
			stream.Retract()
			stream.Progress(t.progress(ev))
			t.trace.Tools = append(t.trace.Tools, ev.Name)
		case agent.Call:
			t.trace.Calls = append(t.trace.Calls, Call{ev.Provider, ev.Model, ev.Took, ev.Usage})
			t.s.rec.PromptTokens = ev.Usage.Prompt()
			t.spent = t.spent.Add(ev.Usage)
		case agent.Record:
			if ev.Step.Final { // the commit that follows keeps the answer
				continue
			}
			if err := t.record(ctx, first, input, ev.Step); err != nil {
				return final, said, err
			}
			first = false
		case agent.Final:
			final, t.spent = ev, ev.Usage
		}
	}
	return final, said, nil
}

// record keeps a step. It returns once the step is on disk.
func (t *turn) record(ctx context.Context, first bool, input llm.Message, as agent.Step) error {
	st := step{Agent: as, Through: t.heard}
	if first {
		raw, err := json.Marshal(input)
		if err != nil {
			return fmt.Errorf("input of the turn: %w", err)
		}
		st.Input = raw
	}
	raw, err := json.Marshal(st)
	if err != nil {
		return fmt.Errorf("step: %w", err)
	}
	if err := t.r.o.Store.RecordStep(context.WithoutCancel(ctx), t.c, t.s.open, raw); err != nil {
		return fmt.Errorf("record step: %w", err)
	}
	t.c.Steps = append(t.c.Steps, raw)
	return nil
}

// steer takes what has come to wait meanwhile into the turn.
func (t *turn) steer(ctx context.Context) func() []llm.Block {
	if t.r.o.Mode != Steer {
		return nil
	}
	return func() []llm.Block {
		more, err := t.r.o.Store.Join(context.WithoutCancel(ctx), t.c)
		if err != nil || len(more) == 0 {
			return nil
		}
		t.c.Entries = append(t.c.Entries, more...)
		t.heard = t.last().ID
		m, _ := t.r.compose(ctx, more, t.s.rec.Shared)
		return m.Blocks
	}
}

// draft says where the turn's answer goes and what it quotes.
func (t *turn) draft() delivery.Draft {
	e := t.last()
	mode := t.r.o.Quote[e.In.From.On()]
	f := delivery.Draft{To: e.In.From, Turn: t.c.Turn, Role: outbox.Reply, All: mode == "all"}
	if mode != "off" && (e.In.From.Kind != chat.DM || t.c.Waiting > 0) {
		f.ReplyTo = e.In.ID
	}
	return f
}

// prior is the preview that an earlier run of the turn left.
func (t *turn) prior() outbox.ID {
	if n := len(t.c.Previews); n > 0 {
		return t.c.Previews[n-1].ID
	}
	return 0
}

// reply makes the rows of an answer. The first becomes an edit of the preview
// if there is one; other previews are taken back.
func (t *turn) reply(text string, preview outbox.ID, settled bool) []outbox.Row {
	rows := t.r.o.Delivery.Render(text, t.draft())
	for _, p := range t.c.Previews {
		if p.ID != preview {
			rows = append(rows, delivery.Gone(t.last().In.From, t.c.Turn, p.ID))
		}
	}
	switch {
	case preview == 0:
	case settled && len(rows) > 0:
		rows[0].Replaces = preview
	default:
		rows = append(rows, delivery.Gone(t.last().In.From, t.c.Turn, preview))
	}
	return rows
}

// notices are rows for what the person should know besides the answer.
func (t *turn) notices(texts []string) []outbox.Row {
	var rows []outbox.Row
	for _, s := range texts {
		f := t.draft()
		f.Role, f.Quiet = outbox.Notice, true
		rows = append(rows, t.r.o.Delivery.Render(s, f)...)
	}
	return rows
}

// noticed logs what the agent met, and tells the person of a fallback, once.
func (t *turn) noticed(n agent.Notice) []outbox.Row {
	t.trace.Notices = append(t.trace.Notices, n.String())
	t.log.Warn("model call", zap.String("notice", n.String()))
	if n.Fallback == "" {
		return nil
	}
	why, _, _ := strings.Cut(sentence(n.Err), ". ") // without what the person could do
	return t.notices([]string{fmt.Sprintf("%s answers this time: %s.", n.Fallback, strings.TrimSuffix(why, "."))})
}

// A watch ends a turn that shows no sign of life, and says that a long one
// still goes on.
type watch struct {
	limit     time.Duration
	end, warn *time.Timer
	mu        sync.Mutex // guards notice, which sets itself again
	notice    *time.Timer
}

func (t *turn) watch(cancel context.CancelCauseFunc) *watch {
	w := &watch{limit: t.r.o.Inactivity}
	began := time.Now()
	w.mu.Lock()
	w.notice = time.AfterFunc(stillWorking, func() {
		t.tell(fmt.Sprintf("Still working (%d min). `/stop` ends it.", int(time.Since(began).Minutes())))
		w.mu.Lock()
		defer w.mu.Unlock()
		w.notice.Reset(stillWorking)
	})
	w.mu.Unlock()
	if w.limit > 0 {
		w.end = time.AfterFunc(w.limit, func() { cancel(ErrInactive) })
		w.warn = time.AfterFunc(w.limit/2, func() {
			t.tell(fmt.Sprintf("Nothing has happened for %v. I give up after %v.", w.limit/2, w.limit))
		})
	}
	return w
}

func (w *watch) alive() {
	if w.limit > 0 {
		w.end.Reset(w.limit)
		w.warn.Reset(w.limit / 2)
	}
}

func (w *watch) stop() {
	w.mu.Lock()
	w.notice.Stop()
	w.mu.Unlock()
	if w.limit > 0 {
		w.end.Stop()
		w.warn.Stop()
	}
}

// tell says something by the way.
func (t *turn) tell(text string) {
	f := t.draft()
	f.Role, f.Quiet, f.ReplyTo = outbox.Notice, true, ""
	if err := t.r.o.Delivery.Say(context.Background(), text, f); err != nil {
		t.log.Error("notice", zap.Error(err))
	}
}
