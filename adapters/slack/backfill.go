package slack

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/slack-go/slack"
	"go.uber.org/zap"

	"hermesd/adapters/slack/internal/apierror"
	"hermesd/adapters/slack/internal/checkpoint"
	"hermesd/adapters/slack/internal/inbound"
	"hermesd/internal/backoff"
)

// backfill fetches, from the histories of the channels with conversations, the
// messages sent while there was no socket. New events wait for a short time, so
// that older messages come first; the remaining histories are fetched in the
// background.
func (n *intake) backfill(ctx context.Context, since time.Time, rest *sync.WaitGroup) {
	a := n.a
	if since.IsZero() {
		return // the very first start
	}
	rest.Go(func() { n.recheck(ctx) })
	known, left := a.places.HistoryRequests(time.Now().Add(-healRecent))
	var visits []historyRequest
	for _, v := range known {
		visits = append(visits, historyRequest{HistoryRequest: v, until: time.Now().Add(backfillTimeout)})
	}
	first, cancel := context.WithTimeout(ctx, healFirst)
	defer cancel()
	m := &missedNotes{}
	strangers, more := a.strangers(first, since, m)
	visits = append(visits, strangers...)
	if left += more; left > 0 {
		m.add(fmt.Sprintf("places that were not looked at: %d", left))
	}
	for i := range visits {
		v := &visits[i]
		err := a.history(first, v)
		if err != nil && (first.Err() != nil || passing(err)) {
			n.later(ctx, visits[i:], m, rest)
			return
		}
		n.take(ctx, v.items())
		if err != nil {
			m.add(v.words(err))
		}
	}
	if ctx.Err() == nil { // otherwise the next start fetches it again
		a.settle(m)
	}
}

// recheck asks Slack whether the token and its scopes are still valid: an
// invalid token may be the reason of a connection loss.
func (n *intake) recheck(ctx context.Context) {
	if ce := apierror.Config(n.a.ask(ctx)); ce != nil {
		n.fail(ce)
	}
}

// later leaves requests to the goroutine that fetches at Slack's pace. A request
// that is already queued is made once, and continues where it stopped.
func (n *intake) later(ctx context.Context, visits []historyRequest, m *missedNotes, rest *sync.WaitGroup) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, v := range visits {
		same := func(w historyRequest) bool { return w.Channel == v.Channel && w.Thread == v.Thread }
		if !slices.ContainsFunc(n.todo, same) {
			n.todo = append(n.todo, v)
		}
	}
	if n.missed == nil {
		n.missed = m
		rest.Go(func() { n.backfillRest(ctx) })
		return
	}
	for _, what := range m.what {
		n.missed.add(what)
	}
}

// strangers returns requests for direct chats without a conversation so far: one
// may have been started while there was no socket. left is the number of further
// such chats.
func (a *Adapter) strangers(ctx context.Context, since time.Time, m *missedNotes) (out []historyRequest, left int) {
	chats, _, err := a.api.GetConversationsContext(ctx, &slack.GetConversationsParameters{Types: []string{"im"}, Limit: healDMs})
	if err != nil {
		m.add("the list of direct chats: " + apierror.SendError(err).Reason)
		return nil, 0
	}
	slices.SortStableFunc(chats, func(a, b slack.Channel) int { return b.Created.Time().Compare(a.Created.Time()) })
	for _, c := range chats {
		switch {
		case c.ID == "" || !c.IsIM || a.places.Knows(c.ID): // a server may list more than was asked for
		case len(out) < healStrangers:
			out = append(out, historyRequest{HistoryRequest: checkpoint.HistoryRequest{Channel: c.ID, Kind: "im", Seen: inbound.TS(since.Add(-healMargin))}, until: time.Now().Add(backfillTimeout)})
		default:
			left++
		}
	}
	return out, left
}

// backfillRest fetches the remaining histories.
func (n *intake) backfillRest(ctx context.Context) {
	for {
		n.mu.Lock()
		if len(n.todo) == 0 {
			m := n.missed
			n.todo, n.missed = nil, nil
			n.mu.Unlock()
			if ctx.Err() == nil {
				n.a.settle(m)
			}
			return
		}
		v, m := n.todo[0], n.missed
		n.mu.Unlock()
		n.visit(ctx, &v, m)
		n.mu.Lock()
		n.todo = n.todo[1:]
		n.mu.Unlock()
	}
}

