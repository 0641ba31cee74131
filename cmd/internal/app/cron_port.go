package app

import (
	"context"
	"errors"

	"hermesd/agent/tools/cronjob"
	"hermesd/gateway/chat"
	"hermesd/gateway/schedule"
	"hermesd/gateway/session"
)

// A cronPort is where the tool cronjob makes and changes scheduled prompts, in the
// name of who speaks in the turn.
type cronPort struct{ a *App }

// at returns the book, and who looks into it: in a scheduled run who made that, from
// the chat in which it was made.
func (d cronPort) at(ctx context.Context, by cronjob.Caller) (*schedule.Manager, schedule.Caller, error) {
	who, ok := d.a.gateway.Actor(session.ID(by.Session))
	if !ok {
		return nil, schedule.Caller{}, errors.New("nobody speaks in this conversation now")
	}
	v := schedule.Caller{Principal: who.Principal, Address: who.Address, ChatName: who.Name}
	if who.Address.Platform == chat.Cron {
		j, known, err := d.a.store.Job(ctx, schedule.JobID(who.Address.Chat))
		if err != nil || !known {
			return nil, v, errors.Join(errors.New("the job of this run cannot be found"), err)
		}
		v.Address, v.ChatName = j.Origin, j.OriginName
	}
	return d.a.gateway.JobManager(), v, nil
}

// withJob has the book do something with one job.
func (d cronPort) withJob(ctx context.Context, by cronjob.Caller, f func(*schedule.Manager, schedule.Caller) (schedule.JobView, error)) (cronjob.Job, error) {
	book, viewer, err := d.at(ctx, by)
	if err != nil {
		return cronjob.Job{}, err
	}
	v, err := f(book, viewer)
	return jobForModel(v), err
}

// jobForModel is a job as the model is told of it.
func jobForModel(v schedule.JobView) cronjob.Job {
	return cronjob.Job{
		ID: string(v.ID), Name: v.Name, Status: v.Status, Schedule: v.Schedule.Text, Zone: v.Schedule.Zone, Next: v.Next,
		Deliver: v.Deliver, Skills: v.Skills, Repeat: v.Repeat, Runs: v.State.Runs, LastEnded: v.State.Ended, LastResult: string(v.State.Result), Reason: v.State.Reason,
	}
}

// Create implements cronjob.Jobs.
func (d cronPort) Create(ctx context.Context, by cronjob.Caller, dr cronjob.JobPatch) (cronjob.Job, error) {
	return d.withJob(ctx, by, func(b *schedule.Manager, v schedule.Caller) (schedule.JobView, error) {
		return b.Create(ctx, v, schedule.JobIDFor(by.Session+"/"+by.Call), schedule.JobPatch(dr))
	})
}

// List implements cronjob.Jobs.
func (d cronPort) List(ctx context.Context, by cronjob.Caller) ([]cronjob.Job, error) {
	book, viewer, err := d.at(ctx, by)
	if err != nil {
		return nil, err
	}
	views, err := book.List(ctx, viewer)
	var jobs []cronjob.Job
	for _, v := range views {
		jobs = append(jobs, jobForModel(v))
	}
	return jobs, err
}

// Update implements cronjob.Jobs.
func (d cronPort) Update(ctx context.Context, by cronjob.Caller, job string, dr cronjob.JobPatch) (cronjob.Job, error) {
	return d.withJob(ctx, by, func(b *schedule.Manager, v schedule.Caller) (schedule.JobView, error) {
		return b.Update(ctx, v, job, schedule.JobPatch(dr))
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
