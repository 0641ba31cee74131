package plugin

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"sync"

	"hermesd/internal/spawn"
)

// What a child may write before it is ended.
const (
	maxAnswer = 8 << 20 // bytes of one line
	maxNoise  = 100     // lines in a row that answer nothing
	maxStderr = 2 << 10 // bytes of its last words that are kept
)

// A message is a request, a notification or an answer of JSON-RPC 2.0.
type message struct {
	Version string          `json:"jsonrpc"`
	ID      *int64          `json:"id,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  any             `json:"params,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   *rpcError       `json:"error,omitempty"`
}

// An rpcError is what an engine answers instead of a result.
type rpcError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

func (e *rpcError) Error() string { return fmt.Sprintf("it says: %s (%d)", short(e.Message), e.Code) }

func short(s string) string {
	s = strings.Join(strings.Fields(strings.ToValidUTF8(s, "�")), " ")
	if r := []rune(s); len(r) > 300 {
		return string(r[:300]) + "…"
	}
	return s
}

// A child is one run of the program. It ends when it breaks the protocol, and
// by kill.
type child struct {
	run    *spawn.Process
	out    chan []byte
	gone   chan struct{} // closed when it has ended
	stop   context.CancelCauseFunc
	ctx    context.Context // cancelled with the reason for which it ends
	stderr *stderrTail
	work   sync.WaitGroup

	mu      sync.Mutex // guards what follows
	next    int64
	waiting map[int64]chan message
	left    map[int64]bool // nobody waits for these answers any more
}

// start runs the program of m. Only few of our variables are in its
// environment: it needs no secrets of ours.
func start(m Manifest) (*child, error) {
	ctx, stop := context.WithCancelCause(context.Background())
	program := m.Command[0]
	if strings.Contains(program, "/") && !filepath.IsAbs(program) {
		program = filepath.Join(m.Dir, program)
	}
	c := &child{
		ctx: ctx, stop: stop, stderr: &stderrTail{},
		out: make(chan []byte, 16), gone: make(chan struct{}), waiting: map[int64]chan message{}, left: map[int64]bool{},
	}
	lines, stdout := io.Pipe()
	var err error
	c.run, err = spawn.Start(ctx, spawn.Command{
		Argv: append([]string{program}, m.Command[1:]...), Dir: m.Dir, Input: true, Stdout: stdout, Stderr: c.stderr, Grace: -1,
	})
	if err != nil {
		stop(err)
		return nil, err
	}
	c.work.Go(c.write)
	c.work.Go(func() { c.read(lines) })
	c.work.Go(func() {
		r := c.run.Wait()
		if r.Cause == nil && (r.Code != 0 || r.Signal != "") {
			c.stderr.note(r)
		}
		_ = stdout.Close()
	})
	return c, nil
}

// write sends what is to be sent.
func (c *child) write() {
	for {
		select {
		case <-c.ctx.Done():
			return
		case line := <-c.out:
			if err := c.run.Write(c.ctx, line); err != nil {
				c.stop(fmt.Errorf("it reads no more: %w", err))
			}
		}
	}
}

// read takes answers until the child ends, which it then waits for.
func (c *child) read(stdout *io.PipeReader) {
	defer close(c.gone)
	lines := bufio.NewScanner(stdout)
	lines.Buffer(make([]byte, 64<<10), maxAnswer)
	noise := 0
	for c.ctx.Err() == nil && lines.Scan() {
		if c.deliver(lines.Bytes()) {
			noise = 0
		} else if noise++; noise > maxNoise {
			c.stop(fmt.Errorf("it wrote %d lines that answer nothing; its own words belong on standard error", noise))
		}
	}
	if errors.Is(lines.Err(), bufio.ErrTooLong) {
		c.stop(fmt.Errorf("it wrote a line of more than %d MiB", maxAnswer>>20))
	}
	_ = stdout.Close() // what it writes now goes nowhere
	if c.ctx.Err() == nil {
		c.stop(errors.New("it ended"))
	}
	c.run.Wait()
}

// deliver hands an answer to who waits for it, and reports whether it was one.
func (c *child) deliver(line []byte) bool {
	var m message
	if json.Unmarshal(line, &m) != nil || m.ID == nil || m.Version != "2.0" || m.Result == nil && m.Error == nil {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if to := c.waiting[*m.ID]; to != nil {
		delete(c.waiting, *m.ID)
		to <- m // has room for it
		return true
	}
	late := c.left[*m.ID]
	delete(c.left, *m.ID)
	return late
}

// call asks and waits for the answer.
func (c *child) call(ctx context.Context, method string, params, result any) error {
	answer := make(chan message, 1)
	c.mu.Lock()
	c.next++
	id := c.next
	c.waiting[id] = answer
	c.mu.Unlock()
	defer c.forget(id)
	line, err := json.Marshal(message{Version: "2.0", ID: &id, Method: method, Params: params})
	if err != nil {
		return err
	}
	select {
	case c.out <- append(line, '\n'):
	case <-c.gone:
		return c.why()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	select {
	case m := <-answer:
		if m.Error != nil {
			return m.Error
		}
		if err := json.Unmarshal(m.Result, result); err != nil {
			return fmt.Errorf("its answer to %s cannot be read: %w", method, err)
		}
		return nil
	case <-c.gone:
		return c.why()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// forget says that nobody waits for an answer any more.
func (c *child) forget(id int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.waiting[id] != nil {
		delete(c.waiting, id)
		c.left[id] = true
	}
}

// tell sends a notification, unless the child is too busy to take it.
func (c *child) tell(method string, params any) {
	line, err := json.Marshal(message{Version: "2.0", Method: method, Params: params})
	if err != nil {
		return
	}
	select {
	case c.out <- append(line, '\n'):
	default:
	}
}

// why says why the child has ended.
func (c *child) why() error {
	err := context.Cause(c.ctx)
	if words := c.stderr.String(); words != "" {
		return fmt.Errorf("%w; its last words: %s", err, short(words))
	}
	return err
}

// kill ends the child and all that it has started, and waits for that.
func (c *child) kill(why error) {
	c.stop(why)
	c.work.Wait()
}

// stderrTail keeps the end of what is written to it.
type stderrTail struct {
	mu  sync.Mutex
	buf []byte
}

// Write implements io.Writer.
func (w *stderrTail) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.buf = append(w.buf, p[max(0, len(p)-maxStderr):]...)
	w.buf = bytes.Clone(w.buf[max(0, len(w.buf)-maxStderr):])
	return len(p), nil
}

// note adds how the child has ended.
func (w *stderrTail) note(r spawn.Result) {
	if r.Signal != "" {
		_, _ = fmt.Fprintf(w, "\n(%s)", r.Signal)
		return
	}
	_, _ = fmt.Fprintf(w, "\n(exit status %d)", r.Code)
}

func (w *stderrTail) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.TrimSpace(string(w.buf))
}
