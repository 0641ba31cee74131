package storagetest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"hermesd/gateway/chat"
	"hermesd/gateway/inbox"
	"hermesd/gateway/outbox"
	"hermesd/gateway/store"
)

// A model is a store and, in memory, the state that it should have.
type model struct {
	*rapid.T
	s      store.Store
	reopen func() store.Store // opens the store after a crash

	entries     []*modelEntry // by id
	turns       []*modelTurn
	staleClaims []store.Claim // claims that must be rejected
	rows        []*modelRow   // by id
	sessions    map[inbox.Lane]*modelSession
	events      []*modelEvent // in order
	eventDocs   int           // number of documents so far
	counted     int           // new entries whose admission has made the value "count" longer
}

type modelEntry struct {
	id        inbox.ID
	key       string
	text      string
	lane      inbox.Lane
	exclusive bool
	turn      *modelTurn
	crashes   int
	outcome   inbox.Result // "": not done
}

type modelTurn struct {
	claim        store.Claim
	isClaimed    bool // claimed
	hasEnded     bool
	steps        []string
	stepsAtCrash int // steps at the last crash
}

type modelRow struct {
	id       outbox.ID
	to       chat.Address
	state    outbox.State
	attempts int  // attempts
	inFlight bool // a caller has the attempt
	isHeld   bool
}

func checkModel(t *testing.T, open Open) {
	base, err := os.MkdirTemp("/dev/shm", "hermesd-test-") // the simulated crashes end processes, not the system
	if err != nil {
		base = t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(base) })
	rapid.Check(t, func(rt *rapid.T) {
		dir, err := os.MkdirTemp(base, "")
		if err != nil {
			rt.Fatal(err)
		}
		m := &model{T: rt, sessions: make(map[inbox.Lane]*modelSession), reopen: func() store.Store { return open(t, dir) }}
		m.s = m.reopen()
		defer func() {
			if err := m.s.Close(); err != nil {
				rt.Error(err)
			}
		}()
		rt.Repeat(map[string]func(*rapid.T){
			"accept": m.accept, "edit": m.edit, "claim": m.claim, "join": m.join, "release": m.release, "step": m.step,
			"commit": m.commit, "stale": m.tryStale, "enqueue": m.enqueue, "next": m.next, "settle": m.settle,
			"retry": m.retry, "drop": m.drop, "settle event": m.settleEvent, "change events": m.changeEvents, "crash": m.crash, "": m.check,
		})
		m.drain()
	})
}

func (m *model) ok(err error) {
	m.Helper()
	if err != nil {
		m.Fatal(err)
	}
}

func (m *model) checkEqual(what string, got, want any) {
	m.Helper()
	if d := cmp.Diff(want, got, cmpopts.EquateEmpty()); d != "" {
		m.Fatalf("%s (-want +got):\n%s", what, d)
	}
}

func drawLane(t *rapid.T) inbox.Lane {
	return rapid.SampledFrom([]inbox.Lane{"a", "a!", "b"}).Draw(t, "lane")
}

func drawAddress(t *rapid.T) chat.Address {
	return rapid.SampledFrom([]chat.Address{testDM, testThread}).Draw(t, "address")
}

// pick draws one element of list, or skips the action if list is empty.
func pick[T any](t *rapid.T, list []T, what string) T {
	if len(list) == 0 {
		t.Skip()
	}
	return list[rapid.IntRange(0, len(list)-1).Draw(t, what)]
}

