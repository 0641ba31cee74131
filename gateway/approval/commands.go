package approval

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"hermesd/agent/prompt"
	"hermesd/gateway/command"
	"hermesd/gateway/inbox"
	"hermesd/gateway/markup"
	"hermesd/gateway/schedule"
)

// Handlers returns the handlers of the chat commands about questions and approvals.
func (s *Service) Handlers() map[string]command.Handler {
	return map[string]command.Handler{"approve": s.approve, "deny": s.deny, "answer": s.answer, "approvals": command.ReplyWith(s.approvals)}
}

// approve approves a pending request of a turn.
func (s *Service) approve(ctx context.Context, c command.Call) (command.Result, error) {
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
	return s.decide(ctx, c, id, d)
}

// decide applies the decision of a command to the pending request id.
func (s *Service) decide(ctx context.Context, c command.Call, id string, d Decision) (command.Result, error) {
	d.Text = prompt.EscapeTags(d.Text)
	text, apply := s.Decide(ctx, inbox.LaneOf(c.Key), id, c.Inbound.IdempotencyKey, d)
	return command.Result{Text: text, AfterCommit: apply}, nil
}

// deny denies a pending request of a turn.
func (s *Service) deny(ctx context.Context, c command.Call) (command.Result, error) {
	return s.decide(ctx, c, strings.ToLower(c.Args), Decision{Approval: true, Principal: c.Principal})
}

// answer answers a question with the number of a choice or with text.
func (s *Service) answer(ctx context.Context, c command.Call) (command.Result, error) {
	id, text, _ := strings.Cut(c.Args, " ")
	if text == "" {
		return command.Result{Text: c.T("Say `/answer <question> <number or text>`, or simply write your answer.")}, nil
	}
	d := Decision{Choice: -1, Text: text, Principal: c.Principal}
	if n, err := strconv.Atoi(text); err == nil && n >= 1 {
		d.Choice = n - 1
	}
	return s.decide(ctx, c, strings.ToLower(id), d)
}

// approvals runs the /approvals command and returns its reply. Its list has the permanent
// approvals and then those of the conversation.
func (s *Service) approvals(ctx context.Context, c command.Call) (string, error) {
	permanent, err := s.Permanent.List(ctx)
	if err != nil {
		return "", err
	}
	current := s.Questions.OfSession(c.Session.ID)
	verb, name, _ := strings.Cut(c.Args, " ")
	switch strings.ToLower(verb) {
	case "", "list":
		return formatApprovals(c, permanent, current), nil
	case "add":
		return s.addForJob(ctx, c, name)
	case "remove", "delete":
		return s.removeApproval(ctx, c, strings.TrimSpace(name), permanent, current)
	}
	return c.T(approvalsUsage), nil
}

const approvalsUsage = "`/approvals` lists the approvals that are remembered; `/approvals remove <number>` removes one; `/approvals add <job> <shape>` approves in the runs of a job what a refusal there names."

// addForJob approves a shape in the runs of a job, permanently. args are the ID of the job and
// the shape.
func (s *Service) addForJob(ctx context.Context, c command.Call, args string) (string, error) {
	id, shape, _ := strings.Cut(strings.TrimSpace(args), " ")
	if shape = strings.TrimSpace(shape); shape == "" {
		return c.T(approvalsUsage), nil
	}
	if s.Mask(shape) != shape {
		return c.T("A shape with a secret is never remembered."), nil
	}
	j, _, ok, err := s.Jobs.JobCreator(ctx, schedule.JobID(id))
	if err != nil {
		return "", err
	}
	if !ok || !j.Removed.IsZero() {
		return c.T("There is no job %s; `/cron` lists them.", markup.Code(id)), nil
	}
	if err := s.Permanent.Add(ctx, c.Principal, j.ID, shape); err != nil {
		return "", err
	}
	return c.T("Allowed, from now on in the runs of the job %s: %s", markup.Code(id), codeLines(shape)), nil
}

// removeApproval removes the approval with a number of the list, or all with a shape.
func (s *Service) removeApproval(ctx context.Context, c command.Call, name string, permanent []Record, current []string) (string, error) {
	all := permanent
	for _, shape := range current {
		all = append(all, Record{Shape: shape})
	}
	found := Find(all, name)
	if len(found) == 0 {
		return c.T("There is no such approval.") + " " + c.T(approvalsUsage), nil
	}
	n, err := strconv.Atoi(name)
	isNumber := err == nil
	if !isNumber || n <= len(permanent) {
		if err := s.Permanent.Remove(ctx, found...); err != nil {
			return "", err
		}
	}
	if !isNumber || n > len(permanent) {
		s.Questions.RemoveOfSession(c.Session.ID, found[0].Shape)
	}
	return c.T("Removed: %s", codeLines(found[0].Shape)), nil
}

func formatApprovals(c command.Call, permanent []Record, current []string) string {
	if len(permanent)+len(current) == 0 {
		return c.T("No approval is remembered.")
	}
	var b strings.Builder
	b.WriteString(c.T("**Approvals**") + "\n\n")
	n := 0
	line := func(shape, scope string) {
		n++
		fmt.Fprintf(&b, "%d. %s: %s\n", n, codeLines(shape), scope)
	}
	for _, r := range permanent {
		by, at := string(r.Principal.Platform)+":"+r.Principal.ID, r.At.Format("2006-01-02")
		switch {
		case r.NoLongerUsed:
			line(r.Shape, c.T("no longer used, from an older version"))
		case r.Job != "":
			line(r.Shape, c.T("in the runs of the job %s (%s, %s)", markup.Code(string(r.Job)), markup.Code(by), at))
		default:
			line(r.Shape, c.T("everywhere (%s, %s)", markup.Code(by), at))
		}
	}
	for _, shape := range current {
		line(shape, c.T("in this conversation, until I restart"))
	}
	return b.String() + "\n" + c.T("`/approvals remove <number>` removes one.")
}

// codeLines renders a shape as code, each of its lines by itself.
func codeLines(shape string) string {
	lines := strings.Split(shape, "\n")
	for i, l := range lines {
		lines[i] = markup.Code(l)
	}
	return strings.Join(lines, ", ")
}
