package discord

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"

	"go.uber.org/zap"

	"hermesd/adapters/discord/internal/apiclient"
	"hermesd/adapters/discord/internal/apierror"
	"hermesd/adapters/discord/internal/markdown"
	"hermesd/gateway/chat"
)

// maxRemembered limits each set of remembered threads; what is forgotten is
// learned again from a rejection.
const maxRemembered = 2000

// threads records the state of threads that are opened by the first message to
// them. The zero value is empty.
type threads struct {
	mu      sync.Mutex        // guards the fields below
	pending map[string]string // not opened yet, with the text of their first message
	inline  map[string]bool   // cannot be opened; answers go to the channel
	told    map[string]bool   // channels in which the reason was sent
}

// expect records that a message will start a thread, which does not exist yet.
func (t *threads) expect(id, said string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.pending = put(t.pending, id, said)
}

// opened records that a thread exists.
func (t *threads) opened(id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.pending, id)
}

// closed records that a thread cannot be opened, and reports whether the reason
// has to be sent to the channel.
func (t *threads) closed(id, channel string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.pending, id)
	t.inline = put(t.inline, id, true)
	first := !t.told[channel]
	t.told = put(t.told, channel, true)
	return first
}

func (t *threads) get(id string) (said string, pending, inline bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	said, pending = t.pending[id]
	return said, pending, t.inline[id]
}

func put[V any](m map[string]V, key string, v V) map[string]V {
	if m == nil || len(m) >= maxRemembered {
		m = map[string]V{}
	}
	m[key] = v
	return m
}

// target returns the channel to which messages for an address are sent.
func (a *Adapter) target(to chat.Address) string {
	if to.Thread == "" {
		return to.Chat
	}
	if _, _, inline := a.threads.get(to.Thread); inline {
		return to.Chat
	}
	return to.Thread
}

// holder returns the channel that contains a message of an address: the first
// message of a thread is in the parent channel.
func (a *Adapter) holder(to chat.Address, id string) string {
	if id == to.Thread {
		return to.Chat
	}
	return a.target(to)
}

// prepare opens the thread of an address if it is known not to exist.
func (a *Adapter) prepare(ctx context.Context, to chat.Address) error {
	if _, pending, _ := a.threads.get(to.Thread); to.Thread == "" || !pending {
		return nil
	}
	return a.open(ctx, to)
}

// open opens the thread of an address from its first message. An existing thread
// counts as success. A thread that cannot be opened is recorded, and answers go
// to the channel; the reason is sent once per channel. A thread that was not
// started from a message of the channel is never opened: its contents are not
// meant for the channel.
func (a *Adapter) open(ctx context.Context, to chat.Address) error {
	name, err := a.threadName(ctx, to)
	if err != nil {
		return err
	}
	body := struct {
		Name string `json:"name"`
	}{name}
	err = a.wire.Do(ctx, apiclient.Call{
		Method: "POST", Path: "channels/" + to.Chat + "/messages/" + to.Thread + "/threads", Body: body, Bucket: "thread/" + to.Chat,
	}, nil)
	if err == nil || apiclient.Code(err) == apierror.HasThread {
		a.threads.opened(to.Thread)
		return nil
	}
	var we *apiclient.Error
	if !errors.As(err, &we) || !we.API || we.Status < 400 || we.Status >= 500 || we.Status == 401 || we.Status == 429 {
		return apierror.NotSent(err)
	}
	a.log.Warn("cannot open thread", zap.String("channel", to.Chat), zap.Error(err))
	if a.threads.closed(to.Thread, to.Chat) && we.Code != apierror.UnknownMessage {
		a.explain(ctx, to, we)
	}
	return nil
}

// explain sends the reason why answers go to a channel and not to a thread, once
// per channel.
func (a *Adapter) explain(ctx context.Context, to chat.Address, why *apiclient.Error) {
	reason := apierror.Describe(why)
	if why.Code == apierror.MissingPermissions || why.Code == apierror.MissingAccess {
		reason = a.o.Words.T("the bot needs the permission Create Public Threads here")
	}
	p := messagePayload{
		Content:  a.o.Words.T("(I answer here because I cannot open a thread: %s.)", markdown.Cut(reason, textLimit/2)),
		Mentions: mentions{Parse: []string{}}, Flags: flagQuiet, Nonce: nonce("thread/" + to.Chat + "/" + to.Thread), Enforce: true,
	}
	err := a.wire.Do(ctx, apiclient.Call{
		Method: "POST", Path: "channels/" + to.Chat + "/messages", Body: p, Bucket: "send/" + to.Chat,
	}, nil)
	if err != nil {
		a.log.Warn("cannot send thread explanation", zap.Error(err))
	}
}

// threadName returns a thread name made from its first message. It fails if the
// channel has no such message.
func (a *Adapter) threadName(ctx context.Context, to chat.Address) (string, error) {
	said, known, _ := a.threads.get(to.Thread)
	if !known {
		var m struct {
			Content string `json:"content"`
		}
		err := a.wire.Do(ctx, apiclient.Call{
			Method: "GET", Path: "channels/" + to.Chat + "/messages/" + to.Thread, Bucket: "message/" + to.Chat,
		}, &m)
		if apierror.Status(err) == http.StatusNotFound {
			return "", apierror.ChannelGone()
		}
		if err != nil {
			return "", apierror.NotSent(err)
		}
		said = strings.ReplaceAll(m.Content, "<@"+a.Identity().ID+">", "")
	}
	for line := range strings.Lines(said) {
		if name := strings.Join(strings.Fields(line), " "); name != "" {
			return markdown.Cut(name, threadName), nil
		}
	}
	return "Conversation", nil
}
