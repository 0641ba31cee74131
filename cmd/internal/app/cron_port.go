package app

import (
	"context"
	"errors"

	"hermesd/agent/tools/cronjob"
	"hermesd/gateway/active"
	"hermesd/gateway/chat"
	"hermesd/gateway/schedule"
	"hermesd/gateway/session"
)

// A cronPort connects the tool cronjob with the schedule. It acts in the name of the
// actor of the turn.
type cronPort struct {
	manager *schedule.Manager
	jobs    func(context.Context, schedule.JobID) (schedule.Job, bool, error)
	active  *active.Turns
	mask    func(string) string
}

// resolveCaller returns the job manager and the caller of a tool call. In a
// scheduled run that is the creator of the job, in the chat in which the job was
// created.
func (d cronPort) resolveCaller(ctx context.Context, by cronjob.Caller) (*schedule.Manager, schedule.Caller, error) {
	actor, ok := d.active.Actor(session.ID(by.Session))
	if !ok {
		return nil, schedule.Caller{}, errors.New("nobody speaks in this conversation now")
	}
	v := schedule.Caller{Principal: actor.Principal, Address: actor.Address, ChatName: actor.Name}
	if actor.Address.Platform == chat.Cron {
		j, known, err := d.jobs(ctx, schedule.JobID(actor.Address.Chat))
		if err != nil || !known {
			return nil, v, errors.Join(errors.New("the job of this run cannot be found"), err)
		}
		v.Address, v.ChatName = j.Origin, j.OriginName
	}
	return d.manager, v, nil
}

// withJob calls f with the job manager and the caller, and converts the job that f
// returns.
func (d cronPort) withJob(ctx context.Context, by cronjob.Caller, f func(*schedule.Manager, schedule.Caller) (schedule.JobView, error)) (cronjob.Job, error) {
	manager, caller, err := d.resolveCaller(ctx, by)
	if err != nil {
		return cronjob.Job{}, err
	}
	v, err := f(manager, caller)
	return jobForModel(v), err
}

// jobForModel converts a job to the form that the model sees.
func jobForModel(v schedule.JobView) cronjob.Job {
	return cronjob.Job{
		ID: string(v.ID), Name: v.Name, Status: v.Status, Schedule: v.Schedule.Text, Zone: v.Schedule.Zone, Next: v.Next,
		Deliver: v.Deliver, Skills: v.Skills, Repeat: v.Repeat, Runs: v.State.Runs, LastEnded: v.State.Ended, LastResult: string(v.State.Result), Reason: v.State.Reason,
	}
}

// maskPatch returns the patch to store: texts that the model wrote are stored masked.
func (d cronPort) maskPatch(p cronjob.JobPatch) schedule.JobPatch {
	for _, text := range []**string{&p.Name, &p.Prompt} {
		if *text != nil {
			masked := d.mask(**text)
			*text = &masked
		}
	}
	return schedule.JobPatch(p)
}

// Create implements cronjob.Jobs.
func (d cronPort) Create(ctx context.Context, by cronjob.Caller, dr cronjob.JobPatch) (cronjob.Job, error) {
	return d.withJob(ctx, by, func(b *schedule.Manager, v schedule.Caller) (schedule.JobView, error) {
		return b.Create(ctx, v, schedule.JobIDFor(by.Session+"/"+by.Call), d.maskPatch(dr))
	})
}

// List implements cronjob.Jobs.
func (d cronPort) List(ctx context.Context, by cronjob.Caller) ([]cronjob.Job, error) {
	manager, caller, err := d.resolveCaller(ctx, by)
	if err != nil {
		return nil, err
	}
	views, err := manager.List(ctx, caller)
	var jobs []cronjob.Job
	for _, v := range views {
		jobs = append(jobs, jobForModel(v))
	}
	return jobs, err
}

// Update implements cronjob.Jobs.
func (d cronPort) Update(ctx context.Context, by cronjob.Caller, job string, dr cronjob.JobPatch) (cronjob.Job, error) {
	return d.withJob(ctx, by, func(b *schedule.Manager, v schedule.Caller) (schedule.JobView, error) {
		return b.Update(ctx, v, job, d.maskPatch(dr))
	})
}

// Pause implements cronjob.Jobs.
func (d cronPort) Pause(ctx context.Context, by cronjob.Caller, job string) (cronjob.Job, error) {
	return d.withJob(ctx, by, func(b *schedule.Manager, v schedule.Caller) (schedule.JobView, error) { return b.Pause(ctx, v, job) })
}

// Resume implements cronjob.Jobs.
func (d cronPort) Resume(ctx context.Context, by cronjob.Caller, job string) (cronjob.Job, error) {
	return d.withJob(ctx, by, func(b *schedule.Manager, v schedule.Caller) (schedule.JobView, error) { return b.Resume(ctx, v, job) })
}

// Run implements cronjob.Jobs.
func (d cronPort) Run(ctx context.Context, by cronjob.Caller, job string) (cronjob.Job, error) {
	return d.withJob(ctx, by, func(b *schedule.Manager, v schedule.Caller) (schedule.JobView, error) {
		return b.Run(ctx, v, job, by.Session+"/"+by.Call)
	})
}

// Remove implements cronjob.Jobs.
func (d cronPort) Remove(ctx context.Context, by cronjob.Caller, job string) (cronjob.Job, error) {
	return d.withJob(ctx, by, func(b *schedule.Manager, v schedule.Caller) (schedule.JobView, error) { return b.Remove(ctx, v, job) })
}
