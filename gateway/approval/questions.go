package approval

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"hermesd/agent/tool"
	"hermesd/gateway/access"
	"hermesd/gateway/chat"
	"hermesd/gateway/delivery"
	"hermesd/gateway/inbox"
	"hermesd/gateway/markup"
	"hermesd/gateway/outbox"
	"hermesd/gateway/session"
)

// A question is a question or an approval request for which a tool waits.
type question struct {
	id             string
	lane           inbox.Lane
	approval       bool         // it is an approval request; otherwise any message answers it
	level          access.Level // minimum level of the user who answers
	shapes         []string     // what an approval covers; empty: only this request
	choices        []string
	messageArrived chan struct{} // signals a message in the lane
	decision       chan Decision // by a command or a button
	deliveryFailed chan string   // reason why the question cannot be delivered
	askedAt        time.Time
	decidedBy      string // key of the decision that counts; "" if undecided
}

// Questions holds the questions and approval requests for which tools wait, and the
// approvals of conversations. It is in memory only, because the waiting tools end with
// the process. Its methods may be called from any goroutine.
type Questions struct {
	mu       sync.Mutex // guards what follows
	open     map[string]*question
	approved map[session.ID]map[string]bool // by session and shape: approvals until the process ends
}

// NewQuestions returns an empty Questions.
func NewQuestions() *Questions {
	return &Questions{open: make(map[string]*question), approved: make(map[session.ID]map[string]bool)}
}

func (b *Questions) add(q *question) {
	q.id, q.askedAt = strings.ToLower(rand.Text()[:6]), time.Now()
	q.messageArrived, q.decision, q.deliveryFailed = make(chan struct{}, 1), make(chan Decision, 1), make(chan string, 1)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.open[q.id] = q
}

func (b *Questions) remove(q *question) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.open, q.id)
}

// inLane returns the pending approval requests, or the pending questions, of a lane,
// oldest first.
func (b *Questions) inLane(l inbox.Lane, approval bool) []*question {
	b.mu.Lock()
	defer b.mu.Unlock()
	var found []*question
	for _, q := range b.open {
		if q.lane == l && q.approval == approval {
			found = append(found, q)
		}
	}
	slices.SortFunc(found, func(x, y *question) int { return cmp.Or(x.askedAt.Compare(y.askedAt), cmp.Compare(x.id, y.id)) })
	return found
}

// reserve makes the decision named key the one that counts for q, unless another one
// does, and reports whether it counts.
func (b *Questions) reserve(q *question, key string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if q.decidedBy == "" {
		q.decidedBy = key
	}
	return q.decidedBy == key
}

// HasPending reports whether a question or an approval request is pending in a lane.
func (b *Questions) HasPending(l inbox.Lane) bool {
	return len(b.inLane(l, true))+len(b.inLane(l, false)) > 0
}

// isApproved reports whether shape was approved for a session.
func (b *Questions) isApproved(id session.ID, shape string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.approved[id][shape]
}

// maxApprovedSessions is the maximum number of sessions whose approvals are kept.
const maxApprovedSessions = 1000

func (b *Questions) approve(id session.ID, shapes []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.approved) >= maxApprovedSessions { // users are asked again; that is better than unbounded growth
		clear(b.approved)
	}
	if b.approved[id] == nil {
		b.approved[id] = make(map[string]bool)
	}
	for _, shape := range shapes {
		b.approved[id][shape] = true
	}
}

// OfSession returns the shapes that were approved for a session, sorted.
func (b *Questions) OfSession(id session.ID) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Sorted(maps.Keys(b.approved[id]))
}

// RemoveOfSession removes the approval of a shape for a session.
func (b *Questions) RemoveOfSession(id session.ID, shape string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.approved[id], shape)
}

// HasQuestion reports whether the next message in a lane answers a question.
func (b *Questions) HasQuestion(l inbox.Lane) bool { return len(b.inLane(l, false)) > 0 }

// MessageReceived notifies the pending questions of a lane that a message has arrived
// there. It does not block.
func (b *Questions) MessageReceived(l inbox.Lane) {
	for _, q := range b.inLane(l, false) {
		select {
		case q.messageArrived <- struct{}{}:
		default: // already notified
		}
	}
}

// PendingApprovals returns the IDs of the pending approval requests of a lane, oldest
// first.
func (b *Questions) PendingApprovals(l inbox.Lane) []string {
	var ids []string
	for _, q := range b.inLane(l, true) {
		ids = append(ids, q.id)
	}
	return ids
}

// Settled is called with the settlement of an outbox row. If the row shows
// a question and is dead, the tool that waits for the answer gets an error.
func (b *Questions) Settled(row outbox.Row, s outbox.Settlement) {
	if s.State != outbox.Dead || row.Question == "" {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, q := range b.open {
		if row.Question == q.id {
			select {
			case q.deliveryFailed <- s.Reason:
			default:
			}
		}
	}
}

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
