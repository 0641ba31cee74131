package storagetest

import (
	"context"
	"fmt"
	"slices"

	"pgregory.net/rapid"

	"hermesd/agent/llm"
	"hermesd/gateway/inbox"
	"hermesd/gateway/session"
	"hermesd/gateway/store"
)

// A modelSession is the expected state of the session of one lane.
type modelSession struct {
	id       session.ID
	isStored bool
	rows     []string // all rows ever written; the last ones are active
	active   int
	archive  []session.Span
	calls    []string
	prompt   string
	engine   string
	revision int
}

func (m *model) session(l inbox.Lane) *modelSession {
	s := m.sessions[l]
	if s == nil {
		id := session.ID("s-" + l)
		s = &modelSession{id: id, prompt: string(newSession(id).Prompt)}
		m.sessions[l] = s
	}
	return s
}

// An addition is what a commit adds to a session.
type addition struct {
	compactions []store.Compaction
	messages    int
	calls       int
	prompt      bool
	engine      bool
	events      []store.Event
}

// drawAddition draws an addition that is valid for s.
func drawAddition(t *rapid.T, s *modelSession) addition {
	a := addition{
		messages: rapid.IntRange(0, 3).Draw(t, "messages"), calls: rapid.IntRange(0, 2).Draw(t, "calls"),
		prompt: rapid.IntRange(0, 3).Draw(t, "prompt") == 0, engine: rapid.IntRange(0, 3).Draw(t, "engine") == 0,
	}
	length, n := s.active, len(s.rows)
	fresh := func(what string, most int) (rows []store.Doc[llm.Message]) {
		for range rapid.IntRange(0, most).Draw(t, what) {
			rows = append(rows, []byte(fmt.Sprintf(`{"%s": %d}`, what, n)))
			n++
		}
		return rows
	}
	for range max(0, rapid.IntRange(-2, 2).Draw(t, "passes")) {
		p := store.Compaction{Length: length, Append: fresh("append", 2)}
		length += len(p.Append)
		p.From = rapid.IntRange(0, length).Draw(t, "from")
		p.To = rapid.IntRange(p.From, length).Draw(t, "to")
		p.Active = fresh("active", 3)
		length = len(p.Active)
		a.compactions = append(a.compactions, p)
	}
	return a
}

// commit returns the commit that adds a to s.
func (a addition) commit(s *modelSession) store.Turn {
	length, n := s.active, len(s.rows)
	for _, p := range a.compactions {
		length, n = len(p.Active), n+len(p.Append)+len(p.Active)
	}
	var texts []string
	for i := range a.messages {
		texts = append(texts, fmt.Sprintf(`{"message": %d}`, n+i))
	}
	c := sessionCommit(s.id, length, texts...)
	c.Create = newSession(s.id)
	c.Session.Key, c.Create.Record.Key = session.Key(s.id[2:]), session.Key(s.id[2:])
	c.Events = a.events
	c.Compactions, c.Session.Calls, c.Session.Revision = a.compactions, len(s.calls)+a.calls, s.revision
	for i := range a.calls {
		c.Calls = append(c.Calls, []byte(fmt.Sprintf(`{"n": %d}`, len(s.calls)+i)))
	}
	if a.prompt {
		c.Session.Revision++
		c.Prompt = []byte(fmt.Sprintf(`{"revision": %d}`, c.Session.Revision))
	}
	if a.engine {
		c.Engine = []byte(fmt.Sprintf(`{"rows": %d}`, n))
	}
	return c
}

// conflicting returns variants of c that contradict the stored state.
func (a addition) conflicting(c store.Turn) []store.Turn {
	bad := []store.Turn{c, c, c}
	bad[0].Session.Messages++
	bad[1].Session.Calls++
	bad[2].Compactions = append(slices.Clone(c.Compactions), store.Compaction{Length: c.Session.Messages + 7})
	if n := len(c.Compactions); n > 0 {
		late := c
		late.Compactions = slices.Clone(c.Compactions)
		late.Compactions[n-1].Length++
		bad = append(bad, late)
	}
	return bad
}

// add applies a to the model.
func (s *modelSession) add(a addition) {
	c := a.commit(s)
	write := func(rows []store.Doc[llm.Message]) { s.rows = append(s.rows, rowTexts(rows)...) }
	for _, p := range c.Compactions {
		start := len(s.rows) - s.active
		write(p.Append)
		if p.From < p.To {
			s.archive = append(s.archive, session.Span{From: start + p.From, To: start + p.To})
		}
		write(p.Active)
		s.active = len(p.Active)
	}
	write(c.Messages)
	s.active += len(c.Messages)
	s.calls = append(s.calls, rowTexts(c.Calls)...)
	s.isStored, s.revision = true, c.Session.Revision
	if c.Prompt != nil {
		s.prompt = string(c.Prompt)
	}
	if c.Engine != nil {
		s.engine = string(c.Engine)
	}
}

// checkSession compares a session with its stored state.
func (m *model) checkSession(s *modelSession) {
	if !s.isStored {
		return
	}
	ctx := context.Background()
	rec, ok, err := m.s.SessionByID(ctx, s.id)
	m.ok(err)
	start := len(s.rows) - s.active
	m.checkEqual("session exists", ok, true)
	m.checkEqual("counts", []int{rec.Start, rec.Messages, rec.Calls, rec.Revision}, []int{start, s.active, len(s.calls), s.revision})
	m.checkEqual("archive", rec.Archive, s.archive)
	rows, err := Transcript(ctx, m.s, s.id, 0)
	m.ok(err)
	m.checkEqual("transcript", rowTexts(rows), s.rows[start:])
	rows, err = m.s.Rows(ctx, s.id, session.Span{To: len(s.rows)})
	m.ok(err)
	m.checkEqual("rows", rowTexts(rows), s.rows)
	calls, err := m.s.Calls(ctx, s.id, 0)
	m.ok(err)
	m.checkEqual("ledger", rowTexts(calls), s.calls)
	prompt, err := m.s.Prompt(ctx, s.id)
	m.ok(err)
	m.checkEqual("prompt", string(prompt), s.prompt)
	engine, err := m.s.Engine(ctx, s.id)
	m.ok(err)
	m.checkEqual("engine", string(engine), s.engine)
}
