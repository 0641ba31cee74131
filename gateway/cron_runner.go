package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"go.uber.org/zap"

	"hermesd/gateway/access"
	"hermesd/gateway/chat"
	"hermesd/gateway/failure"
	"hermesd/gateway/i18n"
	"hermesd/gateway/inbox"
	"hermesd/gateway/schedule"
	"hermesd/gateway/session"
	"hermesd/gateway/turn"
)

// CronOptions configures scheduled prompts. Log and OnNotRun are set by the gateway.
type CronOptions struct {
	schedule.Options
	Rules schedule.Validator
	// Script runs the script of a job and returns its output; nil: jobs with scripts
	// fail.
	Script func(ctx context.Context, job schedule.Job) (string, error)
	// Keep stores the answer of a run, Newest loads the newest answer of a job; nil:
	// answers are not stored.
	Keep   func(occurrence schedule.OccurrenceID, answer string) error
	Newest func(job schedule.JobID) (string, error)
	// Attach adds the answers of runs to the conversations of the chats they are sent
	// to.
	Attach bool
}

// A cronRunner puts due runs into the inbox (schedule.Runner) and prepares their turns
// (turn.Scheduled).
type cronRunner struct {
	gateway   *Gateway
	opts      CronOptions
	scheduler *schedule.Scheduler
	manager   *schedule.Manager
}

func newCronRunner(g *Gateway, o CronOptions) *cronRunner {
	c := &cronRunner{gateway: g, opts: o}
	o.Options.Log, o.Options.OnNotRun = g.opts.Log.Named("cron"), g.reportNotRun
	c.scheduler = schedule.NewScheduler(g.opts.Store, c, o.Options)
	if o.Rules.Target == nil {
		o.Rules.Target = func(target string) error {
			_, err := g.targets.Resolve(context.Background(), target, chat.Address{Platform: chat.Console})
			return err
		}
	}
	o.Rules.Level = func(j schedule.Job) access.Level {
		creator, _ := c.creatorOf(j)
		return creator.Level
	}
	c.manager = schedule.NewManager(g.opts.Store, o.Rules, c.scheduler.Wake)
	return c
}

// JobManager returns the manager of scheduled prompts.
func (g *Gateway) JobManager() *schedule.Manager { return g.cron.manager }

// Start implements schedule.Runner: it puts runs into the inbox, each with the current
// level of the job's creator.
func (c *cronRunner) Start(ctx context.Context, runs []schedule.DueRun) ([]schedule.StartResult, error) {
	results := make([]schedule.StartResult, len(runs))
	var scheduled []inbox.ScheduledRun
	var indexes []int // of scheduled, in runs
	for i, f := range runs {
		e, why := c.entryFor(ctx, f)
		if why != "" {
			results[i] = schedule.StartResult{Status: schedule.NotAllowed, Reason: why}
			continue
		}
		scheduled, indexes = append(scheduled, inbox.ScheduledRun{Run: f, Entry: e}), append(indexes, i)
	}
	if len(scheduled) == 0 {
		return results, nil
	}
	started, err := c.gateway.opts.Store.StartRuns(ctx, scheduled)
	if err != nil {
		return nil, err
	}
	for i, t := range started {
		results[indexes[i]].Status = t.Status
		if t.Status == schedule.Started {
			c.gateway.lanes.Wake(scheduled[i].Entry.Lane)
		}
	}
	return results, nil
}

// entryFor returns the inbox entry that starts a scheduled run, or the reason why the run
// is not allowed.
func (c *cronRunner) entryFor(ctx context.Context, f schedule.DueRun) (e inbox.Entry, why string) {
	creator, why := c.creatorOf(f.Job)
	if why != "" {
		return inbox.Entry{}, why
	}
	if err := schedule.CheckRights(f.Job, creator.Level); err != nil {
		c.pauseForbidden(ctx, f.Job)
		return inbox.Entry{}, strings.ReplaceAll(err.Error(), "\n", "; ")
	}
	now := time.Now()
	in := schedule.Inbound(f.Job, f.Occurrence)
	in.SentAt, in.Sender = now, chat.Person{ID: creator.ID, Name: f.Job.OriginName} // a caught-up occurrence is not an old message
	key := session.KeyFor(c.gateway.opts.Profile, in.Address, creator.ID, c.gateway.opts.Policy)
	return inbox.Entry{Inbound: in, Principal: creator, Session: key, Lane: inbox.LaneOf(key), State: inbox.Waiting, Accepted: now}, ""
}

