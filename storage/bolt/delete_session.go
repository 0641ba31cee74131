package bolt

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"

	"hermesd/gateway/inbox"
	"hermesd/gateway/session"
	"hermesd/gateway/store"
)

// DeleteSession deletes a session, completely or not at all: its record,
// prompt, ledger, engine state and whole transcript including the archive, and
// the text of all messages of its turns, inbound and outbound. Keys of
// conversations that pointed to it point to nothing. Idempotency keys, outcomes
// and receipts stay: they contain no text. Events of the group of the session are
// deleted, and those of d added. A message that is still to be sent
// is sent, and its text is deleted then.
//
// The error is session.ErrNotFound if there is no such session, and
// session.ErrBusy while a turn of its conversation is in progress. The bytes
// stay in the file until Compact.
func (s *Store) DeleteSession(ctx context.Context, d store.Deletion) (session.Deleted, error) {
	id := d.ID
	var f sessionDeletion
	err := s.do(ctx, "delete session "+string(id), maxBatch, func(b *batch) error {
		f = sessionDeletion{b: b, id: id, events: d.Events, result: session.Deleted{ID: id}, files: newFileSet()}
		return f.run()
	})
	if err != nil {
		return session.Deleted{}, err
	}
	unused, err := s.unusedFiles(ctx, f.files)
	if err != nil { // the session is deleted; whether its files are in use is unknown
		return f.result, fmt.Errorf("files of %s: %w", id, err)
	}
	f.result.Files = unused
	return f.result, nil
}

// A sessionDeletion is one call of DeleteSession.
type sessionDeletion struct {
	b      *batch
	id     session.ID
	events []store.Event // that are added
	result session.Deleted
	files  fileSet // files that the session refers to
}

