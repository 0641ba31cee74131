package index

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"
	"strings"
	"time"

	"hermesd/gateway/chat"
	"hermesd/gateway/session"
)

// A Sort is the order of hits.
type Sort string

// The orders. For words that occur in very many messages, Best returns the
// newest.
const (
	Best   Sort = "best"
	Newest Sort = "newest"
)

// A Query is a search for messages.
type Query struct {
	// Text is what a user would type: words that must all occur, "a phrase", a
	// OR b, NOT a, begin*. If no message matches all of it, messages that match
	// any part are found. Any text is a valid query.
	Text  string
	Limit int    // maximum number of sessions; 0: 10
	Per   int    // maximum number of hits per session; 0: 3
	Roles []Role // roles to search; empty: all
	Sort  Sort   // "": Best
	Scope Scope  // sessions that may be seen
	// Except excludes the rows of one session from row Active on: the caller
	// already has them in its context.
	Except session.ID
	Active int
}

// A Hit is a message that matches a query.
type Hit struct {
	Session session.ID
	Row     int
	Role    Role
	Time    time.Time // last use of the session when the message was indexed
	Snippet string    // excerpt around the match, on one line
	// Before and After are the row numbers of the adjacent indexed messages;
	// -1: none.
	Before, After int
}

// Limits of one search.
const (
	maxRanked     = 5000   // maximum number of hits that are ranked
	maxScanned    = 50_000 // of more hits, the number of newest ones that are read
	maxCandidates = 1000   // hits that are grouped by session
	maxGroups     = 200    // maximum number of groups in one expression
)

// Search returns the hits of a query, grouped by session, the best session
// first. The error is ErrDamaged if the file is damaged, and ErrNoSpace if there is
// none because the disk is full.
func (x *Index) Search(ctx context.Context, q Query) (hits []Hit, err error) {
	p := parse(q.Text)
	err = x.withDB("search", func(read, _ *sql.DB) error {
		groups, err := visibleGroups(ctx, read, q.Scope)
		if err != nil || len(groups) == 0 && !q.Scope.all {
			return err
		}
		for _, expr := range []string{p.strictExpr(), p.looseExpr()} {
			if expr == "" {
				continue
			}
			s := search{q: q, p: p, groups: groups, expr: restrictToGroups(groups, expr)}
			if hits, err = s.run(ctx, read); err != nil || len(hits) > 0 {
				return err
			}
		}
		return nil
	})
	return hits, err
}

// visibleGroups returns the groups that a scope allows, nil for all.
func visibleGroups(ctx context.Context, db *sql.DB, s Scope) ([]int64, error) {
	if s.all {
		return nil, nil
	}
	me := groupOf(s.from)
	rows, err := db.QueryContext(ctx, "SELECT g, platform, account, scope, room, owner, shared FROM groups WHERE platform = ? AND account = ?", string(me.platform), me.account)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []int64
	for rows.Next() {
		var n int64
		var g group
		if err := rows.Scan(&n, &g.platform, &g.account, &g.scope, &g.chat, &g.owner, &g.shared); err != nil {
			return nil, err
		}
		if s.allows(g) {
			out = append(out, n)
		}
	}
	return out, rows.Err()
}

func groupTerm(g int64) string { return "g" + strconv.FormatInt(g, 10) }

// restrictToGroups limits an expression to the texts of groups.
func restrictToGroups(groups []int64, expr string) string {
	if len(groups) == 0 || len(groups) > maxGroups {
		return "text : (" + expr + ")"
	}
	terms := make([]string, len(groups))
	for i, g := range groups {
		terms[i] = groupTerm(g)
	}
	return "who : (" + strings.Join(terms, " OR ") + ") AND text : (" + expr + ")"
}

// A search is the execution of one expression.
type search struct {
	q      Query
	p      parsedQuery
	groups []int64
	expr   string
}

// A hitRef is a hit whose text has not been read yet.
type hitRef struct {
	doc, s int64
	row    int
	at     int64
}

