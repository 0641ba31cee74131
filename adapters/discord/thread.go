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

// maxRemembered bounds each memory of threads; what is forgotten is found out
// again by a refusal.
const maxRemembered = 2000

// threads remembers what is known of threads that are opened by the first
// message to them. The zero value knows nothing.
type threads struct {
	mu      sync.Mutex        // guards what follows
	pending map[string]string // not opened yet, and what their first message says
	inline  map[string]bool   // cannot be opened; answers stand in the channel
	told    map[string]bool   // channels in which it was said why
}

// expect notes that a message opens a thread, which is not there yet.
func (t *threads) expect(id, said string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.pending = put(t.pending, id, said)
}

// opened notes that a thread is there.
func (t *threads) opened(id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.pending, id)
}

// closed notes that a thread cannot be opened, and reports whether that has to
// be told in the channel.
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

// target returns the channel in which messages to an address stand.
func (a *Adapter) target(to chat.Address) string {
	if to.Thread == "" {
		return to.Chat
	}
	if _, _, inline := a.threads.get(to.Thread); inline {
		return to.Chat
	}
	return to.Thread
}

// holder returns the channel in which a message of an address stands: the first
// message of a thread stands in the channel from which it was started.
func (a *Adapter) holder(to chat.Address, id string) string {
	if id == to.Thread {
		return to.Chat
	}
	return a.target(to)
}

// prepare opens the thread of an address if it is known not to be there.
func (a *Adapter) prepare(ctx context.Context, to chat.Address) error {
	if _, pending, _ := a.threads.get(to.Thread); to.Thread == "" || !pending {
		return nil
	}
	return a.open(ctx, to)
}

// open opens the thread of an address from its first message. That it is there
// already is a success. What cannot be opened is remembered, and answers stand
// in the channel; where that happens first it is said why. A thread that was
// not started from a message of the channel is never opened: what was said in
// it is not for the channel.
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
	a.log.Warn("a thread cannot be opened", zap.String("channel", to.Chat), zap.Error(err))
	if a.threads.closed(to.Thread, to.Chat) && we.Code != apierror.UnknownMessage {
		a.explain(ctx, to, we)
	}
	return nil
}

// explain says once in a channel why answers stand in it and not in a thread.
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
		a.log.Warn("say why there is no thread", zap.Error(err))
	}
}

// threadName makes the name of a thread of what its first message says. It is
// an error if there is no such message in the channel.
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
