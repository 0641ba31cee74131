package bolt

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"

	"hermesd/gateway/chat"
	"hermesd/gateway/inbox"
	"hermesd/gateway/session"
	"hermesd/storage"
)

// A sessionRecord is a session as it is stored. Titled is a title that was set
// from outside while a turn may have been working with an older record.
type sessionRecord struct {
	session.Record
	Titled     string `json:"titled,omitempty"`
	TitledAuto bool   `json:"titled_auto,omitempty"` // see session.Record.TitleAuto
}

// A migratedKey says what a key became when its chat moved.
type migratedKey struct {
	Key  session.Key  `json:"key"`
	From chat.Address `json:"from"`
	To   chat.Address `json:"to"`
}

var (
	errNoSession = session.ErrNotFound
	errGap       = errors.New("the transcript is not whole")
)

func (r reader) session(id session.ID) (rec sessionRecord, ok bool, err error) {
	ok, err = r.load(bSessions, []byte(id), &rec)
	return rec, ok, err
}

// shown is the record as callers see it.
func (r sessionRecord) shown() session.Record {
	rec := r.Record
	if r.Titled != "" {
		rec.Title, rec.TitleAuto = r.Titled, r.TitledAuto
	}
	return rec
}

// resolve follows a key to what it became when its chat moved.
func (r reader) resolve(k session.Key, at chat.Address) (session.Key, chat.Address, error) {
	for range 8 { // a chat that moves in circles ends somewhere
		var m migratedKey
		ok, err := r.load(bMoved, []byte(k), &m)
		if err != nil || !ok {
			return k, at, err
		}
		k = m.Key
		if moved, ok := readdress(at, m.From, m.To); ok {
			at = moved
		}
	}
	return k, at, nil
}

// current returns the id to which a key points, "" if to none.
func (r reader) current(k session.Key) (session.ID, error) {
	id, err := r.get(bCurrent, []byte(k))
	if err != nil || id != nil {
		return session.ID(id), err
	}
	k, _, err = r.resolve(k, chat.Address{})
	if err != nil {
		return "", err
	}
	id, err = r.get(bCurrent, []byte(k))
	return session.ID(id), err
}

// putSession stores a record, and its place among the recent ones.
func (b *batch) putSession(rec sessionRecord) error {
	old, ok, err := b.session(rec.ID)
	if err != nil && !isDamage(err) {
		return err
	}
	if ok && err == nil && !bytes.Equal(recentKey(old.Record), recentKey(rec.Record)) {
		if err := b.delete(bRecent, recentKey(old.Record)); err != nil {
			return err
		}
	}
	if err := b.put(bRecent, recentKey(rec.Record), nil); err != nil {
		return err
	}
	return b.save(bSessions, []byte(rec.ID), rec)
}

// openSession stores a session that is not stored yet, and makes its key point
// to it; with point also if it is stored already. A key that points to a session
// which began later stays: a turn that was under way while somebody asked for a
// new session does not undo that.
func (b *batch) openSession(o session.Creation, point bool) error {
	_, ok, err := b.session(o.Record.ID)
	if err != nil {
		return err
	}
	rec := o.Record
	if rec.Key, rec.Address, err = b.resolve(rec.Key, rec.Address); err != nil {
		return err
	}
	if !ok {
		rec.Messages, rec.Start, rec.Archive = 0, 0, nil
		if err := b.putSession(sessionRecord{Record: rec}); err != nil {
			return err
		}
		if err := b.put(bPrompts, []byte(rec.ID), o.Prompt); err != nil {
			return err
		}
	}
	if ok && !point {
		return nil
	}
	id, err := b.current(rec.Key)
	if err != nil {
		return err
	}
	cur, ok, err := b.session(id)
	later := ok && cur.Created.After(rec.Created) && !cur.Created.After(b.now) // else the clock was set back
	if err != nil || later {
		return err
	}
	return b.put(bCurrent, []byte(rec.Key), []byte(rec.ID))
}

// Session returns the session to which key points.
func (s *Store) Session(ctx context.Context, key session.Key) (rec session.Record, ok bool, err error) {
	err = s.view(ctx, "session of "+string(key), func(r reader) error {
		id, err := r.current(key)
		if err != nil || id == "" {
			return err
		}
		var stored sessionRecord
		stored, ok, err = r.session(id)
		rec = stored.shown()
		return err
	})
	return rec, ok && err == nil, err
}

// SessionByID returns one record.
func (s *Store) SessionByID(ctx context.Context, id session.ID) (rec session.Record, ok bool, err error) {
	err = s.view(ctx, "session "+string(id), func(r reader) error {
		var stored sessionRecord
		var err error
		stored, ok, err = r.session(id)
		rec = stored.shown()
		return err
	})
	return rec, ok && err == nil, err
}

// Prompt returns the frozen prompt of a session, byte for byte as it was
// stored.
func (s *Store) Prompt(ctx context.Context, id session.ID) (json.RawMessage, error) {
	var prompt json.RawMessage
	err := s.view(ctx, "prompt of "+string(id), func(r reader) error {
		content, err := r.get(bPrompts, []byte(id))
		if err == nil && content == nil {
			err = errNoSession
		}
		prompt = bytes.Clone(content)
		return err
	})
	return prompt, err
}

// Engine returns what the context engine of a session had kept, nil for nothing.
func (s *Store) Engine(ctx context.Context, id session.ID) (json.RawMessage, error) {
	var state json.RawMessage
	err := s.view(ctx, "engine of "+string(id), func(r reader) error {
		content, err := r.get(bEngines, []byte(id))
		state = bytes.Clone(content)
		return err
	})
	return state, err
}

