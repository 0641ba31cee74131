// Package approval stores permanent approvals: which shapes of commands and changes run
// without a question, who granted that and when. A shape is a text that the command
// policy or a file tool derives from what it is about to do; shapes are compared byte
// for byte. The main type is Manager. Approvals of a conversation, which end with the
// process, are in package turn.
package approval

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"hermesd/gateway/access"
	"hermesd/gateway/schedule"
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

// A Store stores small values. *bolt.Store implements it.
type Store interface {
	Value(ctx context.Context, key string) ([]byte, error)
	SetValue(ctx context.Context, key string, v []byte) error
}

// The keys of the values in a Store: a list of Records, and the list of texts of older
// versions, to which nothing is added.
const (
	recordsKey = "approvals"
	formerKey  = "allowed"
)

// A Manager lists and changes the approvals in a Store, of which it must be the only
// Manager. Its methods may be called from any goroutine. When one returns without an
// error its changes are on disk.
type Manager struct {
	store Store
	mu    sync.Mutex // serializes changes
	now   func() time.Time
}

// NewManager returns the Manager of the approvals in store.
func NewManager(store Store) *Manager { return &Manager{store: store, now: time.Now} }

// List returns all approvals, in the order in which they were granted; those that are no
// longer used are last.
func (m *Manager) List(ctx context.Context) ([]Record, error) {
	list, former := []Record{}, []string{}
	if err := m.load(ctx, recordsKey, &list); err != nil {
		return nil, err
	}
	if err := m.load(ctx, formerKey, &former); err != nil {
		return nil, err
	}
	for _, text := range former {
		list = append(list, Record{Shape: text, NoLongerUsed: true})
	}
	return list, nil
}

func (m *Manager) load(ctx context.Context, key string, into any) error {
	raw, err := m.store.Value(ctx, key)
	if err == nil && raw != nil {
		err = json.Unmarshal(raw, into)
	}
	if err != nil {
		return fmt.Errorf("load permanent approvals: %w", err)
	}
	return nil
}

// Add stores that by has approved shapes, for job or, if it is "", everywhere. Approvals
// that by has granted before stay as they are.
func (m *Manager) Add(ctx context.Context, by access.Principal, job schedule.JobID, shapes ...string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	var list []Record
	if err := m.load(ctx, recordsKey, &list); err != nil {
		return err
	}
	n := len(list)
	for _, shape := range shapes {
		r := Record{Shape: shape, Job: job, Principal: by, At: m.now().UTC()}
		if !slices.ContainsFunc(list, r.isSame) {
			list = append(list, r)
		}
	}
	if len(list) == n {
		return nil
	}
	return m.save(ctx, recordsKey, list)
}

// save stores a list.
func (m *Manager) save(ctx context.Context, key string, list any) error {
	raw, err := json.Marshal(list)
	if err == nil {
		err = m.store.SetValue(context.WithoutCancel(ctx), key, raw)
	}
	if err != nil {
		return fmt.Errorf("store permanent approvals: %w", err)
	}
	return nil
}

// Remove removes approvals. Those that do not exist are ignored.
func (m *Manager) Remove(ctx context.Context, records ...Record) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	all, err := m.List(ctx)
	if err != nil {
		return err
	}
	var list []Record
	var former []string
	var isRecordGone, isFormerGone bool
	for _, r := range all {
		gone := slices.ContainsFunc(records, r.isSame)
		switch {
		case gone && r.NoLongerUsed:
			isFormerGone = true
		case gone:
			isRecordGone = true
		case r.NoLongerUsed:
			former = append(former, r.Shape)
		default:
			list = append(list, r)
		}
	}
	if isRecordGone {
		if err := m.save(ctx, recordsKey, list); err != nil {
			return err
		}
	}
	if isFormerGone {
		return m.save(ctx, formerKey, former)
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
