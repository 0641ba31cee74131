package spawn

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"
)

// A Process is a started command. Its methods may be called from any goroutine.
type Process struct {
	c     Command
	cmd   *exec.Cmd
	child *child
	ctx   context.Context // canceled with the cause for which the process is ended
	stop  context.CancelCauseFunc
	began time.Time
	kept  *capture
	pipes []*os.File // read ends of its output
	stdin *os.File   // write end of its input, nil if it has none
	life  *os.File   // closing it ends all processes in the sandbox
	timer *time.Timer
	work  sync.WaitGroup
	done  chan struct{} // closed after result is set

	mu     sync.Mutex // guards the fields below
	reaped bool       // the process ID may have been reused
	result Result
}

func newProcess(ctx context.Context, c Command, cmd *exec.Cmd) *Process {
	p := &Process{c: c, cmd: cmd, done: make(chan struct{})}
	p.ctx, p.stop = context.WithCancelCause(ctx)
	p.c.MaxKept = cmp.Or(max(p.c.MaxKept, 0), DefaultKeep)
	p.c.MaxOutput = cmp.Or(max(p.c.MaxOutput, 0), DefaultMost)
	p.c.Grace = cmp.Or(p.c.Grace, DefaultGrace)
	p.kept = &capture{keep: p.c.MaxKept, max: p.c.MaxOutput, spill: c.Spill, flood: func() { p.stop(ErrFlood) }}
	return p
}

// start creates the pipes and starts the process and its goroutines.
func (p *Process) start() (err error) {
	var theirs []*os.File
	defer func() {
		for _, f := range theirs {
			_ = f.Close() // the child has its own copy
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
	if p.cmd.Stdout, p.cmd.Stderr, err = p.openOutputs(output); err != nil {
		return err
	}
	if p.c.Input {
		their, w, err := os.Pipe()
		if err != nil {
			return err
		}
		theirs = append(theirs, their)
		p.cmd.Stdin, p.stdin = their, w
	}
	if p.c.Sandbox.isActive() {
		their, w, err := os.Pipe()
		if err != nil {
			return err
		}
		theirs = append(append(theirs, their), p.cmd.ExtraFiles...)
		p.cmd.ExtraFiles, p.life = append([]*os.File{their}, p.cmd.ExtraFiles...), w // lifeFD, requestFD
	}
	setProcessGroup(p.cmd)
	p.began = time.Now()
	if p.child, err = started.start(p.cmd, p.c.Untrusted); err != nil {
		return fmt.Errorf("it does not start: %w", err)
	}
	if !p.c.Sandbox.isActive() { // the helper does it: the command may have left the group by now
		lowerPriority(p.cmd)
	}
	p.serve(sinks)
	return nil
}

// openOutputs returns the files that the child writes to: one pipe for both streams if
// both are kept, to preserve their order.
func (p *Process) openOutputs(pipe func(io.Writer) (*os.File, error)) (stdout, stderr *os.File, err error) {
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

// serve starts the goroutines that copy, end and wait. Wait waits for all of them.
func (p *Process) serve(sinks []io.Writer) {
	var o outputs
	for i, r := range p.pipes {
		o.copies.Go(func() { o.copy(sinks[i], r) })
	}
	if p.c.Timeout > 0 {
		p.timer = time.AfterFunc(p.c.Timeout, func() { p.stop(ErrTimeout) })
	}
	exited := make(chan struct{})
	if p.c.floor > 0 {
		p.work.Go(func() { p.watchDisk(exited) })
	}
	p.work.Go(func() { p.endOnCancel(exited) })
	p.work.Go(func() { p.finish(exited, &o) })
}

// endOnCancel ends the process when its context ends: first with SIGTERM, after the grace
// period with SIGKILL.
func (p *Process) endOnCancel(exited <-chan struct{}) {
	select {
	case <-exited:
		return
	case <-p.ctx.Done():
	}
	if p.c.Grace > 0 {
		p.signal(terminateGroup)
		if closedWithin(exited, p.c.Grace) {
			return
		}
	}
	if p.life != nil {
		_ = p.life.Close() // also ends processes that have left the group
		if closedWithin(exited, lifeTime) {
			return
		}
	}
	p.signal(killGroup)
}

func closedWithin(c <-chan struct{}, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-c:
		return true
	case <-t.C:
		return false
	}
}

// signal calls what for the group unless the process has been reaped.
func (p *Process) signal(what func(*exec.Cmd) error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.reaped {
		_ = what(p.cmd) // it may have ended already
	}
}

// finish waits for the end of the process and of its output, and sets the result.
func (p *Process) finish(exited chan struct{}, o *outputs) {
	var cause error
	err := waitChild(p.cmd, func() {
		cause = context.Cause(p.ctx)
		close(exited)
		p.signal(killGroup) // kill the processes that it has started
		p.mu.Lock()
		p.reaped = true
		p.mu.Unlock()
		started.end(p.child)
	})
	started.remove(p.child)
	took := time.Since(p.began)
	if p.stdin != nil {
		_ = p.stdin.Close()
	}
	read := make(chan struct{})
	p.work.Go(func() { o.copies.Wait(); close(read) })
	if !closedWithin(read, drainTime) {
		for _, r := range p.pipes {
			interruptRead(r)
		}
		<-read
	}
	p.kept.close()
	p.closePipes()
	if errors.Is(context.Cause(p.ctx), ErrFlood) {
		cause = ErrFlood
	}
	r := Result{Cause: cause, Took: took, OutputHeldOpen: o.held.Load(), Output: p.kept.snapshot()}
	r.Code, r.Signal = exitStatus(p.cmd, err)
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

// Pid returns the process ID.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Done returns a channel that is closed when the process has ended and its output is
// complete.
func (p *Process) Done() <-chan struct{} { return p.done }

// Wait waits for the end of the process and of its goroutines, and returns the result.
func (p *Process) Wait() Result {
	p.work.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.result
}

// Kill ends the process and its group, and waits for that. cause becomes Result.Cause;
// nil means ErrKilled. Kill may be called again.
func (p *Process) Kill(cause error) Result {
	p.stop(cmp.Or(cause, ErrKilled))
	return p.Wait()
}

// Stop is like Kill but does not wait.
func (p *Process) Stop(cause error) { p.stop(cause) }

// Output returns the kept output from byte since on, the offset of the next byte, and the
// number of bytes in between that are not kept.
func (p *Process) Output(since int64) (data []byte, next, lost int64) {
	o := p.kept.snapshot()
	data, lost = o.since(since)
	return data, o.Total, lost
}

// Kept returns the output kept so far.
func (p *Process) Kept() Output { return p.kept.snapshot() }

// ErrNoInput is returned by Write if the process was started without Input or does not
// read any more.
var ErrNoInput = errors.New("it takes no input")

// Write writes data to the input of a process that was started with Input. It waits until
// the process has read it or has ended, or until ctx ends. In the last case it is unknown
// how much was read, and the input is closed.
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

// CloseInput closes the input of a process that was started with Input.
func (p *Process) CloseInput() {
	if p.c.Input {
		_ = p.stdin.Close()
	}
}
