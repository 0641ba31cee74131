package slack

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/slack-go/slack"

	"hermesd/adapters/slack/internal/apierror"
	"hermesd/adapters/slack/internal/inbound"
	"hermesd/gateway/chat"
)

const (
	findPages = 10
	findPage  = 200
	// findBack is the maximum age of an own message: sends are given up after a
	// day.
	findBack = 25 * time.Hour
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
	oldest, cursor := inbound.TS(time.Now().Add(-findBack)), ""
	for range findPages {
		messages, next, err := a.page(ctx, m.To, oldest, cursor)
		if err != nil {
			return chat.Receipt{}, false, apierror.SendError(err)
		}
		for _, s := range messages {
			if s.Metadata.EventType == eventType && s.Metadata.EventPayload["id"] == m.ID {
				return chat.Receipt{ID: s.Timestamp}, true, nil
			}
		}
		if next == "" {
			return chat.Receipt{}, false, nil
		}
		cursor = next
	}
	return chat.Receipt{}, false, fmt.Errorf("the last %d messages there do not tell whether it arrived, and there are more", findPages*findPage)
}

// page fetches one page of a channel or thread, with metadata.
func (a *Adapter) page(ctx context.Context, at chat.Address, oldest, cursor string) ([]slack.Message, string, error) {
	if at.Thread != "" {
		ms, _, next, err := a.api.GetConversationRepliesContext(ctx, &slack.GetConversationRepliesParameters{
			ChannelID: at.Chat, Timestamp: at.Thread, Oldest: oldest, Cursor: cursor, Limit: findPage, IncludeAllMetadata: true,
		})
		if apierror.Code(err) == "thread_not_found" {
			return nil, "", nil // a message without a thread cannot be in it
		}
		return ms, next, err //nolint:wrapcheck // sendError converts it
	}
	r, err := a.api.GetConversationHistoryContext(ctx, &slack.GetConversationHistoryParameters{
		ChannelID: at.Chat, Oldest: oldest, Cursor: cursor, Limit: findPage, IncludeAllMetadata: true,
	})
	if err != nil {
		return nil, "", err //nolint:wrapcheck // sendError converts it
	}
	return r.Messages, r.ResponseMetaData.NextCursor, nil
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
