package cron

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
func (r *Runs) checkRun(j schedule.Job) error {
	creator, why := r.Creator(j)
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
func (r *Runs) canFollow(ctx context.Context, j schedule.Job, id schedule.JobID) bool {
	f, ok, err := r.parts.Store.Job(ctx, id)
	if err != nil || !ok {
		return err == nil
	}
	reader, _ := r.Creator(j)
	creator, _ := r.Creator(f)
	return schedule.CanRead(reader, creator)
}

// pauseAllForbidden pauses the stored jobs that have what their creators may not have.
func (r *Runs) pauseAllForbidden(ctx context.Context) {
	jobs, err := r.parts.Store.Jobs(ctx)
	if err != nil {
		r.opts.Log.Error("cannot check rights of jobs", zap.Error(err)) // they are checked again when they run
		return
	}
	for _, j := range jobs {
		if _, why := r.Creator(j); why == "" && j.Active() { // without access it does not run, and nobody is notified
			r.pauseForbidden(ctx, j)
		}
	}
}

// pauseForbidden pauses a job that has what its creator may not have, and notifies the
// creator's chat and an owner. It does nothing if the job is permitted or paused already.
func (r *Runs) pauseForbidden(ctx context.Context, j schedule.Job) {
	reason, err := r.manager.PauseForbidden(ctx, j.ID)
	if err != nil {
		r.opts.Log.Error("cannot pause job", zap.String("job", string(j.ID)), zap.Error(err))
		return
	}
	if reason == nil {
		return
	}
	r.opts.Log.Warn("job paused", zap.String("job", string(j.ID)), zap.String("creator", j.Creator.ID), zap.Error(reason))
	text := r.opts.Printer.T("⏸ I paused the scheduled prompt `%s`: %v. Have it changed, then `/cron resume %s` starts it again.", string(j.ID), reason, string(j.ID))
	to := r.ownerChats(ctx)
	if !slices.Contains(to, j.Origin) {
		to = append(to, j.Origin)
	}
	for _, at := range to {
		if err := r.parts.Targets.Notify(ctx, at, text); err != nil {
			r.opts.Log.Error("cannot notify of paused job", zap.Stringer("chat", at), zap.Error(err))
		}
	}
}

// ownerChats returns the direct chat in which an owner spoke last, or the home channels if
// there is none.
func (r *Runs) ownerChats(ctx context.Context) (to []chat.Address) {
	sessions, err := r.parts.Targets.Chats(ctx)
	if err != nil {
		r.opts.Log.Error("cannot find chat of an owner", zap.Error(err))
	}
	for _, s := range sessions {
		if s.Address.Kind != chat.DM {
			continue
		}
		grant, _ := r.parts.Access.Check(chat.Inbound{Kind: chat.Message, Address: s.Address, Sender: chat.Person{ID: s.Owner}, Addressed: true})
		if grant.Valid() && grant.Principal().Level == access.Owner {
			return []chat.Address{s.Address}
		}
	}
	for _, at := range r.parts.Targets.HomeChannels() {
		to = append(to, at)
	}
	return to
}
