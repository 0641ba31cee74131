package discord

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"sync"
	"time"

	"hermesd/adapters/discord/internal/apiclient"
	"hermesd/adapters/discord/internal/apierror"
	"hermesd/adapters/discord/internal/inbound"
	"hermesd/adapters/discord/internal/markdown"
	"hermesd/adapters/internal/attachment"
	"hermesd/gateway/chat"
	"hermesd/internal/backoff"
)

// sent holds the fields in use of an own message.
type sent struct {
	ID      string          `json:"id"`
	Content string          `json:"content"`
	Nonce   json.RawMessage `json:"nonce"`
	Author  struct {
		ID string `json:"id"`
	} `json:"author"`
	Files []struct {
		Name string `json:"filename"`
	} `json:"attachments"`
}

// maxShapes limits how many forms of one message are tried.
const maxShapes = 4

// A outgoing is one message being sent, with the parts that can be changed when
// Discord rejects it.
type outgoing struct {
	m        chat.Outbound
	p        messagePayload
	opened   bool // its thread was opened
	unlocked bool // its thread was unarchived
	bare     bool // it has no quotation

	// failed is the error of a preparatory call.
	failed error
}

// Send implements chat.Adapter. If Discord rejects the form of a message, and so
// certainly does not have it, the message is sent again at once without the
// rejected part: its quotation, or a thread that does not exist. Nothing is sent
// twice: Discord recognizes a repeat by the nonce.
func (a *Adapter) Send(ctx context.Context, m chat.Outbound) (chat.Receipt, error) {
	p, err := a.compose(m)
	if err != nil {
		return chat.Receipt{}, err
	}
	if err := checkIDs(m.To); err != nil {
		return chat.Receipt{}, err
	}
	limit := callTimeout
	if m.File != nil {
		limit = fileTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if id, done, err := a.respond(ctx, m, p); done {
		return chat.Receipt{ID: id}, err
	}
	if err := a.prepare(ctx, m.To); err != nil {
		return chat.Receipt{}, err
	}
	l := &outgoing{m: m, p: p}
	for shape := 1; ; shape++ {
		if l.p.Reference = a.reference(m); l.bare {
			l.p.Reference = nil
		}
		id, err := a.post(ctx, l)
		if err == nil {
			a.nonces.put(l.p.Nonce, id)
			return chat.Receipt{ID: id}, nil
		}
		if shape == maxShapes || !a.reshape(ctx, l, err) {
			if l.failed != nil {
				err = l.failed
			}
			return chat.Receipt{}, apierror.SendError(err)
		}
	}
}

// checkIDs rejects an address whose IDs are not Discord's.
func checkIDs(to chat.Address) error {
	for _, id := range []string{to.Chat, to.Thread} {
		if _, ok := inbound.Snowflake(id); !ok && (id != "" || to.Chat == "") {
			return apierror.Permanent("%q is not the id of a Discord channel", id)
		}
	}
	return nil
}

// reference returns the reference to the message that m replies to. The first
// message of a thread is outside it and cannot be quoted in it; if the thread
// could not be opened, every answer quotes that message.
func (a *Adapter) reference(m chat.Outbound) *reference {
	_, ok := inbound.Snowflake(m.ReplyTo)
	inline := m.To.Thread != "" && a.target(m.To) == m.To.Chat
	switch {
	case inline:
		return &reference{Message: m.To.Thread}
	case !ok || m.ReplyTo == m.To.Thread || a.answers.knows(m.ReplyTo):
		return nil
	}
	return &reference{Message: m.ReplyTo}
}

// reshape changes l, or its surroundings, to remove the cause of Discord's
// rejection, and reports whether a retry can help.
func (a *Adapter) reshape(ctx context.Context, l *outgoing, err error) bool {
	var we *apiclient.Error
	if !errors.As(err, &we) || !we.API {
		return false
	}
	switch {
	case we.Code == apierror.UnknownChannel && l.m.To.Thread != "" && !l.opened:
		l.opened = true
		l.failed = a.open(ctx, l.m.To)
		return l.failed == nil
	case we.Code == apierror.Archived && l.m.To.Thread != "" && !l.unlocked:
		l.unlocked = true
		l.failed = a.unarchive(ctx, l.m.To.Thread)
		return l.failed == nil
	case l.p.Reference != nil && (we.Code == apierror.NoReplies || we.Code == apierror.Form && strings.Contains(we.Detail, "message_reference")):
		l.bare = true
		return true
	}
	return false
}

// unarchive unarchives a thread. Its error tells if the bot lacks the
// permission.
func (a *Adapter) unarchive(ctx context.Context, thread string) error {
	body := struct {
		Archived bool `json:"archived"`
	}{}
	err := a.wire.Do(ctx, apiclient.Call{Method: "PATCH", Path: "channels/" + thread, Body: body, Bucket: "channel/" + thread}, nil)
	switch s := apierror.Status(err); {
	case err == nil:
		return nil
	case s == http.StatusForbidden || s == http.StatusBadRequest || s == http.StatusNotFound:
		return apierror.StaysArchived()
	}
	return apierror.NotSent(err)
}

func (a *Adapter) post(ctx context.Context, l *outgoing) (string, error) {
	channel := a.target(l.m.To)
	call := apiclient.Call{Method: "POST", Path: "channels/" + channel + "/messages", Body: l.p, Bucket: "send/" + channel}
	if l.m.File != nil {
		name := fileName(*l.m.File)
		f, size, err := attachment.Limit{Platform: "Discord", MaxBytes: upLimit, TooBig: apierror.TooBig}.Open(*l.m.File, name)
		if err != nil {
			return "", err
		}
		defer f.Close()
		attach(&call, &l.p, name, f, size)
	}
	return a.made(ctx, call)
}

// made makes a call that creates a message, and returns the message's ID.
func (a *Adapter) made(ctx context.Context, call apiclient.Call) (string, error) {
	var m sent
	if err := a.wire.Do(ctx, call, &m); err != nil {
		return "", err
	}
	if m.ID == "" {
		return "", errors.New("response has no message ID")
	}
	return m.ID, nil
}

func (a *Adapter) Edit(ctx context.Context, id string, m chat.Outbound) error {
	p, err := a.compose(m)
	if err != nil {
		return err
	}
	c := edited(p)
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if done, err := a.rewrite(ctx, id, c); done {
		return err
	}
	return a.touch(ctx, m.To, id, func(channel string) apiclient.Call {
		return apiclient.Call{Method: "PATCH", Path: "channels/" + channel + "/messages/" + id, Body: c, Bucket: "edit/" + channel}
	})
}

func (a *Adapter) Delete(ctx context.Context, to chat.Address, id string) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	err := a.touch(ctx, to, id, func(channel string) apiclient.Call {
		return apiclient.Call{Method: "DELETE", Path: "channels/" + channel + "/messages/" + id, Bucket: "delete/" + channel}
	})
	if errors.Is(err, chat.ErrGone) {
		return nil
	}
	return err
}

