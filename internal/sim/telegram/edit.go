package telegram

import (
	"bytes"
	"encoding/json"
	"reflect"
	"slices"
	"strconv"
	"time"
)

const deletableFor = 48 * time.Hour

// target returns the message that an edit names, if this bot may edit it.
func (c *call) target() (*Chat, *message, *apiError) {
	if c.str("chat_id") == "" || c.int("message_id", 0) == 0 {
		return nil, nil, badRequest("message identifier is not specified")
	}
	ch, err := c.room(editing)
	if err != nil {
		return nil, nil, err
	}
	m := ch.liveLocked(c.int("message_id", 0))
	switch {
	case m == nil:
		return nil, nil, badRequest("message to edit not found")
	case m.From.ID != c.bot.ID() || m.Service != "":
		return nil, nil, badRequest("message can't be edited")
	}
	return ch, m, nil
}

// change replaces the content of m. It refuses content that does not differ.
func (c *call) change(ch *Chat, m *message, content rich) (any, *apiError) {
	markup, buttons, err := c.markup()
	if err != nil {
		return nil, err
	}
	if m.Text == content.text && sameEntities(m.Entities, content.entities) && sameJSON(m.markup, markup) {
		return nil, badRequest("message is not modified: specified new message content and reply markup are exactly the same as a current content and reply markup of the message")
	}
	m.editLocked(content, buttons)
	m.markup = markup
	c.made = m.ID
	c.s.recorder.note(func(n *Counts) { n.Edited++ })
	return ch.wireLocked(m, c.bot), nil
}

func sameEntities(a, b []Entity) bool {
	return len(a) == len(b) && (len(a) == 0 || reflect.DeepEqual(a, b))
}

func sameJSON(a, b json.RawMessage) bool {
	if bytes.Equal(a, b) {
		return true
	}
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && reflect.DeepEqual(x, y)
}

func (c *call) editText() (any, *apiError) {
	content, err := c.text()
	if err != nil {
		return nil, err
	}
	ch, m, err := c.target()
	if err != nil {
		return nil, err
	}
	if m.Media != nil {
		return nil, badRequest("there is no text in the message to edit")
	}
	return c.change(ch, m, content)
}

func (c *call) editCaption() (any, *apiError) {
	content, err := c.caption()
	if err != nil {
		return nil, err
	}
	ch, m, err := c.target()
	if err != nil {
		return nil, err
	}
	if m.Media == nil || m.Media.Kind == Location {
		return nil, badRequest("there is no caption in the message to edit")
	}
	return c.change(ch, m, content)
}

func (c *call) editMarkup() (any, *apiError) {
	ch, m, err := c.target()
	if err != nil {
		return nil, err
	}
	return c.change(ch, m, rich{text: m.Text, entities: m.Entities})
}

// mayDelete returns why m cannot be deleted, or nil.
func (c *call) mayDelete(ch *Chat, m *message) *apiError {
	switch {
	case m == nil:
		return badRequest("message to delete not found")
	case time.Since(m.Sent) > deletableFor && ch.kind != Supergroup && ch.kind != Channel:
		return badRequest("message can't be deleted for everyone")
	case m.From.ID != c.bot.ID() && ch.kind != Private && ch.members[c.bot.ID()] == Member:
		return badRequest("message can't be deleted")
	}
	return nil
}

func (c *call) remove(m *message) {
	m.Deleted = time.Now()
	c.made = m.ID
	c.s.recorder.note(func(n *Counts) { n.Deleted++ })
}

func (c *call) deleteMessage() (any, *apiError) {
	ch, err := c.room(editing)
	if err != nil {
		return nil, err
	}
	m := ch.liveLocked(c.int("message_id", 0))
	if err := c.mayDelete(ch, m); err != nil {
		return nil, err
	}
	c.remove(m)
	return true, nil
}

// deleteMessages skips messages that it cannot find.
func (c *call) deleteMessages() (any, *apiError) {
	var ids []int
	if json.Unmarshal([]byte(c.str("message_ids")), &ids) != nil || len(ids) == 0 {
		return nil, badRequest("message identifiers are not specified")
	}
	if len(ids) > 100 {
		return nil, badRequest("too many message identifiers specified")
	}
	ch, err := c.room(editing)
	if err != nil {
		return nil, err
	}
	var gone []*message
	for _, id := range ids {
		m := ch.liveLocked(id)
		if m == nil {
			continue
		}
		if err := c.mayDelete(ch, m); err != nil {
			return nil, err
		}
		gone = append(gone, m)
	}
	for _, m := range gone {
		c.remove(m)
	}
	return true, nil
}

