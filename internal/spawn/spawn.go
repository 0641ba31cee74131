// Package spawn starts processes. No other package does.
//
// A process gets only a short list of environment variables, so it knows no secrets. It
// runs in its own process group, and the group is killed when the process ends for any
// reason: a timeout, the end of the context, Kill, too much output, or its own exit. So
// background processes do not outlive their command. Output is kept in memory up to a
// limit and beyond that in a file, up to another limit.
//
// A process that leaves its group (setsid) is ended only in a Sandbox. Windows has no
// process groups: there only the process itself is ended.
//
// Descendants of an Untrusted process are found by CheckPeer, on Linux.
//
// The helper of a Sandbox is the program itself: every program that imports this package
// runs as the helper when its first argument is "__sandbox".
package spawn

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"hermesd/internal/diskspace"
)

// The defaults of a Command.
const (
	DefaultGrace = 2 * time.Second
	DefaultKeep  = 200_000  // bytes of output in memory
	DefaultMost  = 64 << 20 // maximum bytes of output
)

// The reasons for ending a process; see Result.Cause.
var (
	ErrTimeout = errors.New("it took longer than its timeout")
	ErrFlood   = errors.New("it wrote more than it may")
	ErrKilled  = errors.New("it was ended on request")
	ErrDisk    = errors.New("it left too little free space on the disk")
)

// drainTime is how long output is still read after the end of a process if a process
// outside its group holds it open.
const drainTime = time.Second

// A Command describes a process to start. Exactly one of Shell and Argv is set.
type Command struct {
	Shell string   // a command line for the shell
	Argv  []string // a program and its arguments; a name without a slash is looked up in PATH
	// Interpreter runs Shell; "": bash, or sh if bash is missing.
	Interpreter string
	Dir         string   // working directory, must exist; "": that of this process
	PassEnv     []string // names of variables passed in addition to Passed
	Env         []string // additional variables, NAME=value
	Input       bool     // its input is the data passed to Write; false: it has none
	// Stdout and Stderr, if set, get the output instead of memory. A stream without
	// writer is kept; if neither has one, both are kept in order.
	Stdout, Stderr io.Writer
	Timeout        time.Duration // 0: none
	Grace          time.Duration // time between SIGTERM and SIGKILL; 0: DefaultGrace, negative: none
	MaxKept        int           // bytes of output in memory; 0: DefaultKeep
	MaxOutput      int64         // maximum bytes of output, above which it is ended; 0: DefaultMost; not for Stdout and Stderr
	Spill          string        // directory for output above MaxKept; "": it is dropped
	// KeepFree is the number of bytes, on the file system of Dir, that the command must
	// leave free, or half of what is free when it starts if that is less; 0: none. In a
	// sandbox a single file cannot exceed it; several files are noticed within diskInterval.
	KeepFree int64
	floor    uint64   // the free space that it must leave, determined before it starts
	Sandbox  *Sandbox // nil: none
	// NoNetwork starts it without network, whatever the policy of the sandbox is. It then
	// has a loopback of its own, under Landlock none. If that cannot be enforced, it does
	// not start.
	NoNetwork bool
	Untrusted bool // CheckPeer refuses its descendants
}

// A Result is the exit status and the output of a process.
type Result struct {
	Code   int    // exit code; 128 or more if a signal ended it; -1 if unknown
	Signal string // name of the signal that ended it
	// Cause is why it was ended: ErrTimeout, ErrFlood, ErrKilled, ErrDisk or the cause of
	// its context; nil if it ended by itself.
	Cause          error
	Took           time.Duration
	OutputHeldOpen bool // a process outside its group still holds its output open
	Output
}

// An Output is the kept output of a process.
type Output struct {
	Head, Tail []byte
	Lost       int64  // bytes between Head and Tail that are not in memory
	Total      int64  // bytes written
	File       string // file with the whole output; "" if Head and Tail are complete or the file failed
	FileErr    error  // why File is missing or incomplete
}

// Run starts c and waits for its end. It returns an error only if c does not start.
func Run(ctx context.Context, c Command) (Result, error) {
	p, err := Start(ctx, c)
	if err != nil {
		return Result{}, err
	}
	return p.Wait(), nil
}

// Start starts c. The process is ended when ctx ends. The caller must call Wait or Kill.
func Start(ctx context.Context, c Command) (*Process, error) {
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	cmd, err := c.prepare()
	if err != nil {
		return nil, err
	}
	inherited()
	p := newProcess(ctx, c, cmd)
	if err := p.start(); err != nil {
		p.stop(err)
		return nil, err
	}
	return p, nil
}

