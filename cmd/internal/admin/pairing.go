package admin

import (
	"context"
	"errors"
	"net/http"
	"net/url"

	"go.uber.org/zap"

	"hermesd/gateway/access/pairing"
	"hermesd/gateway/chat"
	"hermesd/gateway/i18n"
)

// A PairingManager grants access by pairing codes and revokes it.
// *pairing.Manager implements it.
type PairingManager interface {
	List() pairing.List
	Approve(ctx context.Context, platform chat.Platform, code string) (pairing.Person, error)
	Revoke(ctx context.Context, platform chat.Platform, id string) (pairing.Person, error)
	ClearPending(ctx context.Context) ([]pairing.Person, error)
}

// Approved is a user whose access was approved.
type Approved struct {
	pairing.Person
	// Notified reports whether the user is notified, now or when a daemon runs.
	Notified bool `json:"notified"`
}

// welcome is sent to a user whose access was approved.
const welcome = "Your access was approved. Earlier messages were not processed; please send them again. `/help` lists the commands."

// pairings registers the handlers for pairing.
func (h *Handler) pairings() {
	h.mux.HandleFunc("GET /pairing", paired(h, func(_ *http.Request, b PairingManager) (pairing.List, error) { return b.List(), nil }))
	h.mux.HandleFunc("POST /pairing/approve", paired(h, h.approve))
	h.mux.HandleFunc("POST /pairing/revoke", paired(h, func(r *http.Request, b PairingManager) (pairing.Person, error) {
		return b.Revoke(r.Context(), chat.Platform(r.FormValue("platform")), r.FormValue("id"))
	}))
	h.mux.HandleFunc("POST /pairing/clear", paired(h, func(r *http.Request, b PairingManager) ([]pairing.Person, error) {
		gone, err := b.ClearPending(r.Context())
		if gone == nil {
			gone = []pairing.Person{}
		}
		return gone, err
	}))
}

// paired returns a handler that responds with the result of do.
func paired[T any](h *Handler, do func(*http.Request, PairingManager) (T, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if h.opts.Pairing == nil {
			h.fail(w, &Error{http.StatusServiceUnavailable, "there is no pairing here"})
			return
		}
		v, err := do(r, h.opts.Pairing)
		var no *pairing.UserError
		switch {
		case errors.As(err, &no):
			h.fail(w, &Error{http.StatusConflict, no.Text})
		case err != nil:
			h.fail(w, err)
		default:
			h.reply(w, http.StatusOK, v)
		}
	}
}

// approve grants access to a user and notifies the user.
func (h *Handler) approve(r *http.Request, b PairingManager) (Approved, error) {
	p, err := b.Approve(r.Context(), chat.Platform(r.FormValue("platform")), r.FormValue("code"))
	if err != nil || h.opts.Tell == nil || p.To == (chat.Address{}) {
		return Approved{Person: p}, err
	}
	if err := h.opts.Tell(r.Context(), p.To, i18n.N(welcome)); err != nil {
		h.opts.Log.Error("cannot notify approved user", zap.String("platform", string(p.Platform)), zap.String("id", p.ID), zap.Error(err))
		return Approved{Person: p}, nil
	}
	return Approved{Person: p, Notified: true}, nil
}

// Pairings returns approved users and pending requests.
func (c *Client) Pairings(ctx context.Context) (pairing.List, error) {
	var l pairing.List
	err := c.ask(ctx, http.MethodGet, "/pairing", nil, &l)
	return l, err
}

// Approve grants access to the user with a pairing code.
func (c *Client) Approve(ctx context.Context, platform, code string) (Approved, error) {
	var p Approved
	err := c.ask(ctx, http.MethodPost, "/pairing/approve", url.Values{"platform": {platform}, "code": {code}}, &p)
	return p, err
}

// Revoke revokes the access that Approve granted.
func (c *Client) Revoke(ctx context.Context, platform, id string) (pairing.Person, error) {
	var p pairing.Person
	err := c.ask(ctx, http.MethodPost, "/pairing/revoke", url.Values{"platform": {platform}, "id": {id}}, &p)
	return p, err
}

// ClearPending invalidates all pending codes and returns their users.
func (c *Client) ClearPending(ctx context.Context) ([]pairing.Person, error) {
	var gone []pairing.Person
	err := c.ask(ctx, http.MethodPost, "/pairing/clear", nil, &gone)
	return gone, err
}
