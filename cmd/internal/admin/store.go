package admin

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"hermesd/agent/llm"
	"hermesd/agent/prompt"
	"hermesd/gateway/outbox"
	"hermesd/gateway/session"
	"hermesd/gateway/store"
)

const (
	maxRows     = 1000
	maxSessions = 1000
	maxPage     = 500 // messages
)

// number returns a query parameter, limited to most, or otherwise if it is not
// set.
func number(r *http.Request, name string, otherwise, most int) (int, error) {
	s := r.FormValue(name)
	if s == "" {
		return otherwise, nil
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 {
		return 0, &Error{http.StatusBadRequest, fmt.Sprintf("%s is %q; it must be a number from 0 to %d", name, s, most)}
	}
	return min(n, most), nil
}

// Outbox is a list of outbox rows, newest last.
type Outbox struct {
	Rows []outbox.Row `json:"rows"`
	// Omitted is the number of older rows that are not in the list.
	Omitted int `json:"omitted,omitempty"`
}

func (h *Handler) outbox(r *http.Request) (any, error) {
	most, err := number(r, "limit", maxRows, maxRows)
	if err != nil {
		return nil, err
	}
	all, _ := strconv.ParseBool(r.FormValue("all"))
	rows, older, err := h.opts.Store.Outbox(r.Context(), outbox.Query{Sent: all, Max: max(most, 1)}) // 0 is no limit
	if err != nil {
		return nil, err
	}
	return Outbox{Rows: append([]outbox.Row{}, rows...), Omitted: older}, nil // an empty list is not null
}

// row returns the outbox row named in the path.
func (h *Handler) row(r *http.Request) (outbox.Row, error) {
	s := r.PathValue("id")
	n, err := strconv.ParseUint(strings.TrimPrefix(s, "o"), 10, 64)
	if err != nil {
		return outbox.Row{}, &Error{http.StatusBadRequest, fmt.Sprintf("%q is not a row; rows look like o12, `hermesd outbox list` shows them", s)}
	}
	rows, _, err := h.opts.Store.Outbox(r.Context(), outbox.Query{ID: outbox.ID(n), Sent: true})
	if err != nil {
		return outbox.Row{}, err
	}
	if n == 0 || len(rows) == 0 {
		return outbox.Row{}, &Error{http.StatusNotFound, fmt.Sprintf("there is no row %s; `hermesd outbox list` shows what there is", outbox.ID(n))}
	}
	return rows[0], nil
}

// RowChange is the result of a change to an outbox row.
type RowChange struct {
	ID outbox.ID `json:"id"`
	// DaemonRunning reports whether a daemon processes the row now and not only
	// after its next start.
	DaemonRunning bool `json:"daemon_running"`
}

func (h *Handler) retry(r *http.Request) (any, error) {
	row, err := h.row(r)
	switch {
	case err != nil:
	case row.State == outbox.Sent:
		err = &Error{http.StatusConflict, fmt.Sprintf("%s was sent already", row.ID)}
	case row.State == outbox.Attempting:
		err = &Error{http.StatusConflict, fmt.Sprintf("%s is being sent right now", row.ID)}
	default:
		err = h.opts.Store.RetryRow(r.Context(), row.ID)
	}
	if err != nil {
		return nil, err
	}
	return h.changed(row), nil
}

func (h *Handler) drop(r *http.Request) (any, error) {
	row, err := h.row(r)
	switch {
	case err != nil:
	case row.Terminal():
		err = &Error{http.StatusConflict, fmt.Sprintf("%s is %s already", row.ID, row.State)}
	default:
		err = h.opts.Store.DropRow(r.Context(), row.ID, "dropped by the operator")
	}
	if err != nil {
		return nil, err
	}
	return h.changed(row), nil
}

// changed has a running daemon send what may be sent now: the row or, if it was dropped,
// the next one for its address.
func (h *Handler) changed(row outbox.Row) RowChange {
	if h.opts.Daemon.Running {
		h.opts.Daemon.Wake(row.Msg.To)
	}
	return RowChange{row.ID, h.opts.Daemon.Running}
}

func (h *Handler) sessions(r *http.Request) (any, error) {
	most, err := number(r, "limit", 50, maxSessions)
	if err != nil {
		return nil, err
	}
	return list(h.opts.Store.Sessions(r.Context(), session.Query{Max: most}))
}

// Session is one conversation as it is stored.
type Session struct {
	Record session.Record `json:"record"`
	// Prompt is the cached prompt by layer; Tools are the names of the tools that
	// are offered to the model.
	Prompt []prompt.Layer `json:"prompt"`
	Hash   string         `json:"prompt_hash"`
	Tools  []string       `json:"tools"`
	// Messages are the active messages from index From on. With the archive they
	// are all messages from index From on, and Rows are their numbers: those below
	// Record.Start are archived.
	From     int           `json:"from"`
	Messages []llm.Message `json:"messages"`
	Rows     []int         `json:"rows,omitempty"`
}

func (h *Handler) session(r *http.Request) (any, error) {
	most, err := number(r, "limit", maxPage, maxPage)
	if err != nil {
		return nil, err
	}
	from, err := number(r, "from", 0, 1<<30)
	if err != nil {
		return nil, err
	}
	return h.read(r, from, most)
}

// read returns the session named in the path with a page of its messages.
func (h *Handler) read(r *http.Request, from, most int) (Session, error) {
	rec, err := h.find(r, r.PathValue("id"))
	if err != nil {
		return Session{}, err
	}
	s := Session{Record: rec, From: from, Tools: []string{}, Messages: []llm.Message{}}
	p, err := store.LoadPrompt(r.Context(), h.opts.Store, rec.ID)
	if err != nil {
		return s, err
	}
	s.Prompt, s.Hash = p.Layers(), p.Hash()
	for _, t := range p.Tools() {
		s.Tools = append(s.Tools, t.Name)
	}
	if r.URL.Query().Has("all") {
		return s, h.whole(r, &s, most)
	}
	if from >= rec.Messages {
		return s, nil
	}
	span := rec.Active()
	s.Messages, err = h.messages(r, rec.ID, session.Span{From: span.From + from, To: min(span.To, span.From+from+most)})
	return s, err
}

// messages returns stored messages without the raw form of the provider.
func (h *Handler) messages(r *http.Request, id session.ID, span session.Span) ([]llm.Message, error) {
	messages, err := store.LoadMessages(r.Context(), h.opts.Store, id, span)
	for i := range messages {
		messages[i].Raw = nil
	}
	return messages, err
}

// find returns the session with the ID or title name, or whose ID has name as a
// unique prefix or suffix, or that has no title and is in the chat of that name, as the
// list of sessions shows it. If several sessions fit, it is an error, so that nobody works
// on the wrong one.
func (h *Handler) find(r *http.Request, name string) (session.Record, error) {
	rec, ok, err := h.opts.Store.SessionByID(r.Context(), session.ID(name))
	if err != nil || ok {
		return rec, err
	}
	list, err := h.opts.Store.Sessions(r.Context(), session.Query{})
	if err != nil {
		return rec, err
	}
	title := strings.TrimSpace(name)
	for _, fits := range []func(session.Record) bool{
		func(s session.Record) bool { return title != "" && strings.EqualFold(s.Title, title) },
		func(s session.Record) bool {
			return len(name) >= 4 && (strings.HasPrefix(string(s.ID), name) || strings.HasSuffix(string(s.ID), name))
		},
		func(s session.Record) bool { return title != "" && s.Title == "" && strings.EqualFold(s.Name, title) },
	} {
		var found []session.Record
		for _, s := range list {
			if fits(s) {
				found = append(found, s)
			}
		}
		switch len(found) {
		case 0:
			continue
		case 1:
			return found[0], nil
		}
		return rec, &Error{http.StatusConflict, fmt.Sprintf("%q fits %d sessions, such as %s and %s; give more of the id", name, len(found), found[0].ID, found[1].ID)}
	}
	return rec, &Error{http.StatusNotFound, fmt.Sprintf("there is no session %q; `hermesd sessions list` shows them", name)}
}

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

// ErrNoIndex is the error of Options.Search if the search index could not be opened.
var ErrNoIndex = &Error{http.StatusServiceUnavailable, "the search index is not open; its problem stands in the daemon's log"}

func (h *Handler) search(r *http.Request) (any, error) {
	most, err := number(r, "limit", 20, maxFound)
	query := strings.TrimSpace(r.URL.Query().Get("q"))
	switch {
	case err != nil:
	case query == "":
		err = &Error{http.StatusBadRequest, "there is nothing to search for"}
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
	spans := append(append([]session.Span(nil), rec.Archive...), rec.Active())
	for _, span := range spans {
		skip := min(max(s.From-at, 0), span.To-span.From)
		at += span.To - span.From
		span.From += skip
		span.To = min(span.To, span.From+most-len(s.Messages))
		if span.From >= span.To {
			continue
		}
		messages, err := h.messages(r, rec.ID, span)
		if err != nil {
			return err
		}
		for i := range messages {
			s.Rows = append(s.Rows, span.From+i)
		}
		s.Messages = append(s.Messages, messages...)
	}
	return nil
}
