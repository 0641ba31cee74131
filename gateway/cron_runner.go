package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"go.uber.org/zap"

	"hermesd/agent"
	"hermesd/gateway/access"
	"hermesd/gateway/chat"
	"hermesd/gateway/failure"
	"hermesd/gateway/i18n"
	"hermesd/gateway/inbox"
	"hermesd/gateway/schedule"
	"hermesd/gateway/session"
	"hermesd/gateway/turn"
)

// CronOptions is what scheduled prompts need besides the store.
type CronOptions struct {
	schedule.Options
	Rules schedule.Validator
	// Script runs the script of a job and returns what it wrote; nil: there are no
	// scripts.
	Script func(ctx context.Context, job schedule.Job) (string, error)
	// Keep writes what a run has said, and Newest reads the newest such text of a
	// job. nil: nothing is kept.
	Keep   func(slot schedule.OccurrenceID, answer string) error
	Newest func(job schedule.JobID) (string, error)
	// Attach has what a run said to a chat stand in the chat's own conversation.
	Attach bool
}

// cronRunner leads scheduled prompts onto the road.
type cronRunner struct {
	g     *Gateway
	o     CronOptions
	clock *schedule.Scheduler
	book  *schedule.Manager
}

func newCronRunner(g *Gateway, o CronOptions) *cronRunner {
	c := &cronRunner{g: g, o: o}
	o.Options.Log, o.Options.OnNotRun = g.opts.Log.Named("cron"), g.reportNotRun
	c.clock = schedule.NewScheduler(g.opts.Store, c, o.Options)
	if o.Rules.Target == nil {
		o.Rules.Target = func(target string) error {
			_, err := g.Targets(context.Background(), target, chat.Address{Platform: chat.Console})
			return err
		}
	}
	c.book = schedule.NewManager(g.opts.Store, o.Rules, c.clock.Wake)
	return c
}

// JobManager is the book of scheduled prompts.
func (g *Gateway) JobManager() *schedule.Manager { return g.crons.book }

// CronStatus is the state of the clock of scheduled prompts.
func (g *Gateway) CronStatus() schedule.Status { return g.crons.clock.Status() }

// Actor returns who speaks in the turn of a session that is under way.
func (g *Gateway) Actor(id session.ID) (turn.Actor, bool) { return g.runner.Actor(id) }

// AddUsage puts a model call that is none of a conversation's own onto the bill of
// its turn, and of the daemon; id "" is no conversation's.
func (g *Gateway) AddUsage(id session.ID, c agent.Call) { g.runner.AddUsage(id, c) }

// ReportToolCall tells those who watch of a tool call that a sub-agent made in the turn of a
// session.
func (g *Gateway) ReportToolCall(id session.ID, ev agent.ToolFinished) {
	g.runner.ReportToolCall(id, ev)
}

// Start implements schedule.Runner: it puts runs into the inbox, each with the
// rights that the job's maker has now.
func (c *cronRunner) Start(ctx context.Context, runs []schedule.DueRun) ([]schedule.StartResult, error) {
	fired := make([]schedule.StartResult, len(runs))
	var offers []inbox.ScheduledRun
	var at []int // of offers, in runs
	for i, f := range runs {
		e, why := c.run(f)
		if why != "" {
			fired[i] = schedule.StartResult{Status: schedule.NotAllowed, Reason: why}
			continue
		}
		offers, at = append(offers, inbox.ScheduledRun{Run: f, Entry: e}), append(at, i)
	}
	if len(offers) == 0 {
		return fired, nil
	}
	taken, err := c.g.opts.Store.StartRuns(ctx, offers)
	if err != nil {
		return nil, err
	}
	for i, t := range taken {
		fired[at[i]].Status = t.Status
		if t.Status == schedule.Started {
			c.g.lanes.Wake(offers[i].Entry.Lane)
		}
	}
	return fired, nil
}

// run is the entry with which a scheduled run begins, or why there is none.
func (c *cronRunner) run(f schedule.DueRun) (e inbox.Entry, why string) {
	by, why := c.maker(f.Job)
	if why != "" {
		return inbox.Entry{}, why
	}
	now := time.Now()
	in := schedule.Inbound(f.Job, f.Occurrence)
	in.SentAt, in.Sender = now, chat.Person{ID: by.ID, Name: f.Job.OriginName} // a slot that is made up for is no old message
	key := session.KeyFor(c.g.opts.Profile, in.Address, by.ID, c.g.opts.Policy)
	return inbox.Entry{Inbound: in, Principal: by, Session: key, Lane: inbox.LaneOf(key), State: inbox.Waiting, Accepted: now}, ""
}

