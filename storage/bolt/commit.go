package bolt

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"hermesd/gateway/inbox"
	"hermesd/gateway/outbox"
	"hermesd/gateway/session"
)

var errNoOutcome = fmt.Errorf("%w: an entry would end without an outcome", inbox.ErrConflict)

// CommitTurn makes all of m true at once, or none, and ends the claim. It
// refuses a transcript whose stored length is not what m expects. Outcomes of
// entries that are not the claim's are ignored.
func (s *Store) CommitTurn(ctx context.Context, c inbox.Claim, m inbox.Commit) ([]outbox.Row, error) {
	size := 4096 + len(m.Trace)
	for _, msg := range m.Messages {
		size += len(msg) + 64
	}
	for _, call := range m.Calls {
		size += len(call) + 64
	}
	for _, p := range m.Compactions {
		for _, msg := range append(p.Append[:len(p.Append):len(p.Append)], p.Active...) {
			size += len(msg) + 64
		}
	}
	size += len(m.Prompt) + len(m.Engine)
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
	t, err := b.claimedTurn(c)
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
		end := o.RunOutcome()
		if m.RunOutcome != nil {
			end = *m.RunOutcome
		}
		if err := b.finishRun(e, o, end); err != nil {
			return nil, err
		}
	}
	for _, e := range m.Accept {
		if _, err := b.accept(e); err != nil {
			return nil, err
		}
	}
	for _, l := range m.Cancel {
		if err := b.cancel(l, newestOf(c), inbox.Outcome{Result: inbox.Cancelled, Reason: m.CancelReason}); err != nil {
			return nil, err
		}
	}
	if err := b.dropSteps(&t); err != nil {
		return nil, err
	}
	t.Epoch, t.Ended, t.Trace, t.Session = 0, b.now, m.Trace, sessionOf(m)
	if err := b.saveTurn(t); err != nil {
		return nil, err
	}
	return b.enqueue(m.Rows, t.ID)
}

// sessionOf is the session to which a commit belongs, "" if to none.
func sessionOf(m inbox.Commit) session.ID {
	if m.Session.ID == "" && m.Create != nil {
		return m.Create.Record.ID
	}
	return m.Session.ID
}

// check finds what is wrong with m before anything is written.
func (b *batch) check(m inbox.Commit) error {
	for k, id := range m.SetCurrent {
		opened := m.Create != nil && m.Create.Record.ID == id
		if _, ok, err := b.session(id); err != nil || !ok && !opened && m.Session.ID != id {
			return errors.Join(err, fmt.Errorf("point %s to %q: %w", k, id, errNoSession))
		}
	}
	if m.Session.ID == "" {
		if len(m.Messages) > 0 || len(m.Calls) > 0 || len(m.Compactions) > 0 || m.Prompt != nil || m.Engine != nil {
			return fmt.Errorf("%w: messages, calls or a prompt without a session", inbox.ErrConflict)
		}
		return nil
	}
	old, _, err := b.session(m.Session.ID)
	if err != nil {
		return err
	}
	have, err := afterPasses(m.Session.ID, old.Messages, m.Compactions)
	if err != nil {
		return err
	}
	if want := m.Session.Messages - len(m.Messages); have != want {
		return wrongLength(m.Session.ID, have, want)
	}
	if want := m.Session.Calls - len(m.Calls); old.Calls != want {
		return fmt.Errorf("%w: the ledger of %s has %d calls, not %d", inbox.ErrConflict, m.Session.ID, old.Calls, want)
	}
	return nil
}

// keepSession stores what m says of sessions.
func (b *batch) keepSession(m inbox.Commit) error {
	if m.Create != nil {
		if err := b.openSession(*m.Create, true); err != nil {
			return err
		}
	}
	if m.Session.ID != "" {
		if err := b.replaceSession(m.Session, m.Compactions, m.Messages); err != nil {
			return err
		}
		if err := b.keepCalls(m.Session, m.Calls); err != nil {
			return err
		}
	}
	for id, set := range m.Settings {
		rec, ok, err := b.session(id)
		if err != nil || !ok {
			return errors.Join(err, fmt.Errorf("settings of %s: %w", id, errNoSession))
		}
		rec.Settings = set
		if err := b.putSession(rec); err != nil {
			return err
		}
	}
	if m.Engine != nil {
		if err := b.put(bEngines, []byte(m.Session.ID), m.Engine); err != nil {
			return err
		}
	}
	if m.Prompt != nil {
		if err := b.put(bPrompts, []byte(m.Session.ID), m.Prompt); err != nil {
			return err
		}
	}
	for k, id := range m.SetCurrent {
		k, _, err := b.resolve(k, m.Session.Address)
		if err != nil {
			return err
		}
		if err := b.put(bCurrent, []byte(k), []byte(id)); err != nil {
			return err
		}
	}
	return nil
}

