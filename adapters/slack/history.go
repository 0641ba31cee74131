package slack

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/slack-go/slack"

	"hermesd/adapters/slack/internal/apiclient"
	"hermesd/adapters/slack/internal/apierror"
	"hermesd/adapters/slack/internal/checkpoint"
	"hermesd/adapters/slack/internal/inbound"
	"hermesd/gateway/chat"
)

// A pageQuery asks for one page of the history of a channel, newest first, or of a
// thread, oldest first.
type pageQuery struct {
	channel, thread string
	oldest, latest  string // ts of the messages between which to look, both excluded; "": no bound
	cursor          string
	limit           int
	metadata        bool
}

type page struct {
	messages []historyMessage
	// next asks for the next page; nil if there is none.
	next *pageQuery
}

// A historyMessage is a message of a history. Fields of a form that is not known
// are left out.
type historyMessage struct {
	inbound.Body
	Metadata struct {
		EventType    string         `json:"event_type"`
		EventPayload map[string]any `json:"event_payload"`
	} `json:"metadata"`
}

func (a *Adapter) fetch(ctx context.Context, q pageQuery) (page, error) {
	var (
		raws   []json.RawMessage
		more   bool
		cursor string
		err    error
	)
	ctx = apiclient.WithMessages(ctx, &raws)
	if q.thread != "" {
		_, more, cursor, err = a.api.GetConversationRepliesContext(ctx, &slack.GetConversationRepliesParameters{
			ChannelID: q.channel, Timestamp: q.thread, Oldest: q.oldest, Latest: q.latest, Cursor: q.cursor, Limit: q.limit, IncludeAllMetadata: q.metadata,
		})
	} else {
		var r *slack.GetConversationHistoryResponse
		r, err = a.api.GetConversationHistoryContext(ctx, &slack.GetConversationHistoryParameters{
			ChannelID: q.channel, Oldest: q.oldest, Latest: q.latest, Cursor: q.cursor, Limit: q.limit, IncludeAllMetadata: q.metadata,
		})
		if err == nil {
			more, cursor = r.HasMore, r.ResponseMetaData.NextCursor
		}
	}
	if err != nil {
		return page{}, err //nolint:wrapcheck // the callers add the operation
	}
	p := page{messages: make([]historyMessage, len(raws))}
	for i, raw := range raws {
		_ = json.Unmarshal(raw, &p.messages[i]) // what can be decoded
	}
	if more || cursor != "" {
		p.next, err = q.after(p.messages, cursor)
	}
	return p, err
}

// after returns the query for the page after one with messages. Without a cursor
// it continues at the last message.
func (q pageQuery) after(messages []historyMessage, cursor string) (*pageQuery, error) {
	q.cursor = cursor
	if cursor != "" {
		return &q, nil
	}
	before := q
	for _, m := range messages {
		switch {
		case q.thread == "" && (q.latest == "" || inbound.After(q.latest, m.TS)):
			q.latest = m.TS
		case q.thread != "" && m.TS != q.thread && inbound.After(m.TS, q.oldest): // each page repeats the root
			q.oldest = m.TS
		}
	}
	if q == before {
		return nil, errNoNextPage
	}
	return &q, nil
}

const (
	threadQuotes = 50 // of a thread that the bot joined later
	threadPages  = 4
)

