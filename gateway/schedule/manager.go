package schedule

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"hermesd/gateway/access"
	"hermesd/gateway/chat"
)

// A Manager creates and changes jobs. Its methods may be called from any goroutine.
// An error that the user can correct wraps ErrInvalid; its text says how.
type Manager struct {
	store     Store
	validator Validator
	wake      func(...JobID)
	now       func() time.Time
}

// NewManager returns a Manager of the jobs in store. wake is called with the ID of each
// changed job.
func NewManager(store Store, validator Validator, wake func(...JobID)) *Manager {
	return &Manager{store: store, validator: validator, wake: wake, now: time.Now}
}

// A Caller is the principal for which a Manager acts, and the chat that it is in.
// Callers see the jobs that were made in their chat and change those of creators whose
// level is not higher; owners see and change all jobs.
type Caller struct {
	Principal access.Principal
	Address   chat.Address // zero for the command line
	ChatName  string       // name of the chat or the person
}

// OperatorCaller returns the Caller for the command line.
func OperatorCaller() Caller { return Caller{Principal: Operator()} }

// canSee reports whether v may see j. Whether v is an owner depends only on
// the level of its principal.
func (v Caller) canSee(j Job) bool {
	return v.Principal.Level == access.Owner || v.Address != (chat.Address{}) && j.Origin == v.Address
}

// A JobPatch holds values for fields of a job. A nil field keeps its value or, when a
// job is created, gets the default.
type JobPatch struct {
	Name       *string   `json:"name,omitempty"`
	Prompt     *string   `json:"prompt,omitempty"`
	Schedule   *string   `json:"schedule,omitempty"`
	Zone       *string   `json:"timezone,omitempty"`
	Skills     *[]string `json:"skills,omitempty"`
	Script     *string   `json:"script,omitempty"`
	ScriptOnly *bool     `json:"no_agent,omitempty"`
	Workdir    *string   `json:"workdir,omitempty"`
	Model      *string   `json:"model,omitempty"`
	Provider   *string   `json:"provider,omitempty"`
	Deliver    *[]string `json:"deliver,omitempty"`
	Context    *[]string `json:"context_from,omitempty"`
	Repeat     *int      `json:"repeat,omitempty"`
}

// A JobView is a job with its status and its next due times.
type JobView struct {
	Job
	Status string      `json:"status"`
	Next   []time.Time `json:"next"` // at most three, in the job's zone
}

// View returns j with its status and its next due times. The times are empty if j is
// not active.
func (b *Manager) View(j Job) JobView {
	v := JobView{Job: j, Status: j.Status(), Next: []time.Time{}}
	p, err := j.Schedule.Plan()
	if err != nil || !j.Active() {
		return v
	}
	limit := 3
	if j.Repeat > 0 {
		limit = min(limit, j.Repeat-j.State.Runs)
	}
	if times := p.Upcoming(nextAfter(j, b.now()), limit); times != nil {
		v.Next = times
	}
	return v
}

// nextAfter returns the instant after which the next occurrence of j is due. A
// RecordedUntil in the future was set by a wrong clock and is ignored.
func nextAfter(j Job, now time.Time) time.Time {
	if j.State.RecordedUntil.After(now) {
		return now
	}
	return j.State.RecordedUntil
}

// Create creates a job. If id is in use it returns the existing job, so that a
// repeated call creates one job; if id is "" the job gets a new ID.
func (b *Manager) Create(ctx context.Context, v Caller, id JobID, d JobPatch) (JobView, error) {
	if d.Schedule == nil {
		return JobView{}, invalid("the schedule is missing; write %s", errForms)
	}
	now := b.now()
	if id == "" {
		id = NewJobID()
	}
	j := Job{ID: id, Creator: v.Principal, Origin: v.Address, OriginName: v.ChatName, Created: now.UTC(), Revision: 1, Deliver: []string{"local"}}
	if v.Address != (chat.Address{}) {
		j.Deliver = []string{"origin"}
	}
	if err := b.apply(&j, d, now); err != nil {
		return JobView{}, err
	}
	if err := b.resolveContext(ctx, v, &j); err != nil {
		return JobView{}, err
	}
	added, err := b.store.AddJobs(ctx, []Job{j})
	if err != nil {
		return JobView{}, fmt.Errorf("store job %s: %w", j.ID, err)
	}
	if !added[0] {
		return b.find(ctx, v, string(id))
	}
	b.wake(j.ID)
	return b.View(j), nil
}

// apply applies d to j and validates the result.
func (b *Manager) apply(j *Job, d JobPatch, now time.Time) error {
	setIfGiven(&j.Prompt, d.Prompt)
	setIfGiven(&j.Skills, d.Skills)
	setIfGiven(&j.Script, d.Script)
	setIfGiven(&j.ScriptOnly, d.ScriptOnly)
	setIfGiven(&j.Workdir, d.Workdir)
	setIfGiven(&j.Model, d.Model)
	setIfGiven(&j.Provider, d.Provider)
	setIfGiven(&j.Deliver, d.Deliver)
	setIfGiven(&j.Repeat, d.Repeat)
	if d.Context != nil {
		j.Context = nil
		for _, c := range *d.Context {
			j.Context = append(j.Context, JobID(c))
		}
	}
	if err := b.reschedule(j, d, now); err != nil {
		return err
	}
	if d.Name != nil {
		j.Name = strings.Join(strings.Fields(*d.Name), " ")
	}
	if j.Name == "" {
		j.Name = nameFor(*j)
	}
	j.Updated, j.PauseReason = now.UTC(), ""
	return b.validator.Validate(*j, now)
}