// Transcript returns the rows of a session's transcript from index from on, byte
// for byte as they were stored. A session that is not open has none.
func (s *Store) Transcript(ctx context.Context, id session.ID, from int) ([]json.RawMessage, error) {
	var rows []json.RawMessage
	err := s.view(ctx, "transcript of "+string(id), func(r reader) error {
		rec, ok, err := r.session(id)
		if err != nil || !ok {
			return err
		}
		rows, err = r.transcript(id, rec.Start+max(from, 0), rec.Start+rec.Messages)
		return err
	})
	return rows, err
}

// Rows returns the rows with the numbers of span, active or archived, as far as
// there are any.
func (s *Store) Rows(ctx context.Context, id session.ID, span session.Span) ([]json.RawMessage, error) {
	var rows []json.RawMessage
	err := s.view(ctx, "transcript of "+string(id), func(r reader) error {
		rec, ok, err := r.session(id)
		if err != nil || !ok {
			return err
		}
		rows, err = r.transcript(id, max(span.From, 0), min(span.To, rec.Start+rec.Messages))
		return err
	})
	return rows, err
}

// Calls returns the records of a session's ledger from number from on, as far as
// they are kept.
func (s *Store) Calls(ctx context.Context, id session.ID, from int) ([]json.RawMessage, error) {
	var calls []json.RawMessage
	err := s.view(ctx, "ledger of "+string(id), func(r reader) error {
		c, prefix := r.bucket(bCalls).Cursor(), transcriptPrefix(id)
		for k, v := c.Seek(transcriptKey(id, max(from, 0))); bytes.HasPrefix(k, prefix); k, v = c.Next() {
			content, err := checkChecksum(bCalls, k, v)
			if err != nil {
				return err
			}
			calls = append(calls, bytes.Clone(content))
		}
		return nil
	})
	return calls, err
}

func (r reader) transcript(id session.ID, from, to int) ([]json.RawMessage, error) {
	if from >= to {
		return nil, nil
	}
	rows := make([]json.RawMessage, 0, to-from)
	prefix := transcriptPrefix(id)
	c := r.bucket(bTranscripts).Cursor()
	k, v := c.Seek(transcriptKey(id, from))
	for ; from < to; from++ {
		if !bytes.HasPrefix(k, prefix) || len(k) != len(prefix)+4 || binary.BigEndian.Uint32(k[len(prefix):]) != uint32(from) {
			return nil, &storage.DamageError{Record: recordName(bTranscripts, transcriptKey(id, from)), Err: errGap}
		}
		content, err := checkChecksum(bTranscripts, k, v)
		if err != nil {
			return nil, err
		}
		rows = append(rows, bytes.Clone(content))
		k, v = c.Next()
	}
	return rows, nil
}

// Sessions returns the records of all sessions, the one that was used last
// first, at most max (0: all). Records that cannot be read are left out; Verify
// names them.
func (s *Store) Sessions(ctx context.Context, max int) ([]session.Record, error) {
	var recs []session.Record
	err := s.view(ctx, "sessions", func(r reader) error {
		c := r.bucket(bRecent).Cursor()
		for k, _ := c.Last(); k != nil && (max <= 0 || len(recs) < max); k, _ = c.Prev() {
			if len(k) < 8 {
				continue
			}
			rec, ok, err := r.session(session.ID(k[8:]))
			if isDamage(err) || err == nil && !ok {
				continue
			}
			if err != nil {
				return err
			}
			recs = append(recs, rec.shown())
		}
		return nil
	})
	return recs, err
}

// SetTitle names a session for a person. A turn that is under way does not undo
// it.
func (s *Store) SetTitle(ctx context.Context, id session.ID, title string) error {
	return s.do(ctx, "title of "+string(id), 1024, func(b *batch) error {
		rec, ok, err := b.session(id)
		if err != nil {
			return err
		}
		if !ok {
			return errNoSession
		}
		rec.Titled, rec.TitledAuto = title, false
		if title == "" {
			rec.Title, rec.TitleAuto = "", false
		}
		return b.putSession(rec)
	})
}

// SuggestTitle names a session that no person has named, and reports whether it
// did.
func (s *Store) SuggestTitle(ctx context.Context, id session.ID, title string) (bool, error) {
	set := false
	err := s.do(ctx, "title of "+string(id), 1024, func(b *batch) error {
		set = false
		rec, ok, err := b.session(id)
		if err != nil {
			return err
		}
		if !ok {
			return errNoSession
		}
		if now := rec.shown(); title == "" || now.Title != "" && !now.TitleAuto {
			return nil
		}
		rec.Titled, rec.TitledAuto, set = title, true, true
		return b.putSession(rec)
	})
	return set && err == nil, err
}

// Value returns a small value kept under key, nil if there is none.
func (s *Store) Value(ctx context.Context, key string) ([]byte, error) {
	var v []byte
	err := s.view(ctx, "value "+key, func(r reader) error {
		content, err := r.get(bValues, []byte(key))
		v = bytes.Clone(content)
		return err
	})
	return v, err
}

// SetValue keeps a small value under key; nil forgets it.
func (s *Store) SetValue(ctx context.Context, key string, v []byte) error {
	v = bytes.Clone(v)
	return s.do(ctx, "value "+key, 64+len(v), func(b *batch) error {
		if v == nil {
			return b.delete(bValues, []byte(key))
		}
		return b.put(bValues, []byte(key), v)
	})
}

func wrongLength(id session.ID, have, want int) error {
	return fmt.Errorf("%w: transcript of %s has %d rows, not %d", inbox.ErrConflict, id, have, want)
}