// visit fetches one history at the pace that Slack requires.
func (n *intake) visit(ctx context.Context, v *historyRequest, m *missedNotes) {
	ctx, cancel := context.WithDeadline(ctx, v.until)
	defer cancel()
	err := n.a.history(ctx, v)
	for err != nil && ctx.Err() == nil && passing(err) {
		if backoff.Sleep(ctx, max(apierror.SendError(err).RetryAfter, healPause)) == nil {
			err = n.a.history(ctx, v)
		}
	}
	for _, it := range v.items() {
		n.put(it)
	}
	if err != nil {
		m.add(v.words(err))
	}
}

// passing reports whether err is temporary, so that a later attempt can succeed.
func passing(err error) bool {
	var flood *slack.RateLimitedError
	return errors.As(err, &flood) || apierror.Code(err) == "" && !errors.Is(err, errTooMuch) && !errors.Is(err, errNoNextPage)
}

// A historyRequest is the request for the history of a channel or thread, page
// by page.
type historyRequest struct {
	checkpoint.HistoryRequest
	until time.Time  // deadline
	next  *pageQuery // nil: the first page
	pages int
	got   []inbound.Body
}

// items returns the fetched messages, oldest first.
func (v *historyRequest) items() []item {
	slices.SortStableFunc(v.got, func(a, b inbound.Body) int { return cmp.Compare(a.TS, b.TS) })
	out := make([]item, 0, len(v.got))
	for _, b := range v.got {
		out = append(out, item{body: b})
	}
	v.got = nil
	return out
}

// words describes why messages at v may be missing.
func (v *historyRequest) words(err error) string {
	why := apierror.SendError(err).Reason
	for _, known := range []error{errTooMuch, errNoNextPage} {
		if errors.Is(err, known) {
			why = known.Error()
		}
	}
	if v.Thread != "" {
		return "a thread in " + v.Channel + ": " + why
	}
	return v.Channel + ": " + why
}

// missedNotes collects what could not be backfilled.
type missedNotes struct {
	mu   sync.Mutex
	what []string
}

func (m *missedNotes) add(s string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.what) < 5 && !slices.Contains(m.what, s) {
		m.what = append(m.what, s)
	}
}

// settle reports what could not be backfilled.
func (a *Adapter) settle(m *missedNotes) {
	m.mu.Lock()
	what := strings.Join(m.what, "; ")
	m.mu.Unlock()
	if what != "" {
		a.log.Warn("cannot backfill all messages", zap.String("err", what))
		what = "messages of the time without a connection may be missing: " + what
	}
	a.miss(what)
}

var (
	// errTooMuch means that a history has more messages than are fetched.
	errTooMuch = errors.New("more was said than is looked at")
	// errNoNextPage means that Slack has more messages and does not tell how to
	// fetch them.
	errNoNextPage = errors.New("there are more messages, and Slack does not show them")
)

// history collects in v the messages after the last seen one. After an error it
// can be called again and continues where it stopped.
func (a *Adapter) history(ctx context.Context, v *historyRequest) error {
	if v.Thread != "" {
		return a.replies(ctx, v, "", healPages)
	}
	return a.collect(ctx, v, pageQuery{channel: v.Channel, oldest: v.Seen, limit: healPage}, healPages)
}

// replies collects in v the messages of a thread after the last seen one and, if
// before is not empty, before that ts.
func (a *Adapter) replies(ctx context.Context, v *historyRequest, before string, pages int) error {
	return a.collect(ctx, v, pageQuery{channel: v.Channel, thread: v.Thread, oldest: v.Seen, latest: before, limit: healPage}, pages)
}

// collect collects in v the messages between first's bounds, which it fetches in
// at most so many pages. It begins where it stopped.
func (a *Adapter) collect(ctx context.Context, v *historyRequest, first pageQuery, pages int) error {
	q := first
	if v.next != nil {
		q = *v.next
	}
	for v.pages < pages {
		p, err := a.fetch(ctx, q)
		if err != nil {
			return fmt.Errorf("fetch history: %w", err)
		}
		for _, m := range p.messages {
			// Slack repeats the root of a thread on each page, whatever the bounds are.
			if (first.oldest == "" || inbound.After(m.TS, first.oldest)) && (first.latest == "" || inbound.After(first.latest, m.TS)) &&
				!slices.ContainsFunc(v.got, func(b inbound.Body) bool { return b.TS == m.TS }) {
				b := m.Body
				b.Type, b.Channel, b.ChannelType = "message", v.Channel, v.Kind
				v.got = append(v.got, b)
			}
		}
		v.pages++
		if p.next == nil {
			return nil
		}
		q, v.next = *p.next, p.next
	}
	return errTooMuch
}