// inherited keeps descriptors that this process has from the one that started it out of
// the processes that it starts. It cannot fail where it is needed: the sandbox helper does
// the same and reports errors.
var inherited = sync.OnceFunc(func() { _ = closeOnExec() })

// prepare returns the exec.Cmd for c and sets defaults in c.
func (c *Command) prepare() (*exec.Cmd, error) {
	argv := c.Argv
	switch {
	case (c.Shell == "") == (len(argv) == 0):
		return nil, errors.New("spawn: a command is either a line for the shell or a program")
	case strings.ContainsRune(c.Shell, 0):
		return nil, errors.New("the command holds a NUL, which no command can hold")
	case c.Shell != "":
		sh, err := interpreter(c.Interpreter)
		if err != nil {
			return nil, err
		}
		argv = []string{sh, "-c", c.Shell}
	}
	program := argv[0]
	if !filepath.IsAbs(program) && !strings.ContainsRune(program, '/') {
		found, err := exec.LookPath(program)
		if err != nil {
			return nil, fmt.Errorf("the program %s is not there; install it, or put its folder into PATH: %w", program, err)
		}
		program = found
	}
	if c.Dir != "" {
		switch info, err := os.Stat(c.Dir); {
		case err != nil:
			return nil, fmt.Errorf("the working folder cannot be used: %w", err)
		case !info.IsDir():
			return nil, fmt.Errorf("the working folder %s is no folder", c.Dir)
		}
	}
	cmd := &exec.Cmd{Path: program, Args: argv, Dir: c.Dir, Env: environment(c.PassEnv, c.Env)}
	fileSize := c.setFloor()
	if c.NoNetwork {
		if err := c.Sandbox.checkNoNetwork(); err != nil {
			return nil, err
		}
	}
	if c.Sandbox.isActive() {
		if err := c.Sandbox.wrap(cmd, fileSize, c.NoNetwork); err != nil {
			return nil, err
		}
	}
	return cmd, nil
}

// interpreter returns the path of the shell.
func interpreter(name string) (string, error) {
	names := []string{"bash", "sh"}
	if name != "" {
		names = []string{name}
	}
	for _, n := range names {
		if path, err := exec.LookPath(n); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("there is no shell %s; install one, or name another in the configuration", strings.Join(names, " and no "))
}

// Passed returns the names of the environment variables that every process gets. None
// of them contains a secret.
func Passed() []string {
	return []string{
		"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "LC_ALL", "LC_CTYPE", "TERM", "TZ", "TMPDIR",
		"SystemRoot", "SystemDrive", "ComSpec", "PATHEXT", "TEMP", "TMP", "USERPROFILE", "APPDATA", "LOCALAPPDATA", "ProgramFiles", "ProgramData",
	}
}

// environment returns the environment of a child: the variables of this process in
// Passed and pass, then more. The last value of a name wins.
func environment(pass, more []string) []string {
	var env []string
	for _, name := range slices.Concat(Passed(), pass) {
		if v, ok := os.LookupEnv(name); ok {
			env = set(env, name+"="+v)
		}
	}
	for _, kv := range more {
		env = set(env, kv)
	}
	if env == nil {
		env = []string{} // nil would mean the whole environment of this process
	}
	return env
}

// set sets kv in env, replacing the variable of the same name.
func set(env []string, kv string) []string {
	name, _, _ := strings.Cut(kv, "=")
	env = slices.DeleteFunc(env, func(e string) bool { return strings.HasPrefix(e, name+"=") })
	return append(env, kv)
}

// diskInterval is the time between two looks at the free space.
const diskInterval = 250 * time.Millisecond

// setFloor determines the free space that the command must leave, and the maximum size of a
// file that it writes: none if the space cannot be determined.
func (c *Command) setFloor() (fileSize int64) {
	if c.KeepFree <= 0 {
		return 0
	}
	free, _, err := diskspace.Of(c.diskDir())
	if err != nil {
		return 0
	}
	c.floor = min(uint64(c.KeepFree), free/2)
	return int64(min(free-c.floor, 1<<62))
}

func (c *Command) diskDir() string {
	if c.Dir == "" {
		return "."
	}
	return c.Dir
}

// watchDisk ends the process if it leaves too little free space.
func (p *Process) watchDisk(exited <-chan struct{}) {
	t := time.NewTicker(diskInterval)
	defer t.Stop()
	for {
		select {
		case <-exited:
			return
		case <-t.C:
			if free, _, err := diskspace.Of(p.c.diskDir()); err == nil && free < p.c.floor {
				p.stop(ErrDisk)
				return
			}
		}
	}
}
