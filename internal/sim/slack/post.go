package slack

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"time"
	"unicode/utf8"
)

// Maximum lengths in a message, in characters.
const (
	maxText       = 40_000 // longer texts are truncated with a warning
	maxUpdateText = 4_000
	maxMarkdown   = 12_000
	maxBlocks     = 50
	maxBlockText  = 13_300 // all blocks together; Slack does not document how it counts
	blockCost     = 42     // what each block adds to that sum
	maxMetadata   = 16 << 10
)

// A content is the validated content of a message.
type content struct {
	text        string
	blocks      json.RawMessage
	attachments json.RawMessage
	metadata    json.RawMessage
	bare        bool
}

// content parses and validates the content of a message; it refuses a text
// longer than limit.
func (c *call) content(limit int) (content, *apiError) {
	out := content{text: c.str("text"), bare: c.str("unfurl_links") == "false" && c.str("unfurl_media") == "false"}
	markdown := c.str("markdown_text")
	if markdown != "" {
		if out.text != "" || c.str("blocks") != "" {
			return out, refuse("markdown_text_conflict")
		}
		if utf8.RuneCountInString(markdown) > maxMarkdown {
			return out, refuse("msg_too_long")
		}
		out.text, out.blocks = markdown, encode([]obj{{"type": "markdown", "text": markdown}})
	}
	var refused *apiError
	if raw := c.str("blocks"); raw != "" {
		if out.blocks, refused = checkBlocks(raw); refused != nil {
			return out, refused
		}
	}
	if raw := c.str("attachments"); raw != "" {
		var list []json.RawMessage
		if json.Unmarshal([]byte(raw), &list) != nil {
			return out, refuse("invalid_attachments")
		}
		if len(list) > 0 {
			out.attachments = json.RawMessage(raw)
		}
	}
	if out.metadata, refused = checkMetadata(c.str("metadata")); refused != nil {
		return out, refused
	}
	if strings.TrimSpace(out.text) == "" && len(out.blocks) == 0 && len(out.attachments) == 0 {
		return out, refuse("no_text")
	}
	return out, c.fitText(&out.text, limit)
}

// fitText refuses a text longer than limit, and truncates one that exceeds the
// maximum of any message.
func (c *call) fitText(text *string, limit int) *apiError {
	n := utf8.RuneCountInString(*text)
	if limit > 0 && n > limit && c.str("markdown_text") == "" {
		return refuse("msg_too_long")
	}
	if n > maxText {
		*text = string([]rune(*text)[:maxText])
		c.req.warnings = append(c.req.warnings, "message_truncated")
	}
	return nil
}

// checkMetadata validates {"event_type": …, "event_payload": {…}}.
func checkMetadata(raw string) (json.RawMessage, *apiError) {
	if raw == "" {
		return nil, nil
	}
	var m struct {
		Type    string         `json:"event_type"`
		Payload map[string]any `json:"event_payload"`
	}
	if json.Unmarshal([]byte(raw), &m) != nil {
		return nil, refuse("invalid_metadata_format")
	}
	switch {
	case m.Type == "" && m.Payload == nil: // slack-go sends empty metadata
		return nil, nil
	case m.Type == "" || m.Payload == nil:
		return nil, refuse("invalid_metadata_schema")
	case len(raw) > maxMetadata:
		return nil, refuse("metadata_too_large")
	}
	return json.RawMessage(raw), nil
}

