package approval

import (
	"context"
	"fmt"
	"strings"

	"hermesd/agent/tool"
	"hermesd/gateway/chat"
	"hermesd/gateway/delivery"
	"hermesd/gateway/markup"
	"hermesd/gateway/outbox"
)

// approvalMessage returns the text that asks for approval. It shows the complete
// command.
func (s *Service) approvalMessage(id string, req tool.ApprovalRequest) string {
	p := s.Options.Printer
	fence := "```"
	for strings.Contains(req.Command, fence) {
		fence += "`"
	}
	var b strings.Builder
	b.WriteString(p.T("⚠️ **May I run this?** (`%s`)", id) + "\n\n" + fence + "\n" + req.Command + "\n" + fence + "\n")
	for _, reason := range req.Reasons {
		b.WriteString("- " + p.Translate(reason) + "\n")
	}
	covered := strings.Split(strings.Join(req.Shapes, "\n"), "\n") // a shape may have several lines
	for i, line := range covered {
		covered[i] = markup.Code(line)
	}
	if len(covered) > 1 {
		b.WriteString("\n" + p.T("`session` and `always` cover each of these:") + "\n- " + strings.Join(covered, "\n- ") + "\n")
	}
	fmt.Fprintf(&b, "\n`/approve %s`", id)
	switch {
	case len(req.Shapes) == 0:
	case len(covered) == 1:
		b.WriteString(p.T(" (or `/approve %[1]s session`, `/approve %[1]s always`: %[2]s)", id, covered[0]))
	default:
		b.WriteString(p.T(" (or `/approve %[1]s session`, `/approve %[1]s always`)", id))
	}
	b.WriteString(p.T(", `/deny %s`. Without an answer it is denied in %v.", id, s.Options.Timeout))
	return b.String()
}

func (s *Service) approvalButtons(id string, req tool.ApprovalRequest) [][]chat.Button {
	p := s.Options.Printer
	first := []chat.Button{{Label: p.T("Allow once"), Data: "/approve " + id}, {Label: p.T("Deny"), Data: "/deny " + id}}
	if len(req.Shapes) == 0 {
		return [][]chat.Button{first}
	}
	return [][]chat.Button{first, {
		{Label: p.T("For this conversation"), Data: "/approve " + id + " session"}, {Label: p.T("Always"), Data: "/approve " + id + " always"},
	}}
}

// sendQuestion enqueues a question with its buttons as a separate message.
func (s *Service) sendQuestion(ctx context.Context, q *question, text string, to delivery.Draft, buttons [][]chat.Button) error {
	to.Role = outbox.Notice
	rows := s.Delivery.Render(text, to)
	for i := range rows {
		rows[i].Question = q.id
	}
	if n := len(rows); n > 0 {
		rows[n-1].Msg.Buttons = buttons
	}
	_, err := s.Delivery.Enqueue(ctx, rows...)
	return err
}
