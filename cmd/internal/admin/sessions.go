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

// An Eraser deletes everything stored about a conversation. *erase.Eraser
// implements it.
type Eraser interface {
	Session(ctx context.Context, id session.ID) (session.Deleted, error)
}

// rename sets the title of a session; an empty one clears it.
func (h *Handler) rename(r *http.Request) (any, error) {
	rec, err := h.find(r, r.PathValue("id"))
	if err == nil {
		rec.Title, rec.TitleAuto = command.CleanTitle(r.FormValue("title")), false
		err = h.opts.Keeper.SetTitle(r.Context(), rec.ID, rec.Title)
	}
	return rec, kept(rec.ID, err)
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

func (h *Handler) export(r *http.Request) (any, error) {
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
	return Exported{rec.ID, b.String()}, err
}

func (h *Handler) delete(r *http.Request) (any, error) {
	rec, err := h.find(r, r.PathValue("id"))
	if err != nil {
		return nil, kept(rec.ID, err)
	}
	gone, err := h.opts.Eraser.Session(r.Context(), rec.ID)
	return gone, kept(rec.ID, err)
}

// expired lists the sessions last used before a time.
func (h *Handler) expired(r *http.Request) (any, error) {
	before, err := time.Parse(time.RFC3339, r.FormValue("before"))
	if err != nil {
		return nil, &Error{http.StatusBadRequest, fmt.Sprintf("before is %q; it must be a time like %s", r.FormValue("before"), time.RFC3339)}
	}
	expired, err := h.opts.Store.Sessions(r.Context(), session.Query{Before: before, Oldest: true})
	ids := make([]session.ID, len(expired))
	for i, s := range expired {
		ids[i] = s.ID
	}
	return ids, err
}

// Rename sets the title of a session; an empty title clears it. id may be a title
// or a part of the session ID, also in the methods below.
func (c *Client) Rename(ctx context.Context, id, title string) (session.Record, error) {
	return post[session.Record](ctx, c, sessionPath(id, "/title"), url.Values{"title": {title}})
}

// Export returns the text of a session in a format: "markdown" or "jsonl".
func (c *Client) Export(ctx context.Context, id, format string) (Exported, error) {
	return get[Exported](ctx, c, sessionPath(id, "/export"), url.Values{"format": {format}})
}

// Delete deletes a session with everything stored about it.
func (c *Client) Delete(ctx context.Context, id string) (gone session.Deleted, err error) {
	err = c.exchange(ctx, http.MethodDelete, sessionPath(id, ""), http.NoBody, &gone)
	return gone, err
}

// Expired returns the sessions last used before a time, oldest first.
func (c *Client) Expired(ctx context.Context, before time.Time) ([]session.ID, error) {
	return get[[]session.ID](ctx, c, "/expired", url.Values{"before": {before.UTC().Format(time.RFC3339)}})
}

func sessionPath(id, rest string) string { return "/sessions/" + url.PathEscape(id) + rest }
