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

// A Manager is where jobs are made and changed. Its methods may be called from any
// goroutine. Those that fail for a reason that a person can mend return an error
// that is ErrInvalid, whose text says how.
type Manager struct {
	store Store
	rules Validator
	wake  func(...JobID)
	now   func() time.Time
}

// NewManager returns the book of the jobs in store. wake, if not nil, is told of
// each job that has changed.
func NewManager(store Store, rules Validator, wake func(...JobID)) *Manager {
	if wake == nil {
		wake = func(...JobID) {}
	}
	return &Manager{store: store, rules: rules, wake: wake, now: time.Now}
}

// A Caller is who asks. People see and change the jobs that were made in their
// own chat, owners all of them.
type Caller struct {
	Principal access.Principal
	Address   chat.Address // the chat in which the viewer is; zero for the command line
	ChatName  string       // of the chat or the person
}

// OperatorCaller is the viewer at the machine itself.
func OperatorCaller() Caller { return Caller{Principal: Operator()} }

// sees reports whether v may see and change j. An owner sees everything only
// where the principal's level says so.
func (v Caller) sees(j Job) bool {
	return v.Principal.Level == access.Owner || v.Address != (chat.Address{}) && j.Origin == v.Address
}

// A JobPatch is what somebody wants of a job. Nil fields are left as they are, or
// as is usual.
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

// A JobView is a job as it is shown: with the next times at which it is due.
type JobView struct {
	Job
	Status string      `json:"status"`
	Next   []time.Time `json:"next"` // three at most, in the job's zone
}

// View returns j as it is shown.
func (b *Manager) View(j Job) JobView {
	v := JobView{Job: j, Status: j.Status(), Next: []time.Time{}}
	p, err := j.Schedule.Plan()
	if err != nil || !j.Active() {
		return v
	}
	most := 3
	if j.Repeat > 0 {
		most = min(most, j.Repeat-j.State.Runs)
	}
	if times := p.Upcoming(after(j, b.now()), most); times != nil {
		v.Next = times
	}
	return v
}

// after is the instant after which the next slot of j comes. What is decided in
// times to come was decided by a clock that was wrong.
func after(j Job, now time.Time) time.Time {
	if j.State.RecordedUntil.After(now) {
		return now
	}
	return j.State.RecordedUntil
}

// Create makes a job. With an id that is taken it returns the job that has it,
// so that to ask again is to ask once; with "" the job gets a fresh one.
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
	if err := b.context(ctx, v, &j); err != nil {
		return JobView{}, err
	}
	added, err := b.store.AddJobs(ctx, []Job{j})
	if err != nil {
		return JobView{}, fmt.Errorf("keep job %s: %w", j.ID, err)
	}
	if !added[0] {
		return b.find(ctx, v, string(id))
	}
	b.wake(j.ID)
	return b.View(j), nil
}

// apply changes j as d wants and checks what comes of it.
func (b *Manager) apply(j *Job, d JobPatch, now time.Time) error {
	set(&j.Prompt, d.Prompt)
	set(&j.Skills, d.Skills)
	set(&j.Script, d.Script)
	set(&j.ScriptOnly, d.ScriptOnly)
	set(&j.Workdir, d.Workdir)
	set(&j.Model, d.Model)
	set(&j.Provider, d.Provider)
	set(&j.Deliver, d.Deliver)
	set(&j.Repeat, d.Repeat)
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
	j.Updated = now.UTC()
	return b.rules.Validate(*j, now)
}

func set[T any](to *T, v *T) {
	if v != nil {
		*to = *v
	}
}

// reschedule gives j another schedule, or the same in another zone. What was due
// by the old one is forgotten.
func (b *Manager) reschedule(j *Job, d JobPatch, now time.Time) error {
	if d.Schedule == nil && d.Zone == nil {
		switch enough := j.Repeat > 0 && j.State.Runs >= j.Repeat; {
		case j.Schedule.Kind == Once || enough == j.State.Done:
		case enough:
			j.State.Done = true
		default:
			j.State.Done, j.State.RecordedUntil = false, now.UTC()
		}
		return nil
	}
	text, zoneName := j.Schedule.Text, cmp.Or(j.Schedule.Zone, b.rules.Zone)
	set(&text, d.Schedule)
	if d.Zone != nil {
		zoneName = cmp.Or(*d.Zone, b.rules.Zone)
	}
	s, err := Parse(text, zoneName, now)
	if err != nil {
		return &wrong{err}
	}
	j.Schedule = s
	j.State.RecordedUntil, j.State.Runs, j.State.Done = s.Before(now).UTC(), 0, false
	return nil
}

// context makes ids of the jobs that j follows, which may be named.
func (b *Manager) context(ctx context.Context, v Caller, j *Job) error {
	for i, c := range j.Context {
		if c == j.ID {
			continue // its own output of the last time
		}
		f, err := b.find(ctx, v, string(c))
		if err != nil {
			return err
		}
		j.Context[i] = f.ID
	}
	return nil
}

// List returns the jobs that v sees, those that are due next first.
func (b *Manager) List(ctx context.Context, v Caller) ([]JobView, error) {
	jobs, err := b.store.Jobs(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the jobs: %w", err)
	}
	list := []JobView{}
	for _, j := range jobs {
		if v.sees(j) {
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

// Find returns the job that v calls name: its id, or its name in any case.
func (b *Manager) Find(ctx context.Context, v Caller, name string) (JobView, error) {
	return b.find(ctx, v, name)
}

func (b *Manager) find(ctx context.Context, v Caller, name string) (JobView, error) {
	name = strings.TrimSpace(name)
	if j, ok, err := b.store.Job(ctx, JobID(name)); err != nil {
		return JobView{}, fmt.Errorf("read job %s: %w", name, err)
	} else if ok && v.sees(j) {
		return b.View(j), nil
	}
	jobs, err := b.store.Jobs(ctx)
	if err != nil {
		return JobView{}, fmt.Errorf("read the jobs: %w", err)
	}
	var found []Job
	for _, j := range jobs {
		if v.sees(j) && strings.EqualFold(j.Name, name) && name != "" {
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

// edit finds a job and changes it.
func (b *Manager) edit(ctx context.Context, v Caller, name string, change func(*Job) error) (JobView, error) {
	f, err := b.find(ctx, v, name)
	if err != nil {
		return JobView{}, err
	}
	var refused error
	j, err := b.store.EditJob(ctx, f.ID, func(j *Job) error {
		refused = change(j)
		return refused
	})
	switch {
	case err != nil && refused != nil:
		return JobView{}, refused
	case errors.Is(err, ErrNoJob):
		return JobView{}, invalid("the job %s was removed just now", f.ID)
	case err != nil:
		return JobView{}, fmt.Errorf("change job %s: %w", f.ID, err)
	}
	b.wake(j.ID)
	return b.View(j), nil
}
