package discord

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"
)

// Deadlines of interactions.
const (
	AckWithin   = 3 * time.Second  // until the first answer
	TokenUsable = 15 * time.Minute // until the token expires
)

// Types of answers to an interaction.
const (
	CallbackMessage        = 4 // a message
	CallbackDeferred       = 5 // a message that follows later
	CallbackDeferredUpdate = 6 // for a button: no answer, or a later update of its message
	CallbackUpdate         = 7 // for a button: an update of its message
	callbackPong           = 1
	callbackChoices        = 8
	callbackModal          = 9
)

// ErrNoCommand reports that the bot has not registered the command, globally or
// for the guild, so that clients do not offer it.
var ErrNoCommand = errors.New("discord: no such command")

// An Interaction is the use of a command or button by a person.
type Interaction struct {
	s     *Server
	bot   *Bot
	from  *User
	ch    *Channel
	on    *message // message with the button
	id    string
	token string
	name  string
	kind  int
	began time.Time

	// s.mu guards the fields below.
	acked    time.Time
	callback int
	answer   *message // the original answer
	more     []*message
}

// An InteractionState describes the outcome of an interaction so far.
type InteractionState struct {
	ID       string
	Token    string
	Name     string // name of the command, or custom_id
	Began    time.Time
	Acked    time.Time // zero: never
	Callback int       // type of the first answer
	Failed   bool      // the client shows that the application did not respond
	Answers  []Message // the answers that were not deleted
}

// State returns the current state of the interaction.
func (i *Interaction) State() InteractionState {
	i.s.mu.Lock()
	defer i.s.mu.Unlock()
	st := InteractionState{ID: i.id, Token: i.token, Name: i.name, Began: i.began, Acked: i.acked, Callback: i.callback}
	st.Failed = i.acked.IsZero() && time.Since(i.began) > AckWithin
	for _, m := range append([]*message{i.answer}, i.more...) {
		if m != nil && m.Deleted.IsZero() {
			st.Answers = append(st.Answers, m.snapshot())
		}
	}
	return st
}

// Expire makes the token of the interaction expire immediately.
func (i *Interaction) Expire() {
	i.s.mu.Lock()
	defer i.s.mu.Unlock()
	i.began = i.began.Add(-TokenUsable)
}

// Command uses, as a person, a command of the bot.
func (c *Channel) Command(from *User, b *Bot, name string, options ...Option) (*Interaction, error) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	var cm *command
	if c.guild != nil {
		cm = b.findLocked(c.guild.id, name, 1)
	}
	if cm == nil {
		cm = b.findLocked("", name, 1)
	}
	if cm == nil || c.guild == nil && c.bot != b {
		return nil, ErrNoCommand
	}
	data := obj{"id": cm.ID, "name": name, "type": 1}
	if len(options) > 0 {
		var list []obj
		for _, o := range options {
			list = append(list, o.wire())
		}
		data["options"] = list
	}
	i := &Interaction{bot: b, from: from, ch: c, name: name}
	i.beginLocked(2, data)
	return i, nil
}

// Press presses, as a person, a button under a message. It returns ErrNoMessage
// if there is no such button.
func (c *Channel) Press(from *User, id, customID string) (*Interaction, error) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	m := c.liveLocked(id)
	if m == nil || m.From.bot == nil || !slices.ContainsFunc(m.Buttons, func(row []Button) bool {
		return slices.ContainsFunc(row, func(b Button) bool { return b.CustomID == customID && !b.Disabled })
	}) {
		return nil, ErrNoMessage
	}
	return c.pressLocked(from, m, customID), nil
}

// Forge sends the interaction of a button as Press does, but with any
// custom_id, as a manipulated client can, and even for a deleted message.
func (c *Channel) Forge(from *User, id, customID string) (*Interaction, error) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	m := c.byID[id]
	if m == nil || m.From.bot == nil {
		return nil, ErrNoMessage
	}
	return c.pressLocked(from, m, customID), nil
}

func (c *Channel) pressLocked(from *User, m *message, customID string) *Interaction {
	i := &Interaction{bot: m.From.bot, from: from, ch: c, on: m, name: customID}
	i.beginLocked(3, obj{"custom_id": customID, "component_type": buttonType})
	return i
}

