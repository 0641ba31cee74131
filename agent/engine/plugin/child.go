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

	"hermesd/internal/shorten"
	"hermesd/internal/spawn"
)

// Limits of the output of a child.
const (
	maxAnswer = 8 << 20 // bytes of one line
	maxNoise  = 100     // consecutive lines that are not answers
	maxStderr = 2 << 10 // bytes of the end of standard error that are kept
)

// A message is a request, a notification or a response of JSON-RPC 2.0.
type message struct {
	Version string          `json:"jsonrpc"`
	ID      *int64          `json:"id,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  any             `json:"params,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   *rpcError       `json:"error,omitempty"`
}

type rpcError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

func (e *rpcError) Error() string { return fmt.Sprintf("it says: %s (%d)", oneLine(e.Message), e.Code) }

func oneLine(s string) string { return shorten.Line(strings.ToValidUTF8(s, "�"), 300) }

// A child is one process of the program. It ends when it breaks the protocol,
// and by kill.
type child struct {
	process    *spawn.Process
	out        chan []byte
	done       chan struct{} // closed when it has ended
	stop       context.CancelCauseFunc
	ctx        context.Context // canceled with the reason for its end
	stderr     *stderrTail
	goroutines sync.WaitGroup

	mu        sync.Mutex // guards what follows
	lastID    int64
	waiting   map[int64]chan message
	abandoned map[int64]bool // IDs of requests whose callers gave up
}

// startChild starts the program of m. Its environment has only a few of the
// daemon's variables: it needs no secrets of the daemon.
func startChild(m Manifest) (*child, error) {
	ctx, stop := context.WithCancelCause(context.Background())
	program := m.Command[0]
	if strings.Contains(program, "/") && !filepath.IsAbs(program) {
		program = filepath.Join(m.Dir, program)
	}
	c := &child{
		ctx: ctx, stop: stop, stderr: &stderrTail{},
		out: make(chan []byte, 16), done: make(chan struct{}), waiting: map[int64]chan message{}, abandoned: map[int64]bool{},
	}
	lines, stdout := io.Pipe()
	var err error
	c.process, err = spawn.Start(ctx, spawn.Command{
		Argv: append([]string{program}, m.Command[1:]...), Dir: m.Dir, Input: true, Stdout: stdout, Stderr: c.stderr, Grace: -1,
	})
	if err != nil {
		stop(err)
		return nil, err
	}
	c.goroutines.Go(c.writeRequests)
	c.goroutines.Go(func() { c.readAnswers(lines) })
	c.goroutines.Go(func() {
		r := c.process.Wait()
		if r.Cause == nil && (r.Code != 0 || r.Signal != "") {
			c.stderr.addExit(r)
		}
		_ = stdout.Close()
	})
	return c, nil
}

// writeRequests sends the queued messages until the child ends.
func (c *child) writeRequests() {
	for {
		select {
		case <-c.ctx.Done():
			return
		case line := <-c.out:
			if err := c.process.Write(c.ctx, line); err != nil {
				c.stop(fmt.Errorf("it reads no more: %w", err))
			}
		}
	}
}

// readAnswers delivers answers until the child ends, and then waits for the
// process.
func (c *child) readAnswers(stdout *io.PipeReader) {
	defer close(c.done)
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
	_ = stdout.Close() // further output is discarded
	if c.ctx.Err() == nil {
		c.stop(errors.New("it ended"))
	}
	c.process.Wait()
}

// deliver passes a response to its caller, and reports whether line was a
// response.
func (c *child) deliver(line []byte) bool {
	var m message
	if json.Unmarshal(line, &m) != nil || m.ID == nil || m.Version != "2.0" || m.Result == nil && m.Error == nil {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if to := c.waiting[*m.ID]; to != nil {
		delete(c.waiting, *m.ID)
		to <- m // buffered
		return true
	}
	late := c.abandoned[*m.ID]
	delete(c.abandoned, *m.ID)
	return late
}

// call sends a request and waits for the response.
func (c *child) call(ctx context.Context, method string, params, result any) error {
	answer := make(chan message, 1)
	c.mu.Lock()
	c.lastID++
	id := c.lastID
	c.waiting[id] = answer
	c.mu.Unlock()
	defer c.abandon(id)
	line, err := json.Marshal(message{Version: "2.0", ID: &id, Method: method, Params: params})
	if err != nil {
		return err
	}
	select {
	case c.out <- append(line, '\n'):
	case <-c.done:
		return c.exitError()
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
	case <-c.done:
		return c.exitError()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// abandon marks a request as given up.
func (c *child) abandon(id int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.waiting[id] != nil {
		delete(c.waiting, id)
		c.abandoned[id] = true
	}
}

// notify sends a notification, unless the queue of the child is full.
func (c *child) notify(method string, params any) {
	line, err := json.Marshal(message{Version: "2.0", Method: method, Params: params})
	if err != nil {
		return
	}
	select {
	case c.out <- append(line, '\n'):
	default:
	}
}

func (c *child) exitError() error {
	err := context.Cause(c.ctx)
	if text := c.stderr.String(); text != "" {
		return fmt.Errorf("%w; its last words: %s", err, oneLine(text))
	}
	return err
}

// kill ends the child and all processes that it started, and waits for their
// end.
func (c *child) kill(why error) {
	c.stop(why)
	c.goroutines.Wait()
}

// stderrTail keeps the end of the text written to it.
type stderrTail struct {
	mu  sync.Mutex
	buf []byte
}

func (w *stderrTail) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.buf = append(w.buf, p[max(0, len(p)-maxStderr):]...)
	w.buf = bytes.Clone(w.buf[max(0, len(w.buf)-maxStderr):])
	return len(p), nil
}

func (w *stderrTail) addExit(r spawn.Result) {
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
