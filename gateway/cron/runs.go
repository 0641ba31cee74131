// Package cron runs scheduled prompts. Runs puts the occurrences that are due into the
// inbox, each with the rights that the creator of its job has then, prepares the input of
// their turns, and finds the chats that get their answers. It also implements the command
// /cron. Package schedule decides when jobs are due, and stores and changes them.
package cron

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.uber.org/zap"

	"hermesd/gateway/access"
	"hermesd/gateway/chat"
	"hermesd/gateway/i18n"
	"hermesd/gateway/inbox"
	"hermesd/gateway/lane"
	"hermesd/gateway/observe"
	"hermesd/gateway/schedule"
	"hermesd/gateway/session"
	"hermesd/gateway/store"
	"hermesd/gateway/target"
)

// A Store stores jobs and the start of their runs.
type Store interface {
	store.Jobs
	// StartRuns is the one method of store.Inbox: other entries are the gateway's.
	StartRuns(ctx context.Context, runs []store.ScheduledRun) ([]store.ScheduledRunResult, error)
}

// Access decides whether the creator of a job is authorized. Its decisions may change at
// any time.
type Access interface {
	Check(in chat.Inbound) (access.Grant, access.Denial)
}

// Scripts runs the scripts of jobs.
type Scripts interface {
	// Run runs the script of a job and returns its output. If no scripts can be run at
	// all, the error is ErrNoScripts.
	Run(ctx context.Context, job schedule.Job) (string, error)
}

// Outputs stores the answers of runs for the operator and for other jobs.
type Outputs interface {
	// Save stores the answer of a run.
	Save(occurrence schedule.OccurrenceID, answer string) error
	// Newest returns the newest answer of a job, "" if there is none yet.
	Newest(job schedule.JobID) (string, error)
}

// ErrNoScripts is the error of Scripts that runs no script.
var ErrNoScripts = errors.New("cron: scripts cannot be run")

// Parts are the parts that Runs uses. All of them are set.
type Parts struct {
	Store   Store
	Access  Access
	Targets *target.Directory
	Lanes   *lane.Set[inbox.Lane]                                         // run the turns of started runs
	Skill   func(id session.ID, name, args string) (text string, ok bool) // the text of a skill in a session, if there is one
	Scripts Scripts
	Outputs Outputs
}

// Options configure Runs.
type Options struct {
	CatchUp  schedule.CatchUp   // of occurrences that were missed
	Parallel int                // see schedule.Options
	Rules    schedule.Validator // of jobs; New adds Target and Level, which depend on the runs
	// Attach adds the answers of runs to the conversations of the chats they are sent
	// to.
	Attach bool

	Profile string            // of the session keys of runs
	Policy  session.KeyPolicy // of the session keys of runs
	Printer i18n.Printer      // translates notices
	Observe observe.Func      // receives the occurrences that do not run
	Log     *zap.Logger
}

// Runs starts the runs of jobs (schedule.Runner) and prepares their turns
// (turn.Scheduled). Its methods may be called from any goroutine.
type Runs struct {
	parts     Parts
	opts      Options
	scheduler *schedule.Scheduler
	manager   *schedule.Manager
}

// New returns Runs that start nothing until Run is called.
func New(p Parts, o Options) *Runs {
	r := &Runs{parts: p, opts: o}
	r.scheduler = schedule.NewScheduler(p.Store, r, schedule.Options{CatchUp: o.CatchUp, Parallel: o.Parallel, OnNotRun: r.reportNotRun, Log: o.Log.Named("cron")})
	o.Rules.Target = func(name string) error {
		_, err := p.Targets.Resolve(context.Background(), name, chat.Address{Platform: chat.Console})
		return err
	}
	o.Rules.Level = func(j schedule.Job) access.Level {
		creator, _ := r.Creator(j)
		return creator.Level
	}
	r.manager = schedule.NewManager(p.Store, o.Rules, r.scheduler.Wake)
	return r
}

// Manager returns the manager of the jobs.
func (r *Runs) Manager() *schedule.Manager { return r.manager }

// Status returns the status of the scheduler.
func (r *Runs) Status() schedule.Status { return r.scheduler.Status() }

