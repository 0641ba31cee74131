package index

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"hermesd/gateway/session"
)

// A Source is the store that is indexed.
type Source interface {
	// Sessions returns the records of all sessions, the most recently used
	// first, at most max (0: no limit).
	Sessions(ctx context.Context, max int) ([]session.Record, error)
	// Rows returns the rows with the numbers in span, active or archived.
	Rows(ctx context.Context, id session.ID, span session.Span) ([]json.RawMessage, error)
}

// chunkRows is the number of rows that are read and indexed together.
const chunkRows = 250

// recentSessions is the number of sessions that an update checks before it
// assumes that no older one has changed.
const recentSessions = 32

// The delay after a failure starts at minRetryDelay and doubles up to
// maxRetryDelay.
const (
	minRetryDelay = 10 * time.Second
	maxRetryDelay = time.Hour
)

// A Follower keeps an Index up to date with its Source. The index is at most
// one update behind, and after a crash the Follower continues where it was. Run
// or CatchUp may run in one goroutine at a time; Wake may be called from any.
type Follower struct {
	x       *Index
	source  Source
	ownTool string
	log     *zap.Logger
	wake    chan struct{}
}

// NewFollower returns a Follower that omits calls and results of the tool own,
// the search tool, which would only repeat earlier results.
func NewFollower(x *Index, from Source, own string, log *zap.Logger) *Follower {
	return &Follower{x: x, source: from, ownTool: own, log: log.Named("index"), wake: make(chan struct{}, 1)}
}

// Wake tells the Follower that something was committed. It never blocks.
func (f *Follower) Wake() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// Run updates the index until ctx ends: first everything that is missing, then
// after each Wake. It pauses for as long as it works, so that turns find the
// processor idle.
func (f *Follower) Run(ctx context.Context) {
	all, delay := true, minRetryDelay
	for {
		began := time.Now()
		n, err := f.update(ctx, all, true)
		var retry <-chan time.Time
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			f.log.Warn("cannot update search index", zap.Error(err))
			all, retry = true, time.After(delay)
			delay = min(2*delay, maxRetryDelay)
		default:
			if all && n > 0 {
				f.log.Info("search index updated", zap.Int("messages", n), zap.Duration("took", time.Since(began)))
			}
			all, delay = false, minRetryDelay
		}
		select {
		case <-ctx.Done():
			return
		case <-retry:
		case <-f.wake:
			all = all || f.x.Damaged()
		}
	}
}

// CatchUp indexes everything that is missing, without pauses, and returns the
// number of indexed messages. It must not run at the same time as Run.
func (f *Follower) CatchUp(ctx context.Context) (int, error) { return f.update(ctx, true, false) }

// update updates the recently used sessions or, with all, every session.
func (f *Follower) update(ctx context.Context, all, throttle bool) (int, error) {
	if f.x.Damaged() {
		if err := f.x.Reset(); err != nil {
			return 0, err
		}
		all = true
	}
	total, limit := 0, recentSessions
	if all {
		limit = 0
	}
	var firstErr error // error of the first unreadable session; the others continue
	for {
		recs, err := f.source.Sessions(ctx, limit)
		if err != nil {
			return total, err
		}
		stale := 0
		for i := len(recs) - 1; i >= 0; i-- { // the newest get the highest numbers
			n, changed, err := f.updateSession(ctx, recs[i], throttle)
			if total += n; ctx.Err() != nil || errors.Is(err, ErrDamaged) {
				return total, err
			}
			if firstErr == nil {
				firstErr = err
			}
			if changed {
				stale = max(stale, i+1)
			}
		}
		if limit == 0 {
			return total, errors.Join(firstErr, f.deleteMissing(ctx, recs))
		}
		if len(recs) < limit || stale < len(recs) {
			return total, firstErr
		}
		limit *= 8
	}
}

// deleteMissing removes the sessions that no longer exist in the store.
func (f *Follower) deleteMissing(ctx context.Context, recs []session.Record) error {
	have := make(map[session.ID]bool, len(recs))
	for _, r := range recs {
		have[r.ID] = true
	}
	ids, err := f.x.Sessions(ctx)
	for _, id := range ids {
		if err == nil && !have[id] {
			err = f.x.Delete(ctx, id)
		}
	}
	return err
}

// updateSession updates one session.
func (f *Follower) updateSession(ctx context.Context, r session.Record, throttle bool) (n int, changed bool, err error) {
	m, ok, err := f.x.Progress(ctx, r.ID)
	if err != nil {
		return 0, false, err
	}
	end := r.Start + r.Messages
	if ok && (m.Next > end || m.Start > r.Start || m.Updated.After(r.Updated)) {
		// The store was restored to an earlier state.
		if err := f.x.Delete(ctx, r.ID); err != nil {
			return 0, true, err
		}
		m, ok = Progress{}, false
	}
	if ok && m.Next == end && m.Start == r.Start && m.Updated.Equal(r.Updated) {
		return 0, false, nil
	}
	j := sessionUpdate{f: f, r: r, reader: reader{ownTool: f.ownTool}, throttle: throttle}
	j.drop = superseded(r, m)
	for _, s := range visibleRows(r, m.Next) {
		for from := s.From; from < s.To; from += chunkRows {
			if err := j.rows(ctx, session.Span{From: from, To: min(from+chunkRows, s.To)}); err != nil {
				return j.n, true, err
			}
		}
	}
	return j.n, true, f.x.Add(ctx, r, nil, end, j.drop...)
}

// superseded returns the rows that a compaction has copied: rows that were
// active and are neither active nor archived now.
func superseded(r session.Record, m Progress) []session.Span {
	if m.Start >= r.Start {
		return nil
	}
	var out []session.Span
	from, to := m.Start, min(m.Next, r.Start)
	for _, a := range r.Archive { // in ascending order
		if a.To <= from || a.From >= to {
			continue
		}
		if from < a.From {
			out = append(out, session.Span{From: from, To: a.From})
		}
		from = max(from, a.To)
	}
	if from < to {
		out = append(out, session.Span{From: from, To: to})
	}
	return out
}

// visibleRows returns the rows from next on that are archived or active.
func visibleRows(r session.Record, next int) []session.Span {
	var out []session.Span
	for _, s := range append(r.Archive[:len(r.Archive):len(r.Archive)], session.Span{From: r.Start, To: r.Start + r.Messages}) {
		if s.From = max(s.From, next); s.From < s.To {
			out = append(out, s)
		}
	}
	return out
}

// A sessionUpdate is the update of one session.
type sessionUpdate struct {
	f        *Follower
	r        session.Record
	reader   reader
	drop     []session.Span
	throttle bool
	n        int
}

func (j *sessionUpdate) rows(ctx context.Context, s session.Span) error {
	began := time.Now()
	rows, err := j.f.source.Rows(ctx, j.r.ID, s)
	if err != nil {
		return fmt.Errorf("read rows %d to %d of %s: %w", s.From, s.To, j.r.ID, err)
	}
	docs := make([]Doc, 0, len(rows))
	for i, row := range rows {
		role, text, err := j.reader.read(row)
		if err != nil {
			j.f.log.Warn("cannot index message", zap.String("session", string(j.r.ID)), zap.Int("row", s.From+i), zap.Error(err))
			continue
		}
		docs = append(docs, Doc{Row: s.From + i, Role: role, Time: j.r.Updated, Text: text})
	}
	if err := j.f.x.Add(ctx, j.r, docs, s.From+len(rows), j.drop...); err != nil {
		return err
	}
	j.drop = nil
	j.n += len(docs)
	if !j.throttle {
		return nil
	}
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(time.Since(began)):
		return nil
	}
}
