package spawn

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"
)

// A Process is a command that was started. Its methods may be called from any
// goroutine.
type Process struct {
	c     Command
	cmd   *exec.Cmd
	ctx   context.Context // ended with the cause for which the process is ended
	stop  context.CancelCauseFunc
	began time.Time
	kept  *capture
	pipes []*os.File // our ends of its output
	stdin *os.File   // our end of its input, nil if it has none
	life  *os.File   // what is in a sandbox ends when this is closed
	timer *time.Timer
	work  sync.WaitGroup
	done  chan struct{} // closed after result is set

	mu     sync.Mutex // guards what follows
	buried bool       // its id may belong to somebody else
	result Result
}

func newProcess(ctx context.Context, c Command, cmd *exec.Cmd) *Process {
	p := &Process{c: c, cmd: cmd, done: make(chan struct{})}
	p.ctx, p.stop = context.WithCancelCause(ctx)
	if p.c.MaxKept <= 0 {
		p.c.MaxKept = DefaultKeep
	}
	if p.c.MaxOutput <= 0 {
		p.c.MaxOutput = DefaultMost
	}
	if p.c.Grace == 0 {
		p.c.Grace = DefaultGrace
	}
	p.kept = &capture{keep: p.c.MaxKept, max: p.c.MaxOutput, spill: c.Spill, flood: func() { p.stop(ErrFlood) }}
	return p
}

// start makes the pipes and starts the process and the goroutines that serve it.
func (p *Process) start() (err error) {
	var theirs []*os.File
	defer func() {
		for _, f := range theirs {
			_ = f.Close() // the child has its own
		}
		if err != nil {
			p.closePipes()
		}
	}()
	var sinks []io.Writer
	output := func(w io.Writer) (*os.File, error) {
		r, their, err := os.Pipe()
		if err != nil {
			return nil, err
		}
		theirs, sinks, p.pipes = append(theirs, their), append(sinks, w), append(p.pipes, r)
		return their, nil
	}
	if p.cmd.Stdout, p.cmd.Stderr, err = p.outputs(output); err != nil {
		return err
	}
	if p.c.Input || p.c.Stdin != "" {
		their, w, err := os.Pipe()
		if err != nil {
			return err
		}
		theirs = append(theirs, their)
		p.cmd.Stdin, p.stdin = their, w
	}
	if p.c.Sandbox.holds() {
		their, w, err := os.Pipe()
		if err != nil {
			return err
		}
		theirs = append(theirs, their)
		p.cmd.ExtraFiles, p.life = []*os.File{their}, w
	}
	alone(p.cmd)
	p.began = time.Now()
	if err := p.cmd.Start(); err != nil {
		return fmt.Errorf("it does not start: %w", err)
	}
	yield(p.cmd)
	p.serve(sinks)
	return nil
}

// outputs returns what the child writes to: one pipe where both streams are
// kept, so that their order is.
func (p *Process) outputs(pipe func(io.Writer) (*os.File, error)) (stdout, stderr *os.File, err error) {
	var kept *os.File
	pick := func(w io.Writer) (*os.File, error) {
		if w != nil {
			return pipe(w)
		}
		if kept == nil {
			kept, err = pipe(p.kept)
		}
		return kept, err
	}
	if stdout, err = pick(p.c.Stdout); err != nil {
		return nil, nil, err
	}
	stderr, err = pick(p.c.Stderr)
	return stdout, stderr, err
}

// serve starts what copies, ends and waits. Wait waits for all of it.
func (p *Process) serve(sinks []io.Writer) {
	var copies sync.WaitGroup
	for i, r := range p.pipes {
		copies.Go(func() {
			_, _ = io.Copy(sinks[i], r) // ends with the last writer, or when the reader is closed
			_ = r.Close()               // a taker that takes no more lets the child know
		})
	}
	if p.c.Stdin != "" && !p.c.Input {
		p.work.Go(func() {
			_, _ = io.WriteString(p.stdin, p.c.Stdin) // who does not read it does not want it
			_ = p.stdin.Close()
		})
	}
	if p.c.Timeout > 0 {
		p.timer = time.AfterFunc(p.c.Timeout, func() { p.stop(ErrTimeout) })
	}
	exited := make(chan struct{})
	p.work.Go(func() { p.end(exited) })
	p.work.Go(func() { p.bury(exited, &copies) })
}

