package discord

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"
)

const (
	maxContent = 2000 // code points
	maxNonce   = 25
	maxEmbeds  = 10
)

// A draft is a message as a bot sends it.
type draft struct {
	Content     *string           `json:"content"`
	Embeds      []json.RawMessage `json:"embeds"`
	Components  json.RawMessage   `json:"components"`
	Allowed     *allowed          `json:"allowed_mentions"`
	Reference   *reference        `json:"message_reference"`
	Nonce       json.RawMessage   `json:"nonce"`
	Enforce     bool              `json:"enforce_nonce"`
	Flags       *int              `json:"flags"`
	Attachments *[]struct {
		ID any `json:"id"`
	} `json:"attachments"`
	buttons [][]Button
}

type reference struct {
	Message string `json:"message_id"`
	Channel string `json:"channel_id"`
	Fail    *bool  `json:"fail_if_not_exists"`
}

// A nonce is a nonce that a bot used recently.
type nonce struct {
	key     string
	message *message
	until   time.Time
}

// draft parses a message from the body and validates all that does not depend
// on the channel.
func (c *call) draft() (*draft, *apiError) {
	d := &draft{}
	if err := c.decode(d); err != nil {
		return nil, err
	}
	return d, d.check()
}

func (d *draft) check() *apiError {
	if d.Content != nil && utf8.RuneCountInString(*d.Content) > maxContent {
		return tooLong("content", maxContent)
	}
	if utf8.RuneCountInString(d.nonce()) > maxNonce {
		return tooLong("nonce", maxNonce)
	}
	if len(d.Embeds) > maxEmbeds {
		return badLength("embeds", 0, maxEmbeds)
	}
	var err *apiError
	d.buttons, err = readComponents(d.Components)
	return err
}

// nonce returns the nonce, which may be a number or a string.
func (d *draft) nonce() string {
	var s string
	if json.Unmarshal(d.Nonce, &s) == nil {
		return s
	}
	return strings.TrimPrefix(string(d.Nonce), "null")
}

func (d *draft) text() string {
	if d.Content == nil {
		return ""
	}
	return strings.TrimSpace(*d.Content)
}

// createMessage handles RouteCreateMessage.
func createMessage(c *call) (any, *apiError) {
	d, err := c.draft()
	if err != nil {
		return nil, err
	}
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	ch, p, err := c.placeLocked()
	if err != nil {
		return nil, err
	}
	if err := c.maySendLocked(ch, p); err != nil {
		return nil, err
	}
	switch known := c.bot.knownLocked(d); {
	case known == nil:
	case !known.Deleted.IsZero():
		return nil, unknown(10008, "Message") // not created again, although it was deleted
	default:
		c.s.recorder.note(func(n *Counts) {
			n.Repeated++
			c.rec.Repeat, c.rec.Message = true, known.ID
		})
		return c.sentLocked(known), nil
	}
	to, err := d.replyLocked(ch, p)
	if err != nil {
		return nil, err
	}
	m, err := c.makeLocked(ch, d, p, to)
	if err != nil {
		return nil, err
	}
	return c.sentLocked(m), nil
}

// maySendLocked checks whether the bot may send in the channel.
func (c *call) maySendLocked(ch *Channel, p Permission) *apiError {
	need := SendMessages
	if ch.isThread() {
		need = SendInThreads
	}
	switch {
	case ch.guild == nil && !c.bot.reachableLocked(ch.peer):
		return refuse(http.StatusForbidden, 50007, "Cannot send messages to this user")
	case ch.kind == Category:
		return refuse(http.StatusBadRequest, 50008, "Cannot send messages in a non-text channel")
	case ch.kind == Forum:
		return refuse(http.StatusBadRequest, 40058, "Cannot message this channel until it has threads")
	case p&need == 0, len(c.files) > 0 && p&AttachFiles == 0:
		return missingPermissions()
	}
	return ch.closedLocked(p)
}

// knownLocked returns the message that was created with the nonce, or nil.
func (b *Bot) knownLocked(d *draft) *message {
	now := time.Now()
	for len(b.nonces) > 0 && now.After(b.nonces[0].until) {
		old := b.nonces[0]
		b.nonces = b.nonces[1:]
		if b.known[old.key] == old.message {
			delete(b.known, old.key)
		}
	}
	if !d.Enforce {
		return nil
	}
	return b.known[d.nonce()]
}

// rememberLocked stores the last message of each nonce for NonceMemory.
func (b *Bot) rememberLocked(m *message) {
	if m.Nonce == "" {
		return
	}
	b.known[m.Nonce] = m
	b.nonces = append(b.nonces, nonce{m.Nonce, m, time.Now().Add(b.s.opts.NonceMemory)})
}

// ForgetNonces clears the memory of enforce_nonce, as if NonceMemory had
// passed.
func (b *Bot) ForgetNonces() {
	b.s.mu.Lock()
	defer b.s.mu.Unlock()
	b.nonces, b.known = nil, map[string]*message{}
}

