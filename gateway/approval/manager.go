// Package approval stores permanent approvals: which shapes of commands and changes run
// without a question, who granted that and when. A shape is a text that the command
// policy or a file tool derives from what it is about to do; shapes are compared byte
// for byte. The main type is Manager. Approvals of a conversation, which end with the
// process, are in package turn.
package approval

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"hermesd/gateway/access"
	"hermesd/gateway/schedule"
	"hermesd/gateway/store"
)

// A Record is one permanent approval.
type Record struct {
	Shape string `json:"shape"`
	// Job is the only job in whose runs the approval holds; "": it holds everywhere.
	Job       schedule.JobID   `json:"job,omitempty"`
	Principal access.Principal `json:"by,omitzero"` // granted it
	At        time.Time        `json:"at,omitzero"` // when it was granted
	// NoLongerUsed is set for approvals of older versions, which stored another text than
	// a shape, and not who granted it. They cover nothing. It is not stored.
	NoLongerUsed bool `json:"no_longer_used,omitempty"`
}

// isSame reports whether r and other are the same approval, whenever it was granted.
func (r Record) isSame(other Record) bool {
	return r.Shape == other.Shape && r.Job == other.Job && r.Principal.SamePerson(other.Principal) && r.NoLongerUsed == other.NoLongerUsed
}

// Covers reports whether r is an approval of shape.
func (r Record) Covers(shape string) bool { return r.Shape == shape && !r.NoLongerUsed }

// InRuns returns a function that reports whether an approval of list holds for a shape in
// the runs of j: those for the job do, and of those that hold everywhere the ones that
// creator, its creator with the present level, granted, if that is an owner; for a job of
// the operator, all of them.
func InRuns(list []Record, j schedule.Job, creator access.Principal) func(shape string) bool {
	return func(shape string) bool {
		return slices.ContainsFunc(list, func(r Record) bool {
			switch {
			case !r.Covers(shape):
				return false
			case r.Job != "":
				return r.Job == j.ID
			case j.ByOperator():
				return true
			}
			return creator.Level == access.Owner && r.Principal.SamePerson(creator)
		})
	}
}

// The keys of the stored values: a list of Records, and the list of texts of older
// versions, to which nothing is added.
const (
	recordsKey = "approvals"
	formerKey  = "allowed"
)

// A Manager lists and changes the stored approvals. Its methods may be called from any goroutine. When one returns without an
// error its changes are on disk.
type Manager struct {
	store store.Values
	now   func() time.Time
}

// NewManager returns the Manager of the approvals in values.
func NewManager(values store.Values) *Manager { return &Manager{store: values, now: time.Now} }

// List returns all approvals, in the order in which they were granted; those that are no
// longer used are last.
func (m *Manager) List(ctx context.Context) ([]Record, error) {
	list, err := store.Load[[]Record](ctx, m.store, recordsKey)
	if err != nil {
		return nil, fmt.Errorf("load permanent approvals: %w", err)
	}
	former, err := store.Load[[]string](ctx, m.store, formerKey)
	if err != nil {
		return nil, fmt.Errorf("load permanent approvals: %w", err)
	}
	list = append([]Record{}, list...)
	for _, text := range former {
		list = append(list, Record{Shape: text, NoLongerUsed: true})
	}
	return list, nil
}

// Add stores that by has approved shapes, for job or, if it is "", everywhere. Approvals
// that by has granted before stay as they are.
func (m *Manager) Add(ctx context.Context, by access.Principal, job schedule.JobID, shapes ...string) error {
	at := m.now().UTC()
	return change(ctx, m, recordsKey, func(list []Record) []Record {
		for _, shape := range shapes {
			r := Record{Shape: shape, Job: job, Principal: by, At: at}
			if !slices.ContainsFunc(list, r.isSame) {
				list = append(list, r)
			}
		}
		return list
	})
}

// Remove removes approvals. Those that do not exist are ignored.
func (m *Manager) Remove(ctx context.Context, records ...Record) error {
	isRemoved := func(r Record) bool { return slices.ContainsFunc(records, r.isSame) }
	err := change(ctx, m, recordsKey, func(list []Record) []Record { return slices.DeleteFunc(list, isRemoved) })
	if err != nil {
		return err
	}
	return change(ctx, m, formerKey, func(list []string) []string {
		return slices.DeleteFunc(list, func(shape string) bool { return isRemoved(Record{Shape: shape, NoLongerUsed: true}) })
	})
}

// errUnchanged ends a change that has nothing to store.
var errUnchanged = errors.New("unchanged")

// change replaces a stored list by what f makes of it, if it gets longer or shorter.
func change[T any](ctx context.Context, m *Manager, key string, f func([]T) []T) error {
	err := store.Change(context.WithoutCancel(ctx), m.store, key, func(old []T) ([]T, error) {
		list := f(slices.Clone(old))
		if len(list) == len(old) {
			return nil, errUnchanged
		}
		return list, nil
	})
	if err != nil && !errors.Is(err, errUnchanged) {
		return fmt.Errorf("store permanent approvals: %w", err)
	}
	return nil
}

// Find returns the records of list that name means: the one with this number, counted
// from 1, or else all with this shape.
func Find(list []Record, name string) []Record {
	if n, err := strconv.Atoi(name); err == nil {
		if n < 1 || n > len(list) {
			return nil
		}
		return list[n-1 : n]
	}
	return slices.DeleteFunc(slices.Clone(list), func(r Record) bool { return r.Shape != name })
}
