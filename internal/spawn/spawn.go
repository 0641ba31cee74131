// Package spawn is the only place from which processes are started.
//
// A process gets no variable of ours but those of a short list, so it knows no
// secret; it runs in a process group of its own, and whatever ends it ends the
// group: a timeout, the end of the context, Kill, a flood, and also its own end,
// so nothing that a command leaves behind goes on unseen. What it writes is kept
// within a bound in memory and, beyond that, in a file within a bound.
//
// A process that leaves its group (setsid) is reached only in a Sandbox. On
// Windows there are no process groups: there only the process itself is ended.
//
// A program that uses a Sandbox calls Main before anything else: the program
// itself is the first thing that runs in it.
package spawn

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// What a Command gets that does not say otherwise.
const (
	DefaultGrace = 2 * time.Second
	DefaultKeep  = 200_000  // bytes of output in memory
	DefaultMost  = 64 << 20 // bytes of output in all
)

// Why a process was ended; see Result.Cause.
var (
	ErrTimeout = errors.New("it took longer than its timeout")
	ErrFlood   = errors.New("it wrote more than it may")
	ErrKilled  = errors.New("it was ended on request")
)

// drainTime is how long after the end of a process its output is still read,
// if something that has left its group holds it open.
const drainTime = time.Second

// A Command says what is to be started. Either Shell or Argv is set.
type Command struct {
	Shell string   // a command line, given to the shell as it is
	Argv  []string // a program and its arguments; a name without a slash is looked up in PATH
	// Interpreter runs Shell; "": bash, or sh where there is none.
	Interpreter string
	Dir         string   // must exist; "": that of this process
	PassEnv     []string // names of variables that it gets beside those of Passed
	Env         []string // NAME=value, given as they are
	// Stdin is what it reads. With Input it reads what is given to Write instead.
	Stdin string
	Input bool
	// Stdout and Stderr take the output instead of memory. Only if both are set
	// nothing is kept; else what has no taker is kept, in order.
	Stdout, Stderr io.Writer
	Timeout        time.Duration // 0: none
	Grace          time.Duration // between asking it to end and ending it; 0: DefaultGrace, negative: none
	MaxKept        int           // bytes of output in memory; 0: DefaultKeep
	MaxOutput      int64         // bytes of output in all; one more ends it; 0: DefaultMost; does not bind Stdout and Stderr
	Spill          string        // folder for output that is more than Keep; "": it is lost
	Sandbox        *Sandbox      // nil: none
}

// A Result is how a process ended and what it wrote.
type Result struct {
	Code   int    // exit code; 128 and more where a signal ended it; -1 if unknown
	Signal string // the signal that ended it, in words
	// Cause is why it was ended before its time: ErrTimeout, ErrFlood, ErrKilled or
	// the cause of its context; nil if it ended by itself.
	Cause          error
	Took           time.Duration
	OutputHeldOpen bool // something outside its group still holds its output open
	Output
}

// An Output is what was kept of what a process wrote.
type Output struct {
	Head, Tail []byte
	Lost       int64  // bytes between them that are not kept in memory
	Total      int64  // bytes in all
	File       string // where all is, "" if Head and Tail are all or it could not be kept
	FileErr    error  // why File is not whole
}

// Run starts c and waits for its end. It fails only if c does not start.
func Run(ctx context.Context, c Command) (Result, error) {
	p, err := Start(ctx, c)
	if err != nil {
		return Result{}, err
	}
	return p.Wait(), nil
}

// Start starts c. It is ended when ctx is. Who starts it calls Wait or Kill.
func Start(ctx context.Context, c Command) (*Process, error) {
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	cmd, err := c.prepare()
	if err != nil {
		return nil, err
	}
	p := newProcess(ctx, c, cmd)
	if err := p.start(); err != nil {
		p.stop(err)
		return nil, err
	}
	return p, nil
}

// prepare makes of c what the system can start.
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
	if c.Sandbox.holds() {
		if err := c.Sandbox.wrap(cmd); err != nil {
			return nil, err
		}
	}
	return cmd, nil
}

// interpreter finds the shell.
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
