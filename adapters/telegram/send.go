package telegram

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/go-telegram/bot"
	"github.com/go-telegram/bot/models"

	"hermesd/adapters/telegram/internal/entity"
	"hermesd/adapters/telegram/internal/inbound"
	"hermesd/gateway/chat"
)

// A target is an address as Telegram's parameters.
type target struct {
	chat   any // int64, or @name
	topic  int
	direct int // topic of a channel's direct messages
}

// general is the topic of a forum that messages do not name.
const general = "1"

func targetOf(to chat.Address) (target, error) {
	var t target
	switch id, err := strconv.ParseInt(to.Chat, 10, 64); {
	case err == nil && id != 0:
		t.chat = id
	case strings.HasPrefix(to.Chat, "@") && len(to.Chat) > 1:
		t.chat = to.Chat
	default:
		return t, rejected(fmt.Sprintf("%q is not a Telegram chat id", to.Chat))
	}
	if to.Thread == "" {
		return t, nil
	}
	number, direct := strings.CutPrefix(to.Thread, inbound.DirectTopic)
	n, err := strconv.Atoi(number)
	if err != nil || n <= 0 {
		return t, rejected(fmt.Sprintf("%q is not a Telegram topic", to.Thread))
	}
	if direct {
		t.direct = n
	} else {
		t.topic = n
	}
	return t, nil
}

func rejected(reason string) *chat.SendError {
	return &chat.SendError{Outcome: chat.Permanent, Reason: reason}
}

// A outgoing is one message being sent, with the parts that can be changed when
// Telegram rejects it.
type outgoing struct {
	m        chat.Outbound
	target   target
	text     string
	entities []models.MessageEntity
	reply    *models.ReplyParameters
	markup   models.ReplyMarkup
	document bool // send the file as it is, not as a photo or voice message
}

func newLetter(m chat.Outbound) (*outgoing, error) {
	t, err := targetOf(m.To)
	if err != nil {
		return nil, err
	}
	if m.To.Thread == general && m.To.Kind != chat.DM {
		t.topic = 0
	}
	for _, b := range slices.Concat(m.Buttons...) {
		if len(b.Data) > buttonData || b.Data == "" || b.Label == "" {
			return nil, rejected(fmt.Sprintf("the button %q needs a label and 1 to %d bytes of data", b.Label, buttonData))
		}
	}
	l := &outgoing{m: m, target: t, markup: buttons(m.Buttons)}
	l.text, l.entities = render(m.Text)
	if m.File == nil && strings.TrimSpace(l.text) == "" {
		return nil, rejected("the message is empty")
	}
	if id, err := strconv.Atoi(m.ReplyTo); err == nil && id > 0 {
		l.reply = &models.ReplyParameters{MessageID: id, AllowSendingWithoutReply: true}
	}
	return l, nil
}

// maxShapes limits how many forms of one message are tried.
const maxShapes = 4

