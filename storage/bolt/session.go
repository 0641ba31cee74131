package bolt

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"

	"hermesd/agent/llm"
	"hermesd/agent/llm/ledger"
	"hermesd/agent/prompt"
	"hermesd/gateway/chat"
	"hermesd/gateway/session"
	"hermesd/gateway/store"
	"hermesd/storage"
)

// A sessionRecord is a session as it is stored. TitleOverride is a title that
// was set from outside while a turn may have been working with an older record.
type sessionRecord struct {
	session.Record
	TitleOverride     string `json:"titled,omitempty"`
	TitleOverrideAuto bool   `json:"titled_auto,omitempty"`
}

// A migratedKey records what a session key became when its chat migrated.
type migratedKey struct {
	Key  session.Key  `json:"key"`
	From chat.Address `json:"from"`
	To   chat.Address `json:"to"`
}

var errTranscriptGap = errors.New("transcript has a gap")

func (r reader) session(id session.ID) (rec sessionRecord, ok bool, err error) {
	ok, err = r.load(bSessions, []byte(id), &rec)
	return rec, ok, err
}

// existingSession returns a record, or session.ErrNotFound.
func (r reader) existingSession(id session.ID) (sessionRecord, error) {
	rec, ok, err := r.session(id)
	if err == nil && !ok {
		err = session.ErrNotFound
	}
	return rec, err
}

// effective returns the record as callers see it.
func (r sessionRecord) effective() session.Record {
	rec := r.Record
	if r.TitleOverride != "" {
		rec.Title, rec.TitleAuto = r.TitleOverride, r.TitleOverrideAuto
	}
	return rec
}

// resolveKey follows a key and its address through the migrations of its chat.
func (r reader) resolveKey(k session.Key, at chat.Address) (session.Key, chat.Address, error) {
	for range 8 { // a cycle of migrations ends somewhere
		var m migratedKey
		ok, err := r.load(bMigratedKeys, []byte(k), &m)
		if err != nil || !ok {
			return k, at, err
		}
		k = m.Key
		if moved, ok := migrateAddress(at, m.From, m.To); ok {
			at = moved
		}
	}
	return k, at, nil
}

// currentID returns the session ID to which a key points, "" if to none.
func (r reader) currentID(k session.Key) (session.ID, error) {
	id, err := r.get(bCurrent, []byte(k))
	if err != nil || id != nil {
		return session.ID(id), err
	}
	k, _, err = r.resolveKey(k, chat.Address{})
	if err != nil {
		return "", err
	}
	id, err = r.get(bCurrent, []byte(k))
	return session.ID(id), err
}

// putSession stores a record and its position among the recent sessions.
func (b *batch) putSession(rec sessionRecord) error {
	old, ok, err := b.session(rec.ID)
	if err != nil && !isDamage(err) {
		return err
	}
	return b.putSessionOver(old, ok && err == nil, rec)
}

// putSessionOver is putSession for a caller that has the stored record, if known.
func (b *batch) putSessionOver(old sessionRecord, known bool, rec sessionRecord) error {
	if known && !bytes.Equal(recentKey(old.Record), recentKey(rec.Record)) {
		if err := b.delete(bRecent, recentKey(old.Record)); err != nil {
			return err
		}
	}
	if err := b.put(bRecent, recentKey(rec.Record), nil); err != nil {
		return err
	}
	return b.save(bSessions, []byte(rec.ID), rec)
}

