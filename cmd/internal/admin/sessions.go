package admin

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"hermesd/gateway/command"
	"hermesd/gateway/export"
	"hermesd/gateway/session"
)

// A SessionKeeper sets titles and lists expired conversations.
type SessionKeeper interface {
	SetTitle(ctx context.Context, id session.ID, title string) error
	// Expired returns the sessions last used before a time, oldest first, at most
	// max (0: all).
	Expired(ctx context.Context, before time.Time, max int) ([]session.ID, error)
}

// An Eraser deletes everything stored about a conversation. *erase.Eraser
// implements it.
type Eraser interface {
	Session(ctx context.Context, id session.ID) (session.Deleted, error)
}

// keeping registers the handlers that rename, export and delete conversations.
func (h *Handler) keeping() {
	h.mux.HandleFunc("POST /sessions/{id}/title", h.rename)
	h.mux.HandleFunc("GET /sessions/{id}/export", h.export)
	h.mux.HandleFunc("DELETE /sessions/{id}", h.delete)
	h.mux.HandleFunc("GET /expired", h.expired)
}

var errNoKeeper = &Error{http.StatusServiceUnavailable, "conversations cannot be changed from here; is the daemon of another version?"}

// rename sets the title of a session; an empty one clears it.
func (h *Handler) rename(w http.ResponseWriter, r *http.Request) {
	rec, err := h.find(r, r.PathValue("id"))
	if err == nil && h.opts.Keeper == nil {
		err = errNoKeeper
	}
	if err == nil {
		rec.Title, rec.TitleAuto = command.CleanTitle(r.FormValue("title")), false
		err = h.opts.Keeper.SetTitle(r.Context(), rec.ID, rec.Title)
	}
	if err != nil {
		h.fail(w, kept(rec.ID, err))
		return
	}
	h.reply(w, http.StatusOK, rec)
}

// kept turns err into an error for the user.
func kept(id session.ID, err error) error {
	switch {
	case errors.Is(err, session.ErrNotFound):
		return &Error{http.StatusNotFound, fmt.Sprintf("there is no session %s any more", id)}
	case errors.Is(err, session.ErrBusy):
		return &Error{http.StatusConflict, fmt.Sprintf("%s: %v", id, session.ErrBusy)}
	}
	return err
}

// Exported is the text of an exported conversation.
type Exported struct {
	Session session.ID `json:"session"`
	Text    string     `json:"text"`
}

func (h *Handler) export(w http.ResponseWriter, r *http.Request) {
	rec, err := h.find(r, r.PathValue("id"))
	var b bytes.Buffer
	if err == nil {
		var c export.Conversation
		if c, err = export.Read(r.Context(), h.opts.Store, rec, h.opts.Masker.Mask); err == nil {
			switch format := r.FormValue("format"); format {
			case "", "markdown":
				err = c.Markdown(&b)
			case "jsonl":
				err = c.JSONL(&b)
			default:
				err = &Error{http.StatusBadRequest, fmt.Sprintf("there is no format %q; use markdown or jsonl", format)}
			}
		}
	}
	if err != nil {
		h.fail(w, err)
		return
	}
	h.reply(w, http.StatusOK, Exported{rec.ID, b.String()})
}

func (h *Handler) delete(w http.ResponseWriter, r *http.Request) {
	rec, err := h.find(r, r.PathValue("id"))
	if err == nil && h.opts.Eraser == nil {
		err = errNoKeeper
	}
	var gone session.Deleted
	if err == nil {
		gone, err = h.opts.Eraser.Session(r.Context(), rec.ID)
	}
	if err != nil {
		h.fail(w, kept(rec.ID, err))
		return
	}
	h.reply(w, http.StatusOK, gone)
}

// expired lists the sessions last used before a time.
func (h *Handler) expired(w http.ResponseWriter, r *http.Request) {
	before, err := time.Parse(time.RFC3339, r.FormValue("before"))
	switch {
	case err != nil:
		err = &Error{http.StatusBadRequest, fmt.Sprintf("before is %q; it must be a time like %s", r.FormValue("before"), time.RFC3339)}
	case h.opts.Keeper == nil:
		err = errNoKeeper
	}
	var ids []session.ID
	if err == nil {
		ids, err = h.opts.Keeper.Expired(r.Context(), before, 0)
	}
	if err != nil {
		h.fail(w, err)
		return
	}
	if ids == nil {
		ids = []session.ID{}
	}
	h.reply(w, http.StatusOK, ids)
}

// Rename sets the title of a session; an empty title clears it. id may be a title
// or a part of the session ID, also in the methods below.
func (c *Client) Rename(ctx context.Context, id, title string) (session.Record, error) {
	var rec session.Record
	err := c.ask(ctx, http.MethodPost, "/sessions/"+url.PathEscape(id)+"/title", url.Values{"title": {title}}, &rec)
	return rec, err
}

// Export returns the text of a session in a format: "markdown" or "jsonl".
func (c *Client) Export(ctx context.Context, id, format string) (Exported, error) {
	var e Exported
	err := c.ask(ctx, http.MethodGet, "/sessions/"+url.PathEscape(id)+"/export", url.Values{"format": {format}}, &e)
	return e, err
}

// Delete deletes a session with everything stored about it.
func (c *Client) Delete(ctx context.Context, id string) (session.Deleted, error) {
	var gone session.Deleted
	err := c.ask(ctx, http.MethodDelete, "/sessions/"+url.PathEscape(id), nil, &gone)
	return gone, err
}

// Expired returns the sessions last used before a time, oldest first.
func (c *Client) Expired(ctx context.Context, before time.Time) ([]session.ID, error) {
	var ids []session.ID
	err := c.ask(ctx, http.MethodGet, "/expired", url.Values{"before": {before.UTC().Format(time.RFC3339)}}, &ids)
	return ids, err
}