func (m *model) accept(t *rapid.T) {
	l := drawLane(t)
	count := []store.ValueEdit{{Key: "count", Change: func(old []byte) ([]byte, error) { return append(old, '|'), nil }}}
	var batch []store.Admission
	var want []store.Acceptance
	for range rapid.IntRange(1, 3).Draw(t, "batch") {
		n := len(m.entries) + 1
		if len(m.entries) > 0 && rapid.IntRange(0, 4).Draw(t, "seen") == 0 {
			e := pick(t, m.entries, "entry")
			batch = append(batch, store.Admission{Entry: inbox.Entry{Lane: e.lane, Inbound: chat.Inbound{IdempotencyKey: e.key, Address: testDM, Kind: chat.Message}}, Edits: count})
			want = append(want, store.Acceptance{ID: e.id})
			continue
		}
		e := &modelEntry{id: inbox.ID(n), key: fmt.Sprint("k", n), text: fmt.Sprint("text ", n), lane: l, exclusive: rapid.IntRange(0, 5).Draw(t, "exclusive") == 0}
		m.entries = append(m.entries, e)
		batch = append(batch, store.Admission{Entry: inbox.Entry{Lane: l, Exclusive: e.exclusive, Inbound: chat.Inbound{IdempotencyKey: e.key, Address: testDM, Kind: chat.Message, Text: e.text}}, Edits: count})
		m.counted++
		want = append(want, store.Acceptance{ID: e.id, IsNew: true})
	}
	got, err := m.s.Accept(context.Background(), batch)
	m.ok(err)
	m.checkEqual("acceptances", got, want)
}

func (m *model) edit(t *rapid.T) {
	e := pick(t, m.entries, "entry")
	n := len(m.entries) + 1
	ed := &modelEntry{id: inbox.ID(n), key: fmt.Sprint("k", n), outcome: inbox.Silent}
	text := fmt.Sprint("edited ", n)
	_, err := m.s.Accept(context.Background(), []store.Admission{{Entry: inbox.Entry{Inbound: chat.Inbound{IdempotencyKey: ed.key, Address: testDM, Kind: chat.Edit, EditedKey: e.key, Text: text}}}})
	m.ok(err)
	m.entries = append(m.entries, ed)
	if e.outcome == "" && (e.turn == nil || !e.turn.isClaimed && len(e.turn.steps) == 0) {
		e.text = text
	}
}

// unfinished returns the entries of a lane that are not done, in order.
func (m *model) unfinished(l inbox.Lane) []*modelEntry {
	var list []*modelEntry
	for _, e := range m.entries {
		if e.lane == l && e.outcome == "" {
			list = append(list, e)
		}
	}
	return list
}

// followsCommand reports whether an immediate command of the session that is older than e is
// not done.
func (m *model) followsCommand(e *modelEntry) bool {
	commands := m.unfinished(e.lane + "!")
	return len(commands) > 0 && e.id > commands[0].id
}

// expectedClaim returns the entries of the next claim of a lane.
func (m *model) expectedClaim(l inbox.Lane, most int) []*modelEntry {
	list := m.unfinished(l)
	if slices.ContainsFunc(list, func(e *modelEntry) bool { return e.turn != nil && e.turn.isClaimed }) {
		return nil
	}
	for _, e := range list {
		if e.turn != nil {
			return slices.DeleteFunc(list, func(x *modelEntry) bool { return x.turn != e.turn })
		}
	}
	for i, e := range list {
		if most > 0 && i == most || i > 0 && (e.exclusive || m.followsCommand(e)) {
			return list[:i]
		}
		if e.exclusive {
			return list[:1]
		}
	}
	return list
}

func (m *model) claim(t *rapid.T) {
	m.claimLane(drawLane(t), rapid.IntRange(0, 2).Draw(t, "most"))
}

func (m *model) claimLane(l inbox.Lane, most int) *modelTurn {
	want := m.expectedClaim(l, most)
	c, err := m.s.Claim(context.Background(), l, most)
	m.ok(err)
	m.checkEqual("claimed", briefEntries(c.Entries), briefModel(want))
	if len(want) == 0 {
		m.checkEqual("turn", c.Turn, "")
		return nil
	}
	turn := want[0].turn
	if turn == nil {
		turn = &modelTurn{}
		m.turns = append(m.turns, turn)
	} else {
		m.checkEqual("turn", c.Turn, turn.claim.Turn)
	}
	m.checkEqual("steps", rowTexts(c.Steps), turn.steps)
	crashed := false
	for _, e := range want {
		e.turn = turn
		crashed = crashed || e.crashes > 0
	}
	m.checkEqual("crashed", c.Crashed, crashed)
	turn.claim, turn.isClaimed = c, true
	m.checkEqual("remaining", c.Remaining, m.s.Waiting(l))
	return turn
}

