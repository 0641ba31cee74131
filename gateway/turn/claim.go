package turn

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"go.uber.org/zap"

	"hermesd/agent"
	"hermesd/gateway/active"
	"hermesd/gateway/command"
	"hermesd/gateway/conversation"
	"hermesd/gateway/failure"
	"hermesd/gateway/i18n"
	"hermesd/gateway/inbox"
	"hermesd/gateway/lane"
	"hermesd/gateway/observe"
	"hermesd/gateway/outbox"
	"hermesd/gateway/reply"
	"hermesd/gateway/store"
)

// A claim is the processing of claimed entries, from their claim to their end. It has no
// conversation: what it commits is a store.Finish.
type claim struct {
	i18n.Printer // translates texts for users
	store.Claim
	runner      *Runner
	log         *zap.Logger
	reply       *reply.Reply
	trace       store.Trace
	refusals    int            // commits that failed with store.ErrConflict
	hasMoreWork bool           // the lane must be woken again
	result      observe.Result // "" until committed
}

func (r *Runner) newClaim(in store.Claim) *claim {
	if _, _, ok := command.Parse(in.Entries[0].Inbound.Text); !ok && !in.Lane.Immediate() { // a command may have been edited into a message
		in.Entries[0].Exclusive = false
	}
	log := r.parts.Settings.Log.With(zap.String("turn", in.Turn), zap.String("session", string(in.Entries[0].Session)))
	c := &claim{runner: r, Claim: in, Printer: r.parts.Settings.Printer, log: log}
	c.reply = r.parts.Chat.Reply.Reply(&c.Claim, log)
	return c
}

func (c *claim) first() inbox.Entry { return c.Entries[0] }
func (c *claim) last() inbox.Entry  { return c.Entries[len(c.Entries)-1] }

// addEntries adds entries that have joined the claim.
func (c *claim) addEntries(more []inbox.Entry) {
	c.Entries = append(c.Entries, more...)
	c.runner.runs.Add(c.Lane, more...)
}

// run processes the claim and recovers from panics: the user gets a failure message, and
// the daemon continues.
func (c *claim) run(ctx context.Context) {
	defer func() {
		if p := recover(); p != nil {
			c.log.Error("panic in a turn", zap.Any("panic", p), zap.ByteString("stack", debug.Stack()))
			c.fail(ctx, fmt.Errorf("panic: %v", p))
		}
	}()
	settings := c.runner.parts.Settings
	switch e := c.first(); {
	case e.IsGuilty():
		c.quarantine(ctx)
	case e.Exclusive:
		c.runCommand(ctx)
	case c.Crashed && c.isSuspended(ctx):
		c.endTooOld(ctx, failure.Suspended)
	case c.Crashed && time.Since(e.Accepted) > settings.Freshness:
		c.endTooOld(ctx, failure.Interrupted)
	case settings.Backlog > 0 && c.runner.messageAge(e) > settings.Backlog && !c.Crashed:
		c.endTooOld(ctx, failure.TooOld)
	case e.Occurrence != nil:
		c.runScheduled(ctx)
	default:
		c.runAgent(ctx)
	}
}

// messageAge returns the age of a message by the clock of its platform.
func (r *Runner) messageAge(e inbox.Entry) time.Duration {
	age := time.Since(e.Inbound.SentAt)
	if e.Occurrence == nil {
		age -= r.parts.Chat.Reply.Accounts.ClockAhead(e.Inbound.Address.AccountID())
	}
	return age
}

// maxConsecutiveCrashes is the number of consecutive crashes during turns of a session
// after which an interrupted turn of it is not resumed.
const maxConsecutiveCrashes = 3

// isSuspended reports whether so many consecutive crashes happened during turns of the
// session that the turn must not be resumed.
func (c *claim) isSuspended(ctx context.Context) bool {
	rec, ok, err := c.runner.parts.Store.Session(ctx, c.first().Session)
	return err == nil && ok && rec.Crashes >= maxConsecutiveCrashes
}

// use returns the turn of the claim with its conversation, once no other turn has that; see
// conversation.Book.Use. If there is none it ends the claim and returns nil.
func (c *claim) use(ctx context.Context, resumed bool) *turn {
	s, err := c.runner.parts.Sessions.Use(ctx, c.first(), resumed)
	return c.with(ctx, s, err)
}

// with returns the turn of the claim with the conversation s, or ends the claim because of
// err and returns nil.
func (c *claim) with(ctx context.Context, s *conversation.Conversation, err error) *turn {
	if err != nil {
		c.endEarly(ctx, err)
		return nil
	}
	return c.newTurn(s)
}

