package turn

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"hermesd/agent/tool"
	"hermesd/gateway/access"
	"hermesd/gateway/active"
	"hermesd/gateway/chat"
	"hermesd/gateway/command"
	"hermesd/gateway/delivery"
	"hermesd/gateway/i18n"
	"hermesd/gateway/inbox"
	"hermesd/gateway/outbox"
	"hermesd/gateway/session"
)

// answerTimeout is how long a tool waits for the answer to its question.
const answerTimeout = 10 * time.Minute

// A question is a question or an approval request for which a tool waits.
type question struct {
	id             string
	lane           inbox.Lane
	approval       bool         // it is an approval request; otherwise any message answers it
	level          access.Level // minimum level of the user who answers
	shapes         []string     // what an approval covers; empty: only this request
	choices        []string
	messageArrived chan struct{}         // signals a message in the lane
	decision       chan command.Decision // by a command or a button
	deliveryFailed chan string           // reason why the question cannot be delivered
	askedAt        time.Time
	decidedBy      string // key of the decision that counts; "" if undecided
}

// questions holds the pending questions. It is in memory only, because the waiting
// tools end with the process.
type questions struct {
	mu       sync.Mutex // guards what follows
	open     map[string]*question
	approved map[session.ID]map[string]bool // by session and shape: approvals until the process ends
}

func newQuestions() *questions {
	return &questions{open: make(map[string]*question), approved: make(map[session.ID]map[string]bool)}
}

func (b *questions) add(q *question) {
	q.id, q.askedAt = strings.ToLower(rand.Text()[:6]), time.Now()
	q.messageArrived, q.decision, q.deliveryFailed = make(chan struct{}, 1), make(chan command.Decision, 1), make(chan string, 1)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.open[q.id] = q
}

func (b *questions) remove(q *question) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.open, q.id)
}

