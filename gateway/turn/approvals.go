package turn

import (
	"context"
	"fmt"
	"strings"
	"time"

	"go.uber.org/zap"

	"hermesd/agent/tool"
	"hermesd/gateway/access"
	"hermesd/gateway/chat"
	"hermesd/gateway/command"
	"hermesd/gateway/delivery"
	"hermesd/gateway/inbox"
)

// Approvals configure how dangerous commands of tools are approved.
type Approvals struct {
	Mode    string        // manual, smart or off
	Timeout time.Duration // of a request; after it the request counts as denied
	// Level returns the minimum level of a user who approves requests of a tool; nil
	// means access.Owner for all.
	Level func(tool string) access.Level
	// Review reports, in the mode smart, whether a request is harmless enough to be
	// approved without a user; nil: none is.
	Review func(ctx context.Context, req tool.ApprovalRequest) (bool, error)
	// Always reports whether an owner has approved key permanently. StoreAlways stores
	// such an approval.
	Always      func(key string) bool
	StoreAlways func(ctx context.Context, key string) error
}

// isApproved reports whether a request needs no decision, because the mode is off or
// its key was approved before.
func (r *Runner) isApproved(id string, req tool.ApprovalRequest) bool {
	a := r.opts.Approvals
	return a.Mode == "off" || req.Key != "" && (r.questions.isApproved(id, req.Key) || a.Always != nil && a.Always(req.Key))
}

// autoApprove reports whether a request is approved without asking a user: by an
// earlier approval or, in the mode smart, by Review.
func (r *Runner) autoApprove(ctx context.Context, id string, req tool.ApprovalRequest) bool {
	a := r.opts.Approvals
	if r.isApproved(id, req) || a.Mode != "smart" || a.Review == nil {
		return r.isApproved(id, req)
	}
	ok, err := a.Review(ctx, req)
	if err != nil {
		r.opts.Log.Warn("cannot review command; asking user", zap.Error(err))
	}
	return ok && err == nil
}

// decideUnattended decides a request of a turn in which no user can answer.
func (r *Runner) decideUnattended(ctx context.Context, id string, req tool.ApprovalRequest) error {
	if r.isApproved(id, req) {
		return nil
	}
	return fmt.Errorf("denied: %s. Nobody is there to allow it in this unattended turn; find another way, or say what would have to be done", strings.Join(req.Reasons, "; "))
}

// requestApproval asks the users of the chat for approval, and waits until the
// request is approved, denied or expired.
func (t *turn) requestApproval(ctx context.Context, to delivery.Draft, e inbox.Entry, req tool.ApprovalRequest) error {
	id := string(t.session.record.ID)
	if t.runner.opts.Agent.Mask(req.Key) != req.Key { // a grant that names a secret is not stored
		req.Key = ""
	}
	if t.runner.autoApprove(ctx, id, req) {
		return nil
	}
	a := t.runner.opts.Approvals
	q := &question{lane: t.claim.Lane, approval: true, level: access.Owner, isStorable: req.Key != ""}
	if a.Level != nil {
		q.level = a.Level(req.Tool)
	}
	t.runner.questions.add(q)
	defer t.runner.questions.remove(q)
	if err := t.runner.sendQuestion(ctx, q, t.approvalMessage(q.id, req, a.Timeout), to, t.approvalButtons(q.id, req)); err != nil {
		return fmt.Errorf("not run: the request for leave could not be shown (%w)", err)
	}
	timeout := time.NewTimer(a.Timeout)
	defer timeout.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timeout.C:
		return fmt.Errorf("not run: nobody allowed it within %v", a.Timeout)
	case reason := <-q.deliveryFailed:
		return fmt.Errorf("not run: the request for leave could not be shown (%s)", reason)
	case d := <-q.decision:
		t.log.Info("approval request decided", zap.String("tool", req.Tool), zap.Bool("allow", d.Allow), zap.String("for", d.Scope), zap.String("by", d.Principal.ID))
		return t.runner.applyDecision(ctx, id, req, d)
	}
}

// applyDecision stores an approval with the scope of d. It returns errDenied if d
// denies the request.
func (r *Runner) applyDecision(ctx context.Context, id string, req tool.ApprovalRequest, d command.Decision) error {
	switch {
	case !d.Allow:
		return errDenied
	case req.Key == "" || d.Scope == "":
		return nil
	case d.Scope == "always" && r.opts.Approvals.StoreAlways != nil:
		if err := r.opts.Approvals.StoreAlways(ctx, req.Key); err != nil {
			r.opts.Log.Error("cannot store permanent approval; it applies to this session only", zap.Error(err))
		}
	}
	r.questions.approve(id, req.Key)
	return nil
}

// approvalMessage returns the text that asks for approval. It shows the complete
// command.
func (t *turn) approvalMessage(id string, req tool.ApprovalRequest, within time.Duration) string {
	fence := "```"
	for strings.Contains(req.Command, fence) {
		fence += "`"
	}
	var b strings.Builder
	b.WriteString(t.T("⚠️ **May I run this?** (`%s`)", id) + "\n\n" + fence + "\n" + req.Command + "\n" + fence + "\n")
	for _, reason := range req.Reasons {
		b.WriteString("- " + t.Translate(reason) + "\n")
	}
	fmt.Fprintf(&b, "\n`/approve %s`", id)
	if req.Key != "" {
		b.WriteString(t.T(" (or `/approve %[1]s session`, `/approve %[1]s always`: %[2]s)", id, req.Key))
	}
	b.WriteString(t.T(", `/deny %s`. Without an answer it is denied in %v.", id, within))
	return b.String()
}

func (t *turn) approvalButtons(id string, req tool.ApprovalRequest) [][]chat.Button {
	first := []chat.Button{{Label: t.T("Allow once"), Data: "/approve " + id}, {Label: t.T("Deny"), Data: "/deny " + id}}
	if req.Key == "" {
		return [][]chat.Button{first}
	}
	return [][]chat.Button{first, {
		{Label: t.T("For this conversation"), Data: "/approve " + id + " session"}, {Label: t.T("Always"), Data: "/approve " + id + " always"},
	}}
}
