package crashtest_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"path"
	"sync"
	"time"

	"hermesd/adapters/telegram"
	"hermesd/agent"
	"hermesd/gateway/chat"
	"hermesd/gateway/inbox"
	"hermesd/gateway/outbox"
	"hermesd/gateway/pipeline"
	"hermesd/gateway/session"
	"hermesd/gateway/store"
	"hermesd/storage/bolt"
)

// A life is one daemon in the bubble, from its start to a simulated kill at one point: the
// next life finds the store file as it was at that moment, connections break, and later
// actions of the daemon have no effect. The points are before and after each store write,
// each request to the platform and to the model, and each tool run.
type life struct {
	w       *world
	store   *bolt.Store
	adapter *telegram.Adapter
	agent   *agent.Agent
	gateway *pipeline.Pipeline
	ran     chan struct{} // closed when the adapter has ended
	idle    []func()      // close idle connections

	ctx context.Context // ends with the simulated kill
	end context.CancelFunc

	mu     sync.Mutex // held during each write, so that the copy is consistent
	n      int        // number of points passed
	at     int        // the point at which to die; 0: none
	dead   bool
	diedAt string // the name of that point
}

var errDead = errors.New("the process is dead")

// pass runs op between two points.
func (l *life) pass(name string, op func() error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.point("before " + name) {
		return errDead
	}
	err := op()
	if l.point("after " + name) {
		return errDead
	}
	return err
}

// passed passes one point outside of any write, and reports whether the daemon is dead.
func (l *life) passed(name string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.point(name)
}

func (l *life) point(name string) bool {
	if l.dead {
		return true
	}
	l.n++
	if l.n != l.at {
		return false
	}
	l.die(name)
	return true
}

// kill ends the life immediately.
func (l *life) kill() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.dead {
		l.die("at a moment of no name")
	}
}

// die ends the life at the named point. The caller must hold mu.
func (l *life) die(name string) {
	l.dead, l.diedAt = true, name
	if err := copyFile(l.w.left(), l.w.file()); err != nil {
		panic(err)
	}
	l.end()
}

func copyFile(to, from string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	if _, err := io.Copy(out, in); err != nil {
		return errors.Join(err, out.Close())
	}
	return out.Close()
}

// bury stops the goroutines of a dead daemon and restores the store file that it left.
func (l *life) bury() {
	l.w.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	cancel() // no drain after a kill
	_ = l.gateway.Stop(ctx)
	l.rest()
	if err := os.Rename(l.w.left(), l.w.file()); err != nil {
		l.w.t.Fatal(err)
	}
}

// stop shuts a daemon down.
func (l *life) stop() {
	l.w.t.Helper()
	if err := l.gateway.Stop(context.Background()); err != nil {
		l.w.t.Errorf("stop: %v", err)
	}
	l.rest()
}

func (l *life) rest() {
	l.w.t.Helper()
	l.end()
	<-l.ran
	l.agent.Wait()
	for _, f := range l.idle {
		f()
	}
	if err := l.store.Close(); err != nil && !errors.Is(err, errDead) {
		l.w.t.Errorf("close: %v", err)
	}
}

// mortalStore passes every write through life.pass.
type mortalStore struct {
	store.Store
	l *life
}

func (s mortalStore) Accept(ctx context.Context, e []store.Admission) (a []store.Acceptance, err error) {
	err = s.l.pass("accept", func() (err error) { a, err = s.Store.Accept(ctx, e); return err })
	return a, err
}

func (s mortalStore) Claim(ctx context.Context, l inbox.Lane, most int) (c store.Claim, err error) {
	err = s.l.pass("claim", func() (err error) { c, err = s.Store.Claim(ctx, l, most); return err })
	return c, err
}

func (s mortalStore) Join(ctx context.Context, c store.Claim, steering bool) (e []inbox.Entry, err error) {
	err = s.l.pass("join", func() (err error) { e, err = s.Store.Join(ctx, c, steering); return err })
	return e, err
}

func (s mortalStore) Release(ctx context.Context, c store.Claim) error {
	return s.l.pass("release", func() error { return s.Store.Release(ctx, c) })
}

