package turn

import (
	"context"
	"strings"
	"time"

	"go.uber.org/zap"

	"hermesd/agent/llm"
	"hermesd/gateway/access"
	"hermesd/gateway/chat"
	"hermesd/gateway/failure"
	"hermesd/gateway/i18n"
	"hermesd/gateway/inbox"
	"hermesd/gateway/schedule"
	"hermesd/gateway/session"
	"hermesd/gateway/store"
)

// Scheduled provides the data of scheduled runs. Its methods may be called from any
// goroutine.
type Scheduled interface {
	// Prepare returns the input of the run of an occurrence. A resumed run has its input
	// already.
	Prepare(ctx context.Context, occurrence schedule.OccurrenceID, resumed bool) (PreparedRun, error)
	// RunEnded is called when the run of an occurrence has ended. It must not block.
	RunEnded(occurrence schedule.OccurrenceID)
	// RunDelivered stores the answer of a run of a job of creator for the addresses that
	// get it, so that the next turns of the creator there can refer to it.
	RunDelivered(ctx context.Context, creator access.Principal, name, text string, to []chat.Address)
	// Announcements returns a text with the answers of runs that were sent to an address
	// after since, for the next turn there, as far as all readers may read them; "" if
	// there are none.
	Announcements(ctx context.Context, address chat.Address, since time.Time, readers []access.Principal) string
}

// A PreparedRun is one run of a scheduled prompt.
type PreparedRun struct {
	Name  string
	Input string // text for the agent
	// Done reports whether the run needs no agent: Say is the answer, or "" for none.
	Done bool
	Say  string
	// Settings choose the model of the run.
	Settings session.Settings
	// Keep writes the answer to a file of the job.
	Keep func(answer string) error
}

// runInactivity is how long a scheduled run may show no progress.
const runInactivity = 10 * time.Minute

// isSilentReply reports whether an answer of a run means that nothing is sent.
func isSilentReply(answer string) bool {
	switch strings.TrimSpace(answer) {
	case "", "[SILENT]", "NO_REPLY":
		return true
	}
	return false
}

// runScheduled executes a scheduled run and commits its result.
func (c *claim) runScheduled(ctx context.Context) {
	c.trace.Started, c.trace.Resumed = time.Now(), c.Crashed
	run, err := c.runner.parts.Work.Scheduled.Prepare(ctx, *c.first().Occurrence, len(c.Steps) > 0)
	if err != nil {
		c.endEarly(ctx, err)
		return
	}
	t := c.use(ctx, true)
	if t == nil {
		return
	}
	defer t.close()
	t.begin()
	t.session.Configure(run.Name, run.Settings)
	if run.Done { // the conversation is not stored
		c.finish(ctx, store.Finish{End: t.answerRun(ctx, run, run.Say)})
		return
	}
	t.beginRecall(run.Input)
	answer, err := t.runScheduledAgent(ctx, run)
	if err != nil {
		t.endFailed(ctx, err, 0)
		return
	}
	t.commit(ctx, store.Turn{End: t.answerRun(ctx, run, answer)})
}

// runScheduledAgent runs the agent with the input of the run and returns its answer.
func (t *turn) runScheduledAgent(ctx context.Context, run PreparedRun) (string, error) {
	input, steps, _, err := t.loadInput(ctx)
	if err != nil {
		return "", err
	}
	if len(steps) == 0 {
		input = llm.Message{Role: llm.User, Blocks: []llm.Block{{Type: llm.Text, Text: run.Input}}}
	}
	var modelErr error
	if t.session.Model, modelErr = t.runner.parts.Agent.Choose(t.session.Record.Settings); modelErr != nil {
		return "", &failure.JobError{Err: i18n.Errorf("Its model cannot be used (%v). Have it changed: `hermesd cron edit %s`.", modelErr, string(t.first().Occurrence.Job))}
	}
	w, _ := t.compaction.Window(ctx, len(steps) > 0)
	t.recalled = t.recall.Await(ctx)
	stream := t.reply.Delivery.Stream(t.reply.Draft(), 0, nil)
	final, _, err := t.consumeEvents(ctx, stream, w, input, steps)
	stream.Finish()
	return final.Text, err
}

// answerRun returns the end of a run with its answer, for its targets.
func (t *turn) answerRun(ctx context.Context, run PreparedRun, answer string) store.End {
	if strings.TrimSpace(answer) != "" {
		if err := run.Keep(answer); err != nil {
			t.log.Error("cannot save output of scheduled run", zap.Error(err))
		}
	}
	if isSilentReply(answer) {
		return store.End{Outcome: inbox.Outcome{Result: inbox.Silent, Reason: "[SILENT]"}}
	}
	rows, to := t.reply.ToTargets(ctx, answer, t.session)
	if len(to) > 0 { // before the commit, because a user may answer at once
		t.runner.parts.Work.Scheduled.RunDelivered(context.WithoutCancel(ctx), t.first().Grant.Principal(), run.Name, answer, to)
	}
	return store.End{Outcome: inbox.Outcome{Result: inbox.Replied}, Rows: rows}
}

// announcements returns a text with the answers of scheduled runs that were sent to
// the chat since the last turn of the session, "" if there are none.
func (t *turn) announcements(ctx context.Context, rec session.Record) string {
	if t.first().Occurrence != nil {
		return ""
	}
	var since time.Time
	if rec.Turns > 0 {
		since = rec.Updated
	}
	if since.After(time.Now()) { // the clock was set back: repeating them is better than losing them
		since = time.Time{}
	}
	var authors []access.Principal
	for _, e := range t.claim.Entries {
		authors = append(authors, e.Grant.Principal())
	}
	return t.runner.parts.Work.Scheduled.Announcements(ctx, t.last().Inbound.Address, since, authors)
}
