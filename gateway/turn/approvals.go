package turn

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"hermesd/agent/tool"
	"hermesd/gateway/access"
	"hermesd/gateway/chat"
	"hermesd/gateway/command"
	"hermesd/gateway/delivery"
	"hermesd/gateway/inbox"
	"hermesd/gateway/markup"
	"hermesd/gateway/session"
)

// Approvals configure how commands of tools are approved.
type Approvals struct {
	Mode    string        // manual, smart or off
	Timeout time.Duration // of a request; after it the request counts as denied
	// Level returns the minimum level of a user who approves requests of a tool; nil
	// means access.Owner for all.
	Level func(tool string) access.Level
	// Review reports, in the mode smart, whether a request is harmless enough to be
	// approved without a user; nil: none is.
	Review func(ctx context.Context, req tool.ApprovalRequest) (bool, error)
	// Always reports whether a permanent approval of shape holds in the turn of e.
	// StoreAlways stores that an owner has approved shapes permanently.
	Always      func(ctx context.Context, e inbox.Entry, shape string) bool
	StoreAlways func(ctx context.Context, by access.Principal, shapes []string) error
}

// missingApprovals returns the shapes of req that nobody has approved, for the session or
// permanently.
func (r *Runner) missingApprovals(ctx context.Context, id session.ID, e inbox.Entry, req tool.ApprovalRequest) []string {
	return slices.DeleteFunc(slices.Clone(req.Shapes), func(shape string) bool {
		return r.questions.isApproved(id, shape) || r.opts.Approvals.Always(ctx, e, shape)
	})
}

// isApproved reports whether a request needs no decision, because the mode is off or all
// of its shapes were approved before.
func (r *Runner) isApproved(ctx context.Context, id session.ID, e inbox.Entry, req tool.ApprovalRequest) bool {
	return r.opts.Approvals.Mode == "off" || len(req.Shapes) > 0 && len(r.missingApprovals(ctx, id, e, req)) == 0
}

// isHarmless reports whether, in the mode smart, Review approves a request.
func (r *Runner) isHarmless(ctx context.Context, req tool.ApprovalRequest) bool {
	a := r.opts.Approvals
	if a.Mode != "smart" || a.Review == nil {
		return false
	}
	ok, err := a.Review(ctx, req)
	if err != nil {
		r.opts.Log.Warn("cannot review command; asking user", zap.Error(err))
	}
	return ok && err == nil
}

// storableShapes returns the shapes of req; none if one of them names a secret, which is
// not stored.
func (r *Runner) storableShapes(req tool.ApprovalRequest) []string {
	if slices.ContainsFunc(req.Shapes, func(s string) bool { return s == "" || r.opts.Agent.Mask(s) != s }) {
		return nil
	}
	return req.Shapes
}

// decideUnattended decides a request of a turn in which no user can answer.
func (r *Runner) decideUnattended(ctx context.Context, id session.ID, e inbox.Entry, req tool.ApprovalRequest) error {
	req.Shapes = r.storableShapes(req)
	if r.isApproved(ctx, id, e, req) {
		return nil
	}
	text := fmt.Sprintf("denied: %s. Nobody is there to allow it in this unattended turn; find another way, or say what would have to be done", strings.Join(req.Reasons, "; "))
	missing := r.missingApprovals(ctx, id, e, req)
	if len(missing) == 0 {
		return errors.New(text)
	}
	scope, flag := "permanently", ""
	if e.Occurrence != nil {
		scope, flag = "for the runs of this job", "--job "+string(e.Occurrence.Job)+" "
	}
	text += ". An owner can approve it " + scope + ", on the command line:"
	for _, shape := range missing {
		text += "\nhermesd approvals add " + flag + shellQuote(shape)
	}
	return errors.New(text)
}

// shellQuote returns s as one word of a shell.
func shellQuote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// requestApproval asks the users of the chat for approval, and waits until the
// request is approved, denied or expired.
func (t *turn) requestApproval(ctx context.Context, to delivery.Draft, e inbox.Entry, req tool.ApprovalRequest) error {
	id := t.session.record.ID
	req.Shapes = t.runner.storableShapes(req)
	if t.runner.isApproved(ctx, id, e, req) || t.runner.isHarmless(ctx, req) {
		return nil
	}
	a := t.runner.opts.Approvals
	q := &question{lane: t.claim.Lane, approval: true, level: access.Owner, shapes: req.Shapes}
	if a.Level != nil {
		q.level = a.Level(req.Tool)
	}
	t.runner.questions.add(q)
	defer t.runner.questions.remove(q)
	if err := t.runner.sendQuestion(ctx, q, t.approvalMessage(q.id, req, a.Timeout), to, t.approvalButtons(q.id, req)); err != nil {
		return fmt.Errorf("not run: the approval request could not be shown (%w)", err)
	}
	timeout := time.NewTimer(a.Timeout)
	defer timeout.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timeout.C:
		return fmt.Errorf("not run: nobody allowed it within %v", a.Timeout)
	case reason := <-q.deliveryFailed:
		return fmt.Errorf("not run: the approval request could not be shown (%s)", reason)
	case d := <-q.decision:
		t.log.Info("approval request decided", zap.String("tool", req.Tool), zap.Bool("allow", d.Allow), zap.String("for", d.Scope), zap.String("by", d.Principal.ID))
		if !d.Allow {
			return errDenied
		}
		if d.Scope == "session" {
			t.runner.questions.approve(id, req.Shapes)
		}
		return nil
	}
}

// storeAlways stores a permanent approval of the shapes of q if d is one. It returns the
// scope of d; if the approval cannot be stored, that is the session.
func (r *Runner) storeAlways(ctx context.Context, q *question, d command.Decision) string {
	if !d.Allow || d.Scope != "always" || len(q.shapes) == 0 {
		return d.Scope
	}
	if err := r.opts.Approvals.StoreAlways(ctx, d.Principal, q.shapes); err != nil {
		r.opts.Log.Error("cannot store permanent approval; it applies to this session only", zap.Error(err))
		return "session"
	}
	return d.Scope
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
	covered := strings.Split(strings.Join(req.Shapes, "\n"), "\n") // a shape may have several lines
	for i, line := range covered {
		covered[i] = markup.Code(line)
	}
	if len(covered) > 1 {
		b.WriteString("\n" + t.T("`session` and `always` cover each of these:") + "\n- " + strings.Join(covered, "\n- ") + "\n")
	}
	fmt.Fprintf(&b, "\n`/approve %s`", id)
	switch {
	case len(req.Shapes) == 0:
	case len(covered) == 1:
		b.WriteString(t.T(" (or `/approve %[1]s session`, `/approve %[1]s always`: %[2]s)", id, covered[0]))
	default:
		b.WriteString(t.T(" (or `/approve %[1]s session`, `/approve %[1]s always`)", id))
	}
	b.WriteString(t.T(", `/deny %s`. Without an answer it is denied in %v.", id, within))
	return b.String()
}

func (t *turn) approvalButtons(id string, req tool.ApprovalRequest) [][]chat.Button {
	first := []chat.Button{{Label: t.T("Allow once"), Data: "/approve " + id}, {Label: t.T("Deny"), Data: "/deny " + id}}
	if len(req.Shapes) == 0 {
		return [][]chat.Button{first}
	}
	return [][]chat.Button{first, {
		{Label: t.T("For this conversation"), Data: "/approve " + id + " session"}, {Label: t.T("Always"), Data: "/approve " + id + " always"},
	}}
}
