// Package sessionlibrary implements the library of the tool session_search: it
// searches the index, reads from the store, and limits both to the scope of the
// requesting session.
//
// The main type is [Library]; its methods may be called from any goroutine.
package sessionlibrary

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"hermesd/agent/llm"
	"hermesd/agent/tools/sessionsearch"
	"hermesd/gateway/chat"
	"hermesd/gateway/session"
	"hermesd/gateway/store"
	"hermesd/storage/index"
)

// A Library is the library of one store and its index.
type Library struct {
	index *index.Index
	store store.Sessions
	wake  func()

	profiles chat.Profiles // of all platforms
}

// New returns a Library. It calls wake when the index is found to be damaged;
// wake is that of the Follower of the index.
func New(x *index.Index, s store.Sessions, ps chat.Profiles, wake func()) *Library {
	return &Library{x, s, wake, ps}
}

// requester returns the requesting session and its scope. A session that is not
// stored yet, in its first turn, sees nothing.
func (l *Library) requester(ctx context.Context, id string) (session.Record, index.Scope, error) {
	r, ok, err := l.store.SessionByID(ctx, session.ID(id))
	if err != nil || !ok {
		return session.Record{}, index.Scope{}, err
	}
	return r, index.ScopeFor(r, l.profiles), nil
}

// Search returns sessionsearch.ErrNotNow while the index is damaged, and
// index.ErrNoSpace while there is none.
func (l *Library) Search(ctx context.Context, requesterID string, q sessionsearch.Query) ([]sessionsearch.Match, error) {
	me, scope, err := l.requester(ctx, requesterID)
	if err != nil {
		return nil, err
	}
	query := index.Query{Text: q.Text, Limit: q.Limit, Scope: scope, Except: me.ID, Active: me.Start}
	if q.Newest {
		query.Sort = index.Newest
	}
	for _, r := range q.Roles {
		query.Roles = append(query.Roles, index.Role(r))
	}
	hits, err := l.index.Search(ctx, query)
	if errors.Is(err, index.ErrDamaged) {
		l.wake()
		return nil, sessionsearch.ErrNotNow
	}
	if err != nil {
		return nil, err
	}
	var found []sessionsearch.Match
	for len(hits) > 0 {
		n := 1
		for n < len(hits) && hits[n].Session == hits[0].Session {
			n++
		}
		r, ok, err := l.store.SessionByID(ctx, hits[0].Session)
		if err != nil {
			return nil, err
		}
		if ok && scope.Allows(r) { // the index may be out of date
			found = append(found, l.match(ctx, me, r, hits[:n]))
		}
		hits = hits[n:]
	}
	return found, nil
}

// match returns the hits of one session and their adjacent rows. For a hit it
// uses the text of the index; rows that cannot be read are omitted.
func (l *Library) match(ctx context.Context, me, r session.Record, hits []index.Hit) sessionsearch.Match {
	f := sessionsearch.Match{Session: describe(r)}
	snippets := map[int]index.Hit{}
	var rows []int
	for _, h := range hits {
		snippets[h.Row] = h
		rows = append(rows, h.Row)
		for _, n := range []int{h.Before, h.After} {
			if n >= 0 {
				rows = append(rows, n)
			}
		}
	}
	slices.Sort(rows)
	for _, row := range slices.Compact(rows) {
		if h, hit := snippets[row]; hit {
			f.Passages = append(f.Passages, sessionsearch.Passage{Row: row, Role: string(h.Role), Text: h.Snippet, Hit: true})
			continue
		}
		if ps, err := l.rows(ctx, me, r, session.Span{From: row, To: row + 1}); err == nil {
			f.Passages = append(f.Passages, ps...)
		}
	}
	return f
}

// Rows returns sessionsearch.ErrUnknown if the session does not exist or may not be
// seen.
func (l *Library) Rows(ctx context.Context, requesterID, id string, from, to int) (sessionsearch.Session, []sessionsearch.Passage, error) {
	me, scope, err := l.requester(ctx, requesterID)
	if err != nil {
		return sessionsearch.Session{}, nil, err
	}
	r, ok, err := l.store.SessionByID(ctx, session.ID(id))
	if err != nil {
		return sessionsearch.Session{}, nil, err
	}
	if !ok || !scope.Allows(r) {
		return sessionsearch.Session{}, nil, sessionsearch.ErrUnknown
	}
	ps, err := l.rows(ctx, me, r, session.Span{From: from, To: to})
	return describe(r), ps, err
}

// rows reads the visible rows of a span: archived ones, and active ones unless
// they belong to the requesting session.
func (l *Library) rows(ctx context.Context, me, r session.Record, s session.Span) ([]sessionsearch.Passage, error) {
	visible := slices.Clone(r.Archive)
	if me.ID != r.ID {
		visible = append(visible, r.Active())
	}
	var ps []sessionsearch.Passage
	for _, a := range visible {
		a.From, a.To = max(a.From, s.From), min(a.To, s.To)
		if a.From >= a.To {
			continue
		}
		rows, err := l.store.Rows(ctx, r.ID, a)
		if err != nil {
			return nil, fmt.Errorf("read rows of %s: %w", r.ID, err)
		}
		for i, row := range rows {
			ps = append(ps, passage(a.From+i, row))
		}
	}
	return ps, nil
}

func passage(n int, row store.Doc[llm.Message]) sessionsearch.Passage {
	role, text, err := index.Read(row)
	if err != nil {
		return sessionsearch.Passage{Row: n, Role: "unknown", Text: "[this message cannot be read]"}
	}
	return sessionsearch.Passage{Row: n, Role: string(role), Text: text}
}

// Recent returns the most recently used visible sessions other than the requesting
// one.
func (l *Library) Recent(ctx context.Context, requesterID string, limit int) ([]sessionsearch.Session, error) {
	me, scope, err := l.requester(ctx, requesterID)
	if err != nil {
		return nil, err
	}
	for n := 64; ; n *= 8 {
		recs, err := l.store.Sessions(ctx, session.Query{Max: n})
		if err != nil {
			return nil, err
		}
		var out []sessionsearch.Session
		for _, r := range recs {
			if r.ID != me.ID && scope.Allows(r) && len(out) < limit {
				out = append(out, describe(r))
			}
		}
		if len(out) == limit || len(recs) < n {
			return out, nil
		}
	}
}

func describe(r session.Record) sessionsearch.Session {
	return sessionsearch.Session{
		ID: string(r.ID), Title: r.Title, Platform: string(r.Address.Platform), Place: r.Name,
		Began: r.Created, Used: r.Updated, Rows: r.Start + r.Messages, Archived: r.Archived(),
	}
}
