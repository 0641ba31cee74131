// Package inbound converts the Bot API's updates to inbound events. Its
// functions are pure: the same update, converter and time give the same event.
package inbound

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf16"

	"github.com/go-telegram/bot/models"

	"hermesd/adapters/internal/mention"
	"hermesd/gateway/chat"
)

// How long a part of a split message waits for the next part.
const (
	splitLength = 4000 // a text of this length may be the first part of a longer one
	splitWait   = time.Second
	albumWait   = 500 * time.Millisecond
)

// The rules by which events are ignored. They are shown by `why`.
const (
	ruleOwn          = "own_message"
	ruleService      = "service_message"
	ruleMembership   = "membership_change"
	ruleChatNotIn    = "chat_not_in_allowed_chats"
	ruleOtherBot     = "addressed_to_another_bot"
	ruleNotAddressed = "not_addressed"
	ruleAutoForward  = "automatic_forward"
	RuleUnsupported  = "unsupported_content"
	RuleUnreadable   = "unreadable_update"
)

// A ConvertResult is the result of converting an update.
type ConvertResult int

const (
	Converted    ConvertResult = iota // the event is to be accepted
	NeedsBotName                      // the conversion needs the bot's own name, which is not known yet
	Skipped                           // the update contains nothing relevant
)

// A Converter converts updates to events. It is a value: the same update with
// the same converter gives the same event.
type Converter struct {
	Account string
	Me      Identity // Username "": not known yet
	Rules   mention.Rules
	// Was returns the previous IDs of a chat, which Rules may still contain; nil
	// means none.
	Was func(id string) []string
}

// After returns a converter for updates that follow the migration of a chat.
func (c Converter) After(from, to string) Converter {
	was := c.Was
	if was == nil {
		was = func(string) []string { return nil }
	}
	c.Was = func(id string) []string {
		if id != to {
			return was(id)
		}
		return slices.Concat(was(to), []string{from}, was(from))
	}
	return c
}

// ids returns the current and the previous IDs of a chat, the current one first.
func (c Converter) ids(id string) []string {
	if c.Was == nil {
		return []string{id}
	}
	return append([]string{id}, c.Was(id)...)
}

// An Identity is the bot's own account.
type Identity struct {
	ID       int64  `json:"id"`
	Username string `json:"username"` // "": not known yet
	Name     string `json:"name,omitempty"`
	// ReadsAll is true if privacy mode is off: the bot receives every message of
	// its groups and not only those that mention it.
	ReadsAll bool `json:"reads_all,omitempty"`
}

// Convert returns the event of an update. now is the time of events that carry
// none. The error means that the update cannot be decoded.
func (c Converter) Convert(raw json.RawMessage, now time.Time) (chat.Inbound, ConvertResult, error) {
	u, err := decode(raw)
	if err != nil {
		return chat.Inbound{}, Skipped, err
	}
	in, v := c.convert(u, objectFields(raw), now)
	return in, v, nil
}

func (c Converter) convert(u *models.Update, fields map[string]json.RawMessage, now time.Time) (chat.Inbound, ConvertResult) {
	switch {
	case u.Message != nil:
		return c.message(u.Message, objectFields(fields["message"]), false)
	case u.ChannelPost != nil:
		return c.message(u.ChannelPost, objectFields(fields["channel_post"]), false)
	case u.EditedMessage != nil:
		return c.message(u.EditedMessage, objectFields(fields["edited_message"]), true)
	case u.EditedChannelPost != nil:
		return c.message(u.EditedChannelPost, objectFields(fields["edited_channel_post"]), true)
	case u.CallbackQuery != nil:
		return c.callback(u.CallbackQuery, now)
	case u.MyChatMember != nil:
		return c.membership(u.MyChatMember)
	}
	return chat.Inbound{}, Skipped
}

