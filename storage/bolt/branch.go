package bolt

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"hermesd/gateway/session"
	"hermesd/gateway/store"
)

// Branch creates the session of to as a copy of another one with its first
// active messages (rows; -1: all), and makes it the current one of its
// conversation; all or nothing. The prompt is that of the other session, byte
// for byte, and so is each message, under the same number: the state of a
// context engine is valid for the copy as well, and the provider finds its
// cached prefix. The other session does not change.
//
// The store sets the message counts of to.Record itself; the ledger and the
// usage start empty. Branch returns the record as it is stored. The error is
// store.ErrConflict if the ID is in use or rows exceeds the number of active
// messages.
func (s *Store) Branch(ctx context.Context, from session.ID, rows int, to store.Creation) (session.Record, error) {
	return write(ctx, s, "branch "+string(from), maxBatch, func(b *batch) (session.Record, error) { return b.branch(from, rows, to) })
}

func (b *batch) branch(from session.ID, rows int, to store.Creation) (session.Record, error) {
	none := session.Record{}
	old, err := b.existingSession(from)
	if err != nil {
		return none, err
	}
	if rows < 0 {
		rows = old.Messages
	}
	if rows > old.Messages {
		return none, lengthError(from, old.Messages, rows)
	}
	if _, exists, err := b.session(to.Record.ID); err != nil || exists {
		if err == nil {
			err = fmt.Errorf("%w: session %s already exists", store.ErrConflict, to.Record.ID)
		}
		return none, err
	}
	prompt, err := b.get(bPrompts, []byte(from))
	if err != nil {
		return none, err
	}
	all, err := b.transcript(from, 0, old.Start+rows)
	if err != nil {
		return none, err
	}
	to.Prompt = bytes.Clone(prompt)
	to.Record.Calls, to.Record.Usage, to.Record.Crashes = 0, nil, 0
	to.Record.Revision, to.Record.Files = old.Revision, slices.Clone(old.Files)
	if err := b.createSession(to, true); err != nil {
		return none, err
	}
	if err := putRows(b, to.Record.ID, 0, all); err != nil {
		return none, err
	}
	return b.finishBranch(to.Record.ID, old, rows)
}

// finishBranch stores the message counts and the engine state of a branch.
func (b *batch) finishBranch(id session.ID, old sessionRecord, rows int) (session.Record, error) {
	rec, _, err := b.session(id)
	if err != nil {
		return session.Record{}, err
	}
	rec.Messages, rec.Start, rec.Archive = rows, old.Start, slices.Clone(old.Archive)
	rec.PromptTokens, rec.PromptMessages, rec.UnstoredDigest = old.PromptTokens, old.PromptMessages, old.UnstoredDigest
	if rec.PromptMessages > rows {
		rec.PromptTokens, rec.PromptMessages = 0, 0
	}
	state, err := b.get(bEngines, []byte(old.ID))
	if err != nil {
		return session.Record{}, err
	}
	if state != nil {
		if err := b.put(bEngines, []byte(id), bytes.Clone(state)); err != nil {
			return session.Record{}, err
		}
	}
	return rec.effective(), b.putSession(rec)
}
