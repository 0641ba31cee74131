package terminal

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"hermesd/agent/tool"
	"hermesd/internal/spawn"
)

// A job is a process in the background.
type job struct {
	id, session string
	command     string
	limit       time.Duration
	began       time.Time
	typing      chan struct{}  // held by who types into it
	line        string         // typed, but not yet ended by a line end; of who types
	run         *spawn.Process // nil while it is being started; set under Terminal.mu

	mu    sync.Mutex // guards what follows
	since int64      // the first byte that no poll has shown
}

// ended reports whether it has. The caller holds Terminal.mu.
func (j *job) ended() bool {
	if j.run == nil {
		return false
	}
	select {
	case <-j.run.Done():
		return true
	default:
		return false
	}
}

// background starts a job.
func (t *Terminal) background(c tool.Call, cmd spawn.Command) (string, error) {
	cmd.Input = true
	j, err := t.reserve(c.Session, cmd)
	if err != nil {
		return "", err
	}
	run, err := spawn.Start(t.life, cmd)
	t.mu.Lock()
	if err != nil {
		t.jobs = slices.DeleteFunc(t.jobs, func(o *job) bool { return o == j })
		t.mu.Unlock()
		t.work.Done()
		return "", fmt.Errorf("the command was not run: %w", err)
	}
	j.run = run
	forgotten := !slices.Contains(t.jobs, j)
	t.mu.Unlock()
	if forgotten { // its session has ended meanwhile
		run.Stop(ErrStopped)
	}
	go func() { // Close waits
		defer t.work.Done()
		r := run.Wait()
		t.log.Debug("a background process has ended", zap.String("id", j.id), zap.Int("code", r.Code), zap.Duration("took", r.Took))
	}()
	at := time.NewTimer(startedWithin)
	defer at.Stop()
	select {
	case <-run.Done():
		return fmt.Sprintf("%s has ended already:\n\n%s", j.id, t.poll(j)), nil
	case <-at.C:
	}
	return fmt.Sprintf("%s runs in the background; use the process tool with this id", j.id), nil
}

// reserve makes room for a job and counts it in.
func (t *Terminal) reserve(session string, cmd spawn.Command) (*job, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return nil, fmt.Errorf("it was not run: %w", ErrStopped)
	}
	all, mine := 0, 0
	for _, j := range t.jobs {
		if !j.ended() {
			all++
			if j.session == session {
				mine++
			}
		}
	}
	switch {
	case mine >= t.o.SessionJobs:
		return nil, fmt.Errorf("it was not run: %d processes of this conversation run in the background, which is the most; end one with process kill", mine)
	case all >= t.o.Jobs:
		return nil, fmt.Errorf("it was not run: %d processes run in the background, which is the most; try again later", all)
	}
	if finished := len(t.jobs) - all; finished >= maxFinished {
		t.jobs = slices.Delete(t.jobs, t.oldestEnded(), t.oldestEnded()+1)
	}
	t.next++
	j := &job{id: "p" + strconv.Itoa(t.next), session: session, command: cmd.Shell, limit: cmd.Timeout, began: time.Now(), typing: make(chan struct{}, 1)}
	t.jobs = append(t.jobs, j)
	t.work.Add(1)
	return j, nil
}

// oldestEnded returns the place of the job that is forgotten next; there is one.
func (t *Terminal) oldestEnded() int { return slices.IndexFunc(t.jobs, (*job).ended) }

// find returns a job of the session that has been started.
func (t *Terminal) find(session, id string) (*job, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, j := range t.jobs {
		if j.id == id && j.session == session && j.run != nil {
			return j, nil
		}
	}
	return nil, fmt.Errorf("this conversation has no process %q; list names those it has", id)
}

// list says which jobs a session has.
func (t *Terminal) list(session string) string {
	t.mu.Lock()
	jobs := slices.DeleteFunc(slices.Clone(t.jobs), func(j *job) bool { return j.session != session || j.run == nil })
	t.mu.Unlock()
	var b strings.Builder
	for _, j := range jobs {
		fmt.Fprintf(&b, "%s  %s  %s\n", j.id, j.state(), oneLine(j.command))
	}
	if b.Len() == 0 {
		return "This conversation has no background processes."
	}
	out := strings.TrimRight(b.String(), "\n")
	if t.o.Mask != nil {
		out = t.o.Mask(out)
	}
	return out
}

// state says in words how it is with a job that has been started.
func (j *job) state() string {
	select {
	case <-j.run.Done():
		return "[" + ending(j.run.Wait(), j.limit) + "]"
	default:
		return fmt.Sprintf("[runs for %v]", time.Since(j.began).Round(time.Second))
	}
}

// poll returns what the job has written since the last poll, and how it is.
func (t *Terminal) poll(j *job) string {
	state := j.state() // before the output, so that an ended job has written all
	j.mu.Lock()
	data, next, lost := j.run.Output(j.since)
	j.since = next
	j.mu.Unlock()
	if lost > 0 {
		state += fmt.Sprintf("\n[%d bytes in the middle of this are not kept; the end is what matters most]", lost)
	}
	return t.compose(spawn.Output{Head: data, Total: int64(len(data))}, notes(state, t.spilled(j.run.Kept())))
}

// whole returns all that is kept of the output of the job, and how it is.
func (t *Terminal) whole(j *job) string {
	state := j.state()
	kept := j.run.Kept()
	return t.compose(kept, notes(state, t.spilled(kept)))
}

// notes puts a state, which has its brackets, before others.
func notes(state string, more []string) []string {
	return append([]string{strings.TrimSuffix(strings.TrimPrefix(state, "["), "]")}, more...)
}

// oneLine returns the beginning of a command.
func oneLine(s string) string {
	r := []rune(strings.Join(strings.Fields(s), " "))
	if len(r) > 120 {
		return string(r[:120]) + "…"
	}
	return string(r)
}
