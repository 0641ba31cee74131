package slack

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"
)

const (
	replyUses = 5
	replyLife = 30 * time.Minute
)

// A replyURL is a response_url: it can be used five times within half an hour.
type replyURL struct {
	bot     *Bot
	channel *Channel
	user    *User
	message *message // the message with the button
	until   time.Time
	left    int
}

// An Interaction is a slash command or the press of a button, with its outcome.
type Interaction struct {
	s     *Server
	state *interaction
}

type interaction struct {
	acked  bool
	answer json.RawMessage
	failed string
	url    string
}

// Acked reports whether the app has acknowledged, and returns the payload of
// the acknowledgement.
func (i Interaction) Acked() (json.RawMessage, bool) {
	i.s.mu.Lock()
	defer i.s.mu.Unlock()
	return i.state.answer, i.state.acked
}

// Failed returns the error that the person sees: operation_timeout if the app
// did not acknowledge within 3 s, dispatch_failed if it had no socket, "" if
// there is no error.
func (i Interaction) Failed() string {
	i.s.mu.Lock()
	defer i.s.mu.Unlock()
	return i.state.failed
}

// ResponseURL returns the URL at which the app may answer.
func (i Interaction) ResponseURL() string { return i.state.url }

// Slash sends a slash command, such as "/hermes", from a user to a bot. It
// takes no thread, because Slack does not offer commands in threads. It panics
// if the app does not have the command, because a real client would not send
// it.
func (c *Channel) Slash(b *Bot, from *User, command, text string) Interaction {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	if !b.app.hasCommand(command) {
		panic("slack: the app has no command " + command)
	}
	i, reply := c.interactLocked(b, from, nil)
	name := c.name
	if c.kind == DM {
		name = "directmessage"
	}
	payload := obj{
		"token": "sim", "team_id": c.team.id, "team_domain": c.team.domain, "channel_id": c.id, "channel_name": name,
		"user_id": from.ID(), "user_name": from.person.Name, "command": command, "text": text, "api_app_id": b.app.id,
		"is_enterprise_install": "false", "response_url": i.state.url, "trigger_id": "sim." + reply,
	}
	c.sendInteractionLocked(b, i, "slash_commands", payload,
		Offer{Kind: "slash_commands", Channel: c.id, User: from.ID(), Text: strings.TrimSpace(command + " " + text)})
	return i
}

func (a *App) hasCommand(command string) bool {
	if a.opts.Commands == nil {
		return true
	}
	for _, known := range a.opts.Commands {
		if known == command {
			return true
		}
	}
	return false
}

// interactLocked creates an interaction and its response_url, and returns the
// URL.
func (c *Channel) interactLocked(b *Bot, from *User, m *message) (Interaction, string) {
	c.s.nextID++
	name := fmt.Sprintf("%s/%d/sim%024x", c.team.id, c.s.nextID, c.s.nextID*15485863)
	c.s.replies[name] = &replyURL{
		bot: b, channel: c, user: from, message: m, until: time.Now().Add(replyLife), left: replyUses,
	}
	return Interaction{s: c.s, state: &interaction{url: c.s.URL() + replyPath + name}}, name
}

func (c *Channel) sendInteractionLocked(b *Bot, i Interaction, kind string, payload obj, o Offer) {
	reply := c.s.replies[strings.TrimPrefix(i.state.url, c.s.URL()+replyPath)]
	b.app.offerLocked(&outstanding{
		kind: kind,
		answer: func(raw json.RawMessage) {
			i.state.acked, i.state.answer = true, raw
			var said struct{ Text, Blocks json.RawMessage }
			if kind == "slash_commands" && json.Unmarshal(raw, &said) == nil && (said.Text != nil || said.Blocks != nil) {
				reply.useLocked(raw)
			}
		},
		failed: func(code string) { i.state.failed = code },
	}, payload, c.team, o)
}

// Press presses, as a user, the button with an action_id in a message of an
// app. It returns ErrNoMessage if there is no such button.
func (c *Channel) Press(from *User, ts, action string) (Interaction, error) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	m := c.liveLocked(ts)
	if m == nil || m.author.bot == nil {
		return Interaction{}, ErrNoMessage
	}
	button := findAction(m.Blocks, action)
	if button == nil {
		return Interaction{}, ErrNoMessage
	}
	return c.pressLocked(m.author.bot, from, m, button), nil
}

