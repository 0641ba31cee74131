package turn

import (
	"context"
	"strings"
	"time"

	"go.uber.org/zap"

	"hermesd/agent/llm"
	"hermesd/gateway/chat"
	"hermesd/gateway/delivery"
	"hermesd/gateway/failure"
	"hermesd/gateway/i18n"
	"hermesd/gateway/inbox"
	"hermesd/gateway/outbox"
	"hermesd/gateway/schedule"
	"hermesd/gateway/session"
)

// Scheduled is what the gateway knows of scheduled runs.
type Scheduled interface {
	// Prepare returns what the run of a slot is to do. A run that is resumed has
	// read its input already.
	Prepare(ctx context.Context, slot schedule.OccurrenceID, resumed bool) (PreparedRun, error)
	// Targets are where the run's answer goes, none for nowhere.
	Targets(ctx context.Context, slot schedule.OccurrenceID) []chat.Address
	// RunEnded is told that the run of a slot is over. It must not wait.
	RunEnded(slot schedule.OccurrenceID)
	// RunDelivered keeps what a run says to a place, so that a conversation there can
	// go on from it.
	RunDelivered(ctx context.Context, slot schedule.OccurrenceID, name, text string, to []chat.Address)
	// Announcements returns what was said at a place outside of its conversation since
	// then, for the next turn there; "" mostly.
	Announcements(ctx context.Context, at chat.Address, since time.Time) string
}

// A PreparedRun is one run of a scheduled prompt.
type PreparedRun struct {
	Name  string
	Input string // what the agent is told
	// Done says that there is nothing for the agent: Say is the answer, and "" is
	// silence.
	Done bool
	Say  string
	// Settings choose the model.
	Settings session.Settings
	// Keep writes the answer where it can be read without a chat.
	Keep func(answer string) error
}

// runInactivity is how long a scheduled run may show no progress.
const runInactivity = 10 * time.Minute

// silentReplies are answers of a run that mean: nobody is told anything.
func silentReplies(answer string) bool {
	switch strings.TrimSpace(answer) {
	case "", "[SILENT]", "NO_REPLY":
		return true
	}
	return false
}

// scheduled leads a scheduled run through the agent to its commit.
func (t *turn) scheduled(ctx context.Context) {
	slot := *t.first().Occurrence
	t.trace.Started, t.trace.Resumed = time.Now(), t.claim.Crashed
	run, err := t.runner.opts.Scheduled.Prepare(ctx, slot, len(t.claim.Steps) > 0)
	if err != nil {
		t.unprepared(ctx, err)
		return
	}
	s, err := t.runner.lockSession(ctx, t.first(), true)
	if err != nil {
		t.unprepared(ctx, err)
		return
	}
	defer t.runner.locks.release(s.record.ID)
	defer t.runner.active.remove(s.record.ID)
	t.session, t.trace.Session, t.stored = s, string(s.record.ID), s.transcript.Len()
	t.updateActor()
	if s.created != nil {
		s.record.Title, s.record.Settings = run.Name, run.Settings
		s.created.Record.Title, s.created.Record.Settings = run.Name, run.Settings
	}
	if run.Done {
		t.session = nil // no conversation comes of it
		t.announce(ctx, run, run.Say)
		return
	}
	answer, err := t.work(ctx, run)
	if err != nil {
		t.endFailed(ctx, err, 0)
		return
	}
	t.announce(ctx, run, answer)
}

// unprepared ends a run that could not even begin.
func (t *turn) unprepared(ctx context.Context, err error) {
	if ctx.Err() != nil {
		t.endInterrupted(ctx, context.Cause(ctx))
		return
	}
	t.fail(ctx, err)
}

// work has the agent do what the run says, and returns its answer.
func (t *turn) work(ctx context.Context, run PreparedRun) (string, error) {
	input, steps, _, err := t.input(ctx)
	if err != nil {
		return "", err
	}
	if len(steps) == 0 {
		input = llm.Message{Role: llm.User, Blocks: []llm.Block{{Type: llm.Text, Text: run.Input}}}
	}
	var wrong error
	if t.session.model, wrong = t.runner.choose(t.session.record.Settings); wrong != nil {
		return "", &failure.JobError{Err: i18n.Errorf("Its model cannot be used (%v). Have it changed: `hermesd cron edit %s`.", wrong, string(t.first().Occurrence.Job))}
	}
	w, _ := t.window(ctx, len(steps) > 0)
	stream := t.runner.opts.Delivery.Stream(t.draft(), 0)
	final, _, err := t.consumeEvents(ctx, stream, w, input, steps)
	stream.Finish()
	return final.Text, err
}

// announce ends a run with its answer.
func (t *turn) announce(ctx context.Context, run PreparedRun, answer string) {
	slot := *t.first().Occurrence
	if run.Keep != nil && strings.TrimSpace(answer) != "" {
		if err := run.Keep(answer); err != nil {
			t.log.Error("keep the output of a scheduled run", zap.Error(err))
		}
	}
	if silentReplies(answer) {
		t.commit(ctx, inbox.Commit{Outcome: inbox.Outcome{Result: inbox.Silent, Reason: "[SILENT]"}})
		return
	}
	to := t.runner.opts.Scheduled.Targets(ctx, slot)
	var rows []outbox.Row
	for _, at := range to {
		f := delivery.Draft{To: at, Turn: t.claim.Turn, Role: outbox.Reply, Purpose: chat.PurposeAnswer}
		text, files := t.attach(answer, f)
		if strings.TrimSpace(text) != "" {
			rows = append(rows, t.runner.opts.Delivery.Render(text, f)...)
		}
		rows = append(rows, files...)
	}
	if len(to) > 0 { // ahead of the commit: somebody may answer at once
		t.runner.opts.Scheduled.RunDelivered(context.WithoutCancel(ctx), slot, run.Name, answer, to)
	}
	t.commit(ctx, inbox.Commit{Outcome: inbox.Outcome{Result: inbox.Replied}, Rows: rows})
}

// render makes the rows of what the turn says besides its answer: a scheduled run
// says it where its answer goes.
func (t *turn) render(text string, f delivery.Draft) []outbox.Row {
	slot := t.first().Occurrence
	if slot == nil {
		return t.runner.opts.Delivery.Render(text, f)
	}
	var rows []outbox.Row
	for _, at := range t.runner.opts.Scheduled.Targets(context.Background(), *slot) {
		f.To, f.ReplyTo = at, ""
		rows = append(rows, t.runner.opts.Delivery.Render(t.T("⏰ Scheduled prompt `%s`: %s", slot.Job, text), f)...)
	}
	return rows
}

// announced is what scheduled runs have said to the chat of the turn since the
// session last listened.
func (t *turn) announced(ctx context.Context, rec session.Record) string {
	if t.runner.opts.Scheduled == nil || t.first().Occurrence != nil {
		return ""
	}
	var since time.Time
	if rec.Turns > 0 {
		since = rec.Updated
	}
	if since.After(time.Now()) { // the clock was set back: rather twice than never
		since = time.Time{}
	}
	return t.runner.opts.Scheduled.Announcements(ctx, t.last().Inbound.Address, since)
}