// replyLocked returns the message that the draft replies to.
func (d *draft) replyLocked(ch *Channel, p Permission) (*message, *apiError) {
	if d.Reference == nil || d.Reference.Message == "" {
		return nil, nil
	}
	if p&ReadMessageHistory == 0 {
		return nil, refuse(http.StatusForbidden, 160002, "Cannot reply without permission to read message history")
	}
	to := ch.liveLocked(d.Reference.Message)
	switch {
	case d.Reference.Channel != "" && d.Reference.Channel != ch.id:
		return nil, invalid("message_reference", "MESSAGE_REFERENCE_CHANNEL_MISMATCH", "Cannot reply to a message in a different channel")
	case to == nil && (d.Reference.Fail == nil || *d.Reference.Fail):
		return nil, invalid("message_reference", "REPLIES_UNKNOWN_MESSAGE", "Unknown message")
	case to != nil && (to.Type == TypeThreadCreated || to.Type == TypeThreadStarter || to.Type == TypeJoin):
		return nil, invalid("message_reference", "REPLIES_CANNOT_REPLY_TO_SYSTEM_MESSAGE", "Cannot reply to a system message")
	}
	return to, nil
}

// makeLocked creates a message of a bot and offers it.
func (c *call) makeLocked(ch *Channel, d *draft, p Permission, to *message) (*message, *apiError) {
	if d.text() == "" && len(d.Embeds) == 0 && len(c.files) == 0 && len(d.buttons) == 0 {
		return nil, refuse(http.StatusBadRequest, 50006, "Cannot send an empty message")
	}
	ch.wakeLocked()
	m := ch.newMessageLocked(c.bot.user, d.text())
	m.Nonce = d.nonce()
	d.fillLocked(m)
	if m.reply = to; to != nil {
		m.Type, m.ReplyTo = TypeReply, to.ID
	}
	m.mentionLocked(d.Allowed, p)
	c.storeLocked(m)
	c.bot.rememberLocked(m)
	c.sentByBotLocked(m)
	m.announceLocked("MESSAGE_CREATE")
	return m, nil
}

// sentByBotLocked records a message that the call created.
func (c *call) sentByBotLocked(m *message) {
	c.s.recorder.note(func(n *Counts) {
		n.Sent++
		c.rec.Message = m.ID
	})
}

// fillLocked sets the fields of a message other than its text.
func (d *draft) fillLocked(m *message) {
	m.Embeds, m.components, m.Buttons = d.Embeds, d.Components, d.buttons
	m.Bare = d.bare()
	const ephemeral = 1 << 6
	m.Ephemeral = m.Ephemeral || m.Interaction != "" && d.flags()&ephemeral != 0
}

// suppressEmbeds is the flag of a message without link previews; it is the only
// flag that an edit can change.
const suppressEmbeds = 1 << 2

func (d *draft) flags() int {
	if d.Flags == nil {
		return 0
	}
	return *d.Flags
}

func (d *draft) bare() bool { return d.flags()&suppressEmbeds != 0 }

// sentLocked returns the answer to the call that created the message.
func (c *call) sentLocked(m *message) obj {
	w := m.wireLocked(c.viewLocked())
	if m.Nonce != "" {
		w["nonce"] = m.Nonce
	}
	return w
}

// viewLocked returns the bot as the reader of REST answers.
func (c *call) viewLocked() view {
	return view{bot: c.bot, host: c.r.Host, content: c.bot.denied&IntentMessageContent == 0}
}

// A component is a component of a message; rows contain further components.
type component struct {
	Type     int         `json:"type"`
	CustomID string      `json:"custom_id"`
	Label    string      `json:"label"`
	URL      string      `json:"url"`
	Style    int         `json:"style"`
	Disabled bool        `json:"disabled"`
	Inside   []component `json:"components"`
}

const (
	maxRows    = 5
	maxInRow   = 5
	maxLabel   = 80
	maxCustom  = 100
	rowType    = 1
	buttonType = 2
	linkStyle  = 5
)

// readComponents validates components and returns the buttons.
func readComponents(raw json.RawMessage) ([][]Button, *apiError) {
	var rows []component
	if len(raw) > 0 && json.Unmarshal(raw, &rows) != nil {
		return nil, invalid("components", "BASE_TYPE_BAD_TYPE", "Only iterables may be used in a ListType")
	}
	if len(rows) > maxRows {
		return nil, badLength("components", 0, maxRows)
	}
	var out [][]Button
	seen := map[string]bool{}
	for i, row := range rows {
		at := fmt.Sprintf("components.%d", i)
		if row.Type != rowType {
			return nil, invalid(at, "UNION_TYPE_CHOICES", "Value of field \"type\" must be one of (1,).")
		}
		if len(row.Inside) == 0 || len(row.Inside) > maxInRow {
			return nil, badLength(at+".components", 1, maxInRow)
		}
		var buttons []Button
		for _, b := range row.Inside {
			link := b.Type == buttonType && b.Style == linkStyle
			switch {
			case link && b.URL == "", !link && b.CustomID == "":
				return nil, invalid(at, "BASE_TYPE_REQUIRED", "This field is required")
			case utf8.RuneCountInString(b.Label) > maxLabel:
				return nil, tooLong(at+".label", maxLabel)
			case utf8.RuneCountInString(b.CustomID) > maxCustom:
				return nil, tooLong(at+".custom_id", maxCustom)
			case seen[b.CustomID] && !link:
				return nil, invalid(at, "COMPONENT_CUSTOM_ID_DUPLICATED", "Component custom id cannot be duplicated")
			}
			seen[b.CustomID] = true
			buttons = append(buttons, Button{b.CustomID, b.Label, b.Style, b.Disabled})
		}
		out = append(out, buttons)
	}
	return out, nil
}
