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
	// Sessions returns records, the one that was used last first, at most max (0: all).
	Sessions(ctx context.Context, max int) ([]session.Record, error)
	// Rows returns the rows with the numbers of span, active or archived.
	Rows(ctx context.Context, id session.ID, span session.Span) ([]json.RawMessage, error)
}

// chunk is how many rows are read and indexed together.
const chunk = 250

// recent is how many sessions a pass looks at before it believes that nothing
// older has changed.
const recent = 32

// A Follower rests after a failure, longer each time.
const (
	retryFirst = 10 * time.Second
	retryLast  = time.Hour
)

// A Follower keeps an Index like its Source. It is behind by one pass, and after
// a crash it goes on where it was.
type Follower struct {
	x    *Index
	from Source
	own  string
	log  *zap.Logger
	wake chan struct{}
}

// NewFollower returns a Follower that leaves out the results of the tool own,
// which would only find what was found before.
func NewFollower(x *Index, from Source, own string, log *zap.Logger) *Follower {
	return &Follower{x: x, from: from, own: own, log: log.Named("index"), wake: make(chan struct{}, 1)}
}

// Wake says that something was committed. It never waits.
func (f *Follower) Wake() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// Run indexes until ctx ends: first all that is missing, then what commits
// bring. It rests as long as it works, so that turns find the processor free.
func (f *Follower) Run(ctx context.Context) {
	whole, rest := true, retryFirst
	for {
		began := time.Now()
		n, err := f.pass(ctx, whole, true)
		var again <-chan time.Time
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			f.log.Warn("the search index is behind", zap.Error(err))
			whole, again = true, time.After(rest)
			rest = min(2*rest, retryLast)
		default:
			if whole && n > 0 {
				f.log.Info("the search index is up to date", zap.Int("messages", n), zap.Duration("took", time.Since(began)))
			}
			whole, rest = false, retryFirst
		}
		select {
		case <-ctx.Done():
			return
		case <-again:
		case <-f.wake:
			whole = whole || f.x.Damaged()
		}
	}
}

// CatchUp indexes all that is missing, without rests, and returns how many
// messages that were. It must not run beside Run.
func (f *Follower) CatchUp(ctx context.Context) (int, error) { return f.pass(ctx, true, false) }

// pass looks at the sessions that were used last, or at all.
func (f *Follower) pass(ctx context.Context, whole, gently bool) (int, error) {
	if f.x.Damaged() {
		if err := f.x.Reset(); err != nil {
			return 0, err
		}
		whole = true
	}
	total, most := 0, recent
	if whole {
		most = 0
	}
	var bad error // of the first session that could not be read; the others go on
	for {
		recs, err := f.from.Sessions(ctx, most)
		if err != nil {
			return total, err
		}
		stale := 0
		for i := len(recs) - 1; i >= 0; i-- { // the newest get the greatest numbers
			n, changed, err := f.session(ctx, recs[i], gently)
			if total += n; ctx.Err() != nil || errors.Is(err, ErrDamaged) {
				return total, err
			}
			if bad == nil {
				bad = err
			}
			if changed {
				stale = max(stale, i+1)
			}
		}
		if most == 0 {
			return total, errors.Join(bad, f.sweep(ctx, recs))
		}
		if len(recs) < most || stale < len(recs) {
			return total, bad
		}
		most *= 8
	}
}

// sweep forgets sessions that the store does not have any more.
func (f *Follower) sweep(ctx context.Context, recs []session.Record) error {
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

// session brings one session up to date.
func (f *Follower) session(ctx context.Context, r session.Record, gently bool) (n int, changed bool, err error) {
	m, ok, err := f.x.Progress(ctx, r.ID)
	if err != nil {
		return 0, false, err
	}
	end := r.Start + r.Messages
	if ok && (m.Next > end || m.Start > r.Start || m.Updated.After(r.Updated)) {
		// The store was put back to an earlier time.
		if err := f.x.Delete(ctx, r.ID); err != nil {
			return 0, true, err
		}
		m, ok = Progress{}, false
	}
	if ok && m.Next == end && m.Start == r.Start && m.Updated.Equal(r.Updated) {
		return 0, false, nil
	}
	j := job{f: f, r: r, reader: reader{own: f.own}, gently: gently}
	j.drop = gone(r, m)
	for _, s := range shown(r, m.Next) {
		for from := s.From; from < s.To; from += chunk {
			if err := j.rows(ctx, session.Span{From: from, To: min(from+chunk, s.To)}); err != nil {
				return j.n, true, err
			}
		}
	}
	return j.n, true, f.x.Add(ctx, r, nil, end, j.drop...)
}

// gone is what a compaction has copied: rows that were active and are neither
// active nor archived now.
func gone(r session.Record, m Progress) []session.Span {
	if m.Start >= r.Start {
		return nil
	}
	var out []session.Span
	from, to := m.Start, min(m.Next, r.Start)
	for _, a := range r.Archive { // in order: each stands behind the one before
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

// shown are the rows from next on that are archived or active.
func shown(r session.Record, next int) []session.Span {
	var out []session.Span
	for _, s := range append(r.Archive[:len(r.Archive):len(r.Archive)], session.Span{From: r.Start, To: r.Start + r.Messages}) {
		if s.From = max(s.From, next); s.From < s.To {
			out = append(out, s)
		}
	}
	return out
}

// A job is the work on one session.
type job struct {
	f      *Follower
	r      session.Record
	reader reader
	drop   []session.Span
	gently bool
	n      int
}

func (j *job) rows(ctx context.Context, s session.Span) error {
	began := time.Now()
	rows, err := j.f.from.Rows(ctx, j.r.ID, s)
	if err != nil {
		return fmt.Errorf("rows %d to %d of %s: %w", s.From, s.To, j.r.ID, err)
	}
	docs := make([]Doc, 0, len(rows))
	for i, row := range rows {
		role, text, err := j.reader.read(row)
		if err != nil {
			j.f.log.Warn("a message cannot be searched", zap.String("session", string(j.r.ID)), zap.Int("row", s.From+i), zap.Error(err))
			continue
		}
		docs = append(docs, Doc{Row: s.From + i, Role: role, Time: j.r.Updated, Text: text})
	}
	if err := j.f.x.Add(ctx, j.r, docs, s.From+len(rows), j.drop...); err != nil {
		return err
	}
	j.drop = nil
	j.n += len(docs)
	if !j.gently {
		return nil
	}
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(time.Since(began)):
		return nil
	}
}
