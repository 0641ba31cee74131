package admin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"go.uber.org/zap"

	"hermesd/gateway/access/pairing"
	"hermesd/gateway/approval"
	"hermesd/gateway/chat"
	"hermesd/gateway/i18n"
	"hermesd/gateway/schedule"
)

// maxShape is the maximum length of a shape that an operator approves, in bytes.
const maxShape = 4096

func (h *Handler) approvals(r *http.Request) (any, error) { return h.opts.Approvals.List(r.Context()) }

// findJob returns the ID of the job that the request names by its ID or its name, ""
// if it names none.
func (h *Handler) findJob(r *http.Request) (schedule.JobID, error) {
	name := r.FormValue("job")
	if name == "" {
		return "", nil
	}
	j, err := h.opts.Cron.Find(r.Context(), schedule.OperatorCaller(), name)
	if errors.Is(err, schedule.ErrInvalid) {
		return "", &Error{http.StatusConflict, err.Error()}
	}
	return j.ID, err
}

// isShape reports whether text looks like a shape of the command policy, or like one of the
// tools that change files.
func isShape(text string) bool {
	if strings.HasPrefix(text, "change-file:") {
		return !slices.ContainsFunc(strings.Split(text, "\n"), func(line string) bool {
			return len(line) <= len("change-file:") || !strings.HasPrefix(line, "change-file:")
		})
	}
	i := strings.LastIndex(text, " in ")
	if i < 1 || strings.Contains(text, "\n") {
		return false
	}
	dir := text[i+len(" in "):]
	return path.IsAbs(dir) || filepath.IsAbs(dir)
}

// addApproval stores an approval of the operator and responds with it.
func (h *Handler) addApproval(r *http.Request) (any, error) {
	m, shape := h.opts.Approvals, strings.TrimSpace(r.FormValue("shape"))
	switch {
	case shape == "":
		return nil, &Error{http.StatusBadRequest, "say which shape, as a question for approval or a refusal shows it"}
	case len(shape) > maxShape:
		return nil, &Error{http.StatusBadRequest, fmt.Sprintf("the shape has %d bytes; it may have %d", len(shape), maxShape)}
	case strings.ContainsFunc(shape, func(c rune) bool { return c != '\n' && !unicode.IsPrint(c) }):
		return nil, &Error{http.StatusBadRequest, "the shape has characters that cannot be seen; no shape has them"}
	case h.opts.Masker.Mask(shape) != shape:
		return nil, &Error{http.StatusBadRequest, "the shape contains a secret; such a command is asked about each time"}
	}
	job, err := h.findJob(r)
	if err != nil {
		return nil, err
	}
	if !isShape(shape) {
		return nil, &Error{http.StatusBadRequest, fmt.Sprintf("%q is no shape: that of a command ends with the workspace, such as \"rm * in /home/ann/work\"; `hermesd approvals check -- COMMAND`, run in the workspace, prints the shapes of a command", shape)}
	}
	if err := m.Add(r.Context(), schedule.Operator(), job, shape); err != nil {
		return nil, err
	}
	list, err := m.List(r.Context())
	if err != nil {
		return nil, err
	}
	var added []approval.Record
	for _, a := range approval.Find(list, shape) {
		if a.Job == job && a.Principal.SamePerson(schedule.Operator()) {
			added = append(added, a)
		}
	}
	return added, nil
}

// removeApprovals removes the approvals that the request names and responds with them.
// With a job they must be approvals for this job, which may be a removed one.
func (h *Handler) removeApprovals(r *http.Request) (any, error) {
	job, err := h.findJob(r)
	if _, unknown := errors.AsType[*Error](err); unknown {
		job, err = schedule.JobID(r.FormValue("job")), nil
	}
	if err != nil {
		return nil, err
	}
	list, err := h.opts.Approvals.List(r.Context())
	if err != nil {
		return nil, err
	}
	var gone []approval.Record
	for _, a := range approval.Find(list, strings.TrimSpace(r.FormValue("which"))) {
		if job == "" || a.Job == job {
			gone = append(gone, a)
		}
	}
	if len(gone) == 0 {
		return nil, &Error{http.StatusNotFound, "there is no such approval; `hermesd approvals` lists them"}
	}
	return gone, h.opts.Approvals.Remove(r.Context(), gone...)
}

// Approvals returns the permanent approvals.
func (c *Client) Approvals(ctx context.Context) ([]approval.Record, error) {
	return get[[]approval.Record](ctx, c, "/approvals", nil)
}

// AddApproval approves a shape in the runs of a job or, if job is "", everywhere. job is
// an ID or a name.
func (c *Client) AddApproval(ctx context.Context, shape, job string) ([]approval.Record, error) {
	return post[[]approval.Record](ctx, c, "/approvals/add", url.Values{"shape": {shape}, "job": {job}})
}

// RemoveApprovals removes the approval with a number of the list, or all of a shape, and
// returns them. If job is not "" only approvals for this job are removed.
func (c *Client) RemoveApprovals(ctx context.Context, which, job string) ([]approval.Record, error) {
	return post[[]approval.Record](ctx, c, "/approvals/remove", url.Values{"which": {which}, "job": {job}})
}

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
	if err != nil || p.To == (chat.Address{}) {
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