type brief struct {
	ID      inbox.ID
	Text    string
	Crashes int
}

func briefEntries(list []inbox.Entry) []brief {
	var b []brief
	for _, e := range list {
		b = append(b, brief{e.ID, e.Inbound.Text, e.Crashes})
	}
	return b
}

func briefModel(list []*modelEntry) []brief {
	var b []brief
	for _, e := range list {
		b = append(b, brief{e.id, e.text, e.crashes})
	}
	return b
}

func (m *model) liveTurn(t *rapid.T) *modelTurn {
	var live []*modelTurn
	for _, turn := range m.turns {
		if turn.isClaimed {
			live = append(live, turn)
		}
	}
	return pick(t, live, "turn")
}

func (m *model) join(t *rapid.T) {
	turn := m.liveTurn(t)
	var want []*modelEntry
	exclusive := false
	for _, e := range m.unfinished(turn.claim.Lane) {
		if e.turn == turn {
			exclusive = exclusive || e.exclusive
			continue
		}
		if e.exclusive || e.turn != nil || m.followsCommand(e) {
			break
		}
		want = append(want, e)
	}
	if exclusive {
		want = nil
	}
	got, err := m.s.Join(context.Background(), turn.claim, false)
	m.ok(err)
	m.checkEqual("joined", briefEntries(got), briefModel(want))
	for _, e := range want {
		e.turn = turn
	}
}

func (m *model) release(t *rapid.T) {
	turn := m.liveTurn(t)
	m.ok(m.s.Release(context.Background(), turn.claim))
	turn.isClaimed = false
	m.staleClaims = append(m.staleClaims, turn.claim)
	if len(turn.steps) > 0 {
		return
	}
	turn.hasEnded = true
	for _, e := range m.entries {
		if e.turn == turn {
			e.turn = nil
		}
	}
}

func (m *model) step(t *rapid.T) {
	turn := m.liveTurn(t)
	step := fmt.Sprintf(`{"step": %d}`, len(turn.steps))
	m.ok(m.s.RecordStep(context.Background(), turn.claim, store.Step{Doc: []byte(step)}))
	turn.steps = append(turn.steps, step)
}

func (m *model) commit(t *rapid.T) {
	turn := m.liveTurn(t)
	var cancel []inbox.Lane
	if rapid.IntRange(0, 9).Draw(t, "cancel") == 0 {
		cancel = append(cancel, drawLane(t))
	}
	var to []chat.Address
	for range rapid.IntRange(0, 2).Draw(t, "rows") {
		to = append(to, drawAddress(t))
	}
	a := drawAddition(t, m.session(turn.claim.Lane))
	a.events = m.drawEvents(t)
	m.commitTurn(turn, to, cancel, a)
}

// commitTurn ends a turn and adds a to the session of its lane.
func (m *model) commitTurn(turn *modelTurn, to []chat.Address, cancel []inbox.Lane, a addition) {
	s := m.session(turn.claim.Lane)
	c := a.commit(s)
	for _, bad := range a.conflicting(c) {
		if _, err := m.s.CommitTurn(context.Background(), turn.claim, bad); !errors.Is(err, store.ErrConflict) {
			m.Fatalf("a conflicting commit: %v, want %v", err, store.ErrConflict)
		}
	}
	for _, a := range to {
		c.Rows = append(c.Rows, newRow(a, ""))
	}
	var rows []outbox.Row
	var err error
	if len(cancel) > 0 { // a command, which adds nothing to a conversation
		rows, err = m.s.FinishTurn(context.Background(), turn.claim, store.Finish{End: c.End, Cancel: cancel})
	} else if rows, err = m.s.CommitTurn(context.Background(), turn.claim, c); err == nil {
		s.add(a)
	}
	m.ok(err)
	m.addRows(rows, to)
	m.addEvents(a.events)
	turn.isClaimed, turn.hasEnded, turn.steps = false, true, nil
	m.staleClaims = append(m.staleClaims, turn.claim)
	newest := turn.claim.Entries[len(turn.claim.Entries)-1].ID
	for _, e := range m.entries {
		switch waits := e.turn == nil || !e.turn.isClaimed; {
		case e.outcome != "":
		case e.turn == turn:
			e.outcome = inbox.Replied
		case waits && slices.Contains(cancel, e.lane) && e.id < newest:
			e.outcome = inbox.Cancelled
		}
	}
}