// reactionEmoji lists all emoji with which Telegram lets bots react.
var reactionEmoji = []string{
	"❤", "👍", "👎", "🔥", "🥰", "👏", "😁", "🤔", "🤯", "😱", "🤬", "😢", "🎉", "🤩", "🤮", "💩", "🙏", "👌", "🕊", "🤡",
	"🥱", "🥴", "😍", "🐳", "❤‍🔥", "🌚", "🌭", "💯", "🤣", "⚡", "🍌", "🏆", "💔", "🤨", "😐", "🍓", "🍾", "💋", "🖕", "😈",
	"😴", "😭", "🤓", "👻", "👨‍💻", "👀", "🎃", "🙈", "😇", "😨", "🤝", "✍", "🤗", "🫡", "🎅", "🎄", "☃", "💅", "🤪", "🗿",
	"🆒", "💘", "🙉", "🦄", "😘", "💊", "🙊", "😎", "👾", "🤷‍♂", "🤷", "🤷‍♀", "😡",
}

func (c *call) setReaction() (any, *apiError) {
	var list []wireReaction
	if raw := c.str("reaction"); raw != "" && json.Unmarshal([]byte(raw), &list) != nil {
		return nil, badRequest("can't parse reaction types JSON object")
	}
	ch, err := c.room(reading)
	if err != nil {
		return nil, err
	}
	m := ch.liveLocked(c.int("message_id", 0))
	switch {
	case m == nil:
		return nil, badRequest("message to react not found")
	case len(list) > 1:
		return nil, badRequest("REACTIONS_TOO_MANY")
	case len(list) == 0:
		m.Reaction = ""
	case list[0].Type != "emoji" || !slices.Contains(reactionEmoji, list[0].Emoji):
		return nil, badRequest("REACTION_INVALID")
	default:
		m.Reaction = list[0].Emoji
	}
	c.made = m.ID
	return true, nil
}

// answerCallback answers a callback query. It works once per query and only
// until the query expires.
func (c *call) answerCallback() (any, *apiError) {
	id := c.str("callback_query_id")
	until, open := c.bot.callbacks[id]
	delete(c.bot.callbacks, id)
	if !open || time.Now().After(until) {
		return nil, badRequest("query is too old and response timeout expired or query ID is invalid")
	}
	if len([]rune(c.str("text"))) > 200 {
		return nil, badRequest("MESSAGE_TOO_LONG")
	}
	return true, nil
}

func (c *call) setMyCommands() (any, *apiError) {
	var list []wireCommand
	if json.Unmarshal([]byte(c.str("commands")), &list) != nil {
		return nil, badRequest("can't parse commands JSON object")
	}
	key, err := c.scope()
	if err != nil {
		return nil, err
	}
	if len(list) > 100 {
		return nil, badRequest("BOT_COMMANDS_TOO_MUCH")
	}
	for i, cmd := range list {
		name := cmd.Command
		if len(name) > 0 && name[0] == '/' {
			name = name[1:]
		}
		if !validCommand(name) {
			return nil, badRequest("BOT_COMMAND_INVALID")
		}
		if n := len([]rune(cmd.Description)); n < 1 || n > 256 {
			return nil, badRequest("BOT_COMMAND_DESCRIPTION_INVALID")
		}
		list[i].Command = name
	}
	c.bot.commands[key] = list
	return true, nil
}

func validCommand(name string) bool {
	if len(name) < 1 || len(name) > 32 {
		return false
	}
	for _, r := range []byte(name) {
		if (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '_' {
			return false
		}
	}
	return true
}

// scope returns the key of a command list.
func (c *call) scope() (string, *apiError) {
	sc := struct {
		Type   string          `json:"type"`
		ChatID json.RawMessage `json:"chat_id"`
		UserID int64           `json:"user_id"`
	}{Type: "default"}
	if raw := c.str("scope"); raw != "" && json.Unmarshal([]byte(raw), &sc) != nil {
		return "", badRequest("can't parse BotCommandScope: expected an Object")
	}
	key := sc.Type
	switch sc.Type {
	case "default", "all_private_chats", "all_group_chats", "all_chat_administrators":
	case "chat", "chat_administrators", "chat_member":
		chat := string(bytes.Trim(sc.ChatID, `"`))
		if _, err := c.roomOf(chat, reading); err != nil {
			return "", err
		}
		key += "/" + chat + "/" + strconv.FormatInt(sc.UserID, 10)
	default:
		return "", badRequest("can't parse BotCommandScope: Unsupported type specified")
	}
	return key + "?" + c.str("language_code"), nil
}

func (c *call) getMyCommands() (any, *apiError) {
	key, err := c.scope()
	if err != nil {
		return nil, err
	}
	if list := c.bot.commands[key]; list != nil {
		return list, nil
	}
	return []wireCommand{}, nil
}

func (c *call) deleteMyCommands() (any, *apiError) {
	key, err := c.scope()
	if err != nil {
		return nil, err
	}
	delete(c.bot.commands, key)
	return true, nil
}

// Commands returns the names of the commands in the menu of a scope, such as
// "default" or "all_group_chats", for users of any language.
func (b *Bot) Commands(scope string) []string {
	b.s.mu.Lock()
	defer b.s.mu.Unlock()
	var out []string
	for _, cmd := range b.commands[scope+"?"] {
		out = append(out, cmd.Command)
	}
	return out
}
