package admin

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"hermesd/gateway/session"
)

// Found is one search result.
type Found struct {
	Session session.ID `json:"session"`
	Row     int        `json:"row"` // index in the whole conversation, archived messages included
	Role    string     `json:"role"`
	Time    time.Time  `json:"time"`
	Text    string     `json:"text"` // the match with its context
}

// maxFound is the maximum number of results of a search.
const maxFound = 200

func (h *Handler) search(r *http.Request) (any, error) {
	most, err := number(r, "limit", 20, maxFound)
	query := strings.TrimSpace(r.URL.Query().Get("q"))
	switch {
	case err != nil:
	case query == "":
		err = &Error{http.StatusBadRequest, "there is nothing to search for"}
	case h.opts.Search == nil:
		err = &Error{http.StatusServiceUnavailable, "the search index is not open; its problem stands in the daemon's log"}
	}
	if err != nil {
		return nil, err
	}
	return list(h.opts.Search(r.Context(), query, most))
}

// Search returns at most most messages of all conversations, archived ones
// included.
func (c *Client) Search(ctx context.Context, query string, most int) ([]Found, error) {
	return get[[]Found](ctx, c, "/search", url.Values{"q": {query}, "limit": {strconv.Itoa(most)}})
}

// whole fills s with a page of all messages: the archived ones first, in the order
// of the compactions that archived them, then the active ones.
func (h *Handler) whole(r *http.Request, s *Session, most int) error {
	rec, at := s.Record, 0
	spans := append(append([]session.Span(nil), rec.Archive...), session.Span{From: rec.Start, To: rec.Start + rec.Messages})
	for _, span := range spans {
		skip := min(max(s.From-at, 0), span.To-span.From)
		at += span.To - span.From
		span.From += skip
		span.To = min(span.To, span.From+most-len(s.Messages))
		if span.From >= span.To {
			continue
		}
		rows, err := h.opts.Store.Rows(r.Context(), rec.ID, span)
		if err != nil {
			return err
		}
		if len(rows) < span.To-span.From {
			return errors.New("messages are missing in the store")
		}
		for i, row := range rows {
			m, err := shown(row)
			if err != nil {
				return err
			}
			s.Rows, s.Messages = append(s.Rows, span.From+i), append(s.Messages, m)
		}
	}
	return nil
}
