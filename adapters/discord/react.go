package discord

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"hermesd/adapters/discord/internal/apiclient"
	"hermesd/adapters/discord/internal/apierror"
	"hermesd/gateway/chat"
	"hermesd/internal/backoff"
)

// reactionEmojis maps the states of a message to emojis.
var reactionEmojis = map[chat.Reaction]string{chat.ReactionSeen: "👀", chat.ReactionAnswered: "✅", chat.ReactionFailed: "❌"}

const (
	// markWait is the longest rate limit that a reaction waits for; Discord
	// allows only a few reactions per second.
	markWait  = 5 * time.Second
	markTries = 4
	// unmarkedFor is how long no reactions are sent to a channel that rejects
	// them: rejected calls count toward a ban.
	unmarkedFor = 10 * time.Minute
)

// unmarked records the channels that reject reactions. The zero value is empty.
type unmarked struct {
	mu    sync.Mutex // guards the fields below
	until map[string]time.Time
}

func (u *unmarked) add(channel string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.until = put(u.until, channel, time.Now().Add(unmarkedFor))
}

func (u *unmarked) has(channel string) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return time.Now().Before(u.until[channel])
}

// React implements chat.Reactor. A target without a message is not an error: a
// slash command has none, and a deleted message needs no reaction. React waits
// for a short rate limit.
func (a *Adapter) React(ctx context.Context, to chat.Address, id string, r chat.Reaction) error {
	if !a.cfg.Reactions || reactionEmojis[r] == "" || a.answers.knows(id) || a.unmarked.has(to.Chat) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	if r != chat.ReactionSeen {
		if err := a.mark(ctx, http.MethodDelete, to, id, reactionEmojis[chat.ReactionSeen]); err != nil {
			return err
		}
	}
	return a.mark(ctx, http.MethodPut, to, id, reactionEmojis[r])
}

// mark adds or removes a reaction.
func (a *Adapter) mark(ctx context.Context, method string, to chat.Address, id, emoji string) error {
	for try := 1; ; try++ {
		err := a.touch(ctx, to, id, func(channel string) apiclient.Call {
			path := "channels/" + channel + "/messages/" + id + "/reactions/" + emoji + "/@me"
			return apiclient.Call{Method: method, Path: path, Bucket: "react/" + channel}
		})
		var se *chat.SendError
		switch {
		case err == nil, errors.Is(err, chat.ErrGone), apierror.Status(err) == http.StatusNotFound:
			return nil
		case apierror.Status(err) == http.StatusForbidden:
			a.unmarked.add(to.Chat)
			return err
		case !errors.As(err, &se) || se.RetryAfter <= 0 || se.RetryAfter > markWait || try == markTries:
			return err
		}
		if err := backoff.Sleep(ctx, se.RetryAfter); err != nil {
			return err
		}
	}
}