func (s mortalStore) RecordStep(ctx context.Context, c store.Claim, st store.Step) error {
	return s.l.pass("step", func() error { return s.Store.RecordStep(ctx, c, st) })
}

func (s mortalStore) CommitTurn(ctx context.Context, c store.Claim, m store.Turn) (rows []outbox.Row, err error) {
	err = s.l.pass("commit", func() (err error) { rows, err = s.Store.CommitTurn(ctx, c, m); return err })
	return rows, err
}

func (s mortalStore) FinishTurn(ctx context.Context, c store.Claim, m store.Finish) (rows []outbox.Row, err error) {
	err = s.l.pass("commit", func() (err error) { rows, err = s.Store.FinishTurn(ctx, c, m); return err })
	return rows, err
}

func (s mortalStore) Enqueue(ctx context.Context, in []outbox.Row) (rows []outbox.Row, err error) {
	err = s.l.pass("enqueue", func() (err error) { rows, err = s.Store.Enqueue(ctx, in); return err })
	return rows, err
}

func (s mortalStore) Next(ctx context.Context, to chat.Address) (row outbox.Row, wait time.Duration, ok bool, err error) {
	err = s.l.pass("next", func() (err error) { row, wait, ok, err = s.Store.Next(ctx, to); return err })
	return row, wait, ok, err
}

func (s mortalStore) Settle(ctx context.Context, st outbox.Settlement) error {
	return s.l.pass("settle", func() error {
		err := s.Store.Settle(ctx, st)
		if err == nil && st.Receipt != nil {
			s.l.w.receipt(ctx, s.Store, st)
		}
		return err
	})
}

func (s mortalStore) MigrateChat(ctx context.Context, from, to chat.Address, rekey func(session.Record) session.Key) error {
	return s.l.pass("move", func() error { return s.Store.MigrateChat(ctx, from, to, rekey) })
}

func (s mortalStore) SetTitle(ctx context.Context, id session.ID, title string) error {
	return s.l.pass("title", func() error { return s.Store.SetTitle(ctx, id, title) })
}

func (s mortalStore) SetValue(ctx context.Context, key string, v []byte) error {
	return s.l.pass("value", func() error { return s.Store.SetValue(ctx, key, v) })
}

func (s mortalStore) EditValue(ctx context.Context, key string, change func([]byte) ([]byte, error)) error {
	return s.l.pass("edit value", func() error { return s.Store.EditValue(ctx, key, change) })
}

func (s mortalStore) Prune(ctx context.Context, now time.Time) error {
	return s.l.pass("prune", func() error { return s.Store.Prune(ctx, now) })
}

// mortalWire passes every request through its life. When the life ends, running requests
// lose their connection, and it is unknown whether the other side has received them.
type mortalWire struct {
	http.RoundTripper
	l    *life
	name func(*http.Request) string
}

func (m mortalWire) RoundTrip(r *http.Request) (*http.Response, error) {
	name := m.name(r)
	if m.l.passed("before " + name) {
		return nil, errDead
	}
	ctx, cancel := context.WithCancel(r.Context())
	undo := context.AfterFunc(m.l.ctx, cancel)
	release := func() { undo(); cancel() }
	resp, err := m.RoundTripper.RoundTrip(r.WithContext(ctx))
	if m.l.passed("after " + name) {
		if err == nil {
			_ = resp.Body.Close()
		}
		err = errDead
	}
	if err != nil {
		release()
		return nil, err
	}
	resp.Body = &mortalBody{ReadCloser: resp.Body, l: m.l, name: name, release: release}
	return resp, nil
}

// CloseIdleConnections is called by the adapter after errors.
func (m mortalWire) CloseIdleConnections() {
	if c, ok := m.RoundTripper.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// mortalBody makes the end of a response body a point.
type mortalBody struct {
	io.ReadCloser
	l       *life
	name    string
	release func()
}

func (b *mortalBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err == io.EOF && b.l.passed("after all of "+b.name) {
		return 0, errDead
	}
	return n, err
}

func (b *mortalBody) Close() error {
	err := b.ReadCloser.Close()
	b.release()
	return err
}

// telegramCall returns the name of a request to the platform.
func telegramCall(r *http.Request) string { return path.Base(r.URL.Path) }

func modelCall(*http.Request) string { return "the model's answer" }
