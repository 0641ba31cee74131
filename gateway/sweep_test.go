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
	"hermesd/gateway/chat"
	"hermesd/gateway/gatewaytest"
	"hermesd/gateway/inbox"
	"hermesd/gateway/outbox"
	"hermesd/gateway/store"
)

// A killer ends a daemon at one point like SIGKILL: the next daemon finds the store file
// of that moment, and nothing that the dead daemon does afterwards has an effect. The
// points are before and after each write to the store, each request to the platform and
// each call of the model.
type killer struct {
	file string // the live store
	copy string // the copy of it at the kill

	mu   sync.Mutex // held during each point, so that the copy is consistent
	n    int        // points passed
	at   int        // the point to kill at; 0: never
	dead bool

	diedAt string // the name of that point
	lost   int    // messages then on the platform without a receipt in the store

	open map[string]bool // messages on the platform without a receipt in the store
}

var errDead = errors.New("the process is dead")

// wrap runs op between two points.
func (r *killer) wrap(name string, op func() error) error {
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

// killed reports whether the process was killed.
func (r *killer) killed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.dead
}

func (r *killer) point(name string) bool {
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

// A killableStore runs every write through the killer.
type killableStore struct {
	store.Store
	r *killer
}

func (s killableStore) Accept(ctx context.Context, e []store.Admission) (a []store.Acceptance, err error) {
	err = s.r.wrap("accept", func() (err error) { a, err = s.Store.Accept(ctx, e); return err })
	return a, err
}

func (s killableStore) Claim(ctx context.Context, l inbox.Lane, max int) (c store.Claim, err error) {
	err = s.r.wrap("claim", func() (err error) { c, err = s.Store.Claim(ctx, l, max); return err })
	return c, err
}

func (s killableStore) Release(ctx context.Context, c store.Claim) error {
	return s.r.wrap("release", func() error { return s.Store.Release(ctx, c) })
}

func (s killableStore) RecordStep(ctx context.Context, c store.Claim, st store.Step) error {
	return s.r.wrap("step", func() error { return s.Store.RecordStep(ctx, c, st) })
}

func (s killableStore) CommitTurn(ctx context.Context, c store.Claim, m store.Turn) (rows []outbox.Row, err error) {
	err = s.r.wrap("commit", func() (err error) { rows, err = s.Store.CommitTurn(ctx, c, m); return err })
	return rows, err
}

func (s killableStore) FinishTurn(ctx context.Context, c store.Claim, m store.Finish) (rows []outbox.Row, err error) {
	err = s.r.wrap("commit", func() (err error) { rows, err = s.Store.FinishTurn(ctx, c, m); return err })
	return rows, err
}

func (s killableStore) Enqueue(ctx context.Context, in []outbox.Row) (rows []outbox.Row, err error) {
	err = s.r.wrap("enqueue", func() (err error) { rows, err = s.Store.Enqueue(ctx, in); return err })
	return rows, err
}

func (s killableStore) Next(ctx context.Context, to chat.Address) (row outbox.Row, wait time.Duration, ok bool, err error) {
	err = s.r.wrap("next", func() (err error) { row, wait, ok, err = s.Store.Next(ctx, to); return err })
	return row, wait, ok, err
}

func (s killableStore) Settle(ctx context.Context, st outbox.Settlement) error {
	return s.r.wrap("settle", func() error {
		err := s.Store.Settle(ctx, st)
		if err == nil && st.Receipt != nil {
			delete(s.r.open, st.Receipt.ID)
		}
		return err
	})
}

// A killableAdapter runs every request through the killer. A kill after a request had
// its effect leaves an uncertainty that no platform without idempotency keys can resolve.
type killableAdapter struct {
	*fakeAdapter
	r *killer
}

func (m killableAdapter) Send(ctx context.Context, o chat.Outbound) (rc chat.Receipt, err error) {
	err = m.r.wrap("send", func() (err error) {
		rc, err = m.fakeAdapter.Send(ctx, o)
		m.r.open[rc.ID] = true
		return err
	})
	return rc, err
}

func (m killableAdapter) Edit(ctx context.Context, id string, o chat.Outbound) error {
	return m.r.wrap("edit", func() error { return m.fakeAdapter.Edit(ctx, id, o) })
}

func (m killableAdapter) Delete(ctx context.Context, to chat.Address, id string) error {
	return m.r.wrap("delete", func() error { return m.fakeAdapter.Delete(ctx, to, id) })
}

// A onceTool may run only once.
type onceTool struct {
	r    *killer
	runs map[string]int
}

func (c *onceTool) Spec() tool.Spec {
	s := tool.Spec{Effect: tool.AtMostOnce}
	s.Name, s.Description, s.Schema = "pay", "pays", json.RawMessage(`{"type":"object"}`)
	return s
}

func (c *onceTool) Run(_ context.Context, call tool.Call) (string, error) {
	err := c.r.wrap("tool", func() error { c.runs[string(call.Input)]++; return nil })
	return "paid", err
}

// A killSweep runs one scenario with a kill at one point.
type killSweep struct {
	*harness
	reaper  *killer
	tool    *onceTool
	offered []chat.Inbound
	acked   map[string]bool
}

func newKillSweep(t *testing.T, at int) *killSweep {
	s := &killSweep{harness: newHarness(t), acked: map[string]bool{}}
	s.reaper = &killer{at: at, open: map[string]bool{}, file: filepath.Join(s.dir, "hermesd.db"), copy: filepath.Join(s.dir, "left.db")}
	s.tool = &onceTool{r: s.reaper, runs: map[string]int{}}
	s.tools = []tool.Tool{s.tool}
	s.model.Default = func(r llmtest.Recorded) llmtest.Answer {
		var a llmtest.Answer
		err := s.reaper.wrap("model", func() error { a = scenarioAnswer(r); return nil })
		if err != nil {
			return llmtest.Answer{Wait: make(chan struct{})} // a killed daemon gets no answer
		}
		return a
	}
	s.configure = func(o *gatewaytest.Options) {
		o.Mode, o.Store = inbox.Queue, killableStore{s.store, s.reaper}
		o.Accounts = accountsOf(killableAdapter{s.adapter, s.reaper})
		o.Limits.DrainTimeout, o.Progress = time.Millisecond, "all"
		o.Log = nil
	}
	return s
}

// scenarioAnswer answers a message of the scenario: "pay 3" calls the tool first, "slow"
// takes long enough for a preview.
func scenarioAnswer(r llmtest.Recorded) llmtest.Answer {
	last := r.Messages[len(r.Messages)-1]
	for _, b := range last.Blocks {
		if b.Type == "tool_result" {
			return llmtest.Say(expectedAnswer(newestUserText(r)))
		}
	}
	switch text := last.Text(); {
	case strings.HasPrefix(text, "pay"):
		a := llmtest.Use("pay", fmt.Sprintf(`{"for":%q}`, text))
		a.Text, a.Delay = preamble(text), time.Second
		return a
	case strings.HasPrefix(text, "slow"):
		return llmtest.Answer{Text: expectedAnswer(text), Delay: time.Second}
	default:
		return llmtest.Say(expectedAnswer(text))
	}
}

// preamble returns what the model writes before the tool call: a separate message.
func preamble(text string) string { return "first: " + text + strings.Repeat(" .", 20) }

// expectedAnswer returns the answer to a message of the scenario.
func expectedAnswer(text string) string {
	if strings.HasPrefix(text, "slow") {
		return "done: " + text + strings.Repeat(" .", 20)
	}
	return "done: " + text
}

// newestUserText returns the newest text of the user.
func newestUserText(r llmtest.Recorded) string {
	for i := len(r.Messages) - 1; i >= 0; i-- {
		if t := r.Messages[i].Text(); r.Messages[i].Role == "user" && t != "" {
			return t
		}
	}
	return ""
}

// run sends the scenario and advances the clock.
func (s *killSweep) run() {
	for _, text := range []string{"one", "pay 2", "slow 3"} {
		m := s.newMessage("7", text)
		s.offered = append(s.offered, m)
		s.deliver(m)
	}
	m := s.newMessage("8", "four")
	s.offered = append(s.offered, m)
	s.deliver(m)
	s.advance(2 * time.Minute)
}

func (s *killSweep) deliver(m chat.Inbound) {
	if s.gw.Accept(context.Background(), []chat.Inbound{m}) == nil {
		s.acked[m.IdempotencyKey] = true
	}
}

// restart starts the next daemon on the data of the killed one. The platform delivers
// unacknowledged events again.
func (s *killSweep) restart() {
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
			s.deliver(m)
		}
	}
	s.advance(10 * time.Minute)
}

