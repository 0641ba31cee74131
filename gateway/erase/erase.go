// Package erase deletes conversations wherever something of them is kept:
//
//	store ─► memory ─► search index ─► files of people
//
// The store comes first: what it has deleted is deleted, whatever becomes of the
// rest. An index that was not reached is put right when the daemon starts.
package erase

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"hermesd/gateway/session"
)

// A Store deletes sessions.
type Store interface {
	DeleteSession(ctx context.Context, id session.ID) (session.Deleted, error)
	// Expired returns the sessions that were used last before a time, the oldest
	// first, at most max (0: all).
	Expired(ctx context.Context, before time.Time, max int) ([]session.ID, error)
}

// An Index finds what was said in sessions, until it is told to forget one.
type Index interface {
	Forget(ctx context.Context, id session.ID) error
}

// A Media has the files that people have sent, in one directory.
type Media interface {
	Dir() string
	Remove(path string) error
}

// Options are the ports of an Eraser. Only Store is needed.
type Options struct {
	Store Store
	Index Index
	Media Media
	// Cached is told of a session that nobody may keep in memory any more.
	Cached func(session.ID)
}

// An Eraser deletes conversations. Its methods may be called from any goroutine.
type Eraser struct{ o Options }

// New returns an Eraser.
func New(o Options) *Eraser { return &Eraser{o} }

// Session deletes one session. Its error is that of the store, with nothing
// deleted; or it says what of a session that the store has deleted could not be
// deleted elsewhere, and is a *LeftError then.
func (e *Eraser) Session(ctx context.Context, id session.ID) (session.Deleted, error) {
	gone, err := e.o.Store.DeleteSession(ctx, id)
	if err != nil && gone.ID == "" {
		return gone, err
	}
	if left := errors.Join(err, e.rest(ctx, gone)); left != nil {
		return gone, &PartialError{id, left}
	}
	return gone, nil
}

// DeleteDerived deletes what a session that was deleted from the store has left elsewhere.
// Its error is a *LeftError.
func (e *Eraser) DeleteDerived(ctx context.Context, gone session.Deleted) error {
	if err := e.rest(ctx, gone); err != nil {
		return &PartialError{gone.ID, err}
	}
	return nil
}

func (e *Eraser) rest(ctx context.Context, gone session.Deleted) error {
	ctx = context.WithoutCancel(ctx) // there is no way back
	var errs []error
	if e.o.Cached != nil {
		e.o.Cached(gone.ID)
	}
	if e.o.Index != nil {
		errs = append(errs, e.o.Index.Forget(ctx, gone.ID))
	}
	if e.o.Media != nil {
		for _, name := range gone.Files {
			errs = append(errs, e.o.Media.Remove(filepath.Join(e.o.Media.Dir(), name)))
		}
	}
	return errors.Join(errs...)
}

// chunk is how many sessions are looked for at once.
const chunk = 100

// Expired deletes the sessions that were used last before a time, and returns
// them. Those in which a turn is under way stay. It goes on after a *LeftError,
// and ends with the first other error or with ctx.
func (e *Eraser) Expired(ctx context.Context, before time.Time) ([]session.ID, error) {
	var all []session.ID
	var left []error
	for most := chunk; ; most += chunk {
		ids, err := e.o.Store.Expired(ctx, before, most)
		if err != nil {
			return all, errors.Join(append(left, err)...)
		}
		gone := 0
		for _, id := range ids {
			_, err := e.Session(ctx, id)
			var rest *PartialError
			switch {
			case errors.Is(err, session.ErrBusy) || errors.Is(err, session.ErrNotFound):
				continue
			case errors.As(err, &rest):
				left = append(left, err)
			case err != nil:
				return all, errors.Join(append(left, err)...)
			}
			gone++
			all = append(all, id)
		}
		if len(ids) < most {
			return all, errors.Join(left...)
		}
		most -= gone // those that stay are found again
	}
}

// A PartialError says that the store has deleted a session, and that something of it
// is left elsewhere.
type PartialError struct {
	ID  session.ID
	Err error
}

func (e *PartialError) Error() string {
	return fmt.Sprintf("conversation %s is deleted, but not all of it is gone: %v. Start the daemon again to have the search index put right; what is left of files lies in the media folder", e.ID, e.Err)
}

func (e *PartialError) Unwrap() error { return e.Err }
