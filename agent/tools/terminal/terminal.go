// Package terminal implements the tools with which a model runs commands: terminal starts
// them, process manages those in the background. The main type is Terminal.
//
// Every command takes the same path: the directory is checked, the CommandPolicy classifies
// the command, some need an approval, and then exactly the classified bytes are
// passed to the shell. Input typed into a process takes the same path. A background process
// belongs to its session and is invisible to others.
package terminal

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"hermesd/agent/tool"
	"hermesd/internal/secret"
	"hermesd/internal/spawn"
)

// The names of the tools.
const (
	Name        = "terminal"
	ProcessName = "process"
)

//go:embed terminal.md terminal.json process.md process.json
var texts embed.FS

// A PolicyResult is the classification of a command. The zero PolicyResult allows it.
type PolicyResult struct {
	Blocked string   // why it must never run; "": it may
	Reasons []string // why it needs an approval; empty: it needs none
	Shapes  []string // see tool.ApprovalRequest
	// NoNetwork says that it runs without network, which needs a sandbox. A request with
	// Network is not answered so.
	NoNetwork bool
}

// A PolicyRequest is a command line to be classified.
type PolicyRequest struct {
	Command string
	Dir     string // absolute path of the directory in which it runs
	Session string // the session whose turn runs it
	// Network says that it needs the network, or that it is typed into a process that
	// has the network.
	Network bool
	// ListeningPorts returns Terminal.ListeningPorts of the session.
	ListeningPorts func() []uint16
}

// A CommandPolicy classifies a command line before it runs.
type CommandPolicy func(ctx context.Context, r PolicyRequest) PolicyResult

// Options configure how commands run. Folder, Policy, Secrets and Sandbox are required; other zero
// values select the defaults.
type Options struct {
	Workspace string // default directory; must exist
	// Folder returns the directory for commands of a session that name none, "" the
	// workspace.
	Folder func(session string) string
	Policy CommandPolicy
	// Secrets masks secrets in results before they are truncated.
	Secrets *secret.Masker
	// Sandbox returns the sandbox for commands, nil if they run without one. It is called
	// for each command, and if it fails the command does not run.
	Sandbox        func() (*spawn.Sandbox, error)
	Shell          string   // "": bash, or sh
	EnvPassthrough []string // environment variables of the daemon passed to commands
	Spill          string   // directory for long output; "": it is discarded

	Timeout    time.Duration // of a foreground command; 0: DefaultTimeout
	MaxTimeout time.Duration // longest timeout that a model may request; 0: DefaultMaxTimeout
	Grace      time.Duration // between asking a command to end and killing it; 0: default of spawn
	MaxOutput  int           // characters of output in a result; 0: DefaultMaxOutput
	// Jobs and SessionJobs limit the background processes in total and per session; 0:
	// DefaultJobs and DefaultSessionJobs.
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

// Fixed limits.
const (
	maxCommand   = 64 << 10 // bytes
	spillAge     = 24 * time.Hour
	spillTotal   = 512 << 20
	keepFree     = 1 << 30 // bytes that commands leave free for the store
	maxNotes     = 4000    // characters of a result in addition to the output
	maxFinished  = 32      // ended jobs that are kept
	maxJobTime   = 7 * 24 * time.Hour
	writeTimeout = 10 * time.Second
	defaultWait  = time.Minute
	startupWait  = 300 * time.Millisecond // a job that ends within this time is reported at once
)

// ErrStopped is the reason for which background processes are ended when the daemon stops
// or their session ends.
var ErrStopped = errors.New("the daemon stops")

// A Terminal runs commands for all sessions. Its methods may be called from any goroutine.
// The zero Terminal has no processes and must not be given any.
type Terminal struct {
	o    Options
	log  *zap.Logger
	life context.Context // of background processes
	stop context.CancelCauseFunc
	work sync.WaitGroup // goroutines that wait for background processes

	mu     sync.Mutex // guards what follows
	jobs   []*job     // in the order of their start
	next   int
	closed bool
}

// New returns a Terminal. It starts no process.
func New(o Options, log *zap.Logger) (*Terminal, error) {
	if o.Policy == nil || o.Sandbox == nil {
		return nil, errors.New("terminal: no command policy, or no sandbox")
	}
	dir, err := filepath.Abs(o.Workspace)
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	if err != nil {
		return nil, fmt.Errorf("terminal: resolve workspace: %w", err)
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

// Tools returns the tools terminal and process.
func (t *Terminal) Tools() []tool.Tool {
	return []tool.Tool{tool.New(t.spec(Name), t.run), tool.New(t.spec(ProcessName), t.process)}
}

func (t *Terminal) spec(name string) tool.Spec {
	return tool.Spec{
		Tool:   tool.Definition(texts, name),
		Effect: tool.AtMostOnce, MaxResult: t.o.MaxOutput + maxNotes,
	}
}

// Close ends all background processes and their children, and waits for that until ctx
// ends. No further process is started.
func (t *Terminal) Close(ctx context.Context) error {
	t.mu.Lock()
	t.closed = true
	t.mu.Unlock()
	t.stop(ErrStopped)
	done := make(chan struct{})
	go func() { // ends with the last process, which is being stopped
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

// EndSession ends the background processes of a session and removes them from the list.
func (t *Terminal) EndSession(session string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.jobs = slices.DeleteFunc(t.jobs, func(j *job) bool {
		if j.session == session && j.run != nil {
			j.run.Stop(ErrStopped) // does not block
		}
		return j.session == session
	})
}

// Background returns the number of running background processes of a session.
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
