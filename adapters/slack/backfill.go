package slack

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/slack-go/slack"
	"go.uber.org/zap"

	"hermesd/adapters/internal/backoff"
	"hermesd/adapters/slack/internal/apierror"
	"hermesd/adapters/slack/internal/checkpoint"
	"hermesd/adapters/slack/internal/inbound"
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
		m.add(fmt.Sprintf("%d more places were not looked at", left))
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
		case c.ID == "" || a.places.Knows(c.ID):
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
	return errors.As(err, &flood) || apierror.Code(err) == "" && !errors.Is(err, errTooMuch)
}

// A historyRequest is the request for the history of a channel or thread, page
// by page.
type historyRequest struct {
	checkpoint.HistoryRequest
	until  time.Time // deadline
	cursor string
	pages  int
	got    []inbound.Body
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
	why := errTooMuch.Error()
	if !errors.Is(err, errTooMuch) {
		why = apierror.SendError(err).Reason
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

// errTooMuch means that a history has more messages than are fetched.
var errTooMuch = errors.New("more was said than is looked at")

// history collects in v the messages after the last seen one. After an error it
// can be called again and continues where it stopped.
func (a *Adapter) history(ctx context.Context, v *historyRequest) error {
	if v.Thread != "" {
		return a.replies(ctx, v, "", healPages)
	}
	for v.pages < healPages {
		r, err := a.api.GetConversationHistoryContext(ctx, &slack.GetConversationHistoryParameters{
			ChannelID: v.Channel, Oldest: v.Seen, Limit: healPage, Cursor: v.cursor,
		})
		if err != nil {
			return fmt.Errorf("fetch history: %w", err)
		}
		for _, m := range r.Messages {
			v.got = append(v.got, body(m, v))
		}
		v.pages++
		if v.cursor = r.ResponseMetaData.NextCursor; !r.HasMore || v.cursor == "" {
			return nil
		}
	}
	return errTooMuch
}

// replies collects in v the messages of a thread after the last seen one and, if
// before is not empty, before that ts.
func (a *Adapter) replies(ctx context.Context, v *historyRequest, before string, pages int) error {
	for v.pages < pages {
		ms, more, cursor, err := a.api.GetConversationRepliesContext(ctx, &slack.GetConversationRepliesParameters{
			ChannelID: v.Channel, Timestamp: v.Thread, Oldest: v.Seen, Latest: before, Limit: healPage, Cursor: v.cursor,
		})
		if err != nil {
			return fmt.Errorf("fetch thread: %w", err)
		}
		for _, m := range ms {
			// Slack repeats the root of the thread on each page.
			if (v.Seen == "" || inbound.After(m.Timestamp, v.Seen)) && (before == "" || inbound.After(before, m.Timestamp)) &&
				!slices.ContainsFunc(v.got, func(b inbound.Body) bool { return b.TS == m.Timestamp }) {
				v.got = append(v.got, body(m, v))
			}
		}
		v.pages++
		if v.cursor = cursor; !more || cursor == "" {
			return nil
		}
	}
	return errTooMuch
}

// body returns a message of a history in the form of an event.
func body(m slack.Message, v *historyRequest) inbound.Body {
	b := inbound.Body{TS: m.Timestamp, User: m.User, Text: m.Text}
	if raw, err := json.Marshal(m.Msg); err == nil {
		if err := json.Unmarshal(raw, &b); err != nil {
			b = inbound.Body{TS: m.Timestamp, User: m.User, Text: m.Text, ThreadTS: m.ThreadTimestamp}
		}
	}
	b.Type, b.Channel, b.ChannelType = "message", v.Channel, v.Kind
	return b
}
