package bolt

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"hermesd/agent/llm/ledger"
	"hermesd/gateway/chat"
	"hermesd/gateway/inbox"
	"hermesd/gateway/outbox"
	"hermesd/gateway/session"
	"hermesd/gateway/store"
)

var errNoOutcome = fmt.Errorf("%w: entry without an outcome", store.ErrConflict)

// CommitTurn applies all of m, or nothing, and ends the claim. It returns
// store.ErrConflict if the stored length of the transcript differs from what m
// expects. Outcomes of entries that do not belong to the claim are ignored.
func (s *Store) CommitTurn(ctx context.Context, c store.Claim, m store.Turn) ([]outbox.Row, error) {
	size := endSize(m.End) + len(m.Prompt) + len(m.Engine)
	size += docsSize(m.Messages) + docsSize(m.Calls)
	for _, p := range m.Compactions {
		size += docsSize(p.Append) + docsSize(p.Active)
	}
	return write(ctx, s, "commit "+c.Turn, size, func(b *batch) ([]outbox.Row, error) { return b.commitTurn(c, m) })
}

// FinishTurn applies all of m, or nothing, and ends the claim. Outcomes of entries that do
// not belong to the claim are ignored.
func (s *Store) FinishTurn(ctx context.Context, c store.Claim, m store.Finish) ([]outbox.Row, error) {
	size := endSize(m.End)
	if m.Rebuild != nil {
		size += len(m.Rebuild.Prompt)
	}
	return write(ctx, s, "commit "+c.Turn, size, func(b *batch) ([]outbox.Row, error) { return b.finishTurn(c, m) })
}

// endSize is the estimated number of bytes that a write of m needs.
func endSize(m store.End) int { return 4096 + len(m.Trace) + rowsSize(m.Rows) + eventsSize(m.Events) }

func (b *batch) commitTurn(c store.Claim, m store.Turn) ([]outbox.Row, error) {
	t, err := b.claimedTurn(c)
	var old sessionRecord
	var known bool
	if err == nil {
		old, known, err = b.checkTurn(m)
	}
	if err == nil {
		err = b.saveConversation(m, old, known)
	}
	if err == nil {
		err = b.finishEntries(t, m.End)
	}
	if err != nil {
		return nil, err
	}
	for _, e := range m.Accept {
		if _, err := b.accept(store.Admission{Entry: e}); err != nil {
			return nil, err
		}
	}
	t.Session = m.Session.ID
	return b.endTurn(t, m.End, nil)
}

func (b *batch) finishTurn(c store.Claim, m store.Finish) ([]outbox.Row, error) {
	t, err := b.claimedTurn(c)
	if err == nil {
		t.Session, err = b.saveSessions(m)
	}
	if err == nil {
		err = b.finishEntries(t, m.End)
	}
	if err != nil {
		return nil, err
	}
	var rows []outbox.Row
	for _, l := range m.Cancel {
		deletions, err := b.cancelWaiting(l, newestEntry(c), inbox.Outcome{Result: inbox.Cancelled, Reason: m.CancelReason})
		if err != nil {
			return nil, err
		}
		rows = append(rows, deletions...)
	}
	return b.endTurn(t, m.End, rows)
}

// finishEntries finishes the entries of t that are not done.
func (b *batch) finishEntries(t turnRecord, m store.End) error {
	entries, err := b.unfinishedEntries(t)
	if err != nil {
		return err
	}
	for _, e := range entries {
		o, ok := m.Outcomes[e.ID]
		if !ok {
			o = m.Outcome
		}
		if o.Result == "" {
			return fmt.Errorf("%s: %w", e.ID, errNoOutcome)
		}
		if err := b.finishRun(e, o, o.RunOutcome()); err != nil {
			return err
		}
	}
	return nil
}

// endTurn ends t, enqueues deletions and the rows of m, and adds its events.
func (b *batch) endTurn(t turnRecord, m store.End, deletions []outbox.Row) ([]outbox.Row, error) {
	if err := b.deleteSteps(&t); err != nil {
		return nil, err
	}
	t.Epoch, t.Ended, t.Trace = 0, b.now, json.RawMessage(m.Trace)
	added, err := b.enqueue(append(deletions, m.Rows...), &t)
	if err != nil {
		return nil, err
	}
	if err := b.addEvents(m.Events); err != nil {
		return nil, err
	}
	return added, b.saveTurn(t)
}