// creatorOf returns the creator of a job with the creator's current level, but at most the
// level at creation, or the reason why the creator has no access any more.
func (c *cronRunner) creatorOf(j schedule.Job) (creator access.Principal, why string) {
	if j.ByOperator() {
		return j.Creator, ""
	}
	grant, denial := c.gateway.opts.Access.Check(chat.Inbound{Kind: chat.Message, Address: j.Origin, Sender: chat.Person{ID: j.Creator.ID}, Addressed: true})
	if !grant.Valid() {
		return access.Principal{}, fmt.Sprintf("%s, who made it, may not speak any more (%s)", j.Creator.ID, denial.Rule)
	}
	creator = grant.Principal()
	creator.Level = min(creator.Level, max(j.Creator.Level, access.Guest)) // at most the level at creation
	return creator, ""
}

// JobCreator implements approval.Jobs.
func (c *cronRunner) JobCreator(ctx context.Context, id schedule.JobID) (j schedule.Job, creator access.Principal, ok bool, err error) {
	j, ok, err = c.gateway.opts.Store.Job(ctx, id)
	if err == nil && ok {
		creator, _ = c.creatorOf(j)
	}
	return j, creator, ok, err
}

// Prepare implements turn.Scheduled.
func (c *cronRunner) Prepare(ctx context.Context, occurrence schedule.OccurrenceID, resumed bool) (turn.PreparedRun, error) {
	j, ok, err := c.gateway.opts.Store.Job(ctx, occurrence.Job)
	switch {
	case err != nil:
		return turn.PreparedRun{}, fmt.Errorf("load job %s: %w", occurrence.Job, err)
	case !ok:
		return turn.PreparedRun{}, &failure.JobError{Err: i18n.Errorf("The job was removed.")}
	}
	if err := c.checkRun(j); err != nil { // the creator may have lost rights since the start of the run
		return turn.PreparedRun{}, err
	}
	r := turn.PreparedRun{Name: j.Name, Settings: session.Settings{Provider: j.Provider, Model: j.Model}}
	if c.opts.Keep != nil {
		r.Keep = func(answer string) error { return c.opts.Keep(occurrence, answer) }
	}
	if resumed {
		return r, nil
	}
	if scan := c.opts.Rules.Scan; scan != nil { // the current rules apply to old and imported jobs as well
		if why := scan(j.Prompt, len(j.Skills) > 0); why != "" {
			return r, jobError(j, i18n.Errorf("Its prompt looks like an attack (%s).", why))
		}
	}
	return r, c.buildInput(ctx, j, occurrence, &r)
}