// inLane returns the pending approval requests, or the pending questions, of a lane,
// oldest first.
func (b *questions) inLane(l inbox.Lane, approval bool) []*question {
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
func (b *questions) reserve(q *question, key string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if q.decidedBy == "" {
		q.decidedBy = key
	}
	return q.decidedBy == key
}

// hasPending reports whether a question or an approval request is pending in a lane.
func (b *questions) hasPending(l inbox.Lane) bool {
	return len(b.inLane(l, true))+len(b.inLane(l, false)) > 0
}

// isApproved reports whether shape was approved for a session.
func (b *questions) isApproved(id session.ID, shape string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.approved[id][shape]
}

// maxApprovedSessions is the maximum number of sessions whose approvals are kept.
const maxApprovedSessions = 1000

func (b *questions) approve(id session.ID, shapes []string) {
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

// SessionApprovals returns the shapes that were approved for a session, sorted.
func (r *Runner) SessionApprovals(id session.ID) []string {
	r.questions.mu.Lock()
	defer r.questions.mu.Unlock()
	return slices.Sorted(maps.Keys(r.questions.approved[id]))
}

// RemoveSessionApproval removes the approval of a shape for a session.
func (r *Runner) RemoveSessionApproval(id session.ID, shape string) {
	r.questions.mu.Lock()
	defer r.questions.mu.Unlock()
	delete(r.questions.approved[id], shape)
}

// HasQuestion reports whether the next message in a lane answers a question. It may be
// called from any goroutine.
func (r *Runner) HasQuestion(l inbox.Lane) bool { return len(r.questions.inLane(l, false)) > 0 }

// MessageReceived notifies the pending questions of a lane that a message has arrived
// there. It does not block.
func (r *Runner) MessageReceived(l inbox.Lane) {
	for _, q := range r.questions.inLane(l, false) {
		select {
		case q.messageArrived <- struct{}{}:
		default: // already notified
		}
	}
}

// PendingApprovals returns the IDs of the pending approval requests of a lane, oldest
// first.
func (r *Runner) PendingApprovals(l inbox.Lane) []string {
	var ids []string
	for _, q := range r.questions.inLane(l, true) {
		ids = append(ids, q.id)
	}
	return ids
}

// QuestionsDelivered is called with the settlement of an outbox row. If the row shows
// a question and is dead, the tool that waits for the answer gets an error.
func (r *Runner) QuestionsDelivered(row outbox.Row, s outbox.Settlement) {
	if s.State != outbox.Dead || row.Question == "" {
		return
	}
	r.questions.mu.Lock()
	defer r.questions.mu.Unlock()
	for _, q := range r.questions.open {
		if row.Question == q.id {
			select {
			case q.deliveryFailed <- s.Reason:
			default:
			}
		}
	}
}

// AnswerQuestion decides the pending question or approval request id of lane l; id ""
// selects the only pending one. It returns the text for the user and a function that
// applies the decision, nil if d is not accepted. key identifies the decision, so that
// only the first one counts even if it is repeated. A permanent approval is stored when
// AnswerQuestion returns, so that no crash loses what the text says.
func (r *Runner) AnswerQuestion(ctx context.Context, l inbox.Lane, id, key string, d command.Decision) (text string, then func()) {
	waiting := r.questions.inLane(l, d.Approval)
	if id == "" && len(waiting) > 1 {
		ids := make([]string, len(waiting))
		for i, q := range waiting {
			ids[i] = "`" + q.id + "`"
		}
		return r.opts.Printer.T("There are %d pending requests; choose one: %s.", len(waiting), strings.Join(ids, ", ")), nil
	}
	i := slices.IndexFunc(waiting, func(q *question) bool { return id == "" || q.id == id })
	switch {
	case i < 0 && id == "":
		return r.opts.Printer.T("There is no pending request."), nil
	case i < 0:
		return r.opts.Printer.T("There is no pending request `%s`; it was answered or has expired.", id), nil
	}
	q := waiting[i]
	switch {
	case d.Principal.Level < q.level:
		return r.opts.Printer.T("That requires level %s; yours is %s.", q.level, d.Principal.Level), nil
	case d.Scope == "always" && d.Principal.Level < access.Owner:
		return r.opts.Printer.T("Only an owner can approve a command permanently."), nil
	case !d.Approval && d.Choice >= len(q.choices):
		return r.opts.Printer.T("There are %d choices.", len(q.choices)), nil
	case !r.questions.reserve(q, key):
		return r.opts.Printer.T("That was answered already."), nil
	}
	d.Scope = r.storeAlways(ctx, q, d)
	return decisionText(r.opts.Printer, q, d), func() {
		select {
		case q.decision <- d:
		default: // this decision was applied before
		}
	}
}

// decisionText returns the text that confirms a decision to the user.
func decisionText(p i18n.Printer, q *question, d command.Decision) string {
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

// sendQuestion enqueues a question with its buttons as a separate message.
func (r *Runner) sendQuestion(ctx context.Context, q *question, text string, to delivery.Draft, buttons [][]chat.Button) error {
	to.Role = outbox.Notice
	rows := r.opts.Delivery.Render(text, to)
	for i := range rows {
		rows[i].Question = q.id
	}
	if n := len(rows); n > 0 {
		rows[n-1].Msg.Buttons = buttons
	}
	_, err := r.opts.Delivery.Enqueue(ctx, rows...)
	return err
}

// newUserChannel returns the connection of the turn's tools to the users of the chat.
func (t *turn) newUserChannel() tool.UserChannel {
	e, to := t.last(), t.draft()
	p := tool.UserChannel{}
	if t.runner.opts.Send != nil {
		p.Send = func(ctx context.Context, m tool.Message) (string, error) {
			return t.runner.opts.Send(ctx, e, t.claim.Turn, m, t.attachScope())
		}
	}
	if t.runner.isUnattended(e) {
		p.Approve = func(ctx context.Context, req tool.ApprovalRequest) error {
			return t.runner.decideUnattended(ctx, t.session.record.ID, e, req)
		}
		return p
	}
	p.Ask = func(ctx context.Context, q tool.Question) (tool.Answer, error) { return t.askUser(ctx, to, e, q) }
	p.Approve = func(ctx context.Context, req tool.ApprovalRequest) error { return t.requestApproval(ctx, to, e, req) }
	return p
}

// isUnattended reports whether no user can answer a question in the turn of e.
func (r *Runner) isUnattended(e inbox.Entry) bool {
	return e.Inbound.Address.Platform == chat.Cron || r.opts.Delivery.RawMarkdown(e.Inbound.Address)
}

// askUser sends a question of a tool and waits for the answer, which is a message or a
// button.
func (t *turn) askUser(ctx context.Context, to delivery.Draft, e inbox.Entry, in tool.Question) (tool.Answer, error) {
	none := tool.Answer{Choice: -1}
	q := &question{lane: t.claim.Lane, level: min(access.Member, active.LeastPrivileged(t.claim.Entries).Level), choices: in.Choices}
	t.runner.questions.add(q)
	defer t.runner.questions.remove(q)
	var b strings.Builder
	b.WriteString(in.Text)
	var buttons [][]chat.Button
	for i, c := range in.Choices {
		fmt.Fprintf(&b, "\n%d. %s", i+1, c)
		buttons = append(buttons, []chat.Button{{Label: buttonLabel(c), Data: fmt.Sprintf("/answer %s %d", q.id, i+1)}})
	}
	if err := t.runner.sendQuestion(ctx, q, b.String(), to, buttons); err != nil {
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
			if text := t.joinAnswer(ctx); text != "" {
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

// joinAnswer joins the new entries of the lane to the turn and returns their text.
func (t *turn) joinAnswer(ctx context.Context) string {
	more, err := t.runner.opts.Store.Join(context.WithoutCancel(ctx), t.claim, true)
	if err != nil {
		t.log.Error("cannot join answer", zap.Error(err))
		return ""
	}
	t.runner.runs.add(t.claim.Lane, more...)
	t.replies.add(more)
	var texts []string
	for _, e := range more {
		text, _, _ := t.runner.entryContent(ctx, e, &session.Record{ID: t.session.record.ID}, false)
		texts = append(texts, text)
	}
	return strings.Join(texts, "\n")
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
		t.runner.opts.Active.Set(t.session.record.ID, t.claim)
	}
	t.replies.list = nil
}

// errDenied is the tool error of a denied approval request; the model reads it.
var errDenied = errors.New("the person did not allow it. Do not try it again in another form; ask them what they want instead")