// replied returns the end of a claim that is answered with text.
func (c *claim) replied(text string) store.End {
	return store.End{Outcome: inbox.Outcome{Result: inbox.Replied}, Rows: c.reply.Answer(text)}
}

// failed returns the end of a claim that failed with err.
func (c *claim) failed(err error) store.End {
	c.trace.Error = err.Error()
	return c.failedWith(fmt.Sprintf("⚠️ %s (ref %s)", c.reply.ErrorText(c.Printer, err), c.Turn), c.reply.ErrorText(i18n.Printer{}, err))
}

// failedWith returns the end of a claim that failed for reason, with a text for the user.
func (c *claim) failedWith(text, reason string) store.End {
	return store.End{Outcome: inbox.Outcome{Result: inbox.Failed, Reason: reason}, Rows: c.reply.Failure(text)}
}

// stopped returns the end of a claim that a user has stopped.
func (c *claim) stopped(by active.StoppedError) store.End {
	return store.End{Outcome: inbox.Outcome{Result: inbox.Cancelled, Reason: by.Person}, Rows: c.reply.DeletePreviews()}
}

// fail ends a claim that failed outside of a run of the agent.
func (c *claim) fail(ctx context.Context, err error) {
	if errors.Is(err, store.ErrStale) {
		c.logStale(err)
		return
	}
	c.log.Error("turn failed", zap.Error(err))
	c.finish(ctx, store.Finish{End: c.failed(err)})
}

// endEarly ends a claim that failed with err, or was canceled, before it changed a
// conversation.
func (c *claim) endEarly(ctx context.Context, err error) {
	if ctx.Err() != nil {
		c.endInterrupted(ctx, context.Cause(ctx))
		return
	}
	c.fail(ctx, err)
}

// quarantine ends a claim whose entries have crashed the process repeatedly.
func (c *claim) quarantine(ctx context.Context) {
	c.log.Error("entry quarantined", zap.Stringer("entry", c.first().ID), zap.Int("crashes", c.first().Crashes))
	text := c.T("⚠️ I stopped processing this message because the daemon crashed %d times while handling it. You can send it again in different words. (ref %s)", c.first().Crashes, c.Turn)
	if n := len(c.Entries); n > 1 {
		text = c.T("⚠️ I stopped processing these %d messages because the daemon crashed %d times while handling them. You can send them again in different words. (ref %s)", n, c.first().Crashes, c.Turn)
	}
	if occurrence := c.first().Occurrence; occurrence != nil {
		text = c.T("⚠️ I stopped this run because the daemon crashed %d times during it. `/cron run %s` starts a new run. (ref %s)", c.first().Crashes, string(occurrence.Job), c.Turn)
	}
	c.finish(ctx, store.Finish{End: c.failedWith(text, "set aside")})
}

// endTooOld ends a claim that is abandoned for reason. The message stays in its
// conversation; a scheduled run leaves nothing there.
func (c *claim) endTooOld(ctx context.Context, reason failure.AbandonReason) {
	if occurrence := c.first().Occurrence; occurrence != nil {
		c.finish(ctx, store.Finish{End: c.failedWith(reason.Job(c.Printer, occurrence.Job), "too late")})
		return
	}
	t := c.use(ctx, false)
	if t == nil {
		return
	}
	defer t.close()
	m, _ := c.composeInput(ctx, c.Entries, &t.session.Record)
	agent.Close(t.session.Transcript, "")
	t.session.Transcript.Append(c.runner.parts.Agent.Agent.MaskMessage(m))
	agent.Close(t.session.Transcript, "[Not answered: it came while the daemon was away.]")
	t.commit(ctx, store.Turn{End: c.failedWith(reason.Message(c.Printer, len(c.Entries)), "too late")})
}

// endInterrupted ends a claim that was canceled with cause before it changed a
// conversation.
func (c *claim) endInterrupted(ctx context.Context, cause error) {
	c.endCanceled(ctx, c.stopCause(cause, true))
}

// stopCause returns the cause of a canceled run: a stop has precedence over the newer
// message that has interrupted the run first. release says that the run otherwise gives
// its entries back.
func (c *claim) stopCause(cause error, release bool) error {
	if _, ok := errors.AsType[active.SupersededError](cause); ok {
		if stop := c.runner.runs.StopCause(c.Lane, release); stop != nil {
			return stop
		}
	}
	return cause
}

