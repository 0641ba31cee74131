package slack

import (
	"context"
	"encoding/json"

	"github.com/slack-go/slack"

	"hermesd/adapters/slack/internal/apiclient"
	"hermesd/adapters/slack/internal/inbound"
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

// A page is one page of a history.
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

// fetch fetches one page.
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
