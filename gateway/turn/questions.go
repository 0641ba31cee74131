package turn

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"hermesd/agent/tool"
	"hermesd/gateway/access"
	"hermesd/gateway/chat"
	"hermesd/gateway/command"
	"hermesd/gateway/delivery"
	"hermesd/gateway/i18n"
	"hermesd/gateway/inbox"
	"hermesd/gateway/outbox"
	"hermesd/gateway/session"
)

// answerTime is how long a tool waits for the answer to a question of its own.
const answerTime = 10 * time.Minute

// A question is put to people while a tool waits for the answer.
type question struct {
	id       string
	lane     inbox.Lane
	approval bool         // it asks for leave; otherwise any message answers it
	level    access.Level // that who answers must have
	choices  []string
	said     chan struct{}         // somebody has said something in the lane
	decided  chan command.Decision // by a command or a button
	lost     chan string           // the question cannot be shown, and why
	asked    time.Time
	by       string // names the decision that counts; "" until there is one
}

// A questions book holds what waits for people. It is kept in memory only: the
// tools that wait die with the process.
type questions struct {
	mu       sync.Mutex // guards what follows
	open     map[string]*question
	approved map[string]map[string]bool // by session: what was allowed until the process ends
}

func newQuestions() *questions {
	return &questions{open: make(map[string]*question), approved: make(map[string]map[string]bool)}
}

func (b *questions) ask(q *question) {
	q.id, q.asked = strings.ToLower(rand.Text()[:6]), time.Now()
	q.said, q.decided, q.lost = make(chan struct{}, 1), make(chan command.Decision, 1), make(chan string, 1)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.open[q.id] = q
}

func (b *questions) close(q *question) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.open, q.id)
}

// ofLane returns the questions of a lane, the oldest first.
func (b *questions) ofLane(l inbox.Lane, leave bool) []*question {
	b.mu.Lock()
	defer b.mu.Unlock()
	var found []*question
	for _, q := range b.open {
		if q.lane == l && q.approval == leave {
			found = append(found, q)
		}
	}
	slices.SortFunc(found, func(x, y *question) int { return cmp.Or(x.asked.Compare(y.asked), cmp.Compare(x.id, y.id)) })
	return found
}

// reserve reports whether the decision of key is the one that counts for q.
func (b *questions) reserve(q *question, key string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if q.by == "" {
		q.by = key
	}
	return q.by == key
}

// any reports whether a question waits in a lane.
func (b *questions) any(l inbox.Lane) bool { return len(b.ofLane(l, true))+len(b.ofLane(l, false)) > 0 }

// allowed reports whether key was allowed for a session.
func (b *questions) allowed(session, key string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.approved[session][key]
}

// maxApprovedSessions bounds for how many sessions leave is remembered.
const maxApprovedSessions = 1000

func (b *questions) allow(session, key string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.approved) >= maxApprovedSessions { // asked again is better than kept for ever
		clear(b.approved)
	}
	if b.approved[session] == nil {
		b.approved[session] = make(map[string]bool)
	}
	b.approved[session][key] = true
}

// HasQuestion reports whether the next message in a lane answers a question.
func (r *Runner) HasQuestion(l inbox.Lane) bool { return len(r.asking.ofLane(l, false)) > 0 }

// MessageReceived tells the questions of a lane that somebody has said something there.
func (r *Runner) MessageReceived(l inbox.Lane) {
	for _, q := range r.asking.ofLane(l, false) {
		select {
		case q.said <- struct{}{}:
		default: // it knows
		}
	}
}

// PendingApprovals returns the ids of the requests for leave that wait in a lane, the
// oldest first.
func (r *Runner) PendingApprovals(l inbox.Lane) []string {
	var ids []string
	for _, q := range r.asking.ofLane(l, true) {
		ids = append(ids, q.id)
	}
	return ids
}