// touch makes a call concerning a message. If the thread does not exist, the
// message may be in the channel: it was sent when the thread could not be
// opened.
func (a *Adapter) touch(ctx context.Context, to chat.Address, id string, call func(channel string) apiclient.Call) error {
	if err := checkIDs(to); err != nil {
		return err
	}
	if _, ok := inbound.Snowflake(id); !ok {
		return apierror.Permanent("%q is not the id of a Discord message", id)
	}
	channel := a.holder(to, id)
	err := a.wire.Do(ctx, call(channel), nil)
	switch code := apiclient.Code(err); {
	case code == apierror.UnknownChannel && to.Thread != "" && channel == to.Thread:
		err = a.wire.Do(ctx, call(to.Chat), nil)
	case code == apierror.Archived && to.Thread != "":
		if err = a.unarchive(ctx, to.Thread); err == nil {
			err = a.wire.Do(ctx, call(channel), nil)
		}
	}
	switch code := apiclient.Code(err); {
	case err == nil:
		return nil
	case code == apierror.UnknownMessage || code == apierror.UnknownChannel || code == apierror.TooManyEdits:
		return apierror.Gone(err)
	}
	return apierror.SendError(err)
}

func (a *Adapter) Typing(ctx context.Context, to chat.Address) error {
	if err := checkIDs(to); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	if a.answers.waits(to) {
		return nil // Discord already shows that the command is being answered
	}
	if err := a.prepare(ctx, to); err != nil {
		return err
	}
	show := func() error {
		channel := a.target(to)
		return a.wire.Do(ctx, apiclient.Call{Method: "POST", Path: "channels/" + channel + "/typing", Bucket: "typing/" + channel}, nil)
	}
	err := show()
	if apiclient.Code(err) == apierror.UnknownChannel && to.Thread != "" && a.open(ctx, to) == nil {
		err = show()
	}
	if err != nil {
		return apierror.SendError(err)
	}
	return nil
}

// plainContent returns the content that a message with m would have.
func plainContent(m chat.Outbound) string { return strings.TrimSpace(markdown.Render(m.Text)) }

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
