package storagetest

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"pgregory.net/rapid"

	"hermesd/gateway/inbox"
	"hermesd/gateway/session"
)

// A modelSession is the session of one lane as it should be stored.
type modelSession struct {
	id       session.ID
	stored   bool
	rows     []string // all that were ever written; the last active ones are active
	active   int
	archive  []session.Span
	calls    []string
	prompt   string
	engine   string
	revision int
}

func (m *model) session(l inbox.Lane) *modelSession {
	s := m.said[l]
	if s == nil {
		id := session.ID("s-" + l)
		s = &modelSession{id: id, prompt: string(opening(id).Prompt)}
		m.said[l] = s
	}
	return s
}

// An addition is what a commit adds to a session.
type addition struct {
	passes   []inbox.Compaction
	messages int
	calls    int
	prompt   bool
	engine   bool
}

// drawn draws an addition that fits s.
func drawn(t *rapid.T, s *modelSession) addition {
	a := addition{
		messages: rapid.IntRange(0, 3).Draw(t, "messages"), calls: rapid.IntRange(0, 2).Draw(t, "calls"),
		prompt: rapid.IntRange(0, 3).Draw(t, "prompt") == 0, engine: rapid.IntRange(0, 3).Draw(t, "engine") == 0,
	}
	length, n := s.active, len(s.rows)
	fresh := func(what string, most int) (rows []json.RawMessage) {
		for range rapid.IntRange(0, most).Draw(t, what) {
			rows = append(rows, json.RawMessage(fmt.Sprintf(`{"%s": %d}`, what, n)))
			n++
		}
		return rows
	}
	for range max(0, rapid.IntRange(-2, 2).Draw(t, "passes")) {
		p := inbox.Compaction{Length: length, Append: fresh("append", 2)}
		length += len(p.Append)
		p.From = rapid.IntRange(0, length).Draw(t, "from")
		p.To = rapid.IntRange(p.From, length).Draw(t, "to")
		p.Active = fresh("active", 3)
		length = len(p.Active)
		a.passes = append(a.passes, p)
	}
	return a
}

// commit is the commit that makes a true.
func (a addition) commit(s *modelSession) inbox.Commit {
	length, n := s.active, len(s.rows)
	for _, p := range a.passes {
		length, n = len(p.Active), n+len(p.Append)+len(p.Active)
	}
	var texts []string
	for i := range a.messages {
		texts = append(texts, fmt.Sprintf(`{"message": %d}`, n+i))
	}
	c := said(s.id, length, texts...)
	c.Create = opening(s.id)
	c.Session.Key, c.Create.Record.Key = session.Key(s.id[2:]), session.Key(s.id[2:])
	c.Compactions, c.Session.Calls, c.Session.Revision = a.passes, len(s.calls)+a.calls, s.revision
	for i := range a.calls {
		c.Calls = append(c.Calls, json.RawMessage(fmt.Sprintf(`{"n": %d}`, len(s.calls)+i)))
	}
	if a.prompt {
		c.Session.Revision++
		c.Prompt = json.RawMessage(fmt.Sprintf(`{"revision": %d}`, c.Session.Revision))
	}
	if a.engine {
		c.Engine = json.RawMessage(fmt.Sprintf(`{"rows": %d}`, n))
	}
	return c
}

// spoiled are commits like c that contradict what is stored.
func (a addition) spoiled(c inbox.Commit) []inbox.Commit {
	bad := []inbox.Commit{c, c, c}
	bad[0].Session.Messages++
	bad[1].Session.Calls++
	bad[2].Compactions = append(slices.Clone(c.Compactions), inbox.Compaction{Length: c.Session.Messages + 7})
	if n := len(c.Compactions); n > 0 {
		late := c
		late.Compactions = slices.Clone(c.Compactions)
		late.Compactions[n-1].Length++
		bad = append(bad, late)
	}
	return bad
}

// add makes a true in the model.
func (s *modelSession) add(a addition) {
	c := a.commit(s)
	write := func(rows []json.RawMessage) { s.rows = append(s.rows, rowTexts(rows)...) }
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
	s.stored, s.revision = true, c.Session.Revision
	if c.Prompt != nil {
		s.prompt = string(c.Prompt)
	}
	if c.Engine != nil {
		s.engine = string(c.Engine)
	}
}

// checkSession compares a session with what is stored of it.
func (m *model) checkSession(s *modelSession) {
	if !s.stored {
		return
	}
	ctx := context.Background()
	rec, ok, err := m.s.SessionByID(ctx, s.id)
	m.ok(err)
	start := len(s.rows) - s.active
	m.same("session is there", ok, true)
	m.same("counts", []int{rec.Start, rec.Messages, rec.Calls, rec.Revision}, []int{start, s.active, len(s.calls), s.revision})
	m.same("archive", rec.Archive, s.archive)
	rows, err := m.s.Transcript(ctx, s.id, 0)
	m.ok(err)
	m.same("transcript", rowTexts(rows), s.rows[start:])
	rows, err = m.s.Rows(ctx, s.id, session.Span{To: len(s.rows)})
	m.ok(err)
	m.same("rows", rowTexts(rows), s.rows)
	calls, err := m.s.Calls(ctx, s.id, 0)
	m.ok(err)
	m.same("ledger", rowTexts(calls), s.calls)
	prompt, err := m.s.Prompt(ctx, s.id)
	m.ok(err)
	m.same("prompt", string(prompt), s.prompt)
	engine, err := m.s.Engine(ctx, s.id)
	m.ok(err)
	m.same("engine", string(engine), s.engine)
}
