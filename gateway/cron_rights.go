package gateway

import (
	"context"
	"slices"

	"go.uber.org/zap"

	"hermesd/gateway/access"
	"hermesd/gateway/chat"
	"hermesd/gateway/failure"
	"hermesd/gateway/i18n"
	"hermesd/gateway/schedule"
)

// checkRun checks that a run of j may go on with the rights that its creator has now.
func (c *cronRunner) checkRun(j schedule.Job) error {
	creator, why := c.creatorOf(j)
	if why != "" {
		return &failure.JobError{Err: i18n.Errorf("Who made it may not speak to me any more.")}
	}
	if err := schedule.CheckRights(j, creator.Level); err != nil {
		return jobError(j, i18n.Errorf("It is not permitted: %v.", err))
	}
	return nil
}

// canFollow reports whether the output of the job id may become input of a run of j. A
// removed job was checked when j was made to follow it.
func (c *cronRunner) canFollow(ctx context.Context, j schedule.Job, id schedule.JobID) bool {
	f, ok, err := c.gateway.opts.Store.Job(ctx, id)
	if err != nil || !ok {
		return err == nil
	}
	reader, _ := c.creatorOf(j)
	creator, _ := c.creatorOf(f)
	return schedule.CanRead(reader, creator)
}

// pauseAllForbidden pauses the stored jobs that have what their creators may not have.
func (c *cronRunner) pauseAllForbidden(ctx context.Context) {
	jobs, err := c.gateway.opts.Store.Jobs(ctx)
	if err != nil {
		c.gateway.opts.Log.Error("cannot check rights of jobs", zap.Error(err)) // they are checked again when they run
		return
	}
	for _, j := range jobs {
		if _, why := c.creatorOf(j); why == "" && j.Active() { // without access it does not run, and nobody is notified
			c.pauseForbidden(ctx, j)
		}
	}
}

// pauseForbidden pauses a job that has what its creator may not have, and notifies the
// creator's chat and an owner. It does nothing if the job is permitted or paused already.
func (c *cronRunner) pauseForbidden(ctx context.Context, j schedule.Job) {
	g := c.gateway
	reason, err := c.manager.PauseForbidden(ctx, j.ID)
	if err != nil {
		g.opts.Log.Error("cannot pause job", zap.String("job", string(j.ID)), zap.Error(err))
		return
	}
	if reason == nil {
		return
	}
	g.opts.Log.Warn("job paused", zap.String("job", string(j.ID)), zap.String("creator", j.Creator.ID), zap.Error(reason))
	text := g.opts.Printer.T("⏸ I paused the scheduled prompt `%s`: %v. Have it changed, then `/cron resume %s` starts it again.", string(j.ID), reason, string(j.ID))
	to := c.ownerChats(ctx)
	if !slices.Contains(to, j.Origin) {
		to = append(to, j.Origin)
	}
	for _, at := range to {
		if err := g.targets.Notify(ctx, at, text); err != nil {
			g.opts.Log.Error("cannot notify of paused job", zap.Stringer("chat", at), zap.Error(err))
		}
	}
}

// ownerChats returns the direct chat in which an owner spoke last, or the home channels if
// there is none.
func (c *cronRunner) ownerChats(ctx context.Context) (to []chat.Address) {
	g := c.gateway
	sessions, err := g.targets.Chats(ctx)
	if err != nil {
		g.opts.Log.Error("cannot find chat of an owner", zap.Error(err))
	}
	for _, r := range sessions {
		if r.Address.Kind != chat.DM {
			continue
		}
		grant, _ := g.opts.Access.Check(chat.Inbound{Kind: chat.Message, Address: r.Address, Sender: chat.Person{ID: r.Owner}, Addressed: true})
		if grant.Valid() && grant.Principal().Level == access.Owner {
			return []chat.Address{r.Address}
		}
	}
	for _, at := range g.targets.HomeChannels() {
		to = append(to, at)
	}
	return to
}