// Forge sends a bot the press of a button with any action and value under any
// of its messages, whether the message has such a button or not.
func (c *Channel) Forge(b *Bot, from *User, ts, action, value string) Interaction {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	m := c.byTS[ts]
	return c.pressLocked(b, from, m, obj{"action_id": action, "value": value, "type": "button", "block_id": "forged"})
}

func (c *Channel) pressLocked(b *Bot, from *User, m *message, button obj) Interaction {
	i, reply := c.interactLocked(b, from, m)
	now := stamp(time.Now())
	action := obj{"action_ts": now}
	for k, v := range button {
		action[k] = v
	}
	payload := obj{
		"type": "block_actions", "token": "sim", "api_app_id": b.app.id, "trigger_id": "sim." + reply,
		"team":         obj{"id": c.team.id, "domain": c.team.domain},
		"user":         obj{"id": from.ID(), "username": from.person.Name, "name": from.person.Name, "team_id": c.team.id},
		"channel":      obj{"id": c.id, "name": c.name},
		"container":    obj{"type": "message", "channel_id": c.id, "is_ephemeral": false},
		"response_url": i.state.url, "actions": []obj{action}, "state": obj{"values": obj{}},
		"enterprise": nil, "is_enterprise_install": false,
	}
	o := Offer{Kind: "block_actions", Channel: c.id, User: from.ID(), Text: fmt.Sprint(button["action_id"])}
	if m != nil {
		payload["message"] = m.wire()
		payload["container"].(obj)["message_ts"] = m.TS
		o.TS, o.Thread = m.TS, m.Thread
		if m.Thread != "" {
			payload["container"].(obj)["thread_ts"] = m.Thread
		}
	}
	c.sendInteractionLocked(b, i, "interactive", payload, o)
	return i
}

// findAction returns the element of blocks with an action_id, or nil.
func findAction(blocks json.RawMessage, action string) obj {
	var list []map[string]any
	if json.Unmarshal(blocks, &list) != nil {
		return nil
	}
	for _, b := range list {
		elements, _ := b["elements"].([]any)
		for _, e := range append(elements, b["accessory"]) {
			if e, ok := e.(map[string]any); ok && e["action_id"] == action {
				out := obj{"block_id": b["block_id"]}
				for k, v := range e {
					out[k] = v
				}
				return out
			}
		}
	}
	return nil
}

// replyLocked handles a request to a response_url.
func (c *call) replyLocked() (obj, *apiError) {
	r := c.s.replies[c.rest]
	switch {
	case r == nil || time.Now().After(r.until):
		return nil, &apiError{code: "expired_url", status: http.StatusNotFound}
	case r.left <= 0:
		return nil, &apiError{code: "used_url", status: http.StatusNotFound}
	}
	raw := obj{}
	for k, v := range c.req.values {
		raw[k] = v
		if k == "blocks" || k == "attachments" {
			raw[k] = json.RawMessage(v)
		}
	}
	if _, refused := c.content(0); refused != nil && !c.bool("delete_original") {
		return nil, &apiError{code: refused.code, status: http.StatusBadRequest, messages: refused.messages}
	}
	r.left--
	c.made = r.useLocked(encode(raw))
	c.answer = &answer{status: http.StatusOK, kind: "text/plain", body: []byte("ok")}
	return nil, nil
}

// useLocked executes the answer of an app to an interaction: a message that
// only the user sees, a message for everyone, or an update of the message with
// the button. It returns the ts of the message.
func (r *replyURL) useLocked(raw json.RawMessage) string {
	var said struct {
		Text    string          `json:"text"`
		Blocks  json.RawMessage `json:"blocks"`
		Type    string          `json:"response_type"`
		Replace any             `json:"replace_original"`
		Delete  any             `json:"delete_original"`
		Thread  string          `json:"thread_ts"`
	}
	if json.Unmarshal(raw, &said) != nil {
		return ""
	}
	is := func(v any) bool { return v == true || v == "true" }
	what := content{text: said.Text, blocks: said.Blocks}
	switch {
	case is(said.Delete) && r.message != nil:
		r.channel.deleteLocked(r.message)
		return r.message.TS
	case is(said.Replace) && r.message != nil:
		before := r.message.wire()
		r.message.editLocked(said.Text, said.Blocks)
		r.bot.app.s.recorder.note(func(n *Counts) { n.Edited++ })
		r.channel.changedLocked(r.message, before)
		return r.message.TS
	case said.Type == "in_channel":
		return r.channel.sayLocked(r.bot, what, said.Thread, false).TS
	}
	return r.channel.whisperLocked(r.bot, r.user, what)
}