// beginLocked offers the interaction to its bot.
func (i *Interaction) beginLocked(kind int, data obj) {
	c := i.ch
	i.s, i.id, i.kind, i.began = c.s, c.s.newIDLocked(), kind, time.Now()
	i.token = fmt.Sprintf("aW50ZXJhY3Rpb246%s.%x", i.id, number(i.id)*0x9e3779b97f4a7c15)
	i.s.inters[i.token] = i
	context, rights := 1, decimal(c.permsLocked(i.bot.user))
	if c.guild != nil {
		context = 0
	}
	o := Offer{Channel: c.id, Message: i.id, From: i.from.ID, Text: i.name}
	i.bot.dispatchLocked("INTERACTION_CREATE", intentNone, o, func(v view) obj {
		w := obj{
			"id": i.id, "application_id": i.bot.user.ID, "type": kind, "data": data, "channel_id": c.id,
			"channel": c.wireLocked(v), "token": i.token, "version": 1, "app_permissions": rights, "locale": "en-US",
			"context": context, "entitlements": []obj{}, "authorizing_integration_owners": obj{},
		}
		if i.on != nil {
			w["message"] = i.on.wireLocked(v)
		}
		if c.guild == nil {
			w["user"] = i.from.wire()
			return w
		}
		w["guild_id"], w["guild_locale"] = c.guild.id, "en-US"
		if m := c.guild.members[i.from.ID]; m != nil {
			member := m.wireWithUser()
			member["permissions"] = decimal(c.permsLocked(i.from))
			w["member"] = member
		}
		return w
	})
}

func interactionRoutes() map[string]func(*call) (any, *apiError) {
	return map[string]func(*call) (any, *apiError){
		RouteCallback:       callback,
		RouteFollowUp:       followUp,
		RouteGetFollowUp:    getFollowUp,
		RouteEditFollowUp:   editFollowUp,
		RouteDeleteFollowUp: deleteFollowUp,
	}
}

// An answer is the first answer to an interaction.
type answer struct {
	Type int   `json:"type"`
	Data draft `json:"data"`
}

// callback handles RouteCallback.
func callback(c *call) (any, *apiError) {
	var a answer
	if err := c.decode(&a); err != nil {
		return nil, err
	}
	if err := a.Data.check(); err != nil {
		return nil, err
	}
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	i := c.s.inters[c.path("token")]
	switch {
	case i == nil || i.id != c.path("interaction") || i.acked.IsZero() && time.Since(i.began) > AckWithin:
		return nil, unknown(10062, "interaction")
	case !i.acked.IsZero():
		return nil, refuse(http.StatusBadRequest, 40060, "Interaction has already been acknowledged.")
	}
	c.bot = i.bot
	c.s.recorder.note(func(*Counts) { c.rec.Bot, c.rec.Channel, c.rec.Text = i.bot.user.ID, i.ch.id, a.Data.text() })
	if err := c.answerLocked(i, a); err != nil {
		return nil, err
	}
	i.acked, i.callback = time.Now(), a.Type
	if c.query("with_response") != "true" {
		return nil, nil
	}
	w := obj{"interaction": obj{"id": i.id, "type": i.kind}}
	if i.answer != nil {
		w["resource"] = obj{"type": a.Type, "message": i.answer.wireLocked(c.viewLocked())}
	}
	return w, nil
}

func (c *call) answerLocked(i *Interaction, a answer) *apiError {
	button := i.on != nil
	switch {
	case a.Type == CallbackMessage:
		m, err := c.replyLocked(i, &a.Data)
		i.answer = m
		return err
	case a.Type == CallbackDeferred:
		const ephemeral = 1 << 6
		m := i.messageLocked()
		m.Pending, m.Ephemeral = true, a.Data.flags()&ephemeral != 0
		i.answer = m
		m.announceLocked("MESSAGE_CREATE")
	case a.Type == CallbackDeferredUpdate && button:
		i.answer = i.on
	case a.Type == CallbackUpdate && button:
		i.answer = i.on
		return c.changeLocked(i.on, &a.Data, i.ch.permsLocked(i.bot.user))
	case a.Type == callbackPong || a.Type == callbackChoices || a.Type == callbackModal:
	default:
		return invalid("type", "BASE_TYPE_CHOICES", "Value must be one of {4, 5, 6, 7, 8, 9, 10, 12}.")
	}
	return nil
}

// messageLocked creates an empty message that answers the interaction.
func (i *Interaction) messageLocked() *message {
	m := i.ch.newMessageLocked(i.bot.user, "")
	m.Interaction = i.id
	m.Type = TypeCommand
	if i.on != nil {
		m.Type, m.reply, m.ReplyTo = TypeReply, i.on, i.on.ID
	}
	return m
}

// replyLocked answers the interaction with a message.
func (c *call) replyLocked(i *Interaction, d *draft) (*message, *apiError) {
	if d.text() == "" && len(d.Embeds) == 0 && len(c.files) == 0 && len(d.buttons) == 0 {
		return nil, refuse(http.StatusBadRequest, 50006, "Cannot send an empty message")
	}
	if err := i.ch.closedLocked(i.ch.permsLocked(i.bot.user)); err != nil {
		return nil, err
	}
	i.ch.wakeLocked()
	m := i.messageLocked()
	m.Text = d.text()
	d.fillLocked(m)
	m.mentionLocked(d.Allowed, i.ch.permsLocked(i.bot.user))
	c.storeLocked(m)
	c.sentByBotLocked(m)
	m.announceLocked("MESSAGE_CREATE")
	return m, nil
}
