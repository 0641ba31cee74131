package holographic

import (
	"cmp"
	"context"
	"database/sql"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"hermesd/internal/shorten"
)

// A fact is a row, with upstream's names.
type fact struct {
	ID         int64    `json:"fact_id"`
	Content    string   `json:"content"`
	Category   string   `json:"category"`
	Tags       string   `json:"tags"`
	Trust      float64  `json:"trust_score"`
	Retrievals *int     `json:"retrieval_count,omitempty"`
	Helpful    *int     `json:"helpful_count,omitempty"`
	Created    string   `json:"created_at"`
	Updated    string   `json:"updated_at"`
	Rank       *float64 `json:"fts_rank,omitempty"`
	Score      *float64 `json:"score,omitempty"`
}

// columns are those of a fact. Others write the file too, so each value gets its type. The
// times are text: the driver would parse them.
const columns = `f.fact_id, f.content, COALESCE(f.category, ''), COALESCE(f.tags, ''), CAST(COALESCE(f.trust_score, 0) AS REAL),
	CAST(COALESCE(f.retrieval_count, 0) AS INTEGER), CAST(COALESCE(f.helpful_count, 0) AS INTEGER), CAST(COALESCE(f.created_at, '') AS TEXT), CAST(COALESCE(f.updated_at, f.created_at, '') AS TEXT)`

func (f *fact) fields() []any {
	return []any{&f.ID, &f.Content, &f.Category, &f.Tags, &f.Trust, &f.Retrievals, &f.Helpful, &f.Created, &f.Updated}
}

// changed returns the time of the last change; zero if it is unknown.
func (f *fact) changed() time.Time {
	for _, layout := range []string{time.DateTime, time.RFC3339} {
		if t, err := time.Parse(layout, f.Updated); err == nil {
			return t
		}
	}
	return time.Time{}
}

// A query says which facts are searched.
type query struct {
	text     string
	category string // "": all
	minTrust float64
	limit    int
	weight   float64 // of the similarity of vectors
	halfLife float64 // days after which a score has halved; 0: it does not
}

// maxQuery is the number of characters of a query that are used.
const maxQuery = 4000

// maxRanked is the number of facts with words of a query above which only its rarest words
// are searched: to rank a fact takes about 4 µs.
const maxRanked = 1000

// match returns the FTS5 query for a text; "" if no fact fits.
func match(ctx context.Context, tx *sql.Tx, text string) (string, error) {
	anyOf, all := terms(text)
	if len(anyOf) == 0 {
		return strings.Join(all, " "), nil
	}
	var most int
	err := tx.QueryRowContext(ctx, "SELECT COALESCE(max(fact_id), 0) FROM facts").Scan(&most)
	if err != nil || most <= maxRanked { // there are at most so many facts
		return strings.Join(anyOf, " OR "), err
	}
	facts, err := rarest(ctx, tx, anyOf, maxRanked)
	if err == nil && len(facts) == 0 { // none occurs, or each in more facts
		facts, err = rarest(ctx, tx, anyOf, most)
		facts = facts[:min(len(facts), 1)]
	}
	var found []string
	for _, f := range facts {
		found = append(found, f.term)
	}
	return strings.Join(found, " OR "), err
}

// A frequency is the number of facts with a term.
type frequency struct {
	term  string
	facts int
}

// rarest returns the rarest terms that occur, as many as have at most limit facts together.
// It counts the facts of a term only as far as it needs to.
func rarest(ctx context.Context, tx *sql.Tx, terms []string, limit int) (list []frequency, err error) {
	// If the limit were a parameter alone, SQLite would prepare the statement for each term.
	count, err := tx.PrepareContext(ctx, "SELECT count(*) FROM (SELECT 1 FROM facts_fts WHERE facts_fts MATCH ? LIMIT 0 + ?)")
	if err != nil {
		return nil, err
	}
	defer count.Close()
	for _, term := range terms {
		most, f := mostOfNext(list, limit), frequency{term: term}
		if err := count.QueryRowContext(ctx, term, most+1).Scan(&f.facts); err != nil {
			return nil, err
		}
		if f.facts == 0 || f.facts > most {
			continue
		}
		list = append(list, f)
		slices.SortFunc(list, func(a, b frequency) int { return cmp.Or(a.facts-b.facts, cmp.Compare(a.term, b.term)) })
		sum := 0
		for i, f := range list {
			if sum += f.facts; sum > limit {
				list = list[:i]
				break
			}
		}
	}
	return list, nil
}