// QuestionsDelivered tells the questions what became of the rows that show them. One that
// cannot be shown has no answer.
func (r *Runner) QuestionsDelivered(row outbox.Row, s outbox.Settlement) {
	if s.State != outbox.Dead || row.Question == "" {
		return
	}
	r.asking.mu.Lock()
	defer r.asking.mu.Unlock()
	for _, q := range r.asking.open {
		if row.Question == q.id {
			select {
			case q.lost <- s.Reason:
			default:
			}
		}
	}
}

// AnswerQuestion answers the question called id that waits in lane l; id "" is the only
// one there. It says in words what comes of it, and returns what makes it so, nil
// if nothing does. key names who decides, so that only the first decision counts.
func (r *Runner) AnswerQuestion(l inbox.Lane, id, key string, leave bool, d command.Decision) (text string, then func()) {
	waiting := r.asking.ofLane(l, leave)
	if id == "" && len(waiting) > 1 {
		ids := make([]string, len(waiting))
		for i, q := range waiting {
			ids[i] = "`" + q.id + "`"
		}
		return r.opts.Printer.T("%d questions wait. Say which: %s.", len(waiting), strings.Join(ids, ", ")), nil
	}
	i := slices.IndexFunc(waiting, func(q *question) bool { return id == "" || q.id == id })
	switch {
	case i < 0 && id == "":
		return r.opts.Printer.T("Nothing waits for that."), nil
	case i < 0:
		return r.opts.Printer.T("No question is called `%s` here. It was answered already, or its time is over.", id), nil
	}
	q := waiting[i]
	switch {
	case d.Principal.Level < q.level:
		return r.opts.Printer.T("That is for people of level %s; you are %s.", q.level, d.Principal.Level), nil
	case d.Scope == "always" && d.Principal.Level < access.Owner:
		return r.opts.Printer.T("Leave for ever is given by an owner only."), nil
	case !leave && d.Choice >= len(q.choices):
		return r.opts.Printer.T("There are %d choices.", len(q.choices)), nil
	case !r.asking.reserve(q, key):
		return r.opts.Printer.T("That was answered already."), nil
	}
	return said(r.opts.Printer, q, d), func() {
		select {
		case q.decided <- d:
		default: // this decision was carried out before
		}
	}
}

// said is what a person is told of a decision.
func said(p i18n.Printer, q *question, d command.Decision) string {
	switch {
	case !q.approval && d.Choice >= 0:
		return p.T("Your answer: %s", q.choices[d.Choice])
	case !q.approval:
		return p.T("I have your answer.")
	case !d.Allow:
		return p.T("Denied.")
	case d.Scope == "":
		return p.T("Allowed, this once.")
	case d.Scope == "session":
		return p.T("Allowed, and from now on in this conversation.")
	}
	return p.T("Allowed, and from now on everywhere.")
}

