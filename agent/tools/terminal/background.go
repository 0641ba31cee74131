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
	"hermesd/internal/shorten"
	"hermesd/internal/spawn"
)

type job struct {
	id, session string
	command     string
	dir         string // in which it was started
	network     network
	limit       time.Duration
	startedAt   time.Time
	typing      chan struct{}  // held while typing into it
	pendingLine string         // typed text without a line end yet; guarded by typing
	run         *spawn.Process // nil while starting; set under Terminal.mu

	mu    sync.Mutex // guards what follows
	since int64      // offset of the first byte that no poll has returned
}

// ended reports whether the job has ended. The caller holds Terminal.mu.
func (j *job) ended() bool {
	return j.run != nil && j.hasEnded()
}

func (j *job) hasEnded() bool {
	select {
	case <-j.run.Done():
		return true
	default:
		return false
	}
}

func (t *Terminal) background(c tool.Call, cmd spawn.Command, n network) (string, error) {
	cmd.Input = true
	j, err := t.reserve(c.Session, cmd, n)
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
	if forgotten { // its session ended in the meantime
		run.Stop(ErrStopped)
	}
	go func() { // Close waits
		defer t.work.Done()
		r := run.Wait()
		t.log.Debug("background process ended", zap.String("id", j.id), zap.Int("code", r.Code), zap.Duration("took", r.Took))
	}()
	at := time.NewTimer(startupWait)
	defer at.Stop()
	select {
	case <-run.Done():
		return fmt.Sprintf("%s has ended already:\n\n%s", j.id, t.poll(j)), nil
	case <-at.C:
	}
	how := ""
	if !n.shared {
		how = " without network, so that other commands cannot reach its ports"
	}
	return fmt.Sprintf("%s runs in the background%s; use the process tool with this id", j.id, how), nil
}

// reserve checks the limits and adds a job to the list.
func (t *Terminal) reserve(session string, cmd spawn.Command, n network) (*job, error) {
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
	j := &job{id: "p" + strconv.Itoa(t.next), session: session, command: cmd.Shell, dir: cmd.Dir, network: n, limit: cmd.Timeout, startedAt: time.Now(), typing: make(chan struct{}, 1)}
	t.jobs = append(t.jobs, j)
	t.work.Add(1)
	return j, nil
}

// oldestEnded returns the index of the next job to be removed. There must be an ended one.
func (t *Terminal) oldestEnded() int { return slices.IndexFunc(t.jobs, (*job).ended) }

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

// ListeningPorts returns the TCP ports of this machine on which background processes of the
// session listen, and nobody else does, on any address: none of those that run without
// network, on loopbacks of their own. It returns none where this cannot be determined.
func (t *Terminal) ListeningPorts(session string) []uint16 {
	t.mu.Lock()
	var roots []int
	for _, j := range t.jobs {
		if j.session == session && j.run != nil && !j.ended() {
			roots = append(roots, j.run.Pid())
		}
	}
	t.mu.Unlock()
	if len(roots) == 0 {
		return nil
	}
	return listeningPorts(roots)
}

func (t *Terminal) list(session string) string {
	t.mu.Lock()
	jobs := slices.DeleteFunc(slices.Clone(t.jobs), func(j *job) bool { return j.session != session || j.run == nil })
	t.mu.Unlock()
	var b strings.Builder
	for _, j := range jobs {
		fmt.Fprintf(&b, "%s  %s  %s\n", j.id, j.state(), shorten.Line(t.o.Secrets.Mask(j.command), 120))
	}
	if b.Len() == 0 {
		return "This conversation has no background processes."
	}
	return strings.TrimRight(b.String(), "\n")
}

func (j *job) state() string {
	if j.hasEnded() {
		return "[" + describeEnd(j.run.Wait(), j.limit) + "]"
	}
	return fmt.Sprintf("[runs for %v]", time.Since(j.startedAt).Round(time.Second))
}

// poll returns the output of the job since the last poll, and its state. While the job
// runs, the beginning of a secret is left to the next poll.
func (t *Terminal) poll(j *job) string {
	ended, state := j.hasEnded(), j.state() // read before the output, so that the output of an ended job is complete
	j.mu.Lock()
	data, next, lost := j.run.Output(j.since)
	if !ended {
		pending := t.o.Secrets.Pending(string(data))
		data, next = data[:len(data)-pending], next-int64(pending)
	}
	j.since = next
	j.mu.Unlock()
	if lost > 0 {
		state += fmt.Sprintf("\n[%d bytes in the middle of this are not kept; the end is what matters most]", lost)
	}
	notes := t.spillNotes(j.run.Kept())
	if ended {
		notes = append(j.network.notes(j.run.Wait()), notes...)
	}
	return t.compose(spawn.Output{Head: data, Total: int64(len(data))}, withState(state, notes))
}

// fullLog returns all stored output of the job, and its state. While the job runs, the
// beginning of a secret at its end is left out.
func (t *Terminal) fullLog(j *job) string {
	ended, state := j.hasEnded(), j.state()
	kept := j.run.Kept()
	shown := kept
	if !ended {
		pending := t.o.Secrets.Pending(string(kept.Head) + string(kept.Tail))
		tail := min(pending, len(kept.Tail))
		shown.Tail = kept.Tail[:len(kept.Tail)-tail]
		shown.Head = kept.Head[:len(kept.Head)-(pending-tail)]
	}
	return t.compose(shown, withState(state, t.spillNotes(kept)))
}

// withState puts a state, which is in brackets, before other notes.
func withState(state string, more []string) []string {
	return append([]string{strings.TrimSuffix(strings.TrimPrefix(state, "["), "]")}, more...)
}
