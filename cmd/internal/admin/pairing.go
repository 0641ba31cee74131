package admin

import (
	"context"
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

func (h *Handler) pairings(*http.Request) (any, error) { return h.opts.Pairing.List(), nil }

func (h *Handler) revoke(r *http.Request) (any, error) {
	return h.opts.Pairing.Revoke(r.Context(), chat.Platform(r.FormValue("platform")), r.FormValue("id"))
}

func (h *Handler) clearPending(r *http.Request) (any, error) {
	return list(h.opts.Pairing.ClearPending(r.Context()))
}

// approve grants access to a user and notifies the user.
func (h *Handler) approve(r *http.Request) (any, error) {
	p, err := h.opts.Pairing.Approve(r.Context(), chat.Platform(r.FormValue("platform")), r.FormValue("code"))
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
	return get[pairing.List](ctx, c, "/pairing", nil)
}

// Approve grants access to the user with a pairing code.
func (c *Client) Approve(ctx context.Context, platform, code string) (Approved, error) {
	return post[Approved](ctx, c, "/pairing/approve", url.Values{"platform": {platform}, "code": {code}})
}

// Revoke revokes the access that Approve granted.
func (c *Client) Revoke(ctx context.Context, platform, id string) (pairing.Person, error) {
	return post[pairing.Person](ctx, c, "/pairing/revoke", url.Values{"platform": {platform}, "id": {id}})
}

// ClearPending invalidates all pending codes and returns their users.
func (c *Client) ClearPending(ctx context.Context) ([]pairing.Person, error) {
	return post[[]pairing.Person](ctx, c, "/pairing/clear", nil)
}
