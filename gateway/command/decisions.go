package command

import (
	"context"
	"strconv"
	"strings"

	"hermesd/gateway/access"
)

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

// A Decider decides pending questions and approval requests.
type Decider interface {
	// Decide answers a question or an approval request of a running turn of the
	// conversation. It returns the reply to the user, and the function that applies the
	// decision after the commit; nil: nothing to apply. A permanent approval is stored
	// before it returns.
	Decide(ctx context.Context, c Call, id string, d Decision) (text string, apply func())
}

// DecisionHandlers returns the handlers of /approve, /deny and /answer.
func DecisionHandlers(d Decider) map[string]Handler {
	h := decisions{d}
	return map[string]Handler{"approve": h.approve, "deny": h.deny, "answer": h.answer}
}

type decisions struct{ decider Decider }

// approve approves a pending request of a turn.
func (h decisions) approve(ctx context.Context, c Call) (Result, error) {
	d := Decision{Approval: true, Allow: true, Principal: c.Principal}
	id := ""
	for _, word := range strings.Fields(strings.ToLower(c.Args)) {
		switch word {
		case "session", "always":
			d.Scope = word
		case "once":
		default:
			id = word
		}
	}
	return h.decide(ctx, c, id, d)
}

func (h decisions) decide(ctx context.Context, c Call, id string, d Decision) (Result, error) {
	text, apply := h.decider.Decide(ctx, c, id, d)
	return Result{Text: text, AfterCommit: apply}, nil
}

// deny denies a pending request of a turn.
func (h decisions) deny(ctx context.Context, c Call) (Result, error) {
	return h.decide(ctx, c, strings.ToLower(c.Args), Decision{Approval: true, Principal: c.Principal})
}

// answer answers a question with the number of a choice or with text.
func (h decisions) answer(ctx context.Context, c Call) (Result, error) {
	id, text, _ := strings.Cut(c.Args, " ")
	if text == "" {
		return Result{Text: c.T("Say `/answer <question> <number or text>`, or simply write your answer.")}, nil
	}
	d := Decision{Choice: -1, Text: text, Principal: c.Principal}
	if n, err := strconv.Atoi(text); err == nil && n >= 1 {
		d.Choice = n - 1
	}
	return h.decide(ctx, c, strings.ToLower(id), d)
}
