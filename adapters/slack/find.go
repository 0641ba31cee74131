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
