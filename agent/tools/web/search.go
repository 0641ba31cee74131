package web

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"hermesd/agent/tool"
)

// Limits of a search.
const (
	defaultResults = 5
	maxResults     = 20
	maxQuery       = 400 // characters, as the services take them
	maxExcerpt     = 500 // characters
)

type searchInput struct {
	Query string `json:"query"`
	Limit int    `json:"limit"`
}

// A result is one page that was found. Its texts are untrusted.
type result struct {
	title, url, text, date string
}

// search implements web_search.
func (w *Web) search(ctx context.Context, _ tool.Call, in searchInput) (string, error) {
	query := strings.TrimSpace(clean(in.Query))
	switch {
	case query == "":
		return "", errors.New("the query is empty; say in a few words what to look for")
	case len([]rune(query)) > maxQuery:
		return "", fmt.Errorf("the query has more than %d characters; a few words find more", maxQuery)
	case w.secretIn(query):
		return "", errors.New("the query holds a secret of this machine; it was not sent")
	}
	limit := in.Limit
	if limit <= 0 {
		limit = defaultResults
	}
	limit = min(limit, maxResults)
	found, note, err := w.engine.ask(ctx, query, limit)
	if err != nil {
		return "", err
	}
	found = validResults(found)
	if note != "" {
		note = " (" + note + ")"
	}
	if len(found) == 0 {
		return fmt.Sprintf("%s found nothing for %q%s. Try fewer or other words.", w.engine.kind.name, query, note), nil
	}
	found = found[:min(limit, len(found))]
	var b strings.Builder
	for i, r := range found {
		fmt.Fprintf(&b, "%d. %s\n   %s\n", i+1, r.title, r.url)
		if r.date != "" {
			fmt.Fprintf(&b, "   Date: %s\n", r.date)
		}
		if r.text != "" {
			fmt.Fprintf(&b, "   %s\n", r.text)
		}
	}
	return fmt.Sprintf("%s found for %q%s:\n", w.engine.kind.name, query, note) + w.wrapUntrusted("web-results", strings.TrimRight(b.String(), "\n")), nil
}

// validResults returns the results with a valid web URL, without duplicates and with each field on
// one line.
func validResults(list []result) []result {
	var out []result
	seen := map[string]bool{}
	for _, r := range list {
		r.url = strings.TrimSpace(r.url)
		scheme, _, _ := strings.Cut(r.url, "://")
		if scheme != "http" && scheme != "https" || len(r.url) > maxURL || strings.ContainsAny(r.url, " \n\t") || seen[r.url] {
			continue
		}
		seen[r.url] = true
		r.title, r.text, r.date = oneLine(r.title, maxTitle), oneLine(r.text, maxExcerpt), oneLine(r.date, 40)
		if r.title == "" {
			r.title = "(without a title)"
		}
		out = append(out, r)
	}
	return out
}
