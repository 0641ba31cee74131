package discord

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"
)

func messageRoutes() map[string]func(*call) (any, *apiError) {
	return map[string]func(*call) (any, *apiError){
		RouteCreateMessage: createMessage,
		RouteMessages:      getMessages,
		RouteMessage:       getMessage,
		RouteEditMessage:   editMessage,
		RouteDeleteMessage: deleteMessage,
		RouteReact:         react,
		RouteUnreact:       unreact,
		RouteTyping:        typing,
	}
}

const (
	usualHistory = 50
	maxHistory   = 100
)

// getMessages handles RouteMessages: a page of the history, newest first.
func getMessages(c *call) (any, *apiError) {
	limit := usualHistory
	if q := c.query("limit"); q != "" {
		n, err := strconv.Atoi(q)
		if err != nil || n < 1 || n > maxHistory {
			return nil, invalid("limit", "NUMBER_TYPE_MAX", "int value should be between 1 and 100.")
		}
		limit = n
	}
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	ch, p, err := c.placeLocked()
	switch {
	case err != nil:
		return nil, err
	case !ch.takesMessages():
		return nil, refuse(http.StatusBadRequest, 50008, "Cannot send messages in a non-text channel")
	}
	out := []obj{}
	if p&ReadMessageHistory == 0 {
		return out, nil
	}
	v := c.viewLocked()
	for _, m := range slices.Backward(c.pageLocked(ch, limit)) {
		out = append(out, m.wireLocked(v))
	}
	return out, nil
}

// pageLocked returns the messages that the query asks for, oldest first.
func (c *call) pageLocked(ch *Channel, limit int) []*message {
	live := make([]*message, 0, len(ch.msgs))
	for _, m := range ch.msgs {
		if m.Deleted.IsZero() && !m.Ephemeral {
			live = append(live, m)
		}
	}
	from := func(id string, beyond uint64) int {
		i, _ := slices.BinarySearchFunc(live, number(id)+beyond, func(m *message, n uint64) int {
			switch have := number(m.ID); {
			case have < n:
				return -1
			case have > n:
				return 1
			}
			return 0
		})
		return i
	}
	switch {
	case c.query("around") != "":
		mid := from(c.query("around"), 0)
		start := max(0, mid-limit/2)
		return live[start:min(len(live), start+limit)]
	case c.query("after") != "":
		rest := live[from(c.query("after"), 1):]
		return rest[:min(limit, len(rest))]
	case c.query("before") != "":
		live = live[:from(c.query("before"), 0)]
	}
	return live[max(0, len(live)-limit):]
}

// messageLocked returns the message of a call and the permissions of the bot in
// its channel.
func (c *call) messageLocked() (*message, Permission, *apiError) {
	ch, p, err := c.placeLocked()
	if err != nil {
		return nil, 0, err
	}
	m := ch.liveLocked(c.path("message"))
	if m == nil || m.Ephemeral {
		return nil, 0, unknown(10008, "Message")
	}
	c.s.recorder.note(func(*Counts) { c.rec.Message = m.ID })
	return m, p, nil
}

// getMessage handles RouteMessage.
func getMessage(c *call) (any, *apiError) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	m, p, err := c.messageLocked()
	switch {
	case err != nil:
		return nil, err
	case p&ReadMessageHistory == 0:
		return nil, missingAccess()
	}
	return m.wireLocked(c.viewLocked()), nil
}

// editMessage handles RouteEditMessage.
func editMessage(c *call) (any, *apiError) {
	d, err := c.draft()
	if err != nil {
		return nil, err
	}
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	m, p, err := c.messageLocked()
	switch {
	case err != nil:
		return nil, err
	case m.From != c.bot.user:
		return nil, refuse(http.StatusForbidden, 50005, "Cannot edit a message authored by another user")
	}
	if err := m.ch.frozenLocked(p); err != nil {
		return nil, err
	}
	if err := c.changeLocked(m, d, p); err != nil {
		return nil, err
	}
	return m.wireLocked(c.viewLocked()), nil
}