// message converts a message; fields are those of its JSON.
func (c Converter) message(m *models.Message, fields map[string]json.RawMessage, edited bool) (chat.Inbound, ConvertResult) {
	if m.Chat.ID == 0 || m.ID == 0 {
		return chat.Inbound{}, Skipped
	}
	at := c.address(m.Chat, threadOf(m))
	if at.Kind != chat.DM && c.Me.Username == "" {
		return chat.Inbound{}, NeedsBotName
	}
	attached := complete(m, fields)
	in := chat.Inbound{
		IdempotencyKey: messageKey(m.Chat.ID, m.ID),
		ID:             strconv.Itoa(m.ID),
		Kind:           chat.Message,
		Address:        at,
		Sender:         sender(m),
		SentAt:         time.Unix(int64(m.Date), 0).UTC(),
		ChatName:       m.Chat.Title,
		Topic:          topicName(m),
		Prompt:         c.prompt(at),
		Files:          append(files(m), attached...),
		ReplyTo:        c.quote(m),
	}
	if edited {
		in.Kind, in.EditedKey = chat.Edit, in.IdempotencyKey
		in.IdempotencyKey += ":" + strconv.Itoa(m.EditDate)
		if m.EditDate != 0 {
			in.SentAt = time.Unix(int64(m.EditDate), 0).UTC()
		}
	}
	if to, ok := c.moved(m, &in); ok {
		in.Kind, in.MigratedTo = chat.Migrated, to
		return in, Converted
	}
	in.IgnoreRule = c.noise(m)
	text, known := content(m, c.Me)
	in.Text = text
	if in.IgnoreRule == "" && !known && len(in.Files) == 0 {
		switch {
		case newerService(fields):
			in.IgnoreRule = ruleService
		case at.Kind == chat.DM:
			in.Text = "[a kind of message that this bot cannot read]"
		default:
			in.IgnoreRule = RuleUnsupported
		}
	}
	in.Addressed = c.addressed(m, at)
	if in.IgnoreRule == "" && at.Kind != chat.DM {
		in.IgnoreRule = c.groupRule(m, at, in.Addressed)
	}
	if in.IgnoreRule == "" && !edited {
		in.Part = part(m, in)
	}
	return in, Converted
}

// noise returns the rule for messages that need no answer.
func (c Converter) noise(m *models.Message) string {
	switch {
	case m.From != nil && m.From.ID == c.Me.ID && c.Me.ID != 0:
		return ruleOwn
	case m.IsAutomaticForward:
		return ruleAutoForward
	case service(m):
		return ruleService
	}
	return ""
}

// moved returns the new address if m announces a chat migration.
func (c Converter) moved(m *models.Message, in *chat.Inbound) (*chat.Address, bool) {
	switch {
	case m.MigrateToChatID != 0:
		to := in.Address
		to.Chat, to.Thread = strconv.FormatInt(m.MigrateToChatID, 10), ""
		return &to, true
	case m.MigrateFromChatID != 0:
		to := in.Address
		to.Thread = ""
		in.Address.Chat, in.Address.Thread = strconv.FormatInt(m.MigrateFromChatID, 10), ""
		return &to, true
	}
	return nil, false
}

func (c Converter) callback(q *models.CallbackQuery, now time.Time) (chat.Inbound, ConvertResult) {
	var (
		at chat.Address
		id int
	)
	switch {
	case q.Message.Message != nil && q.Message.Message.Chat.ID != 0:
		m := q.Message.Message
		at, id = c.address(m.Chat, threadOf(m)), m.ID
	case q.Message.InaccessibleMessage != nil && q.Message.InaccessibleMessage.Chat.ID != 0:
		m := q.Message.InaccessibleMessage
		at, id = c.address(m.Chat, ""), m.MessageID
	default:
		return chat.Inbound{}, Skipped // of an inline message; the adapter sends none
	}
	if q.ID == "" {
		return chat.Inbound{}, Skipped
	}
	if at.Kind != chat.DM && c.Me.Username == "" {
		return chat.Inbound{}, NeedsBotName
	}
	in := chat.Inbound{
		IdempotencyKey: q.ID, ID: strconv.Itoa(id), Kind: chat.Callback, Address: at,
		Sender: person(&q.From), SentAt: now.UTC(), Text: q.Data, Addressed: true,
	}
	if !c.allows(at) {
		in.IgnoreRule = ruleChatNotIn
	}
	return in, Converted
}