// end ends the process when its context ends: it is asked first.
func (p *Process) end(exited <-chan struct{}) {
	select {
	case <-exited:
		return
	case <-p.ctx.Done():
	}
	if p.c.Grace > 0 {
		p.signal(askGroup)
		if within(exited, p.c.Grace) {
			return
		}
	}
	if p.life != nil {
		_ = p.life.Close() // ends what has left the group too
		if within(exited, lifeTime) {
			return
		}
	}
	p.signal(killGroup)
}

// within reports whether c is closed before d is over.
func within(c <-chan struct{}, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-c:
		return true
	case <-t.C:
		return false
	}
}

// signal does what to the group, while its id is its own.
func (p *Process) signal(what func(*exec.Cmd) error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.buried {
		_ = what(p.cmd) // it may have ended by now
	}
}

// bury waits for the end of the process and of its output, and says how it was.
func (p *Process) bury(exited chan struct{}, copies *sync.WaitGroup) {
	var cause error
	err := await(p.cmd, func() {
		cause = context.Cause(p.ctx)
		close(exited)
		p.signal(killGroup) // what it has started
		p.mu.Lock()
		p.buried = true
		p.mu.Unlock()
	})
	took := time.Since(p.began)
	if p.stdin != nil {
		_ = p.stdin.Close()
	}
	read := make(chan struct{})
	p.work.Go(func() { copies.Wait(); close(read) })
	held := !within(read, drainTime)
	if held {
		for _, r := range p.pipes {
			_ = r.Close()
		}
		<-read
	}
	p.kept.close()
	p.closePipes()
	if errors.Is(context.Cause(p.ctx), ErrFlood) {
		cause = ErrFlood
	}
	r := Result{Cause: cause, Took: took, OutputHeldOpen: held, Output: p.kept.look()}
	r.Code, r.Signal = status(p.cmd, err)
	p.mu.Lock()
	p.result = r
	p.mu.Unlock()
	if p.timer != nil {
		p.timer.Stop()
	}
	p.stop(nil) // frees the context
	close(p.done)
}

func (p *Process) closePipes() {
	for _, f := range append(p.pipes, p.stdin, p.life) {
		if f != nil {
			_ = f.Close()
		}
	}
}

// Pid returns the id of the process.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Done is closed when the process has ended and all its output is there.
func (p *Process) Done() <-chan struct{} { return p.done }

// Wait waits for the end of the process, and of all that serves it.
func (p *Process) Wait() Result {
	p.work.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.result
}

// Kill ends the process and its group, and waits for that. The cause is told by
// Wait; nil is ErrKilled. It may be called again.
func (p *Process) Kill(cause error) Result {
	if cause == nil {
		cause = ErrKilled
	}
	p.stop(cause)
	return p.Wait()
}

// Stop begins to end the process and does not wait for it.
func (p *Process) Stop(cause error) { p.stop(cause) }

// Output returns what was written from byte since on, the number of the byte
// that comes next, and how many bytes in between are not kept.
func (p *Process) Output(since int64) (data []byte, next, lost int64) {
	o := p.kept.look()
	data, lost = o.since(since)
	return data, o.Total, lost
}

// Kept returns what is kept of the output so far.
func (p *Process) Kept() Output { return p.kept.look() }

// ErrNoInput says that a process takes no input, or no more.
var ErrNoInput = errors.New("it takes no input")

// Write gives data to a process that was started with Input. It waits until the
// process has taken it, has ended, or ctx has; in the last case nobody knows how
// much was taken, and the input is closed.
func (p *Process) Write(ctx context.Context, data []byte) error {
	if !p.c.Input {
		return ErrNoInput
	}
	undo := context.AfterFunc(ctx, func() { _ = p.stdin.Close() })
	defer undo()
	if _, err := p.stdin.Write(data); err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return fmt.Errorf("%w any more: %w", ErrNoInput, err)
	}
	return nil
}

// CloseInput tells a process that was started with Input that no more comes.
func (p *Process) CloseInput() {
	if p.c.Input {
		_ = p.stdin.Close()
	}
}