// changeLocked edits a bot's message. Fields that are missing in the draft
// stay.
func (c *call) changeLocked(m *message, d *draft, p Permission) *apiError {
	text := m.Text
	if d.Content != nil {
		text = d.text()
	}
	embeds, components, buttons := m.Embeds, m.components, m.Buttons
	if d.Embeds != nil {
		embeds = d.Embeds
	}
	if len(d.Components) > 0 {
		components, buttons = d.Components, d.buttons
	}
	if text == "" && len(embeds) == 0 && len(buttons) == 0 && len(m.Files)+len(c.files) == 0 {
		return refuse(http.StatusBadRequest, 50006, "Cannot send an empty message")
	}
	m.editLocked(text)
	m.Embeds, m.components, m.Buttons = embeds, components, buttons
	if d.Flags != nil {
		m.Bare = d.bare()
	}
	m.mentionLocked(d.Allowed, p)
	c.storeLocked(m)
	c.s.recorder.note(func(n *Counts) {
		n.Edited++
		c.rec.Message = m.ID
	})
	m.announceLocked("MESSAGE_UPDATE")
	return nil
}

func (m *message) editLocked(text string) {
	m.Versions = append(m.Versions, Version{m.Text, time.Now()})
	m.Text, m.Edited = text, time.Now()
}

// deleteMessage handles RouteDeleteMessage.
func deleteMessage(c *call) (any, *apiError) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	m, p, err := c.messageLocked()
	switch {
	case err != nil:
		return nil, err
	case m.From != c.bot.user && m.ch.guild == nil:
		return nil, refuse(http.StatusForbidden, 50003, "Cannot execute action on a DM channel")
	case m.From != c.bot.user && p&ManageMessages == 0:
		return nil, missingPermissions()
	}
	m.deleteLocked()
	c.s.recorder.note(func(n *Counts) { n.Deleted++ })
	return nil, nil
}

func (m *message) deleteLocked() {
	m.Deleted = time.Now()
	m.announceLocked("MESSAGE_DELETE")
}

// react handles RouteReact.
func react(c *call) (any, *apiError) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	m, p, err := c.messageLocked()
	if err != nil {
		return nil, err
	}
	emoji := c.emoji()
	if utf8.RuneCountInString(emoji) > 8 && !slices.Contains([]byte(emoji), ':') || emoji[0] < 0x80 && !slices.Contains([]byte(emoji), ':') {
		return nil, refuse(http.StatusBadRequest, 10014, "Unknown Emoji")
	}
	known := slices.ContainsFunc(m.Reactions, func(r Reaction) bool { return r.Emoji == emoji })
	if p&ReadMessageHistory == 0 || p&AddReactions == 0 && !known {
		return nil, missingPermissions()
	}
	if err := m.ch.frozenLocked(p); err != nil {
		return nil, err
	}
	m.reactLocked(c.bot.user, emoji, true)
	return nil, nil
}

func (c *call) emoji() string {
	if e, err := url.PathUnescape(c.path("emoji")); err == nil && e != "" {
		return e
	}
	return "?"
}

// unreact handles RouteUnreact.
func unreact(c *call) (any, *apiError) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	m, p, err := c.messageLocked()
	if err != nil {
		return nil, err
	}
	if err := m.ch.frozenLocked(p); err != nil {
		return nil, err
	}
	m.reactLocked(c.bot.user, c.emoji(), false)
	return nil, nil
}

// reactLocked adds or removes a reaction and offers the event.
func (m *message) reactLocked(u *User, emoji string, on bool) {
	r := Reaction{Emoji: emoji, From: u.ID}
	if slices.Contains(m.Reactions, r) == on {
		return
	}
	kind := "MESSAGE_REACTION_ADD"
	if on {
		m.Reactions = append(m.Reactions, r)
	} else {
		m.Reactions = slices.DeleteFunc(m.Reactions, func(o Reaction) bool { return o == r })
		kind = "MESSAGE_REACTION_REMOVE"
	}
	intent := IntentGuildReactions
	w := obj{
		"user_id": u.ID, "channel_id": m.Channel, "message_id": m.ID, "emoji": obj{"id": nil, "name": emoji},
		"message_author_id": m.From.ID, "burst": false, "type": 0,
	}
	if m.ch.guild == nil {
		intent = IntentDirectReactions
	} else {
		w["guild_id"] = m.Guild
	}
	o := Offer{Channel: m.Channel, Message: m.ID, From: u.ID, Text: emoji}
	for _, b := range m.ch.botsLocked() {
		b.dispatchLocked(kind, intent, o, func(view) obj { return w })
	}
}

// typing handles RouteTyping.
func typing(c *call) (any, *apiError) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	ch, p, err := c.placeLocked()
	if err != nil {
		return nil, err
	}
	if err := c.maySendLocked(ch, p); err != nil {
		return nil, err
	}
	ch.typing++
	return nil, nil
}
