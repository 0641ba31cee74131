package openviking

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"hermesd/agent/memory/provider"
	"hermesd/agent/memory/provider/rest"
	"hermesd/internal/shorten"
)

// A hit is what a search has found.
type hit struct {
	Type     string  `json:"context_type"`
	URI      string  `json:"uri"`
	Level    int     `json:"level"` // 2: a file; less: the summary of a directory
	Score    float64 `json:"score"`
	Category string  `json:"category"`
	Abstract string  `json:"abstract"`
	Overview string  `json:"overview"`
	Related  []struct {
		URI string `json:"uri"`
	} `json:"relations"`
}

// A search is the body of both search calls.
type search struct {
	Query     string  `json:"query"`
	Target    string  `json:"target_uri,omitempty"`
	Limit     int     `json:"limit"`
	Threshold float64 `json:"score_threshold"`
	Type      any     `json:"context_type,omitempty"`
	Session   string  `json:"session_id,omitempty"` // search only
}

// search returns what a person may see of what was found. deep asks the server to take
// the conversation into account.
func (c *client) search(ctx context.Context, s provider.Scope, q search, deep bool) ([]hit, error) {
	call := rest.Call{Method: "POST", Path: "/api/v1/search/find", Timeout: c.each, Reads: true}
	if deep {
		call.Path, q.Session = "/api/v1/search/search", s.Session
	}
	call.Body = q
	var found struct {
		Memories  []hit `json:"memories"`
		Resources []hit `json:"resources"`
		Skills    []hit `json:"skills"`
	}
	if err := c.do(ctx, s.Person, call, &found); err != nil {
		return nil, err
	}
	all := slices.Concat(found.Memories, found.Resources, found.Skills)
	return slices.DeleteFunc(all, func(h hit) bool { return !visible(s.Person, h.URI) }), nil
}

// visible reports whether a person may see a URI: the owner all, others their own data. A
// server with a root key would show everybody's.
func visible(person, uri string) bool {
	rest, ok := strings.CutPrefix(uri, "viking://user/")
	if person == "" {
		return strings.HasPrefix(uri, "viking://")
	}
	first, _, _ := strings.Cut(rest, "/")
	return ok && !slices.Contains(strings.Split(rest, "/"), "..") && !strings.ContainsAny(rest, "%?#\\") &&
		(first == person || first == "memories" || first == "peers")
}

func (c *client) Recall(ctx context.Context, s provider.Scope, query string) ([]provider.Item, error) {
	ctx, cancel := context.WithTimeout(ctx, c.whole)
	defer cancel()
	if err := c.own(ctx, s.Person); err != nil {
		return nil, err
	}
	q := search{Query: query, Limit: max(c.limit*4, 20), Type: "memory"}
	if c.resources {
		q.Type = []string{"memory", "resource"}
	}
	hits, err := c.search(ctx, s, q, true)
	if err != nil && provider.ClassOf(err) != provider.Auth && ctx.Err() == nil {
		hits, err = c.search(ctx, s, q, false)
	}
	if err != nil {
		return nil, err
	}
	if !c.resources {
		hits = slices.DeleteFunc(hits, func(h hit) bool { return h.Type != "memory" && h.Type != "" })
	}
	return c.items(ctx, s.Person, c.rank(hits, query)), nil
}

// rank returns the hits that are good enough, best first and each once, as many as are
// recalled. Files count more than directories, as do the words of the query.
func (c *client) rank(hits []hit, query string) []hit {
	words := words(query)
	rank := func(h hit) float64 {
		r, bonus := h.Score, 0.0
		if h.Level == 2 {
			r += 0.12
		}
		text := strings.ToLower(h.URI + " " + h.Abstract)
		for _, w := range words {
			if strings.Contains(text, w) {
				bonus += 0.05
			}
		}
		return r + min(bonus, 0.2)
	}
	slices.SortStableFunc(hits, func(a, b hit) int { return cmp.Compare(rank(b), rank(a)) })
	seen := make(map[string]bool)
	var out []hit
	for _, h := range hits {
		same := h.Category + "\n" + strings.TrimSpace(h.Abstract)
		if h.Abstract == "" || strings.Contains(h.URI, "/events/") || strings.Contains(h.URI, "/cases/") {
			same = h.URI // of these, many have the same abstract
		}
		if h.Score < c.threshold || seen[h.URI] || seen[same] || len(out) == c.limit {
			continue
		}
		seen[h.URI], seen[same] = true, true
		out = append(out, h)
	}
	return out
}

// words returns the first 8 words of a query.
func words(query string) []string {
	var out []string
	for _, w := range strings.FieldsFunc(strings.ToLower(query), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
		if utf8.RuneCountInString(w) >= 2 && !slices.Contains(out, w) && len(out) < 8 {
			out = append(out, w)
		}
	}
	return out
}

// items returns the texts of hits, of which the first files are read whole.
func (c *client) items(ctx context.Context, person string, hits []hit) []provider.Item {
	var out []provider.Item
	reads, free := c.fullReads, c.chars
	for _, h := range hits {
		text := strings.TrimSpace(cmp.Or(h.Abstract, h.Overview))
		if h.Level == 2 && reads > 0 && (!c.abstracts || text == "") {
			reads--
			if whole, err := c.read(ctx, person, h.URI, c.each); err == nil && strings.TrimSpace(whole) != "" {
				text = strings.TrimSpace(whole)
			}
		}
		if len(out) == 0 {
			text = shorten.To(text, free-1)
		}
		n := utf8.RuneCountInString(text)
		if text == "" || n > free {
			continue
		}
		free -= n
		out = append(out, provider.Item{ID: h.URI, Text: text})
	}
	return out
}