// buildInput sets the input of the agent in r: skills, the output of the script, the newest
// outputs of other jobs and the prompt.
func (c *cronRunner) buildInput(ctx context.Context, j schedule.Job, occurrence schedule.OccurrenceID, r *turn.PreparedRun) error {
	var parts []string
	for _, name := range j.Skills {
		if c.gateway.opts.Skill == nil {
			return jobError(j, i18n.Errorf("Its skill %s cannot be loaded: skills are off.", name))
		}
		text, ok := c.gateway.opts.Skill(occurrence.Session(), name, "")
		if !ok {
			return jobError(j, i18n.Errorf("There is no skill %s any more.", name))
		}
		parts = append(parts, text)
	}
	if j.Script != "" {
		if c.opts.Script == nil {
			return jobError(j, i18n.Errorf("Scripts cannot be run here."))
		}
		out, err := c.opts.Script(ctx, j)
		if err != nil {
			return &failure.JobError{Err: i18n.Errorf("Something went wrong with its script %s: %v. Once that is mended, `/cron run %s` runs it once more.", j.Script, err, string(j.ID))}
		}
		out, wake := parseWakeGate(out)
		if !wake || j.ScriptOnly {
			r.Done = true
			if wake || j.ScriptOnly && out != "" {
				r.Say = out
			}
			return nil
		}
		parts = append(parts, "[output of the script "+j.Script+"]\n"+out+"\n[end of output]")
	}
	for _, id := range j.Context {
		if c.opts.Newest == nil {
			continue
		}
		if !c.canFollow(ctx, j, id) {
			c.gateway.opts.Log.Warn("output of another person's job is excluded", zap.String("job", string(id)))
			continue
		}
		text, err := c.opts.Newest(id)
		if err != nil {
			c.gateway.opts.Log.Warn("cannot load job output", zap.String("job", string(id)), zap.Error(err))
			continue
		}
		parts = append(parts, "[newest output of the job "+string(id)+"]\n"+text+"\n[end of output]")
	}
	if j.Prompt != "" {
		parts = append(parts, j.Prompt)
	}
	r.Input = strings.Join(parts, "\n\n")
	return nil
}

// jobError returns an error of a job, with a hint how to change the job.
func jobError(j schedule.Job, what error) error {
	return &failure.JobError{Err: i18n.Errorf("%v Have the job changed: tell me, or use `hermesd cron edit %s`.", what, string(j.ID))}
}

// parseWakeGate removes a last line {"wakeAgent": false} from the output of a script and
// reports whether the agent is to run.
func parseWakeGate(out string) (text string, wake bool) {
	out = strings.TrimSpace(out)
	head, last := "", out
	if i := strings.LastIndexByte(out, '\n'); i >= 0 {
		head, last = out[:i], out[i+1:]
	}
	var gate struct {
		WakeAgent *bool `json:"wakeAgent"`
	}
	if json.Unmarshal([]byte(last), &gate) != nil || gate.WakeAgent == nil {
		return out, true
	}
	return strings.TrimSpace(head), *gate.WakeAgent
}

// Targets implements turn.Scheduled.
func (c *cronRunner) Targets(ctx context.Context, occurrence schedule.OccurrenceID) []chat.Address {
	j, ok, err := c.gateway.opts.Store.Job(ctx, occurrence.Job)
	if err != nil || !ok {
		c.gateway.opts.Log.Error("cannot load job of scheduled run", zap.String("job", string(occurrence.Job)), zap.Error(err))
		return nil
	}
	creator, why := c.creatorOf(j)
	if why != "" {
		c.gateway.opts.Log.Warn("scheduled run is not delivered", zap.String("job", string(occurrence.Job)), zap.String("reason", why))
		return nil
	}
	var to []chat.Address
	if err = schedule.CheckRights(j, creator.Level); err == nil {
		to, err = c.gateway.targets.Resolve(ctx, strings.Join(j.Deliver, ","), j.Origin)
	}
	if err == nil {
		return to
	}
	c.gateway.opts.Log.Error("cannot resolve targets of scheduled run", zap.String("job", string(occurrence.Job)), zap.Error(err))
	if j.Origin.Platform != "" { // the creator gets the answer instead
		return []chat.Address{j.Origin}
	}
	return nil
}

// RunEnded implements turn.Scheduled.
func (c *cronRunner) RunEnded(occurrence schedule.OccurrenceID) { c.scheduler.Wake(occurrence.Job) }

// RunDelivered implements turn.Scheduled.
func (c *cronRunner) RunDelivered(ctx context.Context, creator access.Principal, name, text string, to []chat.Address) {
	if c.opts.Attach {
		c.gateway.targets.AnnounceRun(ctx, creator, name, text, to)
	}
}

// Announcements implements turn.Scheduled.
func (c *cronRunner) Announcements(ctx context.Context, at chat.Address, since time.Time, readers []access.Principal) string {
	return c.gateway.targets.Announcements(ctx, at, since, readers)
}
