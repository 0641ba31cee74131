package bolt

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"hermesd/gateway/inbox"
	"hermesd/gateway/session"
)

// DeleteSession forgets a session, all at once or not at all: its record, prompt,
// ledger, engine state and whole transcript, the archived part included, and what
// the messages of its turns said, coming in and going out. Keys of conversations
// that pointed to it point to nothing. Keys by which a message is known again
// stay, and so do outcomes and receipts: they hold no text. What is still to be
// sent is sent, and loses its text then.
//
// It returns session.ErrUnknown if there is no such session, and session.ErrBusy
// while a turn of its conversation is under way. The bytes are in the file until
// Compact.
func (s *Store) DeleteSession(ctx context.Context, id session.ID) (session.Deleted, error) {
	var f sessionDeletion
	err := s.do(ctx, "delete "+string(id), s.o.MaxBatch, func(b *batch) error {
		f = sessionDeletion{b: b, id: id, told: session.Deleted{ID: id}, files: newFiles()}
		return f.run()
	})
	if err != nil {
		return session.Deleted{}, err
	}
	unused, err := s.unused(ctx, f.files)
	if err != nil { // it is gone; of its files it is not known whether they are used
		return f.told, fmt.Errorf("files of %s: %w", id, err)
	}
	f.told.Files = unused
	return f.told, nil
}

// Expired returns the sessions that were used last before a time, the oldest
// first, at most max (0: all).
func (s *Store) Expired(ctx context.Context, before time.Time, max int) ([]session.ID, error) {
	var ids []session.ID
	err := s.view(ctx, "expired sessions", func(r reader) error {
		c := r.bucket(bRecent).Cursor()
		for k, _ := c.First(); k != nil && (max <= 0 || len(ids) < max); k, _ = c.Next() {
			if len(k) < 8 {
				continue // Verify names it
			}
			rec, ok, err := r.session(session.ID(k[8:]))
			switch {
			case isDamage(err) || err == nil && !ok:
				continue
			case err != nil:
				return err
			case !rec.Updated.Before(before):
				return nil
			}
			ids = append(ids, rec.ID)
		}
		return nil
	})
	return ids, err
}

// A sessionDeletion is one call of DeleteSession.
type sessionDeletion struct {
	b     *batch
	id    session.ID
	told  session.Deleted
	files files // that it names
}

