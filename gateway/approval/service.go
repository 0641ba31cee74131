package approval

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
	"hermesd/gateway/active"
	"hermesd/gateway/delivery"
	"hermesd/gateway/i18n"
	"hermesd/gateway/inbox"
	"hermesd/gateway/schedule"
	"hermesd/gateway/session"
)

// answerTimeout is how long a tool waits for the answer to its question.
const answerTimeout = 10 * time.Minute

// Options configure how commands of tools are approved.
type Options struct {
	Mode    string        // manual, smart or off
	Timeout time.Duration // of a request; after it the request counts as denied
	// Level returns the minimum level of a user who approves requests of a tool.
	Level func(tool string) access.Level
	// Review reports, in the mode smart, whether a request is harmless enough to be
	// approved without a user.
	Review  func(ctx context.Context, req tool.ApprovalRequest) (bool, error)
	Printer i18n.Printer
	Log     *zap.Logger
}

// Jobs finds the jobs whose runs need approvals.
type Jobs interface {
	// JobCreator returns a job and its creator with the present level; ok is false if
	// there is no such job.
	JobCreator(ctx context.Context, id schedule.JobID) (j schedule.Job, creator access.Principal, ok bool, err error)
}

// Parts are the collaborators of a Service. All are set.
type Parts struct {
	Questions *Questions
	Permanent *Manager
	Jobs      Jobs
	Active    *active.Turns
	Delivery  *delivery.Delivery
	Mask      func(string) string // masks secrets
	Options   Options
}

// A Service asks the people of a chat on behalf of the tools of a turn. Its methods may
// be called from any goroutine.
type Service struct {
	Parts
	log *zap.Logger
}

// New returns a Service.
func New(p Parts) *Service { return &Service{Parts: p, log: p.Options.Log} }

// A Turn is the turn in which a tool asks.
type Turn struct {
	Session session.ID
	Lane    inbox.Lane
	Entry   inbox.Entry    // its newest message
	Draft   delivery.Draft // of messages to its chat
	// Unattended: no user can answer.
	Unattended bool
	// Join makes the messages that have arrived in the lane part of the turn and returns
	// their text.
	Join func(context.Context) string
}

// Approve returns nil once the request is approved: before, by Review or by a user of the
// chat, for whom it waits. In an unattended turn it does not wait.
func (s *Service) Approve(ctx context.Context, t Turn, req tool.ApprovalRequest) error {
	req.Shapes = s.storableShapes(req)
	if t.Unattended {
		return s.decideUnattended(ctx, t, req)
	}
	if s.isApproved(ctx, t, req) || s.isHarmless(ctx, req) {
		return nil
	}
	q := &question{lane: t.Lane, approval: true, level: s.Options.Level(req.Tool), shapes: req.Shapes}
	s.Questions.add(q)
	defer s.Questions.remove(q)
	if err := s.sendQuestion(ctx, q, s.approvalMessage(q.id, req), t.Draft, s.approvalButtons(q.id, req)); err != nil {
		return fmt.Errorf("not run: the approval request could not be shown (%w)", err)
	}
	timeout := time.NewTimer(s.Options.Timeout)
	defer timeout.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timeout.C:
		return fmt.Errorf("not run: nobody allowed it within %v", s.Options.Timeout)
	case reason := <-q.deliveryFailed:
		return fmt.Errorf("not run: the approval request could not be shown (%s)", reason)
	case d := <-q.decision:
		s.log.Info("approval request decided", zap.String("turn", t.Draft.Turn), zap.String("tool", req.Tool), zap.Bool("allow", d.Allow), zap.String("for", d.Scope), zap.String("by", d.Principal.ID))
		if !d.Allow {
			return errDenied
		}
		if d.Scope == "session" {
			s.Questions.approve(t.Session, req.Shapes)
		}
		return nil
	}
}

// missingApprovals returns the shapes of req that nobody has approved, for the session or
// permanently.
func (s *Service) missingApprovals(ctx context.Context, t Turn, req tool.ApprovalRequest) []string {
	return slices.DeleteFunc(slices.Clone(req.Shapes), func(shape string) bool {
		return s.Questions.isApproved(t.Session, shape) || s.isPermanent(ctx, t.Entry, shape)
	})
}

// isApproved reports whether a request needs no decision, because the mode is off or all
// of its shapes were approved before.
func (s *Service) isApproved(ctx context.Context, t Turn, req tool.ApprovalRequest) bool {
	return s.Options.Mode == "off" || len(req.Shapes) > 0 && len(s.missingApprovals(ctx, t, req)) == 0
}

// isHarmless reports whether, in the mode smart, Review approves a request.
func (s *Service) isHarmless(ctx context.Context, req tool.ApprovalRequest) bool {
	if s.Options.Mode != "smart" {
		return false
	}
	ok, err := s.Options.Review(ctx, req)
	if err != nil {
		s.log.Warn("cannot review command; asking user", zap.Error(err))
	}
	return ok && err == nil
}

// storableShapes returns the shapes of req; none if one of them names a secret, which is
// not stored.
func (s *Service) storableShapes(req tool.ApprovalRequest) []string {
	if slices.ContainsFunc(req.Shapes, func(shape string) bool { return shape == "" || s.Mask(shape) != shape }) {
		return nil
	}
	return req.Shapes
}

// decideUnattended decides a request of a turn in which no user can answer.
func (s *Service) decideUnattended(ctx context.Context, t Turn, req tool.ApprovalRequest) error {
	if s.isApproved(ctx, t, req) {
		return nil
	}
	text := fmt.Sprintf("denied: %s. Nobody is there to allow it in this unattended turn; find another way, or say what would have to be done", strings.Join(req.Reasons, "; "))
	missing := s.missingApprovals(ctx, t, req)
	if len(missing) == 0 {
		return errors.New(text)
	}
	if t.Entry.Occurrence == nil {
		text += ". An owner can approve it permanently, on the command line:"
		for _, shape := range missing {
			text += "\nhermesd approvals add " + shellQuote(shape)
		}
		return errors.New(text)
	}
	job := string(t.Entry.Occurrence.Job)
	text += ". An owner can approve it for the runs of this job, in a chat or on the command line:"
	for _, shape := range missing {
		text += "\n/approvals add " + job + " " + shape + "\nhermesd approvals add --job " + job + " " + shellQuote(shape)
	}
	return errors.New(text)
}

// shellQuote returns s as one word of a shell.
func shellQuote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// isPermanent reports whether a permanent approval of shape holds in the turn of e: with
// a person, one that holds everywhere, by any grantor; in a run of a job, one that InRuns
// finds. If the approvals cannot be read, none holds.
func (s *Service) isPermanent(ctx context.Context, e inbox.Entry, shape string) bool {
	list, err := s.Permanent.List(ctx)
	if err != nil {
		s.log.Error("cannot read permanent approvals", zap.Error(err))
		return false
	}
	if e.Occurrence == nil || len(list) == 0 {
		return slices.ContainsFunc(list, func(r Record) bool { return r.Covers(shape) && r.Job == "" })
	}
	j, creator, ok, err := s.Jobs.JobCreator(ctx, e.Occurrence.Job)
	if err != nil || !ok { // removed since the run started
		s.log.Warn("cannot load job for its approvals", zap.String("job", string(e.Occurrence.Job)), zap.Error(err))
		return false
	}
	return InRuns(list, j, creator)(shape)
}
