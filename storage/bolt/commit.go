package bolt

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"hermesd/gateway/inbox"
	"hermesd/gateway/outbox"
	"hermesd/gateway/session"
)

var errNoOutcome = fmt.Errorf("%w: an entry would end without an outcome", inbox.ErrRefused)

// CommitTurn makes all of m true at once, or none, and ends the claim. It
// refuses a transcript whose stored length is not what m expects. Outcomes of
// entries that are not the claim's are ignored.
func (s *Store) CommitTurn(ctx context.Context, c inbox.Claim, m inbox.Commit) ([]outbox.Row, error) {
	size := 4096 + len(m.Trace)
	for _, msg := range m.Messages {
		size += len(msg) + 64
	}
	for _, r := range m.Rows {
		size += len(r.Msg.Text.Text) + 1024
	}
	var rows []outbox.Row
	err := s.do(ctx, "commit "+c.Turn, size, func(b *batch) error {
		var err error
		rows, err = b.commitTurn(c, m)
		return err
	})
	if err != nil {
		return nil, err
	}
	return rows, nil
}

func (b *batch) commitTurn(c inbox.Claim, m inbox.Commit) ([]outbox.Row, error) {
	t, err := b.held(c)
	if err != nil {
		return nil, err
	}
	if err := b.check(m); err != nil {
		return nil, err
	}
	entries, err := b.unfinished(t)
	if err != nil {
		return nil, err
	}
	if err := b.keepSession(m); err != nil {
		return nil, err
	}
	for _, e := range entries {
		o, ok := m.Outcomes[e.ID]
		if !ok {
			o = m.Outcome
		}
		if o.Result == "" {
			return nil, fmt.Errorf("%s: %w", e.ID, errNoOutcome)
		}
		if err := b.finishEntry(e, o); err != nil {
			return nil, err
		}
	}
	for _, l := range m.Cancel {
		if err := b.cancel(l, inbox.Outcome{Result: inbox.Cancelled, Why: m.CancelWhy}); err != nil {
			return nil, err
		}
	}
	if err := b.dropSteps(&t); err != nil {
		return nil, err
	}
	t.Epoch, t.Ended, t.Trace = 0, b.now, m.Trace
	if err := b.saveTurn(t); err != nil {
		return nil, err
	}
	return b.enqueue(m.Rows, t.ID)
}

// check finds what is wrong with m before anything is written.
func (b *batch) check(m inbox.Commit) error {
	for k, id := range m.Point {
		opened := m.Open != nil && m.Open.Record.ID == id
		if _, ok, err := b.session(id); err != nil || !ok && !opened && m.Session.ID != id {
			return errors.Join(err, fmt.Errorf("point %s to %q: %w", k, id, errNoSession))
		}
	}
	if m.Session.ID == "" {
		if len(m.Messages) > 0 {
			return fmt.Errorf("%w: messages without a session", inbox.ErrRefused)
		}
		return nil
	}
	old, _, err := b.session(m.Session.ID)
	if err != nil {
		return err
	}
	if want := m.Session.Messages - len(m.Messages); old.Messages != want {
		return wrongLength(m.Session.ID, old.Messages, want)
	}
	return nil
}

// keepSession stores what m says of sessions.
func (b *batch) keepSession(m inbox.Commit) error {
	if m.Open != nil {
		if err := b.openSession(*m.Open, true); err != nil {
			return err
		}
	}
	if m.Session.ID != "" {
		if err := b.replaceSession(m.Session, m.Messages); err != nil {
			return err
		}
	}
	for k, id := range m.Point {
		k, _, err := b.resolve(k, m.Session.At)
		if err != nil {
			return err
		}
		if err := b.put(bCurrent, []byte(k), []byte(id)); err != nil {
			return err
		}
	}
	return nil
}

// replaceSession stores rec over the session's record and appends messages.
// What came from outside while the turn ran stays: a title, a move of the chat.
func (b *batch) replaceSession(rec session.Record, messages []json.RawMessage) error {
	old, _, err := b.session(rec.ID)
	if err != nil {
		return err
	}
	next := sessionRecord{Record: rec}
	if next.Key, next.At, err = b.resolve(rec.Key, rec.At); err != nil {
		return err
	}
	if old.Titled != "" && rec.Title == old.Title {
		next.Titled = old.Titled
	}
	first := rec.Messages - len(messages)
	for i, msg := range messages {
		if err := b.put(bTranscripts, transcriptKey(rec.ID, first+i), msg); err != nil {
			return err
		}
	}
	return b.putSession(next)
}

// cancel ends the entries that wait in lane l.
func (b *batch) cancel(l inbox.Lane, o inbox.Outcome) error {
	places, err := b.lane(l)
	if err != nil {
		return err
	}
	for _, p := range places {
		if p.claimed {
			continue
		}
		e, ok, err := b.at(l, p)
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		if err := b.finishEntry(e, o); err != nil {
			return err
		}
		if err := b.endIdle(e.Turn); err != nil {
			return err
		}
	}
	return nil
}

// endIdle ends a turn that was cut short, once nothing of it waits any more.
func (b *batch) endIdle(id string) error {
	if id == "" {
		return nil
	}
	t, ok, err := b.turn(id)
	if err != nil || !ok {
		return err
	}
	if left, err := b.unfinished(t); err != nil || len(left) > 0 {
		return err
	}
	if err := b.dropSteps(&t); err != nil {
		return err
	}
	t.Ended = b.now
	return b.saveTurn(t)
}