// checkBlocks checks blocks for the most common errors.
func checkBlocks(raw string) (json.RawMessage, *apiError) {
	var list []struct {
		Type string          `json:"type"`
		Text json.RawMessage `json:"text"`
	}
	if json.Unmarshal([]byte(raw), &list) != nil {
		return nil, refuse("invalid_blocks_format")
	}
	if len(list) == 0 {
		return nil, nil
	}
	if len(list) > maxBlocks {
		return nil, refuse("invalid_blocks", fmt.Sprintf("[ERROR] no more than %d items allowed [json-pointer:/blocks]", maxBlocks))
	}
	sum, markdown := 0, 0
	for i, b := range list {
		if b.Type == "" {
			return nil, refuse("invalid_blocks", fmt.Sprintf("[ERROR] missing required field: type [json-pointer:/blocks/%d]", i))
		}
		var plain string
		var object struct {
			Text string `json:"text"`
		}
		if json.Unmarshal(b.Text, &plain) == nil {
			markdown += utf8.RuneCountInString(plain)
		} else if json.Unmarshal(b.Text, &object) != nil && b.Text != nil {
			return nil, refuse("invalid_blocks", fmt.Sprintf("[ERROR] must be an object [json-pointer:/blocks/%d/text]", i))
		}
		if most := map[string]int{"section": 3000, "header": 150}[b.Type]; most > 0 && utf8.RuneCountInString(object.Text) > most {
			return nil, refuse("invalid_blocks",
				fmt.Sprintf("[ERROR] must be less than %d characters [json-pointer:/blocks/%d/text/text]", most+1, i))
		}
		sum += blockCost
	}
	for _, text := range blockTexts(json.RawMessage(raw)) {
		sum += utf8.RuneCountInString(text)
	}
	if sum > maxBlockText || markdown > maxMarkdown {
		return nil, refuse("msg_blocks_too_long")
	}
	return json.RawMessage(raw), nil
}

// channelLocked returns the channel that a call names, if the bot may know of
// it.
func (c *call) channelLocked(name string) (*Channel, *apiError) {
	ch := c.s.channels[name]
	if ch == nil || ch.team != c.bot.team || ch.kind != Public && !ch.hasLocked(c.bot.user) {
		return nil, refuse("channel_not_found")
	}
	return ch, nil
}

// targetLocked returns the channel for a message: an ID, a name, or a user,
// which means the direct message channel.
func (c *call) targetLocked() (*Channel, *apiError) {
	name := c.str("channel")
	if name == "" {
		return nil, missingField("channel")
	}
	if u := c.s.users[name]; u != nil && u.team == c.bot.team && u != c.bot.user {
		return u.dmLocked(c.bot.user), nil
	}
	if c.s.channels[name] != nil {
		return c.channelLocked(name)
	}
	for _, ch := range c.s.channels {
		if ch.team == c.bot.team && ch.name != "" && strings.TrimPrefix(name, "#") == ch.name {
			name = ch.id
		}
	}
	return c.channelLocked(name)
}

// mayPostLocked refuses messages that the channel does not allow for the bot.
func (c *call) mayPostLocked(ch *Channel) *apiError {
	switch {
	case ch.archived:
		return refuse("is_archived")
	case !ch.hasLocked(c.bot.user) && !c.bot.hasLocked("chat:write.public"):
		return refuse("not_in_channel")
	case ch.readOnly:
		return refuse("restricted_action_read_only_channel")
	}
	return nil
}

var threadTS = regexp.MustCompile(`^[0-9]{1,11}\.[0-9]{1,6}$`)

// threadLocked returns the root of the thread that a call names.
func (c *call) threadLocked(ch *Channel) (string, *apiError) {
	ts := c.str("thread_ts")
	switch {
	case ts == "":
		return "", nil
	case !threadTS.MatchString(ts):
		return "", refuse("invalid_thread_ts", "[ERROR] "+ts+" is not a valid thread_ts")
	case ch.liveLocked(ts) == nil:
		return "", refuse("thread_not_found")
	}
	return ch.rootLocked(ts), nil
}

func postMessage(c *call) (obj, *apiError) {
	ch, refused := c.targetLocked()
	if refused == nil {
		refused = c.mayPostLocked(ch)
	}
	if refused != nil {
		return nil, refused
	}
	thread, refused := c.threadLocked(ch)
	if refused != nil {
		return nil, refused
	}
	said, refused := c.content(0)
	if refused != nil {
		return nil, refused
	}
	m := ch.sayLocked(c.bot, said, thread, c.bool("reply_broadcast"))
	c.made = m.TS
	return obj{"channel": ch.id, "ts": m.TS, "message": m.withMetadata(m.wire())}, nil
}