func (s search) run(ctx context.Context, db *sql.DB) ([]Hit, error) {
	var n int
	err := db.QueryRowContext(ctx, "SELECT count(*) FROM (SELECT 1 FROM fts WHERE fts MATCH ? LIMIT ?)", s.expr, maxRanked+1).Scan(&n)
	if err != nil || n == 0 {
		return nil, err
	}
	from := fmt.Sprintf("(SELECT rowid AS id, 0 AS score FROM fts WHERE fts MATCH ? ORDER BY rowid DESC LIMIT %d) f", maxScanned)
	order := "d.id DESC"
	if n <= maxRanked {
		from = "(SELECT rowid AS id, bm25(fts, 0.0, 1.0) AS score FROM fts WHERE fts MATCH ?) f"
		order = "f.score, d.id DESC"
		if s.q.Sort == Newest {
			order = "d.at DESC, d.id DESC"
		}
	}
	where, args := s.filter()
	rows, err := db.QueryContext(ctx, "SELECT d.id, d.s, d.row, d.at FROM "+from+" CROSS JOIN docs d ON d.id = f.id CROSS JOIN sessions ON n = d.s WHERE "+where+
		" ORDER BY "+order+fmt.Sprintf(" LIMIT %d", maxCandidates), append([]any{s.expr}, args...)...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var all []hitRef
	for rows.Next() {
		var f hitRef
		if err := rows.Scan(&f.doc, &f.s, &f.row, &f.at); err != nil {
			return nil, err
		}
		all = append(all, f)
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	return s.loadHits(ctx, db, all)
}

// filter returns the conditions of a hit other than the words.
func (s search) filter() (where string, args []any) {
	where = "1"
	if len(s.q.Roles) > 0 {
		var in []string
		for _, r := range s.q.Roles {
			in = append(in, strconv.Itoa(roleNumber(r)))
		}
		where += " AND d.role IN (" + strings.Join(in, ",") + ")"
	}
	if s.q.Except != "" {
		where += " AND NOT (sessions.id = ? AND d.row >= ?)"
		args = append(args, string(s.q.Except), s.q.Active)
	}
	if len(s.groups) > 0 {
		var in []string
		for _, g := range s.groups {
			in = append(in, strconv.FormatInt(g, 10))
		}
		where += " AND sessions.g IN (" + strings.Join(in, ",") + ")"
	}
	return where, args
}

// loadHits reads the texts of the best hits, session by session.
func (s search) loadHits(ctx context.Context, db *sql.DB, all []hitRef) ([]Hit, error) {
	limit, per := s.q.Limit, s.q.Per
	if limit <= 0 {
		limit = 10
	}
	if per <= 0 {
		per = 3
	}
	bySession := map[int64][]hitRef{}
	var order []int64
	for _, f := range all {
		if len(bySession[f.s]) == 0 {
			if len(order) == limit {
				continue
			}
			order = append(order, f.s)
		}
		if len(bySession[f.s]) < per {
			bySession[f.s] = append(bySession[f.s], f)
		}
	}
	var hits []Hit
	for _, n := range order {
		for _, f := range bySession[n] {
			h, err := s.loadHit(ctx, db, f)
			if err != nil {
				return nil, err
			}
			hits = append(hits, h)
		}
	}
	return hits, nil
}

func (s search) loadHit(ctx context.Context, db *sql.DB, f hitRef) (Hit, error) {
	h := Hit{Row: f.row, Time: time.Unix(0, f.at).UTC()}
	var role int
	var text string
	err := db.QueryRowContext(ctx, `SELECT sessions.id, d.role, d.text,
		ifnull((SELECT max(row) FROM docs WHERE s = d.s AND row < d.row), -1), ifnull((SELECT min(row) FROM docs WHERE s = d.s AND row > d.row), -1)
		FROM docs d JOIN sessions ON n = d.s WHERE d.id = ?`, f.doc).Scan(&h.Session, &role, &text, &h.Before, &h.After)
	if err != nil {
		return h, err
	}
	h.Role, h.Snippet = roleFromNumber(role), s.p.snippet(text)
	return h, nil
}

// A Scope is the set of sessions that may be seen. The zero Scope is empty.
type Scope struct {
	all    bool
	from   session.Record
	scoped bool // IDs of people are unique only within Address.Scope
}

// OperatorScope returns the scope of the local operator: all sessions.
func OperatorScope() Scope { return Scope{all: true} }

// ScopeFor returns the sessions that may be seen from the session r:
//
//   - in a direct chat with an owner that nobody else can read: all sessions;
//   - in another direct chat: the user's own sessions on the same account of the
//     platform;
//   - in other chats, where others read the answers: the sessions of this chat
//     that are shared or belong to the same user.
func ScopeFor(r session.Record, ps chat.Profiles) Scope {
	return Scope{all: r.OwnersOnly && !r.Shared && r.Address.Kind == chat.DM, from: r, scoped: ps.Of(r.Address.Platform).KeyScope}
}

// Allows reports whether the session r may be seen.
func (s Scope) Allows(r session.Record) bool {
	if s.all {
		return true
	}
	return s.allows(groupOf(r))
}

// A group identifies the sessions that are visible to the same users.
type group struct {
	platform chat.Platform
	account  string
	scope    string
	chat     string
	owner    string
	shared   bool
}

func groupOf(r session.Record) group {
	return group{r.Address.Platform, r.Address.Account, r.Address.Scope, r.Address.Chat, r.Owner, r.Shared}
}

func (s Scope) allows(g group) bool {
	me := groupOf(s.from)
	switch {
	case s.from.ID == "" || g.platform != me.platform || g.account != me.account:
		return false
	case s.scoped && g.scope != me.scope:
		return false
	}
	own := !g.shared && !me.shared && me.owner != "" && g.owner == me.owner
	if s.from.Address.Kind == chat.DM && !me.shared {
		return own
	}
	return g.chat == me.chat && g.scope == me.scope && (own || g.shared)
}
