package index

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"hermesd/gateway/session"
	"hermesd/gateway/store"
	"hermesd/internal/backoff"
	"hermesd/internal/diskspace"
)

// chunkRows is the number of rows that are read and indexed together.
const chunkRows = 250

// maxLag is the time for which changes are collected before they are indexed
// together.
const maxLag = 900 * time.Millisecond

// closingLimit is the time that Run takes for changes that it has collected when
// its context ends.
const closingLimit = 2 * time.Second

// The delay after a failure starts at minRetryDelay and doubles up to
// maxRetryDelay.
const (
	minRetryDelay = 10 * time.Second
	maxRetryDelay = time.Hour
)

// maxReserve is the number of bytes of the disk that the index leaves free for the
// store; of a small disk it is a twentieth.
const maxReserve = 64 << 20

// A Follower keeps an Index up to date with its Source. The index is at most a
// second and one update behind, and after a crash the Follower continues where
// it was. One of an Index that is not open does nothing. Run or CatchUp may run in one
// goroutine at a time; Changed, Wake and GiveWay may be called from any.
type Follower struct {
	x       *Index
	source  store.Sessions
	ownTool string
	log     *zap.Logger
	wake    chan struct{}
	giveWay chan struct{} // the store needs the space of the index
	space   func() (free, total uint64, err error)

	mu      sync.Mutex
	changed map[session.ID]bool // sessions that were changed since the last update
}

// NewFollower returns a Follower that omits calls and results of the tool own,
// the search tool, which would only repeat earlier results.
func NewFollower(x *Index, from store.Sessions, own string, log *zap.Logger) *Follower {
	return &Follower{
		x: x, source: from, ownTool: own, log: log.Named("index"), wake: make(chan struct{}, 1), giveWay: make(chan struct{}, 1),
		space:   func() (free, total uint64, err error) { return diskspace.Of(filepath.Dir(x.path)) },
		changed: make(map[session.ID]bool),
	}
}

// Changed tells the Follower that a session was changed. It never blocks.
func (f *Follower) Changed(id session.ID) {
	f.mu.Lock()
	f.changed[id] = true
	f.mu.Unlock()
	f.Wake()
}

// Wake tells the Follower that the index was found to be damaged. It never
// blocks.
func (f *Follower) Wake() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// GiveWay tells the Follower that the store found the disk full. Run removes the
// index, and rebuilds it when there is space and the store has not called GiveWay
// for a while. It never blocks.
func (f *Follower) GiveWay() {
	select {
	case f.giveWay <- struct{}{}:
	default:
	}
}

// checkSpace returns ErrNoSpace if the index must not grow.
func (f *Follower) checkSpace() error {
	free, total, err := f.space()
	if len(f.giveWay) > 0 || err == nil && free < min(maxReserve, total/20) {
		return ErrNoSpace
	}
	return nil
}

// makeWay removes the index and waits for the delay, in which the store uses the
// space. If there was no index, it reports false and waits for minRetryDelay only.
func (f *Follower) makeWay(ctx context.Context, delay time.Duration) (removed bool) {
	if fault := f.x.Fault(); fault == nil || unlessRemoved(fault) != nil {
		err := f.x.Remove()
		if removed = err == nil; removed {
			f.log.Warn("disk is full: search index was removed and will be rebuilt when there is space")
		} else {
			f.log.Warn("disk is full, and search index cannot be removed", zap.Error(err))
		}
	}
	if !removed {
		delay = minRetryDelay
	}
	_ = backoff.Sleep(ctx, delay) // returns early when ctx ends
	return removed
}

// takeChanged returns the sessions that were changed since the last call.
func (f *Follower) takeChanged() map[session.ID]bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	taken := f.changed
	f.changed = make(map[session.ID]bool)
	return taken
}

// Run updates the index until ctx ends: first everything that is missing, then
// what was changed, once per maxLag. Between two transactions it pauses for as
// long as the first one took, so that turns find the processor idle. When ctx
// ends it indexes what was changed before.
func (f *Follower) Run(ctx context.Context) {
	var retry <-chan time.Time
	delay, isWaiting := minRetryDelay, false // isWaiting: for space
	for all := true; ; all = all || f.x.Fault() != nil {
		began := time.Now()
		n, err := f.update(ctx, all, true)
		switch {
		case ctx.Err() != nil:
		case errors.Is(err, ErrNoSpace):
			if !isWaiting {
				f.log.Warn("search index waits for space on the disk")
			}
			isWaiting, retry = true, time.After(minRetryDelay)
		case err != nil:
			f.log.Warn("cannot update search index", zap.Error(err))
			if retry == nil {
				retry = time.After(delay)
				delay = min(2*delay, maxRetryDelay)
			}
		case all:
			if n > 0 {
				f.log.Info("search index updated", zap.Int("messages", n), zap.Duration("took", time.Since(began)))
			}
			retry, delay, isWaiting = nil, minRetryDelay, false
		}
		select {
		case <-ctx.Done():
			f.finish(ctx)
			return
		case <-retry:
			all, retry = true, nil
		case <-f.giveWay:
			if f.makeWay(ctx, delay) { // the next time it waits longer: space may suffice for either only
				delay = min(2*delay, maxRetryDelay)
			}
		case <-f.wake:
			all = false
			if backoff.Sleep(ctx, maxLag) != nil {
				f.finish(ctx)
				return
			}
		}
	}
}

// finish indexes what was changed before ctx has ended. What it does not finish
// in time, the next Run does.
func (f *Follower) finish(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closingLimit)
	defer cancel()
	if _, err := f.update(ctx, false, false); err != nil {
		f.log.Warn("cannot update search index", zap.Error(err))
	}
}

