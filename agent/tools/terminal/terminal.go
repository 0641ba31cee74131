// Package terminal holds the tools with which a model runs commands: terminal
// starts them, process looks after those in the background.
//
// There is one road to a process: the folder is checked, the Guard judges the
// command, a dangerous one waits for a person, and then exactly the bytes that
// were judged are given to the shell. What is typed into a process goes the same
// road. A process in the background belongs to its session; no other can see it.
package terminal

import (
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"hermesd/agent/llm"
	"hermesd/agent/tool"
	"hermesd/internal/spawn"
)

// The names of the tools.
const (
	Name        = "terminal"
	ProcessName = "process"
)

//go:embed terminal.md terminal.json process.md process.json
var texts embed.FS

// A PolicyResult is what a Guard thinks of a command. The zero Verdict allows it.
type PolicyResult struct {
	Blocked string   // why it is never run; "": it may be
	Reasons []string // what is dangerous about it; none: nothing
	Key     string   // names what leave for it covers; see tool.Request
}

// A CommandPolicy judges a command line before it runs.
type CommandPolicy func(ctx context.Context, command string) PolicyResult

// Options say how commands run. Zero values mean the defaults.
type Options struct {
	Workspace string // where they run; must exist
	AnyFolder bool   // they may run in other folders too
	// Folder is where those of a session run that name no folder, "" the workspace;
	// nil: all in the workspace.
	Folder func(session string) string
	Policy CommandPolicy // must be set
	Mask   func(string) string
	// Sandbox returns what commands run in; it is asked at each, and without it
	// none runs. nil: they run without one.
	Sandbox        func() (*spawn.Sandbox, error)
	Shell          string   // "": bash, or sh
	EnvPassthrough []string // names of variables of ours that they get
	Spill          string   // folder for long output; "": it is lost

	Timeout    time.Duration // of a foreground command; DefaultTimeout
	MaxTimeout time.Duration // the most that a model may ask for; DefaultMaxTimeout
	Grace      time.Duration // between asking a command to end and ending it; that of spawn
	MaxOutput  int           // characters of output in a result; DefaultCap
	// Jobs and SessionJobs are how many processes run in the background at most, in
	// all and of one session; DefaultJobs and DefaultSessionJobs.
	Jobs, SessionJobs int
}

// The defaults of Options.
const (
	DefaultTimeout     = 180 * time.Second
	DefaultMaxTimeout  = 600 * time.Second
	DefaultMaxOutput   = 50_000
	DefaultJobs        = 32
	DefaultSessionJobs = 8
)

// Bounds that nobody needs to change.
const (
	maxCommand    = 64 << 10 // bytes
	spillAge      = 24 * time.Hour
	spillTotal    = 512 << 20
	noteRoom      = 4000 // characters beside the output in a result
	maxFinished   = 32   // ended jobs that are remembered
	maxJobTime    = 7 * 24 * time.Hour
	writeTime     = 10 * time.Second
	defaultWait   = time.Minute
	startedWithin = 300 * time.Millisecond // a job that ends at once is told at once
)

// ErrStopped is why background processes end when the daemon does.
var ErrStopped = errors.New("the daemon stops")

// A Terminal runs commands for all sessions.
type Terminal struct {
	o    Options
	log  *zap.Logger
	life context.Context // of background processes
	stop context.CancelCauseFunc
	work sync.WaitGroup // what waits for them

	mu     sync.Mutex // guards what follows
	jobs   []*job     // in the order of their start
	next   int
	closed bool
}

// New returns a Terminal. It starts nothing.
func New(o Options, log *zap.Logger) (*Terminal, error) {
	if o.Policy == nil {
		return nil, errors.New("terminal: nothing judges commands before they run")
	}
	dir, err := filepath.Abs(o.Workspace)
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	if err != nil {
		return nil, fmt.Errorf("terminal: the workspace cannot be used: %w", err)
	}
	o.Workspace = dir
	set := func(d *time.Duration, to time.Duration) {
		if *d <= 0 {
			*d = to
		}
	}
	set(&o.Timeout, DefaultTimeout)
	set(&o.MaxTimeout, max(DefaultMaxTimeout, o.Timeout))
	for n, to := range map[*int]int{&o.MaxOutput: DefaultMaxOutput, &o.Jobs: DefaultJobs, &o.SessionJobs: DefaultSessionJobs} {
		if *n <= 0 {
			*n = to
		}
	}
	t := &Terminal{o: o, log: log.Named("terminal")}
	t.life, t.stop = context.WithCancelCause(context.Background())
	return t, nil
}

// Tools returns the tools.
func (t *Terminal) Tools() []tool.Tool {
	return []tool.Tool{tool.New(t.spec(Name), t.run), tool.New(t.spec(ProcessName), t.process)}
}

func (t *Terminal) spec(name string) tool.Spec {
	return tool.Spec{
		Tool:   llm.Tool{Name: name, Description: text(name + ".md"), Schema: json.RawMessage(text(name + ".json"))},
		Effect: tool.AtMostOnce, MaxResult: t.o.MaxOutput + noteRoom,
	}
}

func text(name string) string {
	b, err := texts.ReadFile(name)
	if err != nil {
		panic(err) // it is embedded above
	}
	return strings.TrimSpace(string(b))
}

// Close ends all background processes, with all that they have started, and
// waits for that as long as ctx lets it. Nothing is started any more.
func (t *Terminal) Close(ctx context.Context) error {
	t.mu.Lock()
	t.closed = true
	t.mu.Unlock()
	t.stop(ErrStopped)
	done := make(chan struct{})
	go func() { // ends with the last process, which is being killed
		t.work.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("end background processes: %w", context.Cause(ctx))
	}
}

// EndSession ends the background processes of a session and forgets them.
func (t *Terminal) EndSession(session string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	kept := t.jobs[:0]
	for _, j := range t.jobs {
		if j.session != session {
			kept = append(kept, j)
		} else if j.run != nil {
			j.run.Stop(ErrStopped) // does not wait
		}
	}
	clear(t.jobs[len(kept):])
	t.jobs = kept
}

// Background returns how many processes of a session run in the background.
func (t *Terminal) Background(session string) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := 0
	for _, j := range t.jobs {
		if j.session == session && !j.ended() {
			n++
		}
	}
	return n
}

// Running returns how many processes run in the background.
func (t *Terminal) Running() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := 0
	for _, j := range t.jobs {
		if !j.ended() {
			n++
		}
	}
	return n
}