// maker is who made a job, with the rights of today.
func (c *cronRunner) maker(j schedule.Job) (by access.Principal, why string) {
	if j.Creator == schedule.Operator() || j.Origin.Platform == "" || j.Origin.Platform == chat.Console {
		return j.Creator, "" // the operator's own
	}
	grant, denial := c.g.opts.Access.Check(chat.Inbound{Kind: chat.Message, Address: j.Origin, Sender: chat.Person{ID: j.Creator.ID}, Addressed: true})
	if !grant.Valid() {
		return by, fmt.Sprintf("%s, who made it, may not speak any more (%s)", j.Creator.ID, denial.Rule)
	}
	by = grant.Principal()
	by.Level = min(by.Level, max(j.Creator.Level, access.Guest)) // never more than the job was made with
	return by, ""
}

// Prepare implements turn.Scheduled.
func (c *cronRunner) Prepare(ctx context.Context, slot schedule.OccurrenceID, resumed bool) (turn.PreparedRun, error) {
	j, ok, err := c.g.opts.Store.Job(ctx, slot.Job)
	switch {
	case err != nil:
		return turn.PreparedRun{}, fmt.Errorf("job %s: %w", slot.Job, err)
	case !ok:
		return turn.PreparedRun{}, &failure.JobError{Err: i18n.Errorf("The job was removed.")}
	}
	r := turn.PreparedRun{Name: j.Name, Settings: session.Settings{Provider: j.Provider, Model: j.Model}}
	if c.o.Keep != nil {
		r.Keep = func(answer string) error { return c.o.Keep(slot, answer) }
	}
	if resumed {
		return r, nil
	}
	if scan := c.o.Rules.Scan; scan != nil { // the rules of today, also for what was made long ago or imported
		if why := scan(j.Prompt, len(j.Skills) > 0); why != "" {
			return r, jobProblem(j, i18n.Errorf("Its prompt looks like an attack (%s).", why))
		}
	}
	return r, c.input(ctx, j, slot, &r)
}

// input puts into r what the agent reads: skills, what the script wrote, what
// other jobs have found, and the prompt.
func (c *cronRunner) input(ctx context.Context, j schedule.Job, slot schedule.OccurrenceID, r *turn.PreparedRun) error {
	var parts []string
	for _, name := range j.Skills {
		if c.g.opts.Skill == nil {
			return jobProblem(j, i18n.Errorf("Its skill %s cannot be loaded: skills are off.", name))
		}
		text, ok := c.g.opts.Skill(slot.Session(), name, "")
		if !ok {
			return jobProblem(j, i18n.Errorf("There is no skill %s any more.", name))
		}
		parts = append(parts, text)
	}
	if j.Script != "" {
		if c.o.Script == nil {
			return jobProblem(j, i18n.Errorf("Scripts cannot be run here."))
		}
		out, err := c.o.Script(ctx, j)
		if err != nil {
			return &failure.JobError{Err: i18n.Errorf("Something went wrong with its script %s: %v. Once that is mended, `/cron run %s` runs it once more.", j.Script, err, string(j.ID))}
		}
		out, wake := wakes(out)
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
		if c.o.Newest == nil {
			continue
		}
		text, err := c.o.Newest(id)
		if err != nil {
			c.g.opts.Log.Warn("output of another job", zap.String("job", string(id)), zap.Error(err))
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

// jobProblem is what is wrong with a job, for those who read of it.
func jobProblem(j schedule.Job, what error) error {
	return &failure.JobError{Err: i18n.Errorf("%v Have the job changed: tell me, or use `hermesd cron edit %s`.", what, string(j.ID))}
}

// wakes takes a last line {"wakeAgent": false} off what a script wrote, and
// reports whether there is something to do.
func wakes(out string) (text string, wake bool) {
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
func (c *cronRunner) Targets(ctx context.Context, slot schedule.OccurrenceID) []chat.Address {
	j, ok, err := c.g.opts.Store.Job(ctx, slot.Job)
	if err != nil || !ok {
		c.g.opts.Log.Error("where a scheduled run delivers", zap.String("job", string(slot.Job)), zap.Error(err))
		return nil
	}
	to, err := c.g.Targets(ctx, strings.Join(j.Deliver, ","), j.Origin)
	if err == nil {
		return to
	}
	c.g.opts.Log.Error("where a scheduled run delivers", zap.String("job", string(slot.Job)), zap.Error(err))
	if j.Origin.Platform != "" { // its maker hears of it, wherever it was to go
		return []chat.Address{j.Origin}
	}
	return nil
}

// RunEnded implements turn.Scheduled.
func (c *cronRunner) RunEnded(slot schedule.OccurrenceID) { c.clock.Wake(slot.Job) }

// RunDelivered implements turn.Scheduled.
func (c *cronRunner) RunDelivered(ctx context.Context, _ schedule.OccurrenceID, name, text string, to []chat.Address) {
	if c.o.Attach {
		c.g.announce(ctx, fmt.Sprintf("as the scheduled prompt %q", name), text, to)
	}
}

// Announcements implements turn.Scheduled.
func (c *cronRunner) Announcements(ctx context.Context, at chat.Address, since time.Time) string {
	return c.g.announced(ctx, at, since)
}