// checkTurn validates m before anything is written, and returns the stored record of its
// session, if known.
func (b *batch) checkTurn(m store.Turn) (old sessionRecord, known bool, err error) {
	if m.Session.ID == "" {
		return old, false, fmt.Errorf("%w: a turn without a session", store.ErrConflict)
	}
	if old, known, err = b.session(m.Session.ID); err != nil {
		return old, false, err
	}
	have, err := lengthAfterCompactions(m.Session.ID, old.Messages, m.Compactions)
	if err != nil {
		return old, false, err
	}
	if want := m.Session.Messages - len(m.Messages); have != want {
		return old, false, lengthError(m.Session.ID, have, want)
	}
	if want := m.Session.Calls - len(m.Calls); old.Calls != want {
		return old, false, fmt.Errorf("%w: the ledger of %s has %d calls, not %d", store.ErrConflict, m.Session.ID, old.Calls, want)
	}
	return old, known, nil
}

// saveConversation stores the session changes of a turn whose session has the stored record
// old, if known.
func (b *batch) saveConversation(m store.Turn, old sessionRecord, known bool) (err error) {
	if m.Create != nil {
		if err := b.createSession(*m.Create, true); err != nil {
			return err
		}
		if old, known, err = b.session(m.Session.ID); err != nil {
			return err
		}
	}
	if err := b.replaceSession(m, old, known); err != nil {
		return err
	}
	if err := b.appendCalls(m.Session, m.Calls); err != nil {
		return err
	}
	if m.Engine != nil {
		if err := b.put(bEngines, []byte(m.Session.ID), m.Engine); err != nil {
			return err
		}
	}
	if m.Prompt != nil {
		return b.put(bPrompts, []byte(m.Session.ID), m.Prompt)
	}
	return nil
}

// saveSessions stores the session changes of m, and returns the session that the turn
// record names, "" if none.
func (b *batch) saveSessions(m store.Finish) (id session.ID, err error) {
	if m.Create != nil {
		if err := b.createSession(*m.Create, true); err != nil {
			return "", err
		}
		id = m.Create.Record.ID
	}
	if m.Rebuild != nil {
		if err := b.rebuildPrompt(*m.Rebuild); err != nil {
			return "", err
		}
		id = m.Rebuild.Session
	}
	for id, set := range m.Settings {
		rec, err := b.sessionToChange(id)
		if err != nil {
			return "", fmt.Errorf("save settings of %s: %w", id, err)
		}
		rec.Settings = set
		if err := b.putSession(rec); err != nil {
			return "", err
		}
	}
	for k, id := range m.SetCurrent {
		if _, err := b.sessionToChange(id); err != nil {
			return "", fmt.Errorf("point %s to %q: %w", k, id, err)
		}
		k, _, err := b.resolveKey(k, chat.Address{})
		if err != nil {
			return "", err
		}
		if err := b.put(bCurrent, []byte(k), []byte(id)); err != nil {
			return "", err
		}
	}
	return id, nil
}

// sessionToChange is existingSession for a commit, which an unknown session refuses.
func (b *batch) sessionToChange(id session.ID) (sessionRecord, error) {
	rec, err := b.existingSession(id)
	if errors.Is(err, session.ErrNotFound) {
		err = fmt.Errorf("%w: %w", store.ErrConflict, err)
	}
	return rec, err
}

// rebuildPrompt applies r to the record and the prompt of its session.
func (b *batch) rebuildPrompt(r store.Rebuild) error {
	old, err := b.sessionToChange(r.Session)
	if err != nil {
		return fmt.Errorf("build the prompt of %s again: %w", r.Session, err)
	}
	rec := old.effective()
	rec.PendingBreak = cmp.Or(r.Break, rec.PendingBreak)
	if r.Prompt != nil {
		rec.Revision++
		if err := b.put(bPrompts, []byte(rec.ID), r.Prompt); err != nil {
			return err
		}
	}
	return b.putSessionOver(old, true, sessionRecord{Record: rec})
}

// docsSize returns the number of bytes that documents need.
func docsSize[T ~[]byte](docs []T) (n int) {
	for _, d := range docs {
		n += len(d) + 64
	}
	return n
}

// lengthAfterCompactions returns the length of an active transcript after the
// compactions, or an error if one of them does not match the transcript it
// finds.
func lengthAfterCompactions(id session.ID, length int, passes []store.Compaction) (int, error) {
	for i, p := range passes {
		if p.Length != length {
			return 0, lengthError(id, length, p.Length)
		}
		if length += len(p.Append); p.From < 0 || p.From > p.To || p.To > length {
			return 0, fmt.Errorf("%w: compaction %d archives rows %d to %d of %d", store.ErrConflict, i, p.From, p.To, length)
		}
		length = len(p.Active)
	}
	return length, nil
}