func (c Converter) membership(u *models.ChatMemberUpdated) (chat.Inbound, ConvertResult) {
	if u.Chat.ID == 0 {
		return chat.Inbound{}, Skipped
	}
	at := c.address(u.Chat, "")
	if at.Kind != chat.DM && c.Me.Username == "" {
		return chat.Inbound{}, NeedsBotName
	}
	return chat.Inbound{
		IdempotencyKey: fmt.Sprintf("%d:member:%d:%s", u.Chat.ID, u.Date, u.NewChatMember.Type),
		Kind:           chat.Message, Address: at, Sender: person(&u.From),
		SentAt: time.Unix(int64(u.Date), 0).UTC(), ChatName: u.Chat.Title,
		Text:       "[the bot is now " + string(u.NewChatMember.Type) + " here]",
		IgnoreRule: ruleMembership,
	}, Converted
}

// Quarantined returns an event that records an update whose conversion failed,
// with at most 4 KiB of it. The update is not retried.
func (c Converter) Quarantined(raw json.RawMessage, update int64) (chat.Inbound, bool) {
	m, ok := readStub(raw)
	if !ok {
		return chat.Inbound{}, false
	}
	const keep = 4 << 10
	text := string(raw[:min(len(raw), keep)])
	return chat.Inbound{
		IdempotencyKey: fmt.Sprintf("%d:%d#%d", m.Chat.ID, m.ID, update), ID: strconv.FormatInt(m.ID, 10), Kind: chat.Message,
		Address: c.address(models.Chat{ID: m.Chat.ID, Type: models.ChatType(m.Chat.Type)}, ""),
		SentAt:  time.Unix(m.Date, 0).UTC(), Text: strings.ToValidUTF8(text, "?"), IgnoreRule: RuleUnreadable,
	}, true
}

func messageKey(chatID int64, id int) string {
	return strconv.FormatInt(chatID, 10) + ":" + strconv.Itoa(id)
}

func (c Converter) address(ch models.Chat, thread string) chat.Address {
	kind := chat.Group
	switch ch.Type {
	case models.ChatTypePrivate:
		kind = chat.DM
	case models.ChatTypeChannel:
		kind = chat.Channel
	}
	return chat.Address{
		Platform: chat.Telegram, Account: c.Account, Kind: kind,
		Chat: strconv.FormatInt(ch.ID, 10), Thread: thread,
	}
}

// DirectTopic is the thread prefix for topics of a channel's direct messages,
// which have a send parameter of their own.
const DirectTopic = "d"

// threadOf returns the topic of a message, "" if it is not in one. A reply
// thread of an ordinary group and the General topic do not count.
func threadOf(m *models.Message) string {
	switch {
	case m.DirectMessagesTopic != nil:
		return DirectTopic + strconv.Itoa(m.DirectMessagesTopic.TopicID)
	case m.IsTopicMessage && m.MessageThreadID != 0:
		return strconv.Itoa(m.MessageThreadID)
	}
	return ""
}

// topicRoot reports whether the message that m replies to is only the root of
// its topic, to which every message of the topic replies.
func topicRoot(m *models.Message) bool {
	r := m.ReplyToMessage
	return r != nil && (r.ForumTopicCreated != nil || m.IsTopicMessage && r.ID == m.MessageThreadID)
}

func topicName(m *models.Message) string {
	if r := m.ReplyToMessage; r != nil && r.ForumTopicCreated != nil {
		return r.ForumTopicCreated.Name
	}
	return ""
}

// sender returns the sender of a message: the chat on whose behalf it was sent
// (a channel, an anonymous administrator's group), otherwise the user.
func sender(m *models.Message) chat.Person {
	if s := m.SenderChat; s != nil && s.ID != 0 {
		return chat.Person{ID: strconv.FormatInt(s.ID, 10), Name: s.Title, Handle: s.Username}
	}
	if m.From == nil {
		return chat.Person{ID: strconv.FormatInt(m.Chat.ID, 10), Name: m.Chat.Title, Handle: m.Chat.Username}
	}
	return person(m.From)
}