// MessagesBefore implements chat.ThreadReader. It makes one call for at most
// about a hundred messages, and returns the last fifty of them.
func (a *Adapter) MessagesBefore(ctx context.Context, in chat.Inbound, since time.Time) ([]chat.Quote, error) {
	if in.Address.Thread == "" || in.Address.Thread == in.ID {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	v := &historyRequest{HistoryRequest: checkpoint.HistoryRequest{Channel: in.Address.Chat, Thread: in.Address.Thread}}
	if !since.IsZero() {
		v.Seen = inbound.TS(since)
	}
	err := a.replies(ctx, v, in.ID, threadPages)
	bodies := v.got
	if errors.Is(err, errTooMuch) || errors.Is(err, errNoNextPage) {
		err = errors.New("the thread is long; some of its messages were left out")
	} else if err != nil {
		err = fmt.Errorf("the earlier messages of this thread could not be read: %s", apierror.SendError(err).Reason)
	}
	c := a.converter()
	lctx, stop := context.WithTimeout(ctx, lookTimeout)
	defer stop()
	var out []chat.Quote
	for _, b := range bodies[max(0, len(bodies)-threadQuotes):] {
		a.people.Load(lctx, inbound.Subject{User: b.User})
		if q, ok := quote(c, b); ok {
			out = append(out, q)
		}
	}
	if n := len(bodies) - threadQuotes; n > 0 && err == nil {
		err = fmt.Errorf("the thread is long; messages at its beginning that were left out: %d", n)
	}
	return out, err
}

// quote returns a message of another user; ok is false for messages of the bot
// and service messages.
func quote(c inbound.Converter, b inbound.Body) (chat.Quote, bool) {
	in, ok := c.Message(b)
	if !ok || !c.Quotable(b) {
		return chat.Quote{}, false
	}
	q := chat.Quote{ID: in.ID, Text: in.Text, Author: cmp.Or(in.Sender.Name, in.Sender.Handle, in.Sender.ID)}
	for _, f := range in.Files {
		name := "[file: " + cmp.Or(f.Name, string(f.Kind)) + "]"
		if q.Text != "" {
			name = "\n" + name
		}
		q.Text += name
	}
	return q, q.Text != ""
}

const (
	findPages = 10
	findPage  = 200
	// findBack is the maximum age of a message whose time is not known: sends are
	// given up after a day.
	findBack = 25 * time.Hour
	// findMargin is the difference between the clocks of this machine and Slack that
	// does not hide a message.
	findMargin = 5 * time.Minute
)

// Find implements chat.Finder: it looks for m's ID in the metadata of the
// messages at m's address.
func (a *Adapter) Find(ctx context.Context, m chat.Outbound) (chat.Receipt, bool, error) {
	if err := checkAddress(m.To); err != nil {
		return chat.Receipt{}, false, err
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if m.File != nil {
		return a.findFile(ctx, m)
	}
	q := pageQuery{
		channel: m.To.Chat, thread: m.To.Thread, oldest: inbound.TS(findFrom(m)), limit: findPage, metadata: true,
	}
	for range findPages {
		p, err := a.fetch(ctx, q)
		if apierror.Code(err) == "thread_not_found" {
			return chat.Receipt{}, false, nil // a message without a thread cannot be in it
		}
		if err != nil && !errors.Is(err, errNoNextPage) {
			return chat.Receipt{}, false, apierror.SendError(err)
		}
		for _, s := range p.messages {
			if s.Metadata.EventType == eventType && s.Metadata.EventPayload["id"] == m.ID {
				return chat.Receipt{ID: s.TS}, true, nil
			}
		}
		if err != nil || p.next == nil {
			return chat.Receipt{}, false, err
		}
		q = *p.next
	}
	return chat.Receipt{}, false, fmt.Errorf("the last %d messages there do not tell whether it arrived, and there are more", findPages*findPage)
}

// findFrom returns the time from which on m can be in a history.
func findFrom(m chat.Outbound) time.Time {
	if m.CreatedAt.IsZero() {
		return time.Now().Add(-findBack)
	}
	return m.CreatedAt.Add(-findMargin)
}

// findFile looks for the files that were uploaded under m's ID. A file that was
// not published does not count as sent.
func (a *Adapter) findFile(ctx context.Context, m chat.Outbound) (chat.Receipt, bool, error) {
	files, sure := a.places.Uploaded(m.ID)
	for _, id := range files {
		f, _, _, err := a.api.GetFileInfoContext(ctx, id, 0, 0)
		if c := apierror.Code(err); c == "file_not_found" || c == "file_deleted" {
			continue
		}
		if err != nil {
			return chat.Receipt{}, false, apierror.SendError(err)
		}
		if ts, ok := shared(f, m.To.Chat); ok {
			return chat.Receipt{ID: ts}, true, nil
		}
	}
	if len(files) == 0 && !sure {
		return chat.Receipt{}, false, errors.New("it is not known any more as which file it was sent")
	}
	return chat.Receipt{}, false, nil
}

// shared reports whether a file is visible in a channel, and as which message. If
// Slack does not tell the message, shared returns the file's own ID.
func shared(f *slack.File, channel string) (string, bool) {
	for _, m := range []map[string][]slack.ShareFileInfo{f.Shares.Public, f.Shares.Private} {
		for _, s := range m[channel] {
			return s.Ts, true
		}
	}
	return f.ID, slices.Contains(slices.Concat(f.Channels, f.Groups, f.IMs), channel)
}