func (f *sessionDeletion) run() error {
	rec, ok, err := f.b.session(f.id)
	if err != nil {
		return err
	}
	if !ok {
		return session.ErrNotFound
	}
	keys, err := f.b.sessionKeys(rec.Key)
	if err != nil {
		return err
	}
	if busy, err := f.b.underWay(keys); err != nil || busy {
		if err == nil {
			err = session.ErrBusy
		}
		return err
	}
	f.files.take(rec.Files...)
	for _, step := range []func() error{
		f.turns, func() error { return f.redactUnassigned(keys) }, f.transcript, func() error { return f.record(rec) }, f.damaged,
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// sessionKeys returns the keys that lead to k: itself, and what it was before its chat
// moved.
func (r reader) sessionKeys(k session.Key) (map[session.Key]bool, error) {
	keys := map[session.Key]bool{k: true}
	c := r.bucket(bMoved).Cursor()
	for old, _ := c.First(); old != nil; old, _ = c.Next() {
		var m migratedKey
		if _, err := r.load(bMoved, old, &m); err != nil {
			continue // Verify names it
		}
		if to, _, err := r.resolve(m.Key, m.To); err != nil {
			return nil, err
		} else if to == k {
			keys[session.Key(old)] = true
		}
	}
	return keys, nil
}

// underWay reports whether a turn of one of the conversations is claimed, or was
// cut short and goes on later. A command that is claimed is no such turn: it may
// be the one that asks.
func (r reader) underWay(keys map[session.Key]bool) (bool, error) {
	for k := range keys {
		for _, l := range []inbox.Lane{inbox.LaneOf(k), inbox.ImmediateLaneOf(k)} {
			places, err := r.lane(l)
			if err != nil {
				return false, err
			}
			for _, p := range places {
				if busy, err := r.positionUnderWay(p); busy || err != nil {
					return busy, err
				}
			}
		}
	}
	return false, nil
}

func (r reader) positionUnderWay(p lanePosition) (bool, error) {
	if p.turn == "" {
		return false, nil
	}
	t, ok, err := r.turn(p.turn)
	if err != nil || ok && t.Steps > 0 {
		return err == nil, err
	}
	e, ok, err := r.entry(p.id)
	return err == nil && ok && p.claimed && !e.Exclusive, err
}

// turns silences the turns of the session.
func (f *sessionDeletion) turns() error {
	var found []turnRecord
	name := quoted(string(f.id))
	c := f.b.bucket(bTurns).Cursor()
	for k, v := c.First(); k != nil; k, v = c.Next() {
		if !bytes.Contains(v, name) {
			continue
		}
		var t turnRecord
		if _, err := f.b.load(bTurns, k, &t); err != nil {
			continue // Verify names it
		}
		if t.Session == f.id || t.Session == "" && tracedTo(t.Trace) == f.id {
			found = append(found, t)
		}
	}
	for _, t := range found {
		if err := f.turn(t); err != nil {
			return err
		}
	}
	return nil
}

// tracedTo is the session that the trace of a turn names, for turns of versions
// that did not keep it.
func tracedTo(trace json.RawMessage) session.ID {
	var t struct {
		Session session.ID `json:"session"`
	}
	if json.Unmarshal(trace, &t) != nil {
		return ""
	}
	return t.Session
}

// turn takes what one turn heard and said.
func (f *sessionDeletion) turn(t turnRecord) error {
	for _, id := range t.Entries {
		e, ok, err := f.b.entry(id)
		if err != nil && !isDamage(err) {
			return err
		}
		if err == nil && ok && e.State == inbox.Done {
			if err := f.entry(e); err != nil {
				return err
			}
		}
		if err := f.drop(bDamaged, append([]byte(bEntries+"\x00"), idKey(uint64(id))...)); err != nil {
			return err
		}
	}
	if err := f.rows(t); err != nil {
		return err
	}
	if err := f.b.dropSteps(&t); err != nil {
		return err
	}
	t.Trace = nil
	return f.b.saveTurn(t)
}

// rows takes what a turn said, or will have said once it is sent.
func (f *sessionDeletion) rows(t turnRecord) error {
	for _, id := range t.Rows {
		row, ok, err := f.b.row(id)
		if err != nil && !isDamage(err) {
			return err
		}
		if err == nil && ok && !row.RedactWhenDone {
			if row.Msg.File != nil {
				f.files.find([]byte(row.Msg.File.Path))
			}
			old := row
			row.RedactWhenDone = true
			f.told.Rows++
			if err := f.b.putRow(&old, row); err != nil {
				return err
			}
		}
		if err := f.drop(bDamaged, append([]byte(bRows+"\x00"), idKey(uint64(id))...)); err != nil {
			return err
		}
	}
	return nil
}

// entry takes from an entry that is done what it said and who said it.
func (f *sessionDeletion) entry(e inbox.Entry) error {
	for _, file := range e.Inbound.Files {
		f.files.find([]byte(file.Path))
	}
	in := e.Inbound
	e.Inbound.Text, e.Inbound.Files, e.Inbound.ReplyTo, e.Inbound.Prompt, e.Inbound.ChatName, e.Inbound.Topic = "", nil, nil, "", "", ""
	e.Inbound.Sender.Name, e.Inbound.Sender.Handle = "", ""
	if e.Outcome != nil && e.Outcome.Result == inbox.Failed {
		o := *e.Outcome
		o.Reason, e.Outcome = "", &o
	}
	if in.Text != "" || len(in.Files) > 0 || in.ReplyTo != nil {
		f.told.Entries++
	}
	return f.b.putEntry(e, inbox.Done)
}

// redactUnassigned silences what was said in the conversation and belongs to none of its
// sessions: commands and their answers, edits, what was cancelled, what was
// ignored by rule. It is kept for `why` alone.
func (f *sessionDeletion) redactUnassigned(keys map[session.Key]bool) error {
	var names [][]byte
	for k := range keys {
		names = append(names, quoted(string(k)))
	}
	var found []inbox.Entry
	turns := make(map[string]turnRecord)
	c := f.b.bucket(bEntries).Cursor()
	for k, v := c.First(); k != nil; k, v = c.Next() {
		if !slices.ContainsFunc(names, func(n []byte) bool { return bytes.Contains(v, n) }) {
			continue
		}
		var e inbox.Entry
		if _, err := f.b.load(bEntries, k, &e); err != nil || !keys[e.Session] || e.State != inbox.Done {
			continue // Verify names what cannot be read
		}
		t, ok, err := f.b.turn(e.Turn)
		switch {
		case e.Turn == "" || err != nil || !ok || t.Ended.IsZero():
			found = append(found, e)
		case t.Session == "" && tracedTo(t.Trace) == "":
			turns[t.ID] = t
		}
	}
	for _, t := range turns {
		if err := f.turn(t); err != nil {
			return err
		}
	}
	for _, e := range found {
		if err := f.entry(e); err != nil {
			return err
		}
	}
	return nil
}

// quoted is how s stands in a record.
func quoted(s string) []byte {
	raw, err := json.Marshal(s)
	if err != nil { // of a string it never fails
		return []byte(s)
	}
	return raw
}

// transcript drops all rows, and the ledger.
func (f *sessionDeletion) transcript() error {
	for _, bucket := range []string{bTranscripts, bCalls} {
		var keys [][]byte
		prefix := transcriptPrefix(f.id)
		c := f.b.bucket(bucket).Cursor()
		for k, v := c.Seek(prefix); bytes.HasPrefix(k, prefix); k, v = c.Next() {
			keys = append(keys, bytes.Clone(k))
			if bucket == bTranscripts {
				f.files.find(v)
				f.told.Messages++
			}
		}
		for _, k := range keys {
			if err := f.b.delete(bucket, k); err != nil {
				return err
			}
		}
	}
	return nil
}

// record drops what is kept of the session once.
func (f *sessionDeletion) record(rec sessionRecord) error {
	if err := f.b.delete(bRecent, recentKey(rec.Record)); err != nil {
		return err
	}
	for _, bucket := range []string{bPrompts, bEngines, bSessions} {
		if err := f.drop(bucket, []byte(f.id)); err != nil {
			return err
		}
	}
	var keys [][]byte
	c := f.b.bucket(bCurrent).Cursor()
	for k, v := c.First(); k != nil; k, v = c.Next() {
		if content, err := checkChecksum(bCurrent, k, v); err == nil && string(content) == string(f.id) {
			keys = append(keys, bytes.Clone(k))
		}
	}
	for _, k := range keys {
		if err := f.b.delete(bCurrent, k); err != nil {
			return err
		}
	}
	return nil
}

// damaged drops what was set aside of the session's records.
func (f *sessionDeletion) damaged() error {
	var keys [][]byte
	for _, prefix := range [][]byte{
		append([]byte(bTranscripts+"\x00"), transcriptPrefix(f.id)...), append([]byte(bCalls+"\x00"), transcriptPrefix(f.id)...),
	} {
		c := f.b.bucket(bDamaged).Cursor()
		for k, _ := c.Seek(prefix); bytes.HasPrefix(k, prefix); k, _ = c.Next() {
			keys = append(keys, bytes.Clone(k))
		}
	}
	for _, bucket := range []string{bPrompts, bEngines, bSessions} {
		keys = append(keys, []byte(bucket+"\x00"+string(f.id)))
	}
	for _, k := range keys {
		if err := f.drop(bDamaged, k); err != nil {
			return err
		}
	}
	return nil
}

// drop deletes a record that may not be there.
func (f *sessionDeletion) drop(bucket string, key []byte) error {
	if f.b.bucket(bucket).Get(key) == nil {
		return nil
	}
	return f.b.delete(bucket, key)
}