// checkResult checks what a user sees and how every message ended. It returns the
// number of answers that were repeated and marked, and the number of previews that could
// not be deleted: both only after a kill between a request and its receipt.
func (s *killSweep) checkResult() (repeats, orphans int) {
	s.t.Helper()
	for _, m := range s.offered {
		if o := s.outcome(m.IdempotencyKey); o != "replied" {
			s.t.Errorf("%q ended %s", m.Text, o)
		}
		r, o := s.countShown(m, "done: ", expectedAnswer(m.Text), true)
		repeats, orphans = repeats+r, orphans+o
		if strings.HasPrefix(m.Text, "pay") { // a kill between the step and this message loses it
			between := strings.Contains(s.reaper.diedAt, "step") || strings.Contains(s.reaper.diedAt, "enqueue")
			r, o = s.countShown(m, "first: ", preamble(m.Text), !between)
			repeats, orphans = repeats+r, orphans+o
		}
	}
	s.checkOrder()
	for input, n := range s.tool.runs {
		if n > 1 {
			s.t.Errorf("the tool that may run once ran %d times with %s", n, input)
		}
	}
	if lanes, rows := s.unfinished(); len(lanes)+len(rows) != 0 {
		s.t.Errorf("left open: %v, %+v", lanes, rows)
	}
	if repeats+orphans > s.reaper.lost {
		s.t.Errorf("%d repeats and %d previews left behind, but %d receipts were lost", repeats, orphans, s.reaper.lost)
	}
	return repeats, orphans
}

// countShown counts how often a user sees a text of the turn of m, and prefixes of it.
func (s *killSweep) countShown(m chat.Inbound, prefix, whole string, must bool) (repeats, orphans int) {
	s.t.Helper()
	plain, marked := 0, 0
	for _, text := range s.adapter.visible(m.Address.Chat) {
		switch {
		case text == whole:
			plain++
		case text == "(may be a repeat)\n"+whole:
			marked++
		case strings.HasPrefix(strings.TrimPrefix(text, "(may be a repeat)\n"), prefix+m.Text):
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

func (s *killSweep) checkOrder() {
	s.t.Helper()
	last := -1
	for _, text := range s.adapter.visible("7") {
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

func TestKillAtAnyPoint(t *testing.T) {
	points := 0
	t.Run("undisturbed", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := newKillSweep(t, 0)
			s.start()
			s.run()
			s.checkResult()
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
				s := newKillSweep(t, k)
				s.start()
				s.run()
				if s.reaper.killed() {
					died++
					s.restart()
				}
				r, o := s.checkResult()
				repeats, orphans = repeats+r, orphans+o
				if t.Failed() {
					t.Logf("died %s\n%s", s.reaper.diedAt, s.adapter.history())
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