// afterPasses returns how long an active transcript is once passes are done, or
// an error if one does not fit what it meets.
func afterPasses(id session.ID, length int, passes []inbox.Compaction) (int, error) {
	for i, p := range passes {
		if p.Length != length {
			return 0, wrongLength(id, length, p.Length)
		}
		if length += len(p.Append); p.From < 0 || p.From > p.To || p.To > length {
			return 0, fmt.Errorf("%w: pass %d archives rows %d to %d of %d", inbox.ErrConflict, i, p.From, p.To, length)
		}
		length = len(p.Active)
	}
	return length, nil
}

// compact writes the new active transcript behind the old one, whose rows stay
// where they are.
func (b *batch) compact(rec *session.Record, p inbox.Compaction) error {
	end := rec.Start + p.Length
	if err := b.putRows(rec.ID, end, p.Append); err != nil {
		return err
	}
	if p.From < p.To {
		rec.Archive = append(rec.Archive, session.Span{From: rec.Start + p.From, To: rec.Start + p.To})
	}
	rec.Start = end + len(p.Append)
	return b.putRows(rec.ID, rec.Start, p.Active)
}

func (b *batch) putRows(id session.ID, first int, rows []json.RawMessage) error {
	for i, row := range rows {
		if err := b.put(bTranscripts, transcriptKey(id, first+i), row); err != nil {
			return err
		}
	}
	return nil
}

// replaceSession stores rec over the session's record, does passes and appends
// messages. What came from outside while the turn ran stays: a title, a move of
// the chat.
func (b *batch) replaceSession(rec session.Record, passes []inbox.Compaction, messages []json.RawMessage) error {
	old, known, err := b.session(rec.ID)
	if err != nil {
		return err
	}
	next := sessionRecord{Record: rec}
	if next.Key, next.Address, err = b.resolve(rec.Key, rec.Address); err != nil {
		return err
	}
	if known { // whoever names a session does so from outside of its turns
		next.Title, next.TitleAuto = old.shown().Title, old.shown().TitleAuto
		next.Settings = old.Settings
	}
	next.Start, next.Archive = old.Start, slices.Clone(old.Archive)
	for _, p := range passes {
		if err := b.compact(&next.Record, p); err != nil {
			return err
		}
	}
	if err := b.putRows(rec.ID, next.Start+rec.Messages-len(messages), messages); err != nil {
		return err
	}
	return b.putSession(next)
}

// keptCalls is how many calls of one session are kept.
const keptCalls = 5000

// keepCalls appends calls to the ledger of a session and forgets the oldest over
// the number that is kept.
func (b *batch) keepCalls(rec session.Record, calls []json.RawMessage) error {
	first := rec.Calls - len(calls)
	for i, call := range calls {
		if err := b.put(bCalls, transcriptKey(rec.ID, first+i), call); err != nil {
			return err
		}
		if old := first + i - keptCalls; old >= 0 {
			if err := b.delete(bCalls, transcriptKey(rec.ID, old)); err != nil {
				return err
			}
		}
	}
	return nil
}

// newestOf is the newest entry of a claim.
func newestOf(c inbox.Claim) (id inbox.ID) {
	for _, e := range c.Entries {
		id = max(id, e.ID)
	}
	return id
}

// cancel ends the entries that wait in lane l and came before a command. What a
// person has said after it is meant to be answered.
func (b *batch) cancel(l inbox.Lane, before inbox.ID, o inbox.Outcome) error {
	places, err := b.lane(l)
	if err != nil {
		return err
	}
	for _, p := range places {
		if p.claimed || p.id > before {
			continue
		}
		e, ok, err := b.entryAt(l, p)
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