// Send implements chat.Adapter. If Telegram rejects the form of a message, and
// so certainly does not have it, the message is sent again at once without the
// rejected part: its styles, its quotation, or a closed or deleted topic of a group.
func (a *Adapter) Send(ctx context.Context, m chat.Outbound) (chat.Receipt, error) {
	l, err := newLetter(m)
	if err != nil {
		return chat.Receipt{}, err
	}
	limit := callTimeout
	if m.File != nil {
		limit = fileTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for shape := 1; ; shape++ {
		id, err := a.post(ctx, l)
		if err == nil {
			return chat.Receipt{ID: strconv.Itoa(id)}, nil
		}
		if shape == maxShapes || !l.reshape(refusal(err)) {
			return chat.Receipt{}, sendError(err, m.To)
		}
	}
}

// reshape removes from l what Telegram rejected with text, and reports whether a
// retry can help.
func (l *outgoing) reshape(text string) bool {
	switch {
	case text == "":
		return false
	case strings.Contains(text, "entit") && l.entities != nil:
		l.entities = nil
	case strings.Contains(text, "repl") && l.reply != nil:
		l.reply = nil
	case containsAny(text, "thread not found", "topic_closed", "topic_deleted") && l.target.topic != 0 && l.m.To.Kind != chat.DM:
		l.target.topic, l.reply = 0, nil // everyone who saw the topic sees the group
	case l.m.File != nil && !l.document && l.m.File.Kind != chat.Document && mediaRefused(text):
		l.document = true
	default:
		return false
	}
	return true
}

// mediaRefused reports whether a 400 response concerns a requirement of photos
// or voice messages that does not apply to documents.
func mediaRefused(text string) bool {
	return containsAny(text, "photo_invalid", "photo_ext", "photo_save", "image_process_failed", "too big for a photo",
		"voice_messages_forbidden", "video_content_type", "wrong type of the web page", "failed to get http url")
}

func (a *Adapter) post(ctx context.Context, l *outgoing) (int, error) {
	if l.m.File != nil {
		return a.postFile(ctx, l)
	}
	off := true
	return messageID(a.api.SendMessage(ctx, &bot.SendMessageParams{
		ChatID: l.target.chat, MessageThreadID: l.target.topic, DirectMessagesTopicID: l.target.direct,
		Text: l.text, Entities: l.entities,
		LinkPreviewOptions:  &models.LinkPreviewOptions{IsDisabled: &off},
		DisableNotification: l.m.Quiet,
		ReplyParameters:     l.reply, ReplyMarkup: l.markup,
	}))
}

func messageID(m *models.Message, err error) (int, error) {
	if err != nil {
		return 0, err
	}
	if m == nil || m.ID == 0 {
		return 0, errors.New("response has no message ID")
	}
	return m.ID, nil
}

func (a *Adapter) Edit(ctx context.Context, id string, m chat.Outbound) error {
	l, err := newLetter(m)
	if err != nil {
		return err
	}
	n, err := strconv.Atoi(id)
	if err != nil {
		return rejected(fmt.Sprintf("%q is not a Telegram message id", id))
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	off := true
	for {
		_, err = a.api.EditMessageText(ctx, &bot.EditMessageTextParams{
			ChatID: l.target.chat, MessageID: n, Text: l.text, Entities: l.entities,
			LinkPreviewOptions: &models.LinkPreviewOptions{IsDisabled: &off},
			ReplyMarkup:        l.markup,
		})
		text := refusal(err)
		switch {
		case err == nil, strings.Contains(text, "message is not modified"):
			return nil
		case gone(text):
			return &chat.SendError{Outcome: chat.Permanent, Reason: "the message can no longer be changed", Err: chat.ErrGone}
		case strings.Contains(text, "entit") && l.entities != nil:
			l.entities = nil
		default:
			return sendError(err, m.To)
		}
	}
}

func (a *Adapter) Delete(ctx context.Context, to chat.Address, id string) error {
	t, err := targetOf(to)
	if err != nil {
		return err
	}
	n, err := strconv.Atoi(id)
	if err != nil {
		return rejected(fmt.Sprintf("%q is not a Telegram message id", id))
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	_, err = a.api.DeleteMessage(ctx, &bot.DeleteMessageParams{ChatID: t.chat, MessageID: n})
	text := refusal(err)
	switch {
	case err == nil, strings.Contains(text, "message to delete not found"), strings.Contains(text, "message_id_invalid"):
		return nil
	case gone(text):
		return &chat.SendError{Outcome: chat.Permanent, Reason: "the message can no longer be deleted", Err: chat.ErrGone}
	}
	return sendError(err, to)
}

func (a *Adapter) Typing(ctx context.Context, to chat.Address) error {
	t, err := targetOf(to)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	_, err = a.api.SendChatAction(ctx, &bot.SendChatActionParams{
		ChatID: t.chat, MessageThreadID: t.topic, Action: models.ChatActionTyping,
	})
	if err != nil {
		return sendError(err, to)
	}
	return nil
}

// AnswerCallback implements chat.CallbackAnswerer. A callback that is too old to
// be answered counts as answered: nobody waits for it any more.
func (a *Adapter) AnswerCallback(ctx context.Context, callback chat.Inbound, text string) error {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	_, err := a.api.AnswerCallbackQuery(ctx, &bot.AnswerCallbackQueryParams{
		CallbackQueryID: callback.IdempotencyKey, Text: entity.Cut(text, 200),
	})
	if t := refusal(err); err == nil || strings.Contains(t, "query is too old") || strings.Contains(t, "query_id_invalid") {
		return nil
	}
	return sendError(err, callback.Address)
}

// Size returns the length of r in UTF-16 units, which Telegram's limits count;
// styles do not count.
func Size(r chat.RichText) int { return entity.Units(r.Text) }

func render(r chat.RichText) (string, []models.MessageEntity) {
	text, es := entity.Render(r)
	var out []models.MessageEntity
	for _, e := range es {
		out = append(out, models.MessageEntity{
			Type: models.MessageEntityType(e.Type), Offset: e.Offset, Length: e.Length, URL: e.URL, Language: e.Language,
		})
	}
	return text, out
}

// A keyboard is the buttons under a message. The library's own type adds an
// empty copy_text to every button, which gives each button two actions.
type keyboard struct {
	Rows [][]key `json:"inline_keyboard"`
}

type key struct {
	Text string `json:"text"`
	Data string `json:"callback_data"`
}

// buttons returns the keyboard for rows, nil if there is none.
func buttons(rows [][]chat.Button) models.ReplyMarkup {
	var k keyboard
	for _, row := range rows {
		var line []key
		for _, b := range row {
			line = append(line, key{Text: b.Label, Data: b.Data})
		}
		if len(line) > 0 {
			k.Rows = append(k.Rows, line)
		}
	}
	if k.Rows == nil {
		return nil
	}
	return k
}