func (f *sessionDeletion) run() error {
	rec, err := f.b.existingSession(f.id)
	if err != nil {
		return err
	}
	keys, err := f.b.keysOf(rec.Key)
	if err != nil {
		return err
	}
	if busy, err := f.b.hasTurnInProgress(keys); err != nil || busy {
		if err == nil {
			err = session.ErrBusy
		}
		return err
	}
	f.files.add(rec.Files...)
	for _, step := range []func() error{
		f.redactTurns, func() error { return f.redactUnassigned(keys) }, f.deleteTranscript, func() error { return f.deleteRecord(rec) }, f.deleteDamaged,
		func() error { return f.b.dropGroup(string(f.id)) }, func() error { return f.b.dropGroup(store.AcceptedGroup(string(f.id))) }, func() error { return f.b.addEvents(f.events) },
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// keysOf returns the keys that lead to k: k itself and its keys before
// migrations of the chat.
func (r reader) keysOf(k session.Key) (map[session.Key]bool, error) {
	keys := map[session.Key]bool{k: true}
	for old, m := range records[migratedKey](r, bMigratedKeys, nil) {
		if to, _, err := r.resolveKey(m.Key, m.To); err != nil {
			return nil, err
		} else if to == k {
			keys[session.Key(old)] = true
		}
	}
	return keys, nil
}

// hasTurnInProgress reports whether a turn of one of the conversations is
// claimed, or is interrupted and continues later. A claimed command does not
// count: it may be the one that requests the deletion.
func (r reader) hasTurnInProgress(keys map[session.Key]bool) (bool, error) {
	for k := range keys {
		for _, l := range []inbox.Lane{inbox.LaneOf(k), inbox.ImmediateLaneOf(k)} {
			positions, err := r.lanePositions(l)
			if err != nil {
				return false, err
			}
			for _, p := range positions {
				if busy, err := r.isTurnInProgress(p); busy || err != nil {
					return busy, err
				}
			}
		}
	}
	return false, nil
}

func (r reader) isTurnInProgress(p lanePosition) (bool, error) {
	if p.turn == "" {
		return false, nil
	}
	t, ok, err := r.turn(p.turn)
	if err != nil || ok && t.Steps > 0 {
		return err == nil, err
	}
	e, ok, err := r.entry(p.id)
	return err == nil && ok && p.isClaimed && !e.Exclusive, err
}

// redactTurns deletes the text of all turns of the session.
func (f *sessionDeletion) redactTurns() error {
	var found []turnRecord
	name := quoteJSON(string(f.id))
	for k, v := range f.b.scan(bTurns, nil) {
		if !bytes.Contains(v, name) {
			continue
		}
		var t turnRecord
		if _, err := f.b.load(bTurns, k, &t); err != nil {
			continue // Verify reports it
		}
		if t.Session == f.id || t.Session == "" && traceSession(t.Trace) == f.id {
			found = append(found, t)
		}
	}
	for _, t := range found {
		if err := f.redactTurn(t); err != nil {
			return err
		}
	}
	return nil
}

// traceSession returns the session in the trace of a turn, for turns of
// versions that did not store it in the record.
func traceSession(trace json.RawMessage) session.ID {
	var t struct {
		Session session.ID `json:"session"`
	}
	if json.Unmarshal(trace, &t) != nil {
		return ""
	}
	return t.Session
}

// redactTurn deletes the inbound and outbound text of one turn.
func (f *sessionDeletion) redactTurn(t turnRecord) error {
	for _, id := range t.Entries {
		e, ok, err := f.b.entry(id)
		if err != nil && !isDamage(err) {
			return err
		}
		if err == nil && ok && e.State == inbox.Done {
			if err := f.redactEntry(e); err != nil {
				return err
			}
		}
		if err := f.deleteIfPresent(bDamaged, append([]byte(bEntries+"\x00"), idKey(uint64(id))...)); err != nil {
			return err
		}
	}
	if err := f.redactRows(t); err != nil {
		return err
	}
	if err := f.b.deleteSteps(&t); err != nil {
		return err
	}
	t.Trace = nil
	return f.b.saveTurn(t)
}

// redactRows deletes what a turn has sent, or schedules it for rows that are
// not sent yet.
func (f *sessionDeletion) redactRows(t turnRecord) error {
	for _, id := range t.Rows {
		row, ok, err := f.b.row(id)
		if err != nil && !isDamage(err) {
			return err
		}
		if err == nil && ok && !row.RedactWhenDone {
			if row.Msg.File != nil {
				f.files.addFound([]byte(row.Msg.File.Path))
			}
			old := row
			row.RedactWhenDone = true
			f.result.Rows++
			if err := f.b.putRow(&old, row); err != nil {
				return err
			}
		}
		if err := f.deleteIfPresent(bDamaged, append([]byte(bRows+"\x00"), idKey(uint64(id))...)); err != nil {
			return err
		}
	}
	return nil
}

// redactEntry deletes the text and the sender of an entry that is done.
func (f *sessionDeletion) redactEntry(e inbox.Entry) error {
	for _, file := range e.Inbound.Files {
		f.files.addFound([]byte(file.Path))
	}
	in := e.Inbound
	e.Inbound.Text, e.Inbound.Files, e.Inbound.ReplyTo, e.Inbound.Prompt, e.Inbound.ChatName, e.Inbound.Topic = "", nil, nil, "", "", ""
	e.Inbound.Sender.Name, e.Inbound.Sender.Handle = "", ""
	if e.Outcome != nil && e.Outcome.Result == inbox.Failed {
		o := *e.Outcome
		o.Reason, e.Outcome = "", &o
	}
	if in.Text != "" || len(in.Files) > 0 || in.ReplyTo != nil {
		f.result.Entries++
	}
	return f.b.putEntry(e, inbox.Done)
}

// redactUnassigned deletes the text of messages of the conversation that belong
// to none of its sessions: commands and their answers, edits, canceled
// messages, messages ignored by rule. They are stored only for `why`.
func (f *sessionDeletion) redactUnassigned(keys map[session.Key]bool) error {
	var names [][]byte
	for k := range keys {
		names = append(names, quoteJSON(string(k)))
	}
	var found []inbox.Entry
	turns := make(map[string]turnRecord)
	for k, v := range f.b.scan(bEntries, nil) {
		if !slices.ContainsFunc(names, func(n []byte) bool { return bytes.Contains(v, n) }) {
			continue
		}
		var e inbox.Entry
		if _, err := f.b.load(bEntries, k, &e); err != nil || !keys[e.Session] || e.State != inbox.Done {
			continue // Verify reports unreadable records
		}
		t, ok, err := f.b.turn(e.Turn)
		switch {
		case e.Turn == "" || err != nil || !ok || t.Ended.IsZero():
			found = append(found, e)
		case t.Session == "" && traceSession(t.Trace) == "":
			turns[t.ID] = t
		}
	}
	for _, t := range turns {
		if err := f.redactTurn(t); err != nil {
			return err
		}
	}
	for _, e := range found {
		if err := f.redactEntry(e); err != nil {
			return err
		}
	}
	return nil
}

// quoteJSON returns s as it appears in a record.
func quoteJSON(s string) []byte {
	raw, err := json.Marshal(s)
	if err != nil { // cannot fail for a string
		return []byte(s)
	}
	return raw
}

// deleteTranscript deletes all messages and the ledger.
func (f *sessionDeletion) deleteTranscript() error {
	prefix := transcriptPrefix(f.id)
	for _, v := range f.b.scan(bTranscripts, prefix) {
		f.files.addFound(v)
		f.result.Messages++
	}
	if err := f.b.deleteAll(bTranscripts, f.b.keys(bTranscripts, prefix)); err != nil {
		return err
	}
	return f.b.deleteAll(bCalls, f.b.keys(bCalls, prefix))
}

// deleteRecord deletes the records that a session has once.
func (f *sessionDeletion) deleteRecord(rec sessionRecord) error {
	if err := f.b.delete(bRecent, recentKey(rec.Record)); err != nil {
		return err
	}
	for _, bucket := range []string{bPrompts, bEngines, bSessions} {
		if err := f.deleteIfPresent(bucket, []byte(f.id)); err != nil {
			return err
		}
	}
	var keys [][]byte
	for k, v := range f.b.scan(bCurrent, nil) {
		if content, err := checkChecksum(bCurrent, k, v); err == nil && string(content) == string(f.id) {
			keys = append(keys, bytes.Clone(k))
		}
	}
	return f.b.deleteAll(bCurrent, keys)
}

// deleteDamaged deletes the damaged records of the session.
func (f *sessionDeletion) deleteDamaged() error {
	var keys [][]byte
	for _, bucket := range []string{bTranscripts, bCalls} {
		keys = append(keys, f.b.keys(bDamaged, append([]byte(bucket+"\x00"), transcriptPrefix(f.id)...))...)
	}
	for _, bucket := range []string{bPrompts, bEngines, bSessions} {
		keys = append(keys, []byte(bucket+"\x00"+string(f.id)))
	}
	name := quoteJSON(string(f.id))
	for k, v := range f.b.scan(bDamaged, []byte(bEvents+"\x00")) {
		if bytes.Contains(v, name) {
			keys = append(keys, bytes.Clone(k))
		}
	}
	for _, k := range keys {
		if err := f.deleteIfPresent(bDamaged, k); err != nil {
			return err
		}
	}
	return nil
}

// deleteIfPresent deletes a record that may not exist.
func (f *sessionDeletion) deleteIfPresent(bucket string, key []byte) error {
	if f.b.bucket(bucket).Get(key) == nil {
		return nil
	}
	return f.b.delete(bucket, key)
}

// A fileSet is a set of names of files in the media cache. A name starts with a
// hash.
type fileSet struct {
	names   map[string]bool
	pattern *regexp.Regexp
}

// newFileSet returns an empty set. Its pattern matches the names that
// gateway/media creates.
func newFileSet() fileSet {
	return fileSet{names: make(map[string]bool), pattern: regexp.MustCompile(`[0-9a-f]{64}\.[a-z0-9]{2,4}`)}
}

// add adds the base names of paths.
func (f fileSet) add(names ...string) {
	for _, n := range names {
		f.names[filepath.Base(n)] = true
	}
}

// addFound adds the names that occur in a text.
func (f fileSet) addFound(text []byte) {
	for _, n := range f.pattern.FindAll(text, -1) {
		f.names[string(n)] = true
	}
}

// unusedFiles returns the names in f that no record contains any more.
func (s *Store) unusedFiles(ctx context.Context, f fileSet) ([]string, error) {
	unused := maps.Clone(f.names)
	if len(unused) == 0 {
		return nil, nil
	}
	err := s.view(ctx, "find unused files", func(r reader) error {
		n := 0
		for _, bucket := range []string{bTranscripts, bEntries, bRows, bSteps, bSessions} {
			for _, v := range r.scan(bucket, nil) {
				if n++; n%1000 == 0 && ctx.Err() != nil {
					return context.Cause(ctx)
				}
				if len(unused) == 0 {
					return nil
				}
				for name := range unused {
					if bytes.Contains(v, []byte(name)) {
						delete(unused, name)
					}
				}
			}
		}
		return nil
	})
	return slices.Sorted(maps.Keys(unused)), err
}
