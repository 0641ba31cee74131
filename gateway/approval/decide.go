package approval

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.uber.org/zap"

	"hermesd/agent/tool"
	"hermesd/gateway/access"
	"hermesd/gateway/chat"
	"hermesd/gateway/i18n"
	"hermesd/gateway/inbox"
)

// Ask sends a question of a tool and waits for the answer, which is a message or a
// button.
func (s *Service) Ask(ctx context.Context, t Turn, in tool.Question) (tool.Answer, error) {
	none := tool.Answer{Choice: -1}
	if t.Unattended {
		return none, tool.ErrUnattended
	}
	actor, _ := s.Active.Actor(t.Session)
	q := &question{lane: t.Lane, level: min(access.Member, actor.Principal.Level), choices: in.Choices}
	s.Questions.add(q)
	defer s.Questions.remove(q)
	var b strings.Builder
	b.WriteString(in.Text)
	var buttons [][]chat.Button
	for i, c := range in.Choices {
		fmt.Fprintf(&b, "\n%d. %s", i+1, c)
		buttons = append(buttons, []chat.Button{{Label: buttonLabel(c), Data: fmt.Sprintf("/answer %s %d", q.id, i+1)}})
	}
	if err := s.sendQuestion(ctx, q, b.String(), t.Draft, buttons); err != nil {
		return none, fmt.Errorf("the question could not be shown: %w", err)
	}
	timeout := time.NewTimer(answerTimeout)
	defer timeout.Stop()
	for {
		select {
		case <-ctx.Done():
			return none, context.Cause(ctx)
		case <-timeout.C:
			return none, fmt.Errorf("nobody answered within %v", answerTimeout)
		case reason := <-q.deliveryFailed:
			return none, fmt.Errorf("the question could not be shown: %s", reason)
		case d := <-q.decision:
			if d.Choice >= 0 {
				return tool.Answer{Text: in.Choices[d.Choice], Choice: d.Choice}, nil
			}
			return tool.Answer{Text: d.Text, Choice: -1}, nil
		case <-q.messageArrived:
			if text := t.Join(ctx); text != "" {
				return tool.Answer{Text: text, Choice: parseChoice(text, in.Choices)}, nil
			}
		}
	}
}

// maxButtonLabel is the maximum length of a button label in characters.
const maxButtonLabel = 40

func buttonLabel(choice string) string {
	if r := []rune(choice); len(r) > maxButtonLabel {
		return string(r[:maxButtonLabel-1]) + "…"
	}
	return choice
}

// parseChoice returns the index of the choice that a text names by number or text, -1
// if none.
func parseChoice(text string, choices []string) int {
	text = strings.TrimSpace(text)
	if n, err := strconv.Atoi(strings.TrimRight(text, ".)")); err == nil && n >= 1 && n <= len(choices) {
		return n - 1
	}
	return slices.IndexFunc(choices, func(c string) bool { return strings.EqualFold(strings.TrimSpace(c), text) })
}

// A Decision is the answer of a user to a question or approval request of a running
// turn.
type Decision struct {
	Approval  bool // it answers an approval request
	Allow     bool
	Scope     string // of an approval: "" once, "session" or "always"
	Choice    int    // index of the chosen option of a question; -1: none
	Text      string // answer to a question
	Principal access.Principal
}

// Decide decides the pending question or approval request id of lane l; id ""
// selects the only pending one. It returns the text for the user and a function that
// applies the decision, nil if d is not accepted. key identifies the decision, so that
// only the first one counts even if it is repeated. A permanent approval is stored when
// Decide returns, so that no crash loses what the text says.
func (s *Service) Decide(ctx context.Context, l inbox.Lane, id, key string, d Decision) (text string, then func()) {
	waiting := s.Questions.inLane(l, d.Approval)
	if id == "" && len(waiting) > 1 {
		ids := make([]string, len(waiting))
		for i, q := range waiting {
			ids[i] = "`" + q.id + "`"
		}
		return s.Options.Printer.T("There are %d pending requests; choose one: %s.", len(waiting), strings.Join(ids, ", ")), nil
	}
	i := slices.IndexFunc(waiting, func(q *question) bool { return id == "" || q.id == id })
	switch {
	case i < 0 && id == "":
		return s.Options.Printer.T("There is no pending request."), nil
	case i < 0:
		return s.Options.Printer.T("There is no pending request `%s`; it was answered or has expired.", id), nil
	}
	q := waiting[i]
	switch {
	case d.Principal.Level < q.level:
		return s.Options.Printer.T("That requires level %s; yours is %s.", q.level, d.Principal.Level), nil
	case d.Scope == "always" && d.Principal.Level < access.Owner:
		return s.Options.Printer.T("Only an owner can approve a command permanently."), nil
	case !d.Approval && d.Choice >= len(q.choices):
		return s.Options.Printer.T("There are %d choices.", len(q.choices)), nil
	case !s.Questions.reserve(q, key):
		return s.Options.Printer.T("That was answered already."), nil
	}
	d.Scope = s.storeAlways(ctx, q, d)
	return decisionText(s.Options.Printer, q, d), func() {
		select {
		case q.decision <- d:
		default: // this decision was applied before
		}
	}
}

// decisionText returns the text that confirms a decision to the user.
func decisionText(p i18n.Printer, q *question, d Decision) string {
	switch {
	case !q.approval && d.Choice >= 0:
		return p.T("Your answer: %s", q.choices[d.Choice])
	case !q.approval:
		return p.T("I have your answer.")
	case !d.Allow:
		return p.T("Denied.")
	case d.Scope == "":
		return p.T("Allowed, this once.")
	case len(q.shapes) == 0:
		return p.T("Allowed, this once. A command like this is asked about each time.")
	case d.Scope == "session":
		return p.T("Allowed, and from now on in this conversation.")
	}
	return p.T("Allowed, and from now on everywhere.")
}

// storeAlways stores a permanent approval of the shapes of q if d is one. It returns the
// scope of d; if the approval cannot be stored, that is the session.
func (s *Service) storeAlways(ctx context.Context, q *question, d Decision) string {
	if !d.Allow || d.Scope != "always" || len(q.shapes) == 0 {
		return d.Scope
	}
	if err := s.Permanent.Add(ctx, d.Principal, "", q.shapes...); err != nil {
		s.log.Error("cannot store permanent approval; it applies to this session only", zap.Error(err))
		return "session"
	}
	return d.Scope
}

// errDenied is the tool error of a denied approval request; the model reads it.
var errDenied = errors.New("the person did not allow it. Do not try it again in another form; ask them what they want instead")
