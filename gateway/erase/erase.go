// Package erase deletes conversations everywhere they are stored:
//
//	store ─► memory cache ─► search index ─► media files
//
// The store comes first: once it has deleted a session the deletion counts, even if a
// later step fails. A search index that could not be updated is corrected when the
// daemon starts. An Eraser may be used from any goroutine.
package erase

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"hermesd/gateway/session"
	"hermesd/gateway/store"
)

// A Store lists and deletes sessions.
type Store interface {
	store.Sessions
	store.Editor
}

// An Index is the search index, from which sessions can be deleted.
type Index interface {
	// Forget deletes a session from the index.
	Forget(ctx context.Context, id session.ID) error
}

// A Media holds the attachments of messages in one directory.
type Media interface {
	Dir() string
	Remove(path string) error
}

// Options are the dependencies of an Eraser. All are set.
type Options struct {
	Store Store
	Index Index
	Media Media
	// Cached is called with a deleted session, to drop it from memory.
	Cached func(session.ID)
	// Forget returns the events with which the external memory deletes what it has of a
	// session, and what it cannot delete.
	Forget func(session.Record) (events []store.Event, stays string)
}

// An Eraser deletes conversations.
type Eraser struct{ opts Options }

// New returns an Eraser for the given stores.
func New(opts Options) *Eraser { return &Eraser{opts} }

// Session deletes one session. An error is either that of the store, and nothing is
// deleted, or a *PartialError: the store has deleted the session, and another step
// failed.
func (e *Eraser) Session(ctx context.Context, id session.ID) (session.Deleted, error) {
	rec, _, err := e.opts.Store.SessionByID(ctx, id)
	if err != nil {
		return session.Deleted{}, err
	}
	events, stays := e.opts.Forget(rec)
	deleted, err := e.opts.Store.DeleteSession(ctx, store.Deletion{ID: id, Events: events})
	if err != nil && deleted.ID == "" {
		return deleted, err
	}
	deleted.Stays = stays
	if err := errors.Join(err, e.deleteElsewhere(ctx, deleted)); err != nil {
		return deleted, &PartialError{id, err}
	}
	return deleted, nil
}

// DeleteDerived deletes from memory, index and media what belongs to a session that was
// deleted from the store. An error is a *PartialError.
func (e *Eraser) DeleteDerived(ctx context.Context, deleted session.Deleted) error {
	if err := e.deleteElsewhere(ctx, deleted); err != nil {
		return &PartialError{deleted.ID, err}
	}
	return nil
}

func (e *Eraser) deleteElsewhere(ctx context.Context, deleted session.Deleted) error {
	ctx = context.WithoutCancel(ctx) // the deletion has begun and must be completed
	e.opts.Cached(deleted.ID)
	errs := []error{e.opts.Index.Forget(ctx, deleted.ID)}
	for _, name := range deleted.Files {
		errs = append(errs, e.opts.Media.Remove(filepath.Join(e.opts.Media.Dir(), name)))
	}
	return errors.Join(errs...)
}

// expireBatch is the number of sessions listed at once.
const expireBatch = 100

// Expired deletes the sessions that were last used before a time, and returns their
// IDs. Sessions with a running turn are not deleted. It continues after a
// *PartialError and stops at any other error or when ctx ends.
func (e *Eraser) Expired(ctx context.Context, before time.Time) ([]session.ID, error) {
	var all []session.ID
	var partial []error
	for limit := expireBatch; ; limit += expireBatch {
		expired, err := e.opts.Store.Sessions(ctx, session.Query{Before: before, Oldest: true, Max: limit})
		if err != nil {
			return all, errors.Join(append(partial, err)...)
		}
		deleted := 0
		for _, r := range expired {
			_, err := e.Session(ctx, r.ID)
			var partialErr *PartialError
			switch {
			case errors.Is(err, session.ErrBusy) || errors.Is(err, session.ErrNotFound):
				continue
			case errors.As(err, &partialErr):
				partial = append(partial, err)
			case err != nil:
				return all, errors.Join(append(partial, err)...)
			}
			deleted++
			all = append(all, r.ID)
		}
		if len(expired) < limit {
			return all, errors.Join(partial...)
		}
		limit -= deleted // the store lists the remaining ones again
	}
}

// A PartialError is returned when the store has deleted a session, but deleting it from
// memory, index or media failed.
type PartialError struct {
	ID  session.ID
	Err error
}

func (e *PartialError) Error() string {
	return fmt.Sprintf("conversation %s is deleted, but not all of it is gone: %v. Start the daemon again to have the search index put right; what is left of files lies in the media folder", e.ID, e.Err)
}

func (e *PartialError) Unwrap() error { return e.Err }
