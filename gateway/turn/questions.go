package turn

import (
	"context"
	"strings"
	"sync"

	"go.uber.org/zap"

	"hermesd/agent/tool"
	"hermesd/gateway/approval"
	"hermesd/gateway/inbox"
	"hermesd/gateway/session"
)

// newUserChannel returns the connection of the turn's tools to the users of the chat.
func (t *turn) newUserChannel() tool.UserChannel {
	s, e := t.runner.parts.Chat.Approval, t.last()
	at := approval.Turn{Session: t.session.Record.ID, Lane: t.claim.Lane, Entry: e, Draft: t.reply.Draft(), Join: t.joinAnswer}
	p := tool.UserChannel{Approve: func(ctx context.Context, req tool.ApprovalRequest) error { return s.Approve(ctx, at, req) }}
	p.Send = func(ctx context.Context, m tool.Message) (string, error) {
		return t.reply.SendMessage(ctx, e, m, t.session)
	}
	if !s.IsUnattended(e) {
		p.Ask = func(ctx context.Context, q tool.Question) (tool.Answer, error) { return s.Ask(ctx, at, q) }
	}
	return p
}

// joinAnswer joins the new entries of the lane to the turn and returns their text.
func (t *turn) joinAnswer(ctx context.Context) string {
	more, err := t.runner.parts.Store.Join(context.WithoutCancel(ctx), t.Claim, true)
	if err != nil {
		t.log.Error("cannot join answer", zap.Error(err))
		return ""
	}
	t.runner.runs.Add(t.claim.Lane, more...)
	t.replies.add(more)
	var texts []string
	for _, e := range more {
		text, _, _ := t.runner.parts.Chat.Input.Entry(ctx, e, &session.Record{ID: t.session.Record.ID}, false)
		texts = append(texts, text)
	}
	return strings.Join(texts, "\n")
}

// replies holds the entries that tools have joined to the turn from their own
// goroutines.
type replies struct {
	mu   sync.Mutex // guards list
	list []inbox.Entry
}

func (r *replies) add(more []inbox.Entry) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list = append(r.list, more...)
}

// absorbReplies adds the entries of replies to the claim.
func (t *turn) absorbReplies() {
	t.replies.mu.Lock()
	defer t.replies.mu.Unlock()
	for _, e := range t.replies.list {
		t.claim.Entries = append(t.claim.Entries, e)
		t.lastSeen = max(t.lastSeen, e.ID)
	}
	if len(t.replies.list) > 0 {
		t.runner.parts.Agent.Active.Set(t.session.Record.ID, t.Claim)
	}
	t.replies.list = nil
}
