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

// Approvals say how dangerous commands of tools are allowed.
type Approvals struct {
	Mode    string        // manual, smart or off
	Timeout time.Duration // of a request, then it is denied
	// Level returns the level that whoever gives leave for a tool must have.
	Level func(tool string) access.Level
	// Review reports whether a request is harmless enough to need no person, in the
	// mode smart; nil: it never is.
	Review func(ctx context.Context, req tool.ApprovalRequest) (bool, error)
	// Always reports whether an owner has allowed key for ever, and Remember keeps
	// that.
	Always      func(key string) bool
	StoreAlways func(ctx context.Context, key string) error
}

// alreadyApproved reports whether a request needs nobody: it was allowed before, or
// nothing is asked at all.
func (r *Runner) alreadyApproved(id string, req tool.ApprovalRequest) bool {
	a := r.opts.Approvals
	return a.Mode == "off" || req.Key != "" && (r.asking.allowed(id, req.Key) || a.Always != nil && a.Always(req.Key))
}

// autoApproved is allowed, or the judge spares a person the question.
func (r *Runner) autoApproved(ctx context.Context, id string, req tool.ApprovalRequest) bool {
	a := r.opts.Approvals
	if r.alreadyApproved(id, req) || a.Mode != "smart" || a.Review == nil {
		return r.alreadyApproved(id, req)
	}
	ok, err := a.Review(ctx, req)
	if err != nil {
		r.opts.Log.Warn("judge a command; a person is asked", zap.Error(err))
	}
	return ok && err == nil
}

// decideUnattended decides on a request in a turn to which nobody listens.
func (r *Runner) decideUnattended(ctx context.Context, id string, req tool.ApprovalRequest) error {
	if r.alreadyApproved(id, req) {
		return nil
	}
	return fmt.Errorf("denied: %s. Nobody is there to allow it in this unattended turn; find another way, or say what would have to be done", strings.Join(req.Reasons, "; "))
}

// requestApproval asks for leave, and waits until it is given, denied, or its time is
// over.
func (t *turn) requestApproval(ctx context.Context, to delivery.Draft, e inbox.Entry, req tool.ApprovalRequest) error {
	id := string(t.session.record.ID)
	if t.runner.autoApproved(ctx, id, req) {
		return nil
	}
	a := t.runner.opts.Approvals
	q := &question{lane: t.claim.Lane, approval: true, level: access.Owner}
	if a.Level != nil {
		q.level = a.Level(req.Tool)
	}
	t.runner.asking.ask(q)
	defer t.runner.asking.close(q)
	if err := t.runner.show(ctx, q, t.approvalMessage(q.id, req, a.Timeout), to, t.approvalButtons(q.id, req)); err != nil {
		return fmt.Errorf("not run: the request for leave could not be shown (%w)", err)
	}
	late := time.NewTimer(a.Timeout)
	defer late.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-late.C:
		return fmt.Errorf("not run: nobody allowed it within %v", a.Timeout)
	case why := <-q.lost:
		return fmt.Errorf("not run: the request for leave could not be shown (%s)", why)
	case d := <-q.decided:
		t.log.Info("a request was decided", zap.String("tool", req.Tool), zap.Bool("allow", d.Allow), zap.String("for", d.Scope), zap.String("by", d.Principal.ID))
		return t.runner.decided(ctx, id, req, d)
	}
}

// decided carries a decision out.
func (r *Runner) decided(ctx context.Context, id string, req tool.ApprovalRequest, d command.Decision) error {
	switch {
	case !d.Allow:
		return errDenied
	case req.Key == "" || d.Scope == "":
		return nil
	case d.Scope == "always" && r.opts.Approvals.StoreAlways != nil:
		if err := r.opts.Approvals.StoreAlways(ctx, req.Key); err != nil {
			r.opts.Log.Error("remember leave; it holds in this conversation only", zap.Error(err))
		}
	}
	r.asking.allow(id, req.Key)
	return nil
}

// approvalMessage is the message that asks for leave. It shows what would run, whole.
func (t *turn) approvalMessage(id string, req tool.ApprovalRequest, within time.Duration) string {
	fence := "```"
	for strings.Contains(req.Command, fence) {
		fence += "`"
	}
	var b strings.Builder
	b.WriteString(t.T("⚠️ **May I run this?** (`%s`)", id) + "\n\n" + fence + "\n" + req.Command + "\n" + fence + "\n")
	for _, why := range req.Reasons {
		b.WriteString("- " + t.Translate(why) + "\n")
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