func person(u *models.User) chat.Person {
	return chat.Person{
		ID: strconv.FormatInt(u.ID, 10), Name: fullName(u), Handle: u.Username, Bot: u.IsBot,
	}
}

func fullName(u *models.User) string { return strings.TrimSpace(u.FirstName + " " + u.LastName) }

// part returns how m may belong to a split message, nil if it does not. A
// command is always complete.
func part(m *models.Message, in chat.Inbound) *chat.Part {
	switch {
	case m.MediaGroupID != "":
		return &chat.Part{Group: m.MediaGroupID, Wait: albumWait}
	case m.Text == "" || m.RichMessage != nil || strings.HasPrefix(in.Text, "/"):
		return nil
	case len(utf16.Encode([]rune(m.Text))) >= splitLength:
		return &chat.Part{Group: "text", Wait: splitWait}
	}
	return &chat.Part{Group: "text"}
}

func service(m *models.Message) bool {
	return len(m.NewChatMembers) > 0 || m.LeftChatMember != nil || m.NewChatTitle != "" ||
		len(m.NewChatPhoto) > 0 || m.DeleteChatPhoto || m.GroupChatCreated || m.SupergroupChatCreated ||
		m.ChannelChatCreated || m.MessageAutoDeleteTimerChanged != nil || m.PinnedMessage != nil ||
		m.SuccessfulPayment != nil || m.RefundedPayment != nil || m.UsersShared != nil || m.ChatShared != nil ||
		m.Gift != nil || m.UniqueGift != nil || m.GiftUpgradeSent != nil || m.ConnectedWebsite != "" ||
		m.WriteAccessAllowed != nil || m.PassportData != nil || m.ProximityAlertTriggered != nil ||
		m.BoostAdded != nil || m.ChatBackgroundSet != nil || m.ChecklistTasksDone != nil ||
		m.ChecklistTasksAdded != nil || m.DirectMessagePriceChanged != nil || m.ForumTopicCreated != nil ||
		m.ForumTopicEdited != nil || m.ForumTopicClosed != nil || m.ForumTopicReopened != nil ||
		m.GeneralForumTopicHidden != nil || m.GeneralForumTopicUnhidden != nil || m.GiveawayCreated != nil ||
		m.Giveaway != nil || m.GiveawayWinners != nil || m.GiveawayCompleted != nil ||
		m.PaidMessagePriceChanged != nil || m.ChatOwnerLeft != nil || m.ChatOwnerChanged != nil ||
		m.SuggestedPostApproved != nil || m.SuggestedPostApprovalFailed != nil || m.SuggestedPostDeclined != nil ||
		m.SuggestedPostPaid != nil || m.SuggestedPostRefunded != nil || m.VideoChatScheduled != nil ||
		m.VideoChatStarted != nil || m.VideoChatEnded != nil || m.VideoChatParticipantsInvited != nil ||
		m.ManagedBotCreated != nil || m.PollOptionAdded != nil || m.PollOptionDeleted != nil ||
		m.CommunityChatAdded != nil || m.CommunityChatJoined != nil || m.CommunityChatRemoved != nil
}

// knownFields returns the names of the fields of messages that the library
// decodes.
var knownFields = sync.OnceValue(func() map[string]bool {
	known := map[string]bool{}
	for f := range reflect.TypeFor[models.Message]().Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		known[name] = true
	}
	return known
})

// participles are the last words of names of service messages that do not end in
// "ed".
var participles = []string{"done", "hidden", "left", "paid", "sent", "set", "unhidden"}

// newerService reports whether a message without readable content is a service
// message that is newer than the library. The Bot API names service messages by
// what was done (poll_option_added, chat_owner_left) and content by what it is
// (rich_message, live_photo).
func newerService(fields map[string]json.RawMessage) bool {
	for name := range fields {
		word := name[strings.LastIndexByte(name, '_')+1:]
		if !knownFields()[name] && (strings.HasSuffix(word, "ed") || slices.Contains(participles, word)) {
			return true
		}
	}
	return false
}