// createSession stores a session that is not stored yet and makes its key point
// to it; with makeCurrent it does the latter even if the session exists. A key
// that points to a session which was created later is not changed: a turn that
// was running when a user asked for a new session does not undo that.
func (b *batch) createSession(o store.Creation, makeCurrent bool) error {
	_, ok, err := b.session(o.Record.ID)
	if err != nil {
		return err
	}
	rec := o.Record
	if rec.Key, rec.Address, err = b.resolveKey(rec.Key, rec.Address); err != nil {
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
	if ok && !makeCurrent {
		return nil
	}
	id, err := b.currentID(rec.Key)
	if err != nil {
		return err
	}
	cur, ok, err := b.session(id)
	isNewer := ok && cur.Created.After(rec.Created) && !cur.Created.After(b.now) // otherwise the clock was set back
	if err != nil || isNewer {
		return err
	}
	return b.put(bCurrent, []byte(rec.Key), []byte(rec.ID))
}

// Session returns the current session of key; ok is false if there is none.
func (s *Store) Session(ctx context.Context, key session.Key) (rec session.Record, ok bool, err error) {
	err = s.view(ctx, "read session of "+string(key), func(r reader) error {
		id, err := r.currentID(key)
		if err != nil || id == "" {
			return err
		}
		var stored sessionRecord
		stored, ok, err = r.session(id)
		rec = stored.effective()
		return err
	})
	return rec, ok && err == nil, err
}

// SessionByID returns one record; ok is false if there is none.
func (s *Store) SessionByID(ctx context.Context, id session.ID) (rec session.Record, ok bool, err error) {
	err = s.view(ctx, "read session "+string(id), func(r reader) error {
		var stored sessionRecord
		var err error
		stored, ok, err = r.session(id)
		rec = stored.effective()
		return err
	})
	return rec, ok && err == nil, err
}

// readBytes returns a copy of the content under a key, nil if there is none.
func (s *Store) readBytes(ctx context.Context, name, bucket, key string) ([]byte, error) {
	return read(ctx, s, name, func(r reader) ([]byte, error) {
		content, err := r.get(bucket, []byte(key))
		return bytes.Clone(content), err
	})
}

// Prompt returns the cached prompt of a session, byte for byte as it was
// stored, or session.ErrNotFound.
func (s *Store) Prompt(ctx context.Context, id session.ID) (store.Doc[prompt.Prefix], error) {
	prompt, err := s.readBytes(ctx, "read prompt of "+string(id), bPrompts, string(id))
	if err == nil && prompt == nil {
		err = fmt.Errorf("read prompt of %s: %w", id, session.ErrNotFound)
	}
	return prompt, err
}

// Engine returns the stored state of the context engine of a session, nil if
// there is none.
func (s *Store) Engine(ctx context.Context, id session.ID) (json.RawMessage, error) {
	return s.readBytes(ctx, "read engine state of "+string(id), bEngines, string(id))
}

// Rows returns the messages with the numbers in span, active or archived, as far as
// they exist. A session that does not exist has none.
func (s *Store) Rows(ctx context.Context, id session.ID, span session.Span) ([]store.Doc[llm.Message], error) {
	return read(ctx, s, "read transcript of "+string(id), func(r reader) ([]store.Doc[llm.Message], error) {
		rec, ok, err := r.session(id)
		if err != nil || !ok {
			return nil, err
		}
		return r.transcript(id, max(span.From, 0), min(span.To, rec.Active().To))
	})
}

// Calls returns the records of the ledger of a session from number from on, as
// far as they are still stored.
func (s *Store) Calls(ctx context.Context, id session.ID, from int) ([]store.Doc[ledger.Record], error) {
	return read(ctx, s, "read ledger of "+string(id), func(r reader) (calls []store.Doc[ledger.Record], err error) {
		c, prefix := r.bucket(bCalls).Cursor(), transcriptPrefix(id)
		for k, v := c.Seek(transcriptKey(id, max(from, 0))); bytes.HasPrefix(k, prefix); k, v = c.Next() {
			content, err := checkChecksum(bCalls, k, v)
			if err != nil {
				return calls, err
			}
			calls = append(calls, bytes.Clone(content))
		}
		return calls, nil
	})
}

func (r reader) transcript(id session.ID, from, to int) ([]store.Doc[llm.Message], error) {
	if from >= to {
		return nil, nil
	}
	rows := make([]store.Doc[llm.Message], 0, to-from)
	prefix := transcriptPrefix(id)
	c := r.bucket(bTranscripts).Cursor()
	k, v := c.Seek(transcriptKey(id, from))
	for ; from < to; from++ {
		if !bytes.HasPrefix(k, prefix) || len(k) != len(prefix)+4 || binary.BigEndian.Uint32(k[len(prefix):]) != uint32(from) {
			return nil, &storage.DamageError{Record: recordName(bTranscripts, transcriptKey(id, from)), Err: errTranscriptGap}
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

// Sessions returns the records that q selects. Records that cannot be read are omitted;
// Verify reports them.
func (s *Store) Sessions(ctx context.Context, q session.Query) ([]session.Record, error) {
	return read(ctx, s, "list sessions", func(r reader) (recs []session.Record, err error) {
		c := r.bucket(bRecent).Cursor()
		first, next := c.Last, c.Prev
		if q.Oldest {
			first, next = c.First, c.Next
		}
		for k, _ := first(); k != nil && (q.Max <= 0 || len(recs) < q.Max); k, _ = next() {
			if len(k) < 8 {
				continue
			}
			rec, ok, err := r.session(session.ID(k[8:]))
			switch {
			case isDamage(err) || err == nil && !ok:
				continue
			case err != nil:
				return recs, err
			case q.Before.IsZero() || rec.Updated.Before(q.Before):
				recs = append(recs, rec.effective())
			case q.Oldest: // all that follow were used later
				return recs, nil
			}
		}
		return recs, nil
	})
}

// SetTitle sets the title of a session on behalf of a user; "" removes it. A
// running turn does not undo it.
func (s *Store) SetTitle(ctx context.Context, id session.ID, title string) error {
	return s.do(ctx, "set title of "+string(id), 1024, func(b *batch) error {
		rec, err := b.existingSession(id)
		if err != nil {
			return err
		}
		rec.TitleOverride, rec.TitleOverrideAuto = title, false
		if title == "" {
			rec.Title, rec.TitleAuto = "", false
		}
		return b.putSession(rec)
	})
}

// SuggestTitle sets the title of a session that has none from a user, and
// reports whether it did.
func (s *Store) SuggestTitle(ctx context.Context, id session.ID, title string) (bool, error) {
	return write(ctx, s, "suggest title of "+string(id), 1024, func(b *batch) (bool, error) {
		rec, err := b.existingSession(id)
		if err != nil {
			return false, err
		}
		if now := rec.effective(); title == "" || now.Title != "" && !now.TitleAuto {
			return false, nil
		}
		rec.TitleOverride, rec.TitleOverrideAuto = title, true
		return true, b.putSession(rec)
	})
}

// Value returns the small value stored under key, nil if there is none.
func (s *Store) Value(ctx context.Context, key string) ([]byte, error) {
	return s.readBytes(ctx, "read value "+key, bValues, key)
}

// SetValue stores a small value under key; nil deletes it.
func (s *Store) SetValue(ctx context.Context, key string, v []byte) error {
	v = bytes.Clone(v)
	return s.do(ctx, "set value "+key, 64+len(v), func(b *batch) error { return b.setValue(key, v) })
}

// EditValue stores what change makes of the small value under key; nil is no value. change
// may be called more than once.
func (s *Store) EditValue(ctx context.Context, key string, change func(old []byte) ([]byte, error)) error {
	return s.do(ctx, "edit value "+key, editedValueSize, func(b *batch) error { return b.editValue(key, change) })
}

// editedValueSize is the estimated number of bytes of a value that is edited.
const editedValueSize = 32 << 10

func (b *batch) editValue(key string, change func(old []byte) ([]byte, error)) error {
	old, err := b.get(bValues, []byte(key))
	if err != nil {
		return err
	}
	return b.changeValue(key, old, change)
}

func (b *batch) changeValue(key string, old []byte, change func(old []byte) ([]byte, error)) error {
	v, err := change(bytes.Clone(old))
	if err != nil {
		return err
	}
	return b.setValue(key, v)
}

func (b *batch) setValue(key string, v []byte) error {
	if v == nil {
		return b.delete(bValues, []byte(key))
	}
	return b.put(bValues, []byte(key), v)
}

func lengthError(id session.ID, have, want int) error {
	return fmt.Errorf("%w: transcript of %s has %d messages, want %d", store.ErrConflict, id, have, want)
}
