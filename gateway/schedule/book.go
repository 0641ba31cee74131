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

// A Book is where jobs are made and changed. Its methods may be called from any
// goroutine. Those that fail for a reason that a person can mend return an error
// that is ErrInvalid, whose text says how.
type Book struct {
	store Store
	rules Rules
	wake  func(...JobID)
	now   func() time.Time
}

// NewBook returns the book of the jobs in store. wake, if not nil, is told of
// each job that has changed.
func NewBook(store Store, rules Rules, wake func(...JobID)) *Book {
	if wake == nil {
		wake = func(...JobID) {}
	}
	return &Book{store: store, rules: rules, wake: wake, now: time.Now}
}

// A Viewer is who asks. People see and change the jobs that were made in their
// own chat, owners all of them.
type Viewer struct {
	By     access.Principal
	At     chat.Address // the chat in which the viewer is; zero for the command line
	AtName string       // of the chat or the person
}

// Machine is the viewer at the machine itself.
func Machine() Viewer { return Viewer{By: Operator()} }

// sees reports whether v may see and change j. An owner sees everything only
// where the principal's level says so.
func (v Viewer) sees(j Job) bool {
	return v.By.Level == access.Owner || v.At != (chat.Address{}) && j.Origin == v.At
}

// A Draft is what somebody wants of a job. Nil fields are left as they are, or
// as is usual.
type Draft struct {
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

// A View is a job as it is shown: with the next times at which it is due.
type View struct {
	Job
	Status string      `json:"status"`
	Next   []time.Time `json:"next"` // three at most, in the job's zone
}

// View returns j as it is shown.
func (b *Book) View(j Job) View {
	v := View{Job: j, Status: j.Status(), Next: []time.Time{}}
	p, err := j.Schedule.Plan()
	if err != nil || !j.Live() {
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
	if j.State.Decided.After(now) {
		return now
	}
	return j.State.Decided
}

// Create makes a job. With an id that is taken it returns the job that has it,
// so that to ask again is to ask once; with "" the job gets a fresh one.
func (b *Book) Create(ctx context.Context, v Viewer, id JobID, d Draft) (View, error) {
	if d.Schedule == nil {
		return View{}, invalid("the schedule is missing; write %s", errForms)
	}
	now := b.now()
	if id == "" {
		id = NewJobID()
	}
	j := Job{ID: id, By: v.By, Origin: v.At, OriginName: v.AtName, Created: now.UTC(), Revision: 1, Deliver: []string{"local"}}
	if v.At != (chat.Address{}) {
		j.Deliver = []string{"origin"}
	}
	if err := b.apply(&j, d, now); err != nil {
		return View{}, err
	}
	if err := b.context(ctx, v, &j); err != nil {
		return View{}, err
	}
	added, err := b.store.AddJobs(ctx, []Job{j})
	if err != nil {
		return View{}, fmt.Errorf("keep job %s: %w", j.ID, err)
	}
	if !added[0] {
		return b.find(ctx, v, string(id))
	}
	b.wake(j.ID)
	return b.View(j), nil
}

// apply changes j as d wants and checks what comes of it.
func (b *Book) apply(j *Job, d Draft, now time.Time) error {
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
func (b *Book) reschedule(j *Job, d Draft, now time.Time) error {
	if d.Schedule == nil && d.Zone == nil {
		switch enough := j.Repeat > 0 && j.State.Runs >= j.Repeat; {
		case j.Schedule.Kind == Once || enough == j.State.Done:
		case enough:
			j.State.Done = true
		default:
			j.State.Done, j.State.Decided = false, now.UTC()
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
	j.State.Decided, j.State.Runs, j.State.Done = s.Before(now).UTC(), 0, false
	return nil
}

// context makes ids of the jobs that j follows, which may be named.
func (b *Book) context(ctx context.Context, v Viewer, j *Job) error {
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
func (b *Book) List(ctx context.Context, v Viewer) ([]View, error) {
	jobs, err := b.store.Jobs(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the jobs: %w", err)
	}
	list := []View{}
	for _, j := range jobs {
		if v.sees(j) {
			list = append(list, b.View(j))
		}
	}
	slices.SortStableFunc(list, func(x, y View) int {
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
func (b *Book) Find(ctx context.Context, v Viewer, name string) (View, error) {
	return b.find(ctx, v, name)
}

func (b *Book) find(ctx context.Context, v Viewer, name string) (View, error) {
	name = strings.TrimSpace(name)
	if j, ok, err := b.store.Job(ctx, JobID(name)); err != nil {
		return View{}, fmt.Errorf("read job %s: %w", name, err)
	} else if ok && v.sees(j) {
		return b.View(j), nil
	}
	jobs, err := b.store.Jobs(ctx)
	if err != nil {
		return View{}, fmt.Errorf("read the jobs: %w", err)
	}
	var found []Job
	for _, j := range jobs {
		if v.sees(j) && strings.EqualFold(j.Name, name) && name != "" {
			found = append(found, j)
		}
	}
	switch len(found) {
	case 0:
		return View{}, invalid("there is no job %q; a list of the jobs shows their ids", name)
	case 1:
		return b.View(found[0]), nil
	}
	ids := make([]string, len(found))
	for i, j := range found {
		ids[i] = string(j.ID)
	}
	return View{}, invalid("%d jobs are called %q; use the id: %s", len(found), name, strings.Join(ids, ", "))
}

// edit finds a job and changes it.
func (b *Book) edit(ctx context.Context, v Viewer, name string, change func(*Job) error) (View, error) {
	f, err := b.find(ctx, v, name)
	if err != nil {
		return View{}, err
	}
	var refused error
	j, err := b.store.EditJob(ctx, f.ID, func(j *Job) error {
		refused = change(j)
		return refused
	})
	switch {
	case err != nil && refused != nil:
		return View{}, refused
	case errors.Is(err, ErrNoJob):
		return View{}, invalid("the job %s was removed just now", f.ID)
	case err != nil:
		return View{}, fmt.Errorf("change job %s: %w", f.ID, err)
	}
	b.wake(j.ID)
	return b.View(j), nil
}