// Run starts runs when they are due, until ctx ends. First it pauses the jobs that have
// what their creators may not have.
func (r *Runs) Run(ctx context.Context) {
	r.pauseAllForbidden(ctx)
	r.scheduler.Run(ctx)
}

// reportNotRun emits the occurrences that do not run.
func (r *Runs) reportNotRun(occurrences []schedule.Occurrence) {
	for _, s := range occurrences {
		r.opts.Observe(observe.OccurrencesSkipped{State: string(s.State), Count: max(s.Count, 1)})
	}
}

// Start implements schedule.Runner: it puts runs into the inbox, each with the current
// level of the job's creator.
func (r *Runs) Start(ctx context.Context, runs []schedule.DueRun) ([]schedule.StartResult, error) {
	results := make([]schedule.StartResult, len(runs))
	var scheduled []store.ScheduledRun
	var indexes []int // of scheduled, in runs
	for i, f := range runs {
		e, why := r.entryFor(ctx, f)
		if why != "" {
			results[i] = schedule.StartResult{Status: schedule.NotAllowed, Reason: why}
			continue
		}
		scheduled, indexes = append(scheduled, store.ScheduledRun{Run: f, Entry: e}), append(indexes, i)
	}
	if len(scheduled) == 0 {
		return results, nil
	}
	started, err := r.parts.Store.StartRuns(ctx, scheduled)
	if err != nil {
		return nil, err
	}
	for i, t := range started {
		results[indexes[i]].Status = t.Status
		if t.Status == schedule.Started {
			r.parts.Lanes.Wake(scheduled[i].Entry.Lane)
		}
	}
	return results, nil
}

// entryFor returns the inbox entry that starts a scheduled run, or the reason why the run
// is not allowed.
func (r *Runs) entryFor(ctx context.Context, f schedule.DueRun) (e inbox.Entry, why string) {
	grant, why := r.grant(f.Job)
	if why != "" {
		return inbox.Entry{}, why
	}
	creator := grant.Principal()
	if err := schedule.CheckRights(f.Job, creator.Level); err != nil {
		r.pauseForbidden(ctx, f.Job)
		return inbox.Entry{}, strings.ReplaceAll(err.Error(), "\n", "; ")
	}
	now := time.Now()
	in := schedule.Inbound(f.Job, f.Occurrence)
	in.SentAt, in.Sender = now, chat.Person{ID: creator.ID, Name: f.Job.OriginName} // a caught-up occurrence is not an old message
	key := session.KeyFor(r.opts.Profile, in.Address, creator.ID, r.opts.Policy)
	return inbox.Entry{Inbound: in, Grant: grant, Session: key, Lane: inbox.LaneOf(key), State: inbox.Waiting, Accepted: now}, ""
}

// JobCreator implements approval.Jobs.
func (r *Runs) JobCreator(ctx context.Context, id schedule.JobID) (j schedule.Job, creator access.Principal, ok bool, err error) {
	j, ok, err = r.parts.Store.Job(ctx, id)
	if err == nil && ok {
		creator, _ = r.Creator(j)
	}
	return j, creator, ok, err
}

// Creator returns the creator of a job with the creator's current level, but at most the
// level at creation, or the reason why the creator has no access any more.
func (r *Runs) Creator(j schedule.Job) (creator access.Principal, why string) {
	grant, why := r.grant(j)
	return grant.Principal(), why
}

// grant returns the grant of Creator.
func (r *Runs) grant(j schedule.Job) (grant access.Grant, why string) {
	if j.ByOperator() {
		return access.OperatorGrant(j.Creator), ""
	}
	grant, denial := r.parts.Access.Check(chat.Inbound{Kind: chat.Message, Address: j.Origin, Sender: chat.Person{ID: j.Creator.ID}, Addressed: true})
	if !grant.Valid() {
		return access.Grant{}, fmt.Sprintf("%s, who made it, may not speak any more (%s)", j.Creator.ID, denial.Rule)
	}
	return grant.AtMost(max(j.Creator.Level, access.Guest)), "" // at most the level at creation
}
