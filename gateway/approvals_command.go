package gateway

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"hermesd/gateway/approval"
	"hermesd/gateway/command"
	"hermesd/gateway/markup"
)

// Approvals runs the /approvals command and returns its reply. Its list has the permanent
// approvals and then those of the conversation.
func (e env) Approvals(ctx context.Context, c command.Call) (string, error) {
	permanent, err := e.g.approval.Permanent.List(ctx)
	if err != nil {
		return "", err
	}
	current := e.g.approval.Questions.OfSession(c.Session.ID)
	verb, name, _ := strings.Cut(c.Args, " ")
	switch strings.ToLower(verb) {
	case "", "list":
		return formatApprovals(c, permanent, current), nil
	case "remove", "delete":
		return e.removeApproval(ctx, c, strings.TrimSpace(name), permanent, current)
	}
	return c.T(approvalsUsage), nil
}

const approvalsUsage = "`/approvals` lists the approvals that are remembered; `/approvals remove <number>` removes one."

// removeApproval removes the approval with a number of the list, or all with a shape.
func (e env) removeApproval(ctx context.Context, c command.Call, name string, permanent []approval.Record, current []string) (string, error) {
	all := permanent
	for _, shape := range current {
		all = append(all, approval.Record{Shape: shape})
	}
	found := approval.Find(all, name)
	if len(found) == 0 {
		return c.T("There is no such approval.") + " " + c.T(approvalsUsage), nil
	}
	n, err := strconv.Atoi(name)
	isNumber := err == nil
	if !isNumber || n <= len(permanent) {
		if err := e.g.approval.Permanent.Remove(ctx, found...); err != nil {
			return "", err
		}
	}
	if !isNumber || n > len(permanent) {
		e.g.approval.Questions.RemoveOfSession(c.Session.ID, found[0].Shape)
	}
	return c.T("Removed: %s", codeLines(found[0].Shape)), nil
}

func formatApprovals(c command.Call, permanent []approval.Record, current []string) string {
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