// show sends a question with its buttons, as a message of its own.
func (r *Runner) show(ctx context.Context, q *question, text string, to delivery.Draft, buttons [][]chat.Button) error {
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

// toolUser are whom the tools of the turn reach. It is made before they run.
func (t *turn) toolUser() tool.UserChannel {
	e, to := t.last(), t.draft()
	p := tool.UserChannel{}
	if t.runner.opts.Send != nil {
		p.Send = func(ctx context.Context, m tool.Message) (string, error) {
			return t.runner.opts.Send(ctx, e, t.claim.Turn, m)
		}
	}
	if t.runner.unattended(e) {
		p.Approve = func(ctx context.Context, req tool.ApprovalRequest) error {
			return t.runner.decideUnattended(ctx, string(t.session.record.ID), req)
		}
		return p
	}
	p.Ask = func(ctx context.Context, q tool.Question) (tool.Answer, error) { return t.ask(ctx, to, e, q) }
	p.Approve = func(ctx context.Context, req tool.ApprovalRequest) error { return t.requestApproval(ctx, to, e, req) }
	return p
}

// unattended reports whether nobody can answer in the turn of e.
func (r *Runner) unattended(e inbox.Entry) bool {
	return e.Inbound.Address.Platform == chat.Cron || r.opts.Delivery.RawMarkdown(e.Inbound.Address)
}

// ask puts a question of a tool to the person, and waits for the answer: a
// message like any other, or a button.
func (t *turn) ask(ctx context.Context, to delivery.Draft, e inbox.Entry, in tool.Question) (tool.Answer, error) {
	none := tool.Answer{Choice: -1}
	q := &question{lane: t.claim.Lane, level: access.Guest, choices: in.Choices}
	t.runner.asking.ask(q)
	defer t.runner.asking.close(q)
	var b strings.Builder
	b.WriteString(in.Text)
	var buttons [][]chat.Button
	for i, c := range in.Choices {
		fmt.Fprintf(&b, "\n%d. %s", i+1, c)
		buttons = append(buttons, []chat.Button{{Label: label(c), Data: fmt.Sprintf("/answer %s %d", q.id, i+1)}})
	}
	if err := t.runner.show(ctx, q, b.String(), to, buttons); err != nil {
		return none, fmt.Errorf("the question could not be shown: %w", err)
	}
	late := time.NewTimer(answerTime)
	defer late.Stop()
	for {
		select {
		case <-ctx.Done():
			return none, context.Cause(ctx)
		case <-late.C:
			return none, fmt.Errorf("nobody answered within %v", answerTime)
		case why := <-q.lost:
			return none, fmt.Errorf("the question could not be shown: %s", why)
		case d := <-q.decided:
			if d.Choice >= 0 {
				return tool.Answer{Text: in.Choices[d.Choice], Choice: d.Choice}, nil
			}
			return tool.Answer{Text: d.Text, Choice: -1}, nil
		case <-q.said:
			if text := t.heardAnswer(ctx); text != "" {
				return tool.Answer{Text: text, Choice: choiceOf(text, in.Choices)}, nil
			}
		}
	}
}

// maxLabel is the most characters on a button.
const maxLabel = 40

func label(choice string) string {
	if r := []rune(choice); len(r) > maxLabel {
		return string(r[:maxLabel-1]) + "…"
	}
	return choice
}

// heardAnswer takes what people have said into the turn, and returns it.
func (t *turn) heardAnswer(ctx context.Context) string {
	more, err := t.runner.opts.Store.Join(context.WithoutCancel(ctx), t.claim, true)
	if err != nil {
		t.log.Error("join an answer", zap.Error(err))
		return ""
	}
	t.replies.add(more)
	var texts []string
	for _, e := range more {
		text, _, _ := t.runner.entryContent(ctx, e, &session.Record{ID: t.session.record.ID}, false)
		texts = append(texts, text)
	}
	return strings.Join(texts, "\n")
}

// choiceOf returns the number of the choice that a text names, -1 for none.
func choiceOf(text string, choices []string) int {
	text = strings.TrimSpace(text)
	if n, err := strconv.Atoi(strings.TrimRight(text, ".)")); err == nil && n >= 1 && n <= len(choices) {
		return n - 1
	}
	return slices.IndexFunc(choices, func(c string) bool { return strings.EqualFold(strings.TrimSpace(c), text) })
}

// replies are entries that tools have taken into the turn beside its own
// goroutine.
type replies struct {
	mu   sync.Mutex // guards list
	list []inbox.Entry
}

func (r *replies) add(more []inbox.Entry) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list = append(r.list, more...)
}

// absorb makes the answers that tools were given part of the claim.
func (t *turn) absorb() {
	t.replies.mu.Lock()
	defer t.replies.mu.Unlock()
	for _, e := range t.replies.list {
		t.claim.Entries = append(t.claim.Entries, e)
		t.lastSeen = max(t.lastSeen, e.ID)
	}
	if len(t.replies.list) > 0 {
		t.updateActor()
	}
	t.replies.list = nil
}

// errDenied is what a model is told of a command that was not allowed.
var errDenied = errors.New("the person did not allow it. Do not try it again in another form; ask them what they want instead")
