package inbound

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/go-telegram/bot/models"

	"hermesd/gateway/chat"
)

// errUnreadable is the error of an update that cannot be converted at all.
var errUnreadable = errors.New("update: unreadable")

// maxNesting limits the depth to which decode searches for unreadable fields.
const maxNesting = 8

// decode parses one update. The library's types reject a whole update because of
// one value that is newer than the library. Such fields are omitted, so that the
// user's text arrives regardless.
func decode(raw json.RawMessage) (*models.Update, error) {
	u := new(models.Update)
	if err := json.Unmarshal(raw, u); err == nil {
		return u, nil
	}
	pruned := prune(raw, inUpdate, 0)
	u = new(models.Update)
	if err := json.Unmarshal(pruned, u); err != nil {
		return nil, fmt.Errorf("%w: %w", errUnreadable, err)
	}
	return u, nil
}

// A objectKind identifies the library type of an object.
type objectKind int

const (
	inUpdate objectKind = iota
	inMessage
	inCallback
	inChat
	inUser
)

// within reports whether an unreadable field is descended into rather than
// omitted, and returns its type.
func within(p objectKind, field string) (objectKind, bool) {
	switch {
	case p == inUpdate && field == "callback_query":
		return inCallback, true
	case p == inUpdate && (field == "message" || field == "edited_message" || field == "channel_post" || field == "edited_channel_post"):
		return inMessage, true
	case p == inCallback && field == "message", p == inMessage && field == "reply_to_message":
		return inMessage, true
	case p == inMessage && (field == "chat" || field == "sender_chat"):
		return inChat, true
	case (p == inMessage || p == inCallback) && field == "from":
		return inUser, true
	}
	return 0, false
}

// prune returns raw without the fields that the library cannot decode.
func prune(raw json.RawMessage, p objectKind, depth int) json.RawMessage {
	var fields map[string]json.RawMessage
	if depth > maxNesting || json.Unmarshal(raw, &fields) != nil {
		return raw
	}
	for name, v := range fields {
		if readable(p, name, v) {
			continue
		}
		if inner, ok := within(p, name); ok {
			fields[name] = prune(v, inner, depth+1)
			if readable(p, name, fields[name]) {
				continue
			}
		}
		delete(fields, name)
	}
	out, err := json.Marshal(fields)
	if err != nil {
		return raw
	}
	return out
}

// readable reports whether the library can decode a field on its own.
func readable(p objectKind, name string, v json.RawMessage) bool {
	alone, err := json.Marshal(map[string]json.RawMessage{name: v})
	if err != nil {
		return false
	}
	types := map[objectKind]any{
		inUpdate: new(models.Update), inMessage: new(models.Message), inCallback: new(models.CallbackQuery),
		inChat: new(models.Chat), inUser: new(models.User),
	}
	return json.Unmarshal(alone, types[p]) == nil
}

// objectFields returns the fields of a JSON object; nil if raw is none.
func objectFields(raw json.RawMessage) map[string]json.RawMessage {
	var fields map[string]json.RawMessage
	_ = json.Unmarshal(raw, &fields)
	return fields
}

// complete adds to m and the message that it replies to what the library does not
// decode into the fields in use: the text of a rich message, and the origin of a
// forwarded message in the form of servers before Bot API 7.0 or of a kind that
// cannot be read. It returns the attachments of m's rich message.
func complete(m *models.Message, fields map[string]json.RawMessage) (attached []chat.File) {
	if raw := fields["rich_message"]; raw != nil && m.Text == "" && m.Caption == "" {
		m.Text, m.Entities, attached = readRich(raw)
		m.RichMessage = cmp.Or(m.RichMessage, &models.RichMessage{}) // also if the library cannot decode it
	}
	if m.ForwardOrigin == nil && (isSet(fields["forward_origin"]) || isSet(fields["forward_date"])) {
		m.ForwardOrigin = &models.MessageOrigin{MessageOriginHiddenUser: &models.MessageOriginHiddenUser{SenderUserName: legacyOrigin(fields)}}
	}
	if m.ReplyToMessage != nil {
		complete(m.ReplyToMessage, objectFields(fields["reply_to_message"]))
	}
	return attached
}

func isSet(v json.RawMessage) bool { return len(v) > 0 && string(v) != "null" }

// legacyOrigin returns the name of the source of a forwarded message, "" if the
// fields do not tell it.
func legacyOrigin(fields map[string]json.RawMessage) string {
	var (
		user models.User
		from models.Chat
		name string
	)
	_ = json.Unmarshal(fields["forward_from"], &user)
	_ = json.Unmarshal(fields["forward_from_chat"], &from)
	_ = json.Unmarshal(fields["forward_sender_name"], &name)
	return cmp.Or(fullName(&user), from.Title, name)
}

// ID returns the ID of a raw update.
func ID(raw json.RawMessage) (int64, bool) {
	var u struct {
		ID *int64 `json:"update_id"`
	}
	if json.Unmarshal(raw, &u) != nil || u.ID == nil {
		return 0, false
	}
	return *u.ID, true
}

// A stubMessage holds the fields of a message that tell where it was sent. It is
// used when nothing else can be decoded.
type stubMessage struct {
	ID   int64 `json:"message_id"`
	Date int64 `json:"date"`
	Chat struct {
		ID   int64  `json:"id"`
		Type string `json:"type"`
	} `json:"chat"`
}

// readStub returns the message of an update that could not be converted.
func readStub(raw json.RawMessage) (*stubMessage, bool) {
	var u struct {
		Message           *stubMessage `json:"message"`
		EditedMessage     *stubMessage `json:"edited_message"`
		ChannelPost       *stubMessage `json:"channel_post"`
		EditedChannelPost *stubMessage `json:"edited_channel_post"`
	}
	if json.Unmarshal(raw, &u) != nil {
		return nil, false
	}
	for _, m := range []*stubMessage{u.Message, u.EditedMessage, u.ChannelPost, u.EditedChannelPost} {
		if m != nil && m.Chat.ID != 0 && m.ID != 0 {
			return m, true
		}
	}
	return nil, false
}