func (c *claim) endCanceled(ctx context.Context, cause error) {
	_, superseded := errors.AsType[active.SupersededError](cause)
	by, stopped := errors.AsType[active.StoppedError](cause)
	switch {
	case errors.Is(cause, lane.ErrClosed):
		c.release(ctx)
		c.hasMoreWork = false
	case stopped:
		c.finish(ctx, store.Finish{End: c.stopped(by)})
	case superseded:
		c.release(ctx)
	default:
		c.fail(ctx, cause)
	}
}

// release releases the claim, so that its entries wait again. Only steps that are on disk
// remain of the run.
func (c *claim) release(ctx context.Context) {
	c.hasMoreWork = true
	if len(c.Steps) == 0 {
		if _, err := c.reply.Delivery.Enqueue(context.WithoutCancel(ctx), c.reply.DeletePreviews()...); err != nil {
			c.log.Error("cannot delete preview", zap.Error(err))
		}
	}
	// A claim that is not released blocks its lane until the lease expires.
	err := c.writeUntilStored(context.WithoutCancel(ctx), "cannot release claim", func() {}, func(ctx context.Context) error { return c.runner.parts.Store.Release(ctx, c.Claim) })
	if errors.Is(err, store.ErrConflict) {
		c.log.Error("cannot release claim", zap.Error(err))
	}
}

// finish commits m, which has no conversation; see commit. It reports whether m is
// committed.
func (c *claim) finish(ctx context.Context, m store.Finish) bool {
	m.Trace = c.encodeTrace()
	rows, ok := c.end(ctx, m.Outcome, func(ctx context.Context) ([]outbox.Row, error) {
		return c.runner.parts.Store.FinishTurn(ctx, c.Claim, m)
	})
	if !ok {
		return false
	}
	c.ended(m.Outcome, rows)
	c.wakeMemory(m.Events)
	if m.Rebuild != nil {
		c.runner.parts.Settings.OnSessionChanged(m.Rebuild.Session)
	}
	return true
}

// end ends the claim by write. It retries until the store accepts or refuses that, or the
// daemon stops. If the end is not stored, ok is false and nothing else is to be done.
func (c *claim) end(ctx context.Context, o inbox.Outcome, write func(context.Context) ([]outbox.Row, error)) (rows []outbox.Row, ok bool) {
	err := c.writeUntilStored(context.WithoutCancel(ctx), "cannot commit turn", func() {}, func(ctx context.Context) (err error) {
		rows, err = write(ctx)
		return err
	})
	switch {
	case errors.Is(err, store.ErrStale):
		c.logStale(err)
	case errors.Is(err, store.ErrConflict):
		c.endRefused(ctx, o, err)
	case err != nil: // the daemon stops
		c.release(ctx)
	}
	return rows, err == nil
}

// ended is called when the claim has ended with o and rows.
func (c *claim) ended(o inbox.Outcome, rows []outbox.Row) {
	c.reply.Delivery.WakeRows(rows)
	c.result = resultOf(o)
	c.reply.ShowOutcome(o)
	if occurrence := c.first().Occurrence; occurrence != nil {
		c.runner.parts.Work.Scheduled.RunEnded(*occurrence)
	}
}

// endRefused ends a claim whose end with o contradicts the store: with a failure text and
// without the conversation, whose state in memory is wrong; if that is refused too,
// without a text. If even that is refused the claim stays until the next start, which
// counts a crash of the turn.
func (c *claim) endRefused(ctx context.Context, o inbox.Outcome, err error) {
	c.refusals++
	c.log.Error("commit refused", zap.Int("refusals", c.refusals), zap.Error(err))
	switch c.refusals {
	case 1:
		c.fail(ctx, err)
	case 2:
		c.finish(ctx, store.Finish{End: store.End{Outcome: o}})
	default:
		c.log.Error("turn given up until the next start", zap.Stringer("entry", c.first().ID))
	}
}

// logStale logs that another process or claim has the entries of the claim. Nothing
// else is to be done.
func (c *claim) logStale(err error) { c.log.Warn("claim is stale", zap.Error(err)) }

// writeUntilStored calls write until it succeeds, because for example a full disk
// must not cost the result of a turn. It ends with an error when ctx or the daemon
// ends, and for store.ErrStale and store.ErrConflict. It logs each failure with
// message, and calls touch before each wait.
func (c *claim) writeUntilStored(ctx context.Context, message string, touch func(), write func(context.Context) error) error {
	for wait := 100 * time.Millisecond; ; wait = min(2*wait, 5*time.Second) {
		err := write(context.WithoutCancel(ctx))
		if err == nil || errors.Is(err, store.ErrStale) || errors.Is(err, store.ErrConflict) {
			return err
		}
		c.log.Error(message, zap.Error(err))
		touch()
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return err
		case <-c.runner.open.Done():
			return err
		}
	}
}
