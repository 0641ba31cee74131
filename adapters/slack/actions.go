package slack

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/slack-go/slack"

	"hermesd/adapters/slack/internal/apierror"
	"hermesd/adapters/slack/internal/inbound"
	"hermesd/gateway/chat"
)

// Typing implements chat.Typer with the status of an assistant thread. Slack has
// no such status outside of threads; it shows it for two minutes or until a
// message is sent.
func (a *Adapter) Typing(ctx context.Context, to chat.Address) error {
	if to.Thread == "" || !a.typing.due(to) {
		return nil
	}
	if err := checkAddress(to); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	err := a.api.SetAssistantThreadsStatusContext(ctx, slack.AssistantThreadsSetStatusParameters{
		ChannelID: to.Chat, ThreadTS: to.Thread, Status: a.o.Words.T("is thinking…"),
	})
	if err != nil {
		return apierror.SendError(err)
	}
	return nil
}

// React implements chat.Reactor. A slash command is not a message and gets no
// reaction.
func (a *Adapter) React(ctx context.Context, to chat.Address, id string, r chat.Reaction) error {
	if _, ok := inbound.Time(id); !ok || !a.cfg.Reactions {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	ref := slack.NewRefToMessage(to.Chat, id)
	if r != chat.ReactionSeen {
		err := a.api.RemoveReactionContext(ctx, "eyes", ref)
		if c := apierror.Code(err); err != nil && c != "no_reaction" && c != "message_not_found" {
			return apierror.SendError(err)
		}
	}
	name := map[chat.Reaction]string{chat.ReactionSeen: "eyes", chat.ReactionAnswered: "white_check_mark", chat.ReactionFailed: "x"}[r]
	if name == "" {
		return nil
	}
	err := a.api.AddReactionContext(ctx, name, ref)
	if c := apierror.Code(err); err != nil && c != "already_reacted" && c != "message_not_found" {
		return apierror.SendError(err)
	}
	return nil
}

// AnswerCallback implements chat.CallbackAnswerer with a message that only the
// user who pressed the button sees. The press was already acknowledged to Slack
// when it was stored.
func (a *Adapter) AnswerCallback(ctx context.Context, callback chat.Inbound, text string) error {
	if text == "" {
		return nil
	}
	l, err := newLetter(chat.Outbound{To: callback.Address, Text: chat.PlainText(text)})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	o := []slack.MsgOption{slack.MsgOptionText(l.text, false)}
	if callback.Address.Thread != "" {
		o = append(o, slack.MsgOptionTS(callback.Address.Thread))
	}
	if _, err = a.api.PostEphemeralContext(ctx, callback.Address.Chat, callback.Sender.ID, o...); err != nil {
		return apierror.SendError(err)
	}
	return nil
}

// statusLimiter records when the typing status of a thread was last set.
type statusLimiter struct {
	mu sync.Mutex
	at map[chat.Address]time.Time
}

// due reports whether the status should be set again, and records that it is set
// now.
func (p *statusLimiter) due(to chat.Address) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if now.Before(p.at[to].Add(statusPace)) {
		return false
	}
	for k, t := range p.at {
		if now.After(t.Add(statusPace)) {
			delete(p.at, k)
		}
	}
	p.at[to] = now
	return true
}

// forget records that a message of the bot has removed the status.
func (p *statusLimiter) forget(to chat.Address) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.at, to)
}

// Dismiss implements chat.Dismisser. The response URL of a slash command that a rule
// ends is dropped, and a message that a rule ends starts no conversation.
func (a *Adapter) Dismiss(in chat.Inbound) {
	a.urls.drop(in.ID)
	a.dismissed.Store(in.IdempotencyKey, true)
}

// replyURLs holds the response URLs of slash commands. What is sent to one is shown
// only to the user who gave the command. A URL can be used for half an hour and
// five answers.
type replyURLs struct {
	mu   sync.Mutex
	list []replyURL // oldest first, also those without a use left
}

type replyURL struct {
	command, user string // IDs of the command and of who gave it
	at            chat.Address
	url           string
	until         time.Time
	left          int
}

func (r *replyURLs) put(command chat.Inbound, url string) {
	r.drop(command.ID) // delivered again
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	r.list = slices.DeleteFunc(r.list, func(u replyURL) bool { return now.After(u.until) })
	r.list = append(r.list, replyURL{command.ID, command.Sender.ID, command.Address, url, now.Add(urlLife), urlUses})
}

func (r *replyURLs) drop(command string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list = slices.DeleteFunc(r.list, func(u replyURL) bool { return u.command == command })
}

// take returns a response URL that can be used for m: that of the command to which m
// replies. A message that replies to nothing gets the newest at its address, if all
// are of one user.
func (r *replyURLs) take(m chat.Outbound) (string, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now, found := time.Now(), -1
	for i, u := range r.list {
		if u.at != m.To || now.After(u.until) || m.ReplyTo != "" && m.ReplyTo != u.command {
			continue
		}
		if found >= 0 && r.list[found].user != u.user {
			return "", false
		}
		found = i
	}
	if found < 0 || r.list[found].left == 0 {
		return "", false
	}
	r.list[found].left--
	return r.list[found].url, true
}
