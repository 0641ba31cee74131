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
	// Judge reports whether a request is harmless enough to need no person, in the
	// mode smart; nil: it never is.
	Judge func(ctx context.Context, req tool.Request) (bool, error)
	// Always reports whether an owner has allowed key for ever, and Remember keeps
	// that.
	Always   func(key string) bool
	Remember func(ctx context.Context, key string) error
}

// allowed reports whether a request needs nobody: it was allowed before, or
// nothing is asked at all.
func (r *Runner) allowed(id string, req tool.Request) bool {
	a := r.o.Approvals
	return a.Mode == "off" || req.Key != "" && (r.asking.allowed(id, req.Key) || a.Always != nil && a.Always(req.Key))
}

// granted is allowed, or the judge spares a person the question.
func (r *Runner) granted(ctx context.Context, id string, req tool.Request) bool {
	a := r.o.Approvals
	if r.allowed(id, req) || a.Mode != "smart" || a.Judge == nil {
		return r.allowed(id, req)
	}
	ok, err := a.Judge(ctx, req)
	if err != nil {
		r.o.Log.Warn("judge a command; a person is asked", zap.Error(err))
	}
	return ok && err == nil
}

// unasked decides on a request in a turn to which nobody listens.
func (r *Runner) unasked(ctx context.Context, id string, req tool.Request) error {
	if r.allowed(id, req) {
		return nil
	}
	return fmt.Errorf("denied: %s. Nobody is there to allow it in this unattended turn; find another way, or say what would have to be done", strings.Join(req.Why, "; "))
}

// approve asks for leave, and waits until it is given, denied, or its time is
// over.
func (t *turn) approve(ctx context.Context, to delivery.Draft, e inbox.Entry, req tool.Request) error {
	id := string(t.s.rec.ID)
	if t.r.granted(ctx, id, req) {
		return nil
	}
	a := t.r.o.Approvals
	q := &question{lane: t.c.Lane, leave: true, level: access.Owner}
	if a.Level != nil {
		q.level = a.Level(req.Tool)
	}
	t.r.asking.ask(q)
	defer t.r.asking.close(q)
	if err := t.r.show(ctx, q, t.requested(q.id, req, a.Timeout), to, t.leaveButtons(q.id, req)); err != nil {
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
		t.log.Info("a request was decided", zap.String("tool", req.Tool), zap.Bool("allow", d.Allow), zap.String("for", d.For), zap.String("by", d.By.ID))
		return t.r.decided(ctx, id, req, d)
	}
}

// decided carries a decision out.
func (r *Runner) decided(ctx context.Context, id string, req tool.Request, d command.Decision) error {
	switch {
	case !d.Allow:
		return errDenied
	case req.Key == "" || d.For == "":
		return nil
	case d.For == "always" && r.o.Approvals.Remember != nil:
		if err := r.o.Approvals.Remember(ctx, req.Key); err != nil {
			r.o.Log.Error("remember leave; it holds in this conversation only", zap.Error(err))
		}
	}
	r.asking.allow(id, req.Key)
	return nil
}

// requested is the message that asks for leave. It shows what would run, whole.
func (t *turn) requested(id string, req tool.Request, within time.Duration) string {
	fence := "```"
	for strings.Contains(req.Run, fence) {
		fence += "`"
	}
	var b strings.Builder
	b.WriteString(t.T("⚠️ **May I run this?** (`%s`)", id) + "\n\n" + fence + "\n" + req.Run + "\n" + fence + "\n")
	for _, why := range req.Why {
		b.WriteString("- " + t.Translate(why) + "\n")
	}
	fmt.Fprintf(&b, "\n`/approve %s`", id)
	if req.Key != "" {
		b.WriteString(t.T(" (or `/approve %[1]s session`, `/approve %[1]s always`: %[2]s)", id, req.Key))
	}
	b.WriteString(t.T(", `/deny %s`. Without an answer it is denied in %v.", id, within))
	return b.String()
}

func (t *turn) leaveButtons(id string, req tool.Request) [][]chat.Button {
	first := []chat.Button{{Label: t.T("Allow once"), Data: "/approve " + id}, {Label: t.T("Deny"), Data: "/deny " + id}}
	if req.Key == "" {
		return [][]chat.Button{first}
	}
	return [][]chat.Button{first, {
		{Label: t.T("For this conversation"), Data: "/approve " + id + " session"}, {Label: t.T("Always"), Data: "/approve " + id + " always"},
	}}
}
