package cron

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.uber.org/zap"

	"hermesd/gateway/access"
	"hermesd/gateway/chat"
	"hermesd/gateway/failure"
	"hermesd/gateway/i18n"
	"hermesd/gateway/schedule"
	"hermesd/gateway/session"
	"hermesd/gateway/turn"
)

var _ turn.Scheduled = (*Runs)(nil)

// Prepare implements turn.Scheduled.
func (r *Runs) Prepare(ctx context.Context, occurrence schedule.OccurrenceID, resumed bool) (turn.PreparedRun, error) {
	j, ok, err := r.parts.Store.Job(ctx, occurrence.Job)
	switch {
	case err != nil:
		return turn.PreparedRun{}, fmt.Errorf("load job %s: %w", occurrence.Job, err)
	case !ok:
		return turn.PreparedRun{}, &failure.JobError{Err: i18n.Errorf("The job was removed.")}
	}
	if err := r.checkRun(j); err != nil { // the creator may have lost rights since the start of the run
		return turn.PreparedRun{}, err
	}
	run := turn.PreparedRun{
		Name: j.Name, Settings: session.Settings{Provider: j.Provider, Model: j.Model},
		Keep: func(answer string) error { return r.parts.Outputs.Save(occurrence, answer) },
	}
	if resumed {
		return run, nil
	}
	if scan := r.opts.Rules.Scan; scan != nil { // the current rules apply to old and imported jobs as well
		if why := scan(j.Prompt, len(j.Skills) > 0); why != "" {
			return run, jobError(j, i18n.Errorf("Its prompt looks like an attack (%s).", why))
		}
	}
	return run, r.buildInput(ctx, j, occurrence, &run)
}

// buildInput sets the input of the agent in run: skills, the output of the script, the newest
// outputs of other jobs and the prompt.
func (r *Runs) buildInput(ctx context.Context, j schedule.Job, occurrence schedule.OccurrenceID, run *turn.PreparedRun) error {
	var parts []string
	for _, name := range j.Skills {
		text, ok := r.parts.Skill(occurrence.Session(), name, "")
		if !ok {
			return jobError(j, i18n.Errorf("There is no skill %s any more.", name))
		}
		parts = append(parts, text)
	}
	if j.Script != "" {
		out, err := r.parts.Scripts.Run(ctx, j)
		switch {
		case errors.Is(err, ErrNoScripts):
			return jobError(j, i18n.Errorf("Scripts cannot be run here."))
		case err != nil:
			return &failure.JobError{Err: i18n.Errorf("Something went wrong with its script %s: %v. Once that is repaired, `/cron run %s` runs it once more.", j.Script, err, string(j.ID))}
		}
		out, wake := parseWakeGate(out)
		if !wake || j.ScriptOnly {
			run.Done = true
			if wake || j.ScriptOnly && out != "" {
				run.Say = out
			}
			return nil
		}
		parts = append(parts, "[output of the script "+j.Script+"]\n"+out+"\n[end of output]")
	}
	for _, id := range j.Context {
		if !r.canFollow(ctx, j, id) {
			r.opts.Log.Warn("output of another person's job is excluded", zap.String("job", string(id)))
			continue
		}
		text, err := r.parts.Outputs.Newest(id)
		if err != nil {
			r.opts.Log.Warn("cannot load job output", zap.String("job", string(id)), zap.Error(err))
			continue
		}
		parts = append(parts, "[newest output of the job "+string(id)+"]\n"+text+"\n[end of output]")
	}
	if j.Prompt != "" {
		parts = append(parts, j.Prompt)
	}
	run.Input = strings.Join(parts, "\n\n")
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

// Targets returns the addresses that get the answer of a run; there may be none.
func (r *Runs) Targets(ctx context.Context, occurrence schedule.OccurrenceID) []chat.Address {
	j, ok, err := r.parts.Store.Job(ctx, occurrence.Job)
	if err != nil || !ok {
		r.opts.Log.Error("cannot load job of scheduled run", zap.String("job", string(occurrence.Job)), zap.Error(err))
		return nil
	}
	creator, why := r.Creator(j)
	if why != "" {
		r.opts.Log.Warn("scheduled run is not delivered", zap.String("job", string(occurrence.Job)), zap.String("reason", why))
		return nil
	}
	var to []chat.Address
	if err = schedule.CheckRights(j, creator.Level); err == nil {
		to, err = r.parts.Targets.Resolve(ctx, strings.Join(j.Deliver, ","), j.Origin)
	}
	if err == nil {
		return to
	}
	r.opts.Log.Error("cannot resolve targets of scheduled run", zap.String("job", string(occurrence.Job)), zap.Error(err))
	if j.Origin.Platform != "" { // the creator gets the answer instead
		return []chat.Address{j.Origin}
	}
	return nil
}

// RunEnded implements turn.Scheduled.
func (r *Runs) RunEnded(occurrence schedule.OccurrenceID) { r.scheduler.Wake(occurrence.Job) }

// RunDelivered implements turn.Scheduled.
func (r *Runs) RunDelivered(ctx context.Context, creator access.Principal, name, text string, to []chat.Address) {
	if r.opts.Attach {
		r.parts.Targets.AnnounceRun(ctx, creator, name, text, to)
	}
}

// Announcements implements turn.Scheduled.
func (r *Runs) Announcements(ctx context.Context, at chat.Address, since time.Time, readers []access.Principal) string {
	return r.parts.Targets.Announcements(ctx, at, since, readers)
}
