package gateway_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"hermesd/agent/llm/llmtest"
	"hermesd/agent/tool"
	"hermesd/gateway"
	"hermesd/gateway/chat"
	"hermesd/gateway/inbox"
	"hermesd/gateway/outbox"
	"hermesd/gateway/session"
)

// A reaper ends a daemon at one point of its life as a kill would: what is in
// the file at that moment is what the next one finds, and nothing that the dead
// one does afterwards has an effect. The points are each write to the store,
// each request to the platform and each call of the model, before it and after
// it.
type reaper struct {
	file string // the live store
	copy string // what is left of it

	mu   sync.Mutex // held during each point, so that the copy is of one moment
	n    int        // points passed
	at   int        // the point to die at; 0: never
	dead bool

	diedAt string // the name of that point
	lost   int    // messages that the platform had then and the store did not know of

	open map[string]bool // messages that the platform has and the store does not know of
}

var errDead = errors.New("the process is dead")

// pass runs op between two points.
func (r *reaper) pass(name string, op func() error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.point("before " + name) {
		return errDead
	}
	err := op()
	if r.point("after " + name) {
		return errDead
	}
	return err
}

// killed reports whether the process has died.
func (r *reaper) killed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.dead
}

func (r *reaper) point(name string) bool {
	if r.dead {
		return true
	}
	r.n++
	if r.n != r.at {
		return false
	}
	r.dead, r.diedAt, r.lost = true, name, len(r.open)
	if err := copyFile(r.copy, r.file); err != nil {
		panic(err)
	}
	return true
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
		return err
	}
	return out.Close()
}

// mortalStore passes every write through the reaper.
type mortalStore struct {
	gateway.Store
	r *reaper
}

func (s mortalStore) Accept(ctx context.Context, e []inbox.Entry) (a []inbox.Acceptance, err error) {
	err = s.r.pass("accept", func() (err error) { a, err = s.Store.Accept(ctx, e); return err })
	return a, err
}

func (s mortalStore) Claim(ctx context.Context, l inbox.Lane, max int) (c inbox.Claim, err error) {
	err = s.r.pass("claim", func() (err error) { c, err = s.Store.Claim(ctx, l, max); return err })
	return c, err
}

func (s mortalStore) Release(ctx context.Context, c inbox.Claim) error {
	return s.r.pass("release", func() error { return s.Store.Release(ctx, c) })
}

func (s mortalStore) RecordStep(ctx context.Context, c inbox.Claim, o *session.Creation, st inbox.Step) error {
	return s.r.pass("step", func() error { return s.Store.RecordStep(ctx, c, o, st) })
}

func (s mortalStore) CommitTurn(ctx context.Context, c inbox.Claim, m inbox.Commit) (rows []outbox.Row, err error) {
	err = s.r.pass("commit", func() (err error) { rows, err = s.Store.CommitTurn(ctx, c, m); return err })
	return rows, err
}

func (s mortalStore) Enqueue(ctx context.Context, in []outbox.Row) (rows []outbox.Row, err error) {
	err = s.r.pass("enqueue", func() (err error) { rows, err = s.Store.Enqueue(ctx, in); return err })
	return rows, err
}

func (s mortalStore) Next(ctx context.Context, to chat.Address) (row outbox.Row, wait time.Duration, ok bool, err error) {
	err = s.r.pass("next", func() (err error) { row, wait, ok, err = s.Store.Next(ctx, to); return err })
	return row, wait, ok, err
}

func (s mortalStore) Settle(ctx context.Context, st outbox.Settlement) error {
	return s.r.pass("settle", func() error {
		err := s.Store.Settle(ctx, st)
		if err == nil && st.Receipt != nil {
			delete(s.r.open, st.Receipt.ID)
		}
		return err
	})
}

// mortalRoom passes every request through the reaper. One that dies after it
// has had its effect is the window that no platform without keys can close.
type mortalRoom struct {
	*room
	r *reaper
}

func (m mortalRoom) Send(ctx context.Context, o chat.Outbound) (rc chat.Receipt, err error) {
	err = m.r.pass("send", func() (err error) {
		rc, err = m.room.Send(ctx, o)
		m.r.open[rc.ID] = true
		return err
	})
	return rc, err
}

func (m mortalRoom) Edit(ctx context.Context, id string, o chat.Outbound) error {
	return m.r.pass("edit", func() error { return m.room.Edit(ctx, id, o) })
}