// mostOfNext returns the largest number of facts with which one more term can be part of a
// list, ordered by facts, whose first terms have at most limit facts together.
func mostOfNext(list []frequency, limit int) int {
	for _, f := range list {
		if limit <= 2*f.facts {
			return min(limit, f.facts)
		}
		limit -= f.facts
	}
	return limit
}

// search returns the facts that have words of a query, best first.
func (f *file) search(ctx context.Context, q query) ([]fact, error) {
	q.text = q.text[:shorten.Offset(q.text, maxQuery)]
	tx, err := f.db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true}) // locks once
	if err != nil {
		return nil, err
	}
	defer func() { _ = tx.Rollback() }() // it has changed nothing
	match, err := match(ctx, tx, q.text)
	if err != nil || match == "" {
		return nil, err
	}
	rows, err := tx.QueryContext(ctx, "SELECT "+columns+`, f.hrr_vector, rank FROM facts_fts JOIN facts f ON f.fact_id = facts_fts.rowid
		WHERE facts_fts MATCH ? AND (? = '' OR f.category = ?) AND f.trust_score >= ? ORDER BY rank LIMIT `+strconv.Itoa(q.limit*3),
		match, q.category, q.category, q.minTrust)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var found []fact
	var likeness []float64
	var wanted vector
	v, best := make(vector, f.dim), 1e-6
	for rows.Next() {
		var x fact
		var blob sql.RawBytes
		var rank float64
		if err := rows.Scan(append(x.fields(), &blob, &rank)...); err != nil {
			return nil, err
		}
		similar := 0.5
		if q.weight > 0 && decode(v, blob) {
			if wanted == nil {
				wanted = encoder(f.dim).text(q.text)
			}
			similar = (similarity(wanted, v) + 1) / 2
		}
		rank = math.Abs(rank)
		best, x.Rank = max(best, rank), &rank
		found, likeness = append(found, x), append(likeness, similar)
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	asked := tokens(q.text)
	for i := range found {
		x := &found[i]
		*x.Rank /= best
		x.score(0.4**x.Rank + 0.3*jaccard(asked, tokens(x.Content, x.Tags)) + q.weight*likeness[i])
		if at := x.changed(); q.halfLife > 0 && !at.IsZero() {
			*x.Score *= math.Pow(0.5, max(0, time.Since(at).Hours()/24)/q.halfLife)
		}
	}
	return top(found, q.limit), nil
}

// score sets the score of a fact that fits as well as relevance, from 0 to 1, says.
func (f *fact) score(relevance float64) {
	s := relevance * f.Trust
	f.Score = &s
}

func top(found []fact, limit int) []fact {
	slices.SortStableFunc(found, func(a, b fact) int { return cmp.Compare(*b.Score, *a.Score) })
	return found[:min(len(found), limit)]
}

// compare returns the facts whose vectors fit best, each compared by likeness, from -1 to
// 1. If there are no vectors, it searches for the words.
func (f *file) compare(ctx context.Context, q query, likeness func(vector) float64) ([]fact, error) {
	rows, err := f.db.QueryContext(ctx, "SELECT "+columns+", f.hrr_vector FROM facts f WHERE f.hrr_vector IS NOT NULL AND (? = '' OR f.category = ?)", q.category, q.category)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var found []fact
	v := make(vector, f.dim)
	for rows.Next() {
		var x fact
		var blob sql.RawBytes
		if err := rows.Scan(append(x.fields(), &blob)...); err != nil {
			return nil, err
		}
		if decode(v, blob) {
			x.score((likeness(v) + 1) / 2)
			found = append(found, x)
		}
		if len(found) > 1000 {
			found = top(found, q.limit)
		}
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return f.search(ctx, q)
	}
	return top(found, q.limit), nil
}

// reason returns the facts in which all names are entities.
//
// For one name, upstream instead compares what remains of a fact without the entity with the content
// alone. That similarity is about 0 for all facts, whether they have the entity or not,
// since a fact is a mean: what remains of it contains the content less the entity. The
// similarity to the entity itself is above 0.4 if it is one of two or three parts.
func (f *file) reason(ctx context.Context, q query, names []string) ([]fact, error) {
	e := encoder(f.dim)
	var keys []vector
	for _, name := range names {
		keys = append(keys, e.entity(name))
	}
	q.text = strings.Join(names, " ")
	return f.compare(ctx, q, func(v vector) float64 {
		least := 1.0
		for _, key := range keys {
			least = min(least, similarity(v, key))
		}
		return least
	})
}