// applyCompaction writes the new active transcript after the old one, whose
// rows stay where they are.
func (b *batch) applyCompaction(rec *session.Record, p store.Compaction) error {
	end := rec.Start + p.Length
	if err := putRows(b, rec.ID, end, p.Append); err != nil {
		return err
	}
	if p.From < p.To {
		rec.Archive = append(rec.Archive, session.Span{From: rec.Start + p.From, To: rec.Start + p.To})
	}
	rec.Start = end + len(p.Append)
	return putRows(b, rec.ID, rec.Start, p.Active)
}

func putRows[T ~[]byte](b *batch, id session.ID, first int, rows []T) error {
	for i, row := range rows {
		if err := b.put(bTranscripts, transcriptKey(id, first+i), row); err != nil {
			return err
		}
	}
	return nil
}

// replaceSession stores the session of m over the record old, if known, applies compactions
// and appends messages. Changes from outside the turn are kept: a title, a chat
// migration.
func (b *batch) replaceSession(m store.Turn, old sessionRecord, known bool) (err error) {
	rec := m.Session
	next := sessionRecord{Record: rec}
	if next.Key, next.Address, err = b.resolveKey(rec.Key, rec.Address); err != nil {
		return err
	}
	if known { // titles and settings change outside of turns
		next.Title, next.TitleAuto = old.effective().Title, old.effective().TitleAuto
		next.Settings = old.Settings
	}
	next.Start, next.Archive = old.Start, slices.Clone(old.Archive)
	for _, p := range m.Compactions {
		if err := b.applyCompaction(&next.Record, p); err != nil {
			return err
		}
	}
	if err := putRows(b, rec.ID, next.Start+rec.Messages-len(m.Messages), m.Messages); err != nil {
		return err
	}
	return b.putSessionOver(old, known, next)
}

// maxCalls is the number of model calls that are kept per session.
const maxCalls = 5000

// appendCalls appends calls to the ledger of a session and deletes the oldest
// ones beyond maxCalls.
func (b *batch) appendCalls(rec session.Record, calls []store.Doc[ledger.Record]) error {
	first := rec.Calls - len(calls)
	for i, call := range calls {
		if err := b.put(bCalls, transcriptKey(rec.ID, first+i), call); err != nil {
			return err
		}
		if old := first + i - maxCalls; old >= 0 {
			if err := b.delete(bCalls, transcriptKey(rec.ID, old)); err != nil {
				return err
			}
		}
	}
	return nil
}

// newestEntry returns the ID of the newest entry of a claim.
func newestEntry(c store.Claim) (id inbox.ID) {
	for _, e := range c.Entries {
		id = max(id, e.ID)
	}
	return id
}

// cancelWaiting cancels the entries that wait in lane l and are older than the
// command before. Messages sent after the command get an answer. It returns rows
// that delete the previews of the turns that end.
func (b *batch) cancelWaiting(l inbox.Lane, before inbox.ID, o inbox.Outcome) ([]outbox.Row, error) {
	positions, err := b.lanePositions(l)
	if err != nil {
		return nil, err
	}
	var rows []outbox.Row
	for _, p := range positions {
		if p.isClaimed || p.id > before {
			continue
		}
		e, ok, err := b.entryAt(l, p)
		if err != nil {
			return nil, err
		}
		if !ok {
			continue
		}
		if err := b.finishEntry(e, o); err != nil {
			return nil, err
		}
		deletions, err := b.endTurnIfIdle(e)
		if err != nil {
			return nil, err
		}
		rows = append(rows, deletions...)
	}
	return rows, nil
}

// endTurnIfIdle ends the interrupted turn of e, if it has one, when none of its
// entries waits any more. It returns rows that delete the previews of the turn.
func (b *batch) endTurnIfIdle(e inbox.Entry) ([]outbox.Row, error) {
	if e.Turn == "" {
		return nil, nil
	}
	t, ok, err := b.turn(e.Turn)
	if err != nil || !ok {
		return nil, err
	}
	if unfinished, err := b.unfinishedEntries(t); err != nil || len(unfinished) > 0 {
		return nil, err
	}
	previews, err := b.previews(t)
	if err != nil && !isDamage(err) {
		return nil, err
	}
	var rows []outbox.Row
	for _, p := range previews {
		rows = append(rows, outbox.DeletePreviewRow(e.Inbound.Address, t.ID, p.ID))
	}
	if err := b.deleteSteps(&t); err != nil {
		return nil, err
	}
	t.Ended = b.now
	return rows, b.saveTurn(t)
}