// sayLocked creates a message of a bot.
func (c *Channel) sayLocked(b *Bot, said content, thread string, broadcast bool) *message {
	m := c.newLocked(b.user)
	m.Text, m.Blocks, m.Attachments, m.Metadata = said.text, said.blocks, said.attachments, said.metadata
	m.Bare, m.Broadcast = said.bare, broadcast && thread != ""
	m.joinLocked(thread)
	if m.Broadcast {
		m.Subtype = "thread_broadcast"
	}
	delete(c.status, thread)
	c.s.recorder.note(func(n *Counts) { n.Sent++ })
	c.announceLocked(m)
	return m
}

func postEphemeral(c *call) (obj, *apiError) {
	ch, refused := c.targetLocked()
	if refused == nil {
		refused = c.mayPostLocked(ch)
	}
	if refused != nil {
		return nil, refused
	}
	to := c.s.users[c.str("user")]
	if to == nil || !ch.hasLocked(to) {
		return nil, refuse("user_not_in_channel")
	}
	said, refused := c.content(maxUpdateText)
	if refused != nil {
		return nil, refused
	}
	ts := ch.whisperLocked(c.bot, to, said)
	c.made = ts
	return obj{"message_ts": ts}, nil
}

// whisperLocked creates an ephemeral message for one user.
func (c *Channel) whisperLocked(b *Bot, to *User, said content) string {
	m := Message{
		Team: c.team.id, Channel: c.id, TS: c.nextLocked(), User: b.user.ID(), Bot: b.botID, App: b.app.id, To: to.ID(),
		Text: said.text, Blocks: said.blocks, Attachments: said.attachments, Sent: time.Now(),
	}
	c.hidden = append(c.hidden, m)
	c.s.recorder.note(func(*Counts) {})
	return m.TS
}

// ownLocked returns the message of the bot that the ts of a call names.
func (c *call) ownLocked(otherwise string) (*message, *apiError) {
	if c.str("ts") == "" {
		return nil, missingField("ts")
	}
	ch, refused := c.targetLocked()
	if refused != nil {
		return nil, refused
	}
	m := ch.liveLocked(c.str("ts"))
	switch {
	case m == nil:
		return nil, refuse("message_not_found")
	case m.author != c.bot.user || m.Subtype == "tombstone":
		return nil, refuse(otherwise)
	case ch.archived:
		return nil, refuse("is_archived")
	}
	return m, nil
}

func updateMessage(c *call) (obj, *apiError) {
	m, refused := c.ownLocked("cant_update_message")
	if refused != nil {
		return nil, refused
	}
	if w := c.s.opts.EditWindow; w > 0 && time.Since(m.Sent) > w {
		return nil, refuse("edit_window_closed")
	}
	said, refused := c.content(maxUpdateText)
	if refused != nil {
		return nil, refused
	}
	before := m.wire()
	m.editLocked(said.text, said.blocks)
	m.Attachments = said.attachments
	if said.metadata != nil {
		m.Metadata = said.metadata
	}
	c.s.recorder.note(func(n *Counts) { n.Edited++ })
	m.channel.changedLocked(m, before)
	c.made = m.TS
	return obj{"channel": m.Channel, "ts": m.TS, "text": m.Text, "message": m.withMetadata(m.wire())}, nil
}

func deleteMessage(c *call) (obj, *apiError) {
	m, refused := c.ownLocked("cant_delete_message")
	if refused != nil {
		return nil, refused
	}
	m.channel.deleteLocked(m)
	c.s.recorder.note(func(n *Counts) { n.Deleted++ })
	c.made = m.TS
	return obj{"channel": m.Channel, "ts": m.TS}, nil
}