func setIfGiven[T any](to *T, v *T) {
	if v != nil {
		*to = *v
	}
}

// reschedule sets the schedule or the zone of j. Occurrences of the old schedule that
// are due are dropped. Without either, it updates Done for a changed Repeat.
func (b *Manager) reschedule(j *Job, d JobPatch, now time.Time) error {
	if d.Schedule == nil && d.Zone == nil {
		switch reached := j.Repeat > 0 && j.State.Runs >= j.Repeat; {
		case j.Schedule.Kind == Once || reached == j.State.Done:
		case reached:
			j.State.Done = true
		default:
			j.State.Done, j.State.RecordedUntil = false, now.UTC()
		}
		return nil
	}
	text, zoneName := j.Schedule.Text, cmp.Or(j.Schedule.Zone, b.validator.Zone)
	setIfGiven(&text, d.Schedule)
	if d.Zone != nil {
		zoneName = cmp.Or(*d.Zone, b.validator.Zone)
	}
	if zoneName == "Local" { // depends on the environment of the process
		zoneName = b.validator.Zone
	}
	s, err := Parse(text, zoneName, now)
	if err != nil {
		return &invalidError{err}
	}
	j.Schedule = s
	j.State.RecordedUntil, j.State.Runs, j.State.Done = s.Before(now).UTC(), 0, false
	return nil
}

// resolveContext replaces names in j.Context by job IDs.
func (b *Manager) resolveContext(ctx context.Context, v Caller, j *Job) error {
	for i, c := range j.Context {
		if c == j.ID {
			continue // the job's own previous output
		}
		f, err := b.find(ctx, v, string(c))
		if err != nil {
			return err
		}
		if !CanRead(j.Creator, f.Creator) {
			return invalid("the job %s belongs to somebody else; only a job of the same person can follow it", f.ID)
		}
		j.Context[i] = f.ID
	}
	return nil
}

// List returns the jobs that v can see, sorted by next due time.
func (b *Manager) List(ctx context.Context, v Caller) ([]JobView, error) {
	jobs, err := b.store.Jobs(ctx)
	if err != nil {
		return nil, fmt.Errorf("read jobs: %w", err)
	}
	list := []JobView{}
	for _, j := range jobs {
		if v.canSee(j) {
			list = append(list, b.View(j))
		}
	}
	slices.SortStableFunc(list, func(x, y JobView) int {
		switch {
		case len(x.Next) > 0 && len(y.Next) > 0:
			return x.Next[0].Compare(y.Next[0])
		case len(x.Next)+len(y.Next) > 0:
			return len(y.Next) - len(x.Next)
		}
		return strings.Compare(x.Name, y.Name)
	})
	return list, nil
}

// Find returns the job with the given ID or name. Names are not case-sensitive.
func (b *Manager) Find(ctx context.Context, v Caller, name string) (JobView, error) {
	return b.find(ctx, v, name)
}

func (b *Manager) find(ctx context.Context, v Caller, name string) (JobView, error) {
	name = strings.TrimSpace(name)
	if j, ok, err := b.store.Job(ctx, JobID(name)); err != nil {
		return JobView{}, fmt.Errorf("read job %s: %w", name, err)
	} else if ok && j.Removed.IsZero() && v.canSee(j) {
		return b.View(j), nil
	}
	jobs, err := b.store.Jobs(ctx)
	if err != nil {
		return JobView{}, fmt.Errorf("read jobs: %w", err)
	}
	var found []Job
	for _, j := range jobs {
		if v.canSee(j) && strings.EqualFold(j.Name, name) && name != "" {
			found = append(found, j)
		}
	}
	switch len(found) {
	case 0:
		return JobView{}, invalid("there is no job %q; a list of the jobs shows their ids", name)
	case 1:
		return b.View(found[0]), nil
	}
	ids := make([]string, len(found))
	for i, j := range found {
		ids[i] = string(j.ID)
	}
	return JobView{}, invalid("%d jobs are called %q; use the id: %s", len(found), name, strings.Join(ids, ", "))
}

// findToChange finds a job that v may change.
func (b *Manager) findToChange(ctx context.Context, v Caller, name string) (JobView, error) {
	f, err := b.find(ctx, v, name)
	if err == nil && !v.canChange(f.Job) {
		return JobView{}, invalid("the job %s belongs to an owner; ask an owner to change it", f.ID)
	}
	return f, err
}

// edit finds a job that v may change, applies change in the store and wakes the
// Scheduler.
func (b *Manager) edit(ctx context.Context, v Caller, name string, change func(*Job) error) (JobView, error) {
	f, err := b.findToChange(ctx, v, name)
	if err != nil {
		return JobView{}, err
	}
	var changeErr error
	j, err := b.store.EditJob(ctx, f.ID, func(j *Job) error {
		changeErr = change(j)
		return changeErr
	})
	switch {
	case err != nil && changeErr != nil:
		return JobView{}, changeErr
	case errors.Is(err, ErrNoJob):
		return JobView{}, invalid("the job %s was removed just now", f.ID)
	case err != nil:
		return JobView{}, fmt.Errorf("change job %s: %w", f.ID, err)
	}
	b.wake(j.ID)
	return b.View(j), nil
}