// tryStale checks that a stale claim cannot be used.
func (m *model) tryStale(t *rapid.T) {
	c := pick(t, m.staleClaims, "claim")
	if slices.ContainsFunc(m.turns, func(x *modelTurn) bool { return x.isClaimed && x.claim.Turn == c.Turn && x.claim.Epoch == c.Epoch }) {
		t.Skip() // the same process has claimed it again
	}
	end := replied()
	end.Events = []store.Event{newEvent("a", "stale")}
	_, err1 := m.s.FinishTurn(context.Background(), c, end)
	_, err2 := m.s.Join(context.Background(), c, false)
	for _, err := range []error{err1, err2, m.s.Release(context.Background(), c), m.s.RecordStep(context.Background(), c, store.Step{Doc: []byte(`0`)})} {
		if !errors.Is(err, store.ErrStale) {
			m.Fatalf("claim of %s in epoch %d: %v, want %v", c.Turn, c.Epoch, err, store.ErrStale)
		}
	}
}

// crash simulates the end of the process and the start of another.
func (m *model) crash(*rapid.T) {
	m.ok(m.s.Close())
	m.s = m.reopen()
	for _, turn := range m.turns {
		if !turn.isClaimed {
			continue
		}
		turn.isClaimed = false
		m.staleClaims = append(m.staleClaims, turn.claim)
		for _, e := range m.entries {
			if e.turn != turn || e.outcome != "" {
				continue
			}
			e.crashes++
			if len(turn.steps) > turn.stepsAtCrash {
				e.crashes = 1
			}
		}
		turn.stepsAtCrash = len(turn.steps)
	}
	m.crashRows()
	m.ok(m.s.Verify(context.Background()))
}

func (m *model) check(*rapid.T) {
	for _, l := range []inbox.Lane{"a", "a!", "b"} {
		n := 0
		for _, e := range m.unfinished(l) {
			n += boolToInt(e.turn == nil || !e.turn.isClaimed)
		}
		m.checkEqual("waiting in "+string(l), m.s.Waiting(l), n)
	}
	m.checkRows()
	m.checkEvents()
	for _, s := range m.sessions {
		m.checkSession(s)
	}
	count, err := m.s.Value(context.Background(), "count")
	m.ok(err)
	m.checkEqual("edits of a value", len(count), m.counted)
}

func boolToInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// drain ends everything and checks the outcomes.
func (m *model) drain() {
	m.crash(nil)
	for _, l := range []inbox.Lane{"a", "a!", "b"} {
		for len(m.unfinished(l)) > 0 {
			m.commitTurn(m.claimLane(l, 0), nil, nil, addition{messages: 1})
		}
	}
	m.check(nil)
	for _, e := range m.entries {
		histories, err := m.s.MessageHistory(context.Background(), e.key)
		m.ok(err)
		if len(histories) != 1 || histories[0].Entry.Outcome == nil || histories[0].Entry.Outcome.Result != e.outcome {
			m.Fatalf("key %s: %d histories %+v, want one that ended %s", e.key, len(histories), histories, e.outcome)
		}
	}
	m.drainRows()
	m.drainEvents()
	lanes, err := m.s.Lanes(context.Background())
	m.ok(err)
	m.checkEqual("lanes", lanes, []inbox.Lane(nil))
	m.ok(m.s.Verify(context.Background()))
}
