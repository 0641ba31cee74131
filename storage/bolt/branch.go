package bolt

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"hermesd/gateway/inbox"
	"hermesd/gateway/session"
)

// Branch opens the session to as a copy of another one, up to and without its
// active message rows (-1: all), and makes the conversation of to point to it; all
// at once or not at all. The prompt is the other's, byte for byte, and so is each
// row, under its number: what an engine keeps of the other holds for the copy, and
// a provider finds its prefix again. The other session stays as it is.
//
// Of to.Record the store counts the messages itself; the ledger and what was spent
// begin anew. It returns the record as it is stored. An id that is taken, or a cut
// behind the end, is refused with inbox.ErrRefused.
func (s *Store) Branch(ctx context.Context, from session.ID, rows int, to session.Creation) (session.Record, error) {
	var made session.Record
	err := s.do(ctx, "branch "+string(from), s.o.MaxBatch, func(b *batch) error {
		var err error
		made, err = b.branch(from, rows, to)
		return err
	})
	if err != nil {
		return session.Record{}, err
	}
	return made, nil
}

func (b *batch) branch(from session.ID, rows int, to session.Creation) (session.Record, error) {
	none := session.Record{}
	old, ok, err := b.session(from)
	if err != nil {
		return none, err
	}
	if !ok {
		return none, session.ErrNotFound
	}
	if rows < 0 {
		rows = old.Messages
	}
	if rows > old.Messages {
		return none, wrongLength(from, old.Messages, rows)
	}
	if _, taken, err := b.session(to.Record.ID); err != nil || taken {
		if err == nil {
			err = fmt.Errorf("%w: the session %s is there already", inbox.ErrConflict, to.Record.ID)
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
	if err := b.openSession(to, true); err != nil {
		return none, err
	}
	if err := b.putRows(to.Record.ID, 0, all); err != nil {
		return none, err
	}
	return b.grown(to.Record.ID, old, rows)
}

// grown makes the record of a branch say which rows it was given.
func (b *batch) grown(id session.ID, old sessionRecord, rows int) (session.Record, error) {
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
	return rec.shown(), b.putSession(rec)
}