// CatchUp indexes everything that is missing, without pauses, and returns the
// number of indexed messages. It must not run at the same time as Run.
func (f *Follower) CatchUp(ctx context.Context) (int, error) { return f.update(ctx, true, false) }

// update updates the sessions that were changed or, with all, every session, and
// returns the number of indexed messages.
func (f *Follower) update(ctx context.Context, all, throttle bool) (int, error) {
	if errors.Is(f.x.Fault(), ErrNotOpen) {
		f.takeChanged()
		return 0, nil
	}
	if err := f.checkSpace(); err != nil {
		return 0, err
	}
	if f.x.Fault() != nil {
		if err := f.x.Reset(); err != nil {
			return 0, err
		}
		all = true
	}
	changed := f.takeChanged()
	var recs []session.Record
	var firstErr error // error of the first unreadable session; the others continue
	if all {
		var err error
		if recs, err = f.source.Sessions(ctx, session.Query{}); err != nil {
			return 0, err
		}
	} else {
		recs, firstErr = f.records(ctx, changed)
	}
	b := batch{f: f, throttle: throttle}
	slices.SortStableFunc(recs, func(a, b session.Record) int { return a.Updated.Compare(b.Updated) }) // the newest get the highest numbers
	for _, r := range recs {
		err := b.addSession(ctx, r)
		if b.err != nil || ctx.Err() != nil {
			return b.indexed, err
		}
		if firstErr == nil {
			firstErr = err
		}
	}
	if err := b.flush(ctx); err != nil {
		return b.indexed, err
	}
	if all {
		firstErr = errors.Join(firstErr, f.deleteMissing(ctx, recs))
	}
	return b.indexed, firstErr
}

// records returns the records of sessions. Those that do not exist are omitted.
func (f *Follower) records(ctx context.Context, ids map[session.ID]bool) (recs []session.Record, firstErr error) {
	for id := range ids {
		r, ok, err := f.source.SessionByID(ctx, id)
		if ok && err == nil {
			recs = append(recs, r)
		}
		if firstErr == nil {
			firstErr = err
		}
	}
	return recs, firstErr
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

// A batch collects updates of sessions, and adds them to the index in
// transactions of at least chunkRows rows.
type batch struct {
	f        *Follower
	throttle bool
	began    time.Time // when the first of the updates was started
	updates  []Update
	size     int   // rows and updates
	indexed  int   // number of messages added
	err      error // error of the index, after which nothing more is added
}

// addSession adds what is missing of one session.
func (b *batch) addSession(ctx context.Context, r session.Record) error {
	if len(b.updates) == 0 {
		b.began = time.Now()
	}
	m, ok, err := b.f.x.Progress(ctx, r.ID)
	if err != nil {
		b.err = err
		return err
	}
	end := r.Start + r.Messages
	if ok && (m.Next > end || m.Start > r.Start || m.Updated.After(r.Updated)) {
		// The store was restored to an earlier state.
		if b.err = b.f.x.Delete(ctx, r.ID); b.err != nil {
			return b.err
		}
		m, ok = Progress{}, false
	}
	if ok && m.Next == end && m.Start == r.Start && m.Updated.Equal(r.Updated) {
		return nil
	}
	drop, rd := superseded(r, m), reader{ownTool: b.f.ownTool}
	for _, s := range visibleRows(r, m.Next) {
		for from := s.From; from < s.To; from += chunkRows {
			u, err := b.f.read(ctx, &rd, r, session.Span{From: from, To: min(from+chunkRows, s.To)})
			if err != nil {
				return err
			}
			u.Drop, drop = drop, nil
			if err := b.add(ctx, u); err != nil {
				return err
			}
		}
	}
	return b.add(ctx, Update{Session: r, Next: end, Drop: drop})
}

// add adds an update, and writes the batch if it is large enough. Updates of the
// same session must be added in order.
func (b *batch) add(ctx context.Context, u Update) error {
	if last := len(b.updates) - 1; len(u.Docs)+len(u.Drop) == 0 && last >= 0 && b.updates[last].Session.ID == u.Session.ID {
		b.updates[last].Next = u.Next
		return nil
	}
	b.updates = append(b.updates, u)
	if b.size += 1 + len(u.Docs); b.size < chunkRows {
		return nil
	}
	return b.flush(ctx)
}

// flush writes the batch, and pauses.
func (b *batch) flush(ctx context.Context) error {
	if len(b.updates) == 0 {
		return nil
	}
	if b.err = b.f.checkSpace(); b.err != nil {
		return b.err
	}
	if b.err = b.f.x.Add(ctx, b.updates...); b.err != nil {
		return b.err
	}
	for _, u := range b.updates {
		b.indexed += len(u.Docs)
	}
	b.updates, b.size = b.updates[:0], 0
	if !b.throttle {
		return nil
	}
	pause := time.Since(b.began)
	b.began = time.Now().Add(pause)
	return backoff.Sleep(ctx, pause)
}

// read returns an update with the rows in span.
func (f *Follower) read(ctx context.Context, rd *reader, r session.Record, span session.Span) (Update, error) {
	rows, err := f.source.Rows(ctx, r.ID, span)
	if err != nil {
		return Update{}, fmt.Errorf("read rows %d to %d of %s: %w", span.From, span.To, r.ID, err)
	}
	u := Update{Session: r, Docs: make([]Doc, 0, len(rows)), Next: span.From + len(rows)}
	for i, row := range rows {
		role, text, err := rd.read(row)
		if err != nil {
			f.log.Warn("cannot index message", zap.String("session", string(r.ID)), zap.Int("row", span.From+i), zap.Error(err))
			continue
		}
		u.Docs = append(u.Docs, Doc{Row: span.From + i, Role: role, Time: r.Updated, Text: text})
	}
	return u, nil
}