func (m mortalRoom) Delete(ctx context.Context, to chat.Address, id string) error {
	return m.r.pass("delete", func() error { return m.room.Delete(ctx, to, id) })
}

// counted is a tool that may run only once.
type counted struct {
	r    *reaper
	runs map[string]int
}

func (c *counted) Spec() tool.Spec {
	s := tool.Spec{Effect: tool.AtMostOnce}
	s.Name, s.Description, s.Schema = "pay", "pays", json.RawMessage(`{"type":"object"}`)
	return s
}

func (c *counted) Run(_ context.Context, call tool.Call) (string, error) {
	err := c.r.pass("tool", func() error { c.runs[string(call.Input)]++; return nil })
	return "paid", err
}

// sweep is one scenario, played with a death at one point.
type sweep struct {
	*harness
	reaper  *reaper
	tool    *counted
	offered []chat.Inbound
	acked   map[string]bool
}

func newSweep(t *testing.T, at int) *sweep {
	s := &sweep{harness: newHarness(t), acked: map[string]bool{}}
	s.reaper = &reaper{at: at, open: map[string]bool{}, file: filepath.Join(s.dir, "hermesd.db"), copy: filepath.Join(s.dir, "left.db")}
	s.tool = &counted{r: s.reaper, runs: map[string]int{}}
	s.tools = []tool.Tool{s.tool}
	s.model.Default = func(r llmtest.Recorded) llmtest.Answer {
		var a llmtest.Answer
		err := s.reaper.pass("model", func() error { a = reply(r); return nil })
		if err != nil {
			return llmtest.Answer{Wait: make(chan struct{})} // the dead hear nothing
		}
		return a
	}
	s.set = func(o *gateway.Options) {
		o.Mode, o.Store = inbox.Queue, mortalStore{s.store, s.reaper}
		o.Adapters = map[chat.Account]chat.Adapter{account: mortalRoom{s.room, s.reaper}}
		o.Limits.DrainTimeout, o.Progress = time.Millisecond, "all"
		o.Log = nil
	}
	return s
}

// reply answers a message of the scenario: "pay 3" uses the tool first, "slow"
// takes long enough to be shown while it is written.
func reply(r llmtest.Recorded) llmtest.Answer {
	last := r.Messages[len(r.Messages)-1]
	for _, b := range last.Blocks {
		if b.Type == "tool_result" {
			return llmtest.Say(whole(said(r)))
		}
	}
	switch text := last.Text(); {
	case strings.HasPrefix(text, "pay"):
		a := llmtest.Use("pay", fmt.Sprintf(`{"for":%q}`, text))
		a.Text, a.Delay = ahead(text), time.Second
		return a
	case strings.HasPrefix(text, "slow"):
		return llmtest.Answer{Text: whole(text), Delay: time.Second}
	default:
		return llmtest.Say(whole(text))
	}
}

// ahead is what the model writes before it uses the tool: a message of its own.
func ahead(text string) string { return "first: " + text + strings.Repeat(" .", 20) }

// whole is the answer to a message of the scenario.
func whole(text string) string {
	if strings.HasPrefix(text, "slow") {
		return "done: " + text + strings.Repeat(" .", 20)
	}
	return "done: " + text
}

// said is the newest text of the user.
func said(r llmtest.Recorded) string {
	for i := len(r.Messages) - 1; i >= 0; i-- {
		if t := r.Messages[i].Text(); r.Messages[i].Role == "user" && t != "" {
			return t
		}
	}
	return ""
}

// play offers the scenario and lets it go on for a while.
func (s *sweep) play() {
	for _, text := range []string{"one", "pay 2", "slow 3"} {
		m := s.message("7", text)
		s.offered = append(s.offered, m)
		s.give(m)
	}
	m := s.message("8", "four")
	s.offered = append(s.offered, m)
	s.give(m)
	s.settle(2 * time.Minute)
}

func (s *sweep) give(m chat.Inbound) {
	if s.gw.Accept(context.Background(), []chat.Inbound{m}) == nil {
		s.acked[m.IdempotencyKey] = true
	}
}