// related returns the facts in which a word is an entity or part of the content.
func (f *file) related(ctx context.Context, q query) ([]fact, error) {
	e := encoder(f.dim)
	name := e.atom(strings.ToLower(q.text))
	asEntity, asContent := bind(name, e.atom(roleEntity)), bind(name, e.atom(roleContent))
	return f.compare(ctx, q, func(v vector) float64 { return max(similarity(v, asEntity), similarity(v, asContent)) })
}

// list returns facts, those with the highest trust first.
func (f *file) list(ctx context.Context, q query) ([]fact, error) {
	rows, err := f.db.QueryContext(ctx, "SELECT "+columns+" FROM facts f WHERE f.trust_score >= ? AND (? = '' OR f.category = ?) ORDER BY f.trust_score DESC LIMIT ?",
		q.minTrust, q.category, q.category, q.limit)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var found []fact
	for rows.Next() {
		var x fact
		if err := rows.Scan(x.fields()...); err != nil {
			return nil, err
		}
		found = append(found, x)
	}
	return found, rows.Err()
}

// A conflict is two facts about the same entities that say different things.
type conflict struct {
	A       fact     `json:"fact_a"`
	B       fact     `json:"fact_b"`
	Overlap float64  `json:"entity_overlap"`
	Content float64  `json:"content_similarity"`
	Score   float64  `json:"contradiction_score"`
	Shared  []string `json:"shared_entities"`
}

// Limits of the search for conflicts.
const (
	maxCompared = 500 // facts, the newest
	minConflict = 0.3 // share of common entities, and score
)

// contradict returns facts that may contradict each other: those with the same entities
// and different vectors. Two facts with one common entity and nothing else in common have a
// score of about 0.3, the least that is returned, so this finds little; it is upstream's
// measure.
func (f *file) contradict(ctx context.Context, category string, limit int) (found []conflict, err error) {
	type entry struct {
		fact
		v     vector
		names map[string]bool
	}
	rows, err := f.db.QueryContext(ctx, "SELECT "+columns+`, f.hrr_vector, (SELECT group_concat(e.name, char(31)) FROM fact_entities fe JOIN entities e
		ON e.entity_id = fe.entity_id WHERE fe.fact_id = f.fact_id) AS names FROM facts f WHERE f.hrr_vector IS NOT NULL AND (? = '' OR f.category = ?)
		ORDER BY COALESCE(f.updated_at, f.created_at) DESC, f.fact_id LIMIT ?`, category, category, maxCompared)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var all []entry
	for rows.Next() {
		x := entry{v: make(vector, f.dim), names: map[string]bool{}}
		var blob sql.RawBytes
		var names sql.NullString
		if err := rows.Scan(append(x.fields(), &blob, &names)...); err != nil {
			return nil, err
		}
		if !names.Valid || !decode(x.v, blob) {
			continue
		}
		for _, name := range strings.Split(strings.ToLower(names.String), "\x1f") {
			x.names[name] = true
		}
		x.Retrievals, x.Helpful = nil, nil // upstream does not return them here
		all = append(all, x)
	}
	slices.SortFunc(all, func(a, b entry) int { return cmp.Compare(a.ID, b.ID) })
	for i, a := range all {
		for _, b := range all[i+1:] {
			overlap := jaccard(a.names, b.names)
			if overlap < minConflict {
				continue
			}
			similar := similarity(a.v, b.v)
			if score := overlap * (1 - similar) / 2; score >= minConflict {
				found = append(found, conflict{a.fact, b.fact, round(overlap), round(similar), round(score), common(a.names, b.names)})
			}
		}
	}
	slices.SortStableFunc(found, func(a, b conflict) int { return cmp.Compare(b.Score, a.Score) })
	return found[:min(len(found), limit)], rows.Err()
}

func round(x float64) float64 { return math.Round(x*1000) / 1000 }

func common(a, b map[string]bool) (both []string) {
	for name := range a {
		if b[name] {
			both = append(both, name)
		}
	}
	slices.Sort(both)
	return both
}