// resurrect starts the next daemon on what the dead one left. The platform
// delivers again what was not acknowledged.
func (s *sweep) resurrect() {
	s.t.Helper()
	if err := s.gw.Stop(context.Background()); err != nil && !errors.Is(err, errDead) {
		s.t.Logf("the dead daemon: %v", err)
	}
	_ = s.store.Close()
	if err := os.Rename(s.reaper.copy, s.reaper.file); err != nil {
		s.t.Fatal(err)
	}
	s.reaper.mu.Lock()
	s.reaper.dead, s.reaper.at = false, 0
	s.reaper.mu.Unlock()
	s.start()
	for _, m := range s.offered {
		if !s.acked[m.IdempotencyKey] {
			s.give(m)
		}
	}
	s.settle(10 * time.Minute)
}

// judge looks at what a person sees and at how every message ended. It returns
// how many answers were repeated and marked so, and how many previews stay that
// nobody could take back: both only where the daemon died between a request
// and its receipt.
func (s *sweep) judge() (repeats, orphans int) {
	s.t.Helper()
	for _, m := range s.offered {
		if o := s.outcome(m.IdempotencyKey); o != "replied" {
			s.t.Errorf("%q ended %s", m.Text, o)
		}
		r, o := s.shown(m, "done: ", whole(m.Text), true)
		repeats, orphans = repeats+r, orphans+o
		if strings.HasPrefix(m.Text, "pay") { // a death between the step and this message takes it along
			between := strings.Contains(s.reaper.diedAt, "step") || strings.Contains(s.reaper.diedAt, "enqueue")
			r, o = s.shown(m, "first: ", ahead(m.Text), !between)
			repeats, orphans = repeats+r, orphans+o
		}
	}
	s.inOrder()
	for input, n := range s.tool.runs {
		if n > 1 {
			s.t.Errorf("the tool that may run once ran %d times with %s", n, input)
		}
	}
	if lanes, rows := s.open(); len(lanes)+len(rows) != 0 {
		s.t.Errorf("left open: %v, %+v", lanes, rows)
	}
	if repeats+orphans > s.reaper.lost {
		s.t.Errorf("%d repeats and %d previews left behind, but %d receipts were lost", repeats, orphans, s.reaper.lost)
	}
	return repeats, orphans
}

// shown looks at how often a person sees a text of the turn of m, and beginnings of
// it.
func (s *sweep) shown(m chat.Inbound, prefix, whole string, must bool) (repeats, orphans int) {
	s.t.Helper()
	plain, marked := 0, 0
	for _, text := range s.room.visible(m.Address.Chat) {
		switch {
		case text == whole:
			plain++
		case text == "(may be a repeat)\n"+whole:
			marked++
		case strings.HasPrefix(text, prefix+m.Text):
			orphans++
		}
	}
	if plain > 1 || plain+marked == 0 && must || marked > 1 {
		s.t.Errorf("%q is there %d times, and %d times as a possible repeat", whole, plain, marked)
	}
	if plain == 1 && marked == 1 {
		repeats++
	}
	return repeats, orphans
}

func (s *sweep) inOrder() {
	s.t.Helper()
	last := -1
	for _, text := range s.room.visible("7") {
		text = strings.TrimPrefix(text, "(may be a repeat)\n")
		for i, want := range []string{"done: one", "first: pay 2", "done: pay 2", "done: slow 3"} {
			if strings.HasPrefix(text, want) {
				if i < last {
					s.t.Errorf("%q comes too late", text)
				}
				last = i
			}
		}
	}
}

func TestAKillAtAnyPointLosesNothingAndDoublesNothing(t *testing.T) {
	points := 0
	t.Run("undisturbed", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := newSweep(t, 0)
			s.start()
			s.play()
			s.judge()
			points = s.reaper.n
			s.stop()
		})
	})
	if points < 30 {
		t.Fatalf("the scenario has only %d points", points)
	}
	died, repeats, orphans := 0, 0, 0
	for k := 1; k <= points; k++ {
		t.Run(fmt.Sprint("point ", k), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSweep(t, k)
				s.start()
				s.play()
				if s.reaper.killed() {
					died++
					s.resurrect()
				}
				r, o := s.judge()
				repeats, orphans = repeats+r, orphans+o
				if t.Failed() {
					t.Logf("died %s\n%s", s.reaper.diedAt, s.room.history())
				}
				s.stop()
			})
		})
	}
	t.Logf("%d points, %d deaths, %d replies shown twice and marked so, %d previews left behind", points, died, repeats, orphans)
	if died < points*9/10 {
		t.Errorf("only %d of %d points were reached", died, points)
	}
}
