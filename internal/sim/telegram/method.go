package telegram

import (
	"encoding/json"
	"strconv"
	"strings"
)

// A method is one method of the API.
type method struct {
	run  func(*call) (any, *apiError)
	free bool // runs without the lock of the server
}

// methodTable returns all methods by lower-case name.
func methodTable() map[string]method {
	return map[string]method{
		"getupdates":     {(*call).getUpdates, true},
		"setwebhook":     {(*call).setWebhook, true},
		"deletewebhook":  {(*call).setWebhook, true},
		"getwebhookinfo": {(*call).getWebhookInfo, false},
		"getme":          {func(c *call) (any, *apiError) { return c.bot.me, nil }, false},
		"file":           {(*call).download, false},

		"sendmessage":      {(*call).sendMessage, false},
		"sendmessagedraft": {(*call).sendMessageDraft, false},
		"sendphoto":        {(*call).sendMedia, false},
		"senddocument":     {(*call).sendMedia, false},
		"sendvoice":        {(*call).sendMedia, false},
		"sendaudio":        {(*call).sendMedia, false},
		"sendvideo":        {(*call).sendMedia, false},
		"sendvideonote":    {(*call).sendMedia, false},
		"sendanimation":    {(*call).sendMedia, false},
		"sendsticker":      {(*call).sendMedia, false},
		"sendlocation":     {(*call).sendLocation, false},
		"sendmediagroup":   {(*call).sendMediaGroup, false},
		"sendchataction":   {(*call).sendChatAction, false},
		"forwardmessage":   {(*call).forwardMessage, false},
		"copymessage":      {(*call).copyMessage, false},

		"editmessagetext":        {(*call).editText, false},
		"editmessagecaption":     {(*call).editCaption, false},
		"editmessagereplymarkup": {(*call).editMarkup, false},
		"deletemessage":          {(*call).deleteMessage, false},
		"deletemessages":         {(*call).deleteMessages, false},
		"setmessagereaction":     {(*call).setReaction, false},
		"answercallbackquery":    {(*call).answerCallback, false},

		"getfile":               {(*call).getFile, false},
		"setmycommands":         {(*call).setMyCommands, false},
		"getmycommands":         {(*call).getMyCommands, false},
		"deletemycommands":      {(*call).deleteMyCommands, false},
		"getchat":               {(*call).getChat, false},
		"getchatmember":         {(*call).getChatMember, false},
		"getchatadministrators": {(*call).getChatAdministrators, false},
		"getchatmembercount":    {(*call).getChatMemberCount, false},
		"leavechat":             {(*call).leaveChat, false},
		"createforumtopic":      {(*call).createForumTopic, false},
		"getuserprofilephotos":  {(*call).noPhotos, false},
		"setmyname":             {(*call).yes, false},
		"setmydescription":      {(*call).yes, false},
		"setmyshortdescription": {(*call).yes, false},
		"setchatmenubutton":     {(*call).yes, false},
		"pinchatmessage":        {(*call).yes, false},
		"unpinchatmessage":      {(*call).yes, false},
		"unpinallchatmessages":  {(*call).yes, false},
		"editforumtopic":        {(*call).yes, false},
		"closeforumtopic":       {(*call).yes, false},
		"reopenforumtopic":      {(*call).yes, false},
	}
}

// dispatch runs the method if it exists and the rate limits allow it.
func (c *call) dispatch() (any, *apiError) {
	m, ok := c.s.methods[c.method]
	if !ok {
		return nil, notFound()
	}
	if m.free {
		return m.run(c)
	}
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	if limited(c.method) {
		if ch := c.bot.roomLocked(c.rec.Chat); ch != nil {
			if refused := c.s.chargeLocked(c.bot.ID(), ch); refused != nil {
				return nil, refused
			}
		}
	}
	return m.run(c)
}

func (c *call) yes() (any, *apiError) { return true, nil }

// roomLocked returns the chat that an ID means for this bot, or nil.
func (b *Bot) roomLocked(id int64) *Chat {
	if id > 0 {
		return b.private[id]
	}
	return b.s.chats[id]
}

// access is what a call is going to do in a chat.
type access int

const (
	reading access = iota
	editing
	writing
)

// room returns the chat of the call if the bot has the wanted access there.
func (c *call) room(want access) (*Chat, *apiError) { return c.roomOf(c.str("chat_id"), want) }

func (c *call) roomOf(raw string, want access) (*Chat, *apiError) {
	if raw == "" {
		return nil, badRequest("chat_id is empty")
	}
	var ch *Chat
	id, _ := strconv.ParseInt(raw, 10, 64)
	if name, ok := strings.CutPrefix(raw, "@"); ok {
		for _, r := range c.s.rooms {
			if r.username != "" && strings.EqualFold(r.username, name) {
				ch = r
			}
		}
	} else {
		ch = c.bot.roomLocked(id)
	}
	if ch == nil {
		return nil, c.strangerLocked(id)
	}
	return ch, c.mayLocked(ch, want)
}

// strangerLocked returns the error for a chat that the bot cannot access.
func (c *call) strangerLocked(id int64) *apiError {
	u := c.s.people[id]
	switch {
	case u == nil:
		return badRequest("chat not found")
	case u.bot != nil:
		return forbidden("bots can't send messages to bots")
	}
	for _, r := range c.s.rooms {
		if r.kind != Private && r.statusLocked(id).inside() && r.statusLocked(c.bot.ID()).inside() {
			return forbidden("bot can't initiate conversation with a user")
		}
	}
	return badRequest("chat not found")
}

func (c *call) mayLocked(ch *Chat, want access) *apiError {
	if ch.kind == Private {
		switch {
		case ch.peer.gone && want >= editing:
			return forbidden("user is deactivated")
		case ch.peer.blocked[c.bot.ID()] && want == writing:
			return forbidden("bot was blocked by the user")
		}
		return nil
	}
	if ch.upgraded != 0 && want >= writing {
		e := badRequest("group chat was upgraded to a supergroup chat")
		e.migrateTo = ch.upgraded
		return e
	}
	name := string(ch.kind) + " chat"
	switch st := ch.statusLocked(c.bot.ID()); {
	case st == Kicked && (want >= editing || ch.kind != Group):
		return forbidden("bot was kicked from the " + name)
	case st == Left && (want >= editing || ch.kind != Group && ch.username == ""):
		return forbidden("bot is not a member of the " + name)
	case st == Member && ch.kind == Channel && want == writing:
		return badRequest("need administrator rights in the channel chat")
	}
	return nil
}

// thread checks message_thread_id for a message to ch.
func (c *call) thread(ch *Chat) (int, bool, *apiError) {
	id := c.int("message_thread_id", 0)
	if id <= 0 {
		return 0, false, nil
	}
	_, topic := ch.topics[id]
	switch {
	case topic:
		return id, true, nil
	case ch.kind == Supergroup && !ch.forum && ch.liveLocked(id) != nil:
		return id, false, nil
	}
	return 0, false, badRequest("message thread not found")
}

// reply returns a function that makes a message the reply that reply_parameters
// or the legacy fields ask for.
func (c *call) reply(ch *Chat) (func(*message), *apiError) {
	p := struct {
		MessageID int    `json:"message_id"`
		ChatID    any    `json:"chat_id"`
		Allow     bool   `json:"allow_sending_without_reply"`
		Quote     string `json:"quote"`
	}{MessageID: c.int("reply_to_message_id", 0), Allow: c.bool("allow_sending_without_reply")}
	if raw := c.str("reply_parameters"); raw != "" && json.Unmarshal([]byte(raw), &p) != nil {
		return nil, badRequest("can't parse reply parameters JSON object")
	}
	nothing := func(*message) {}
	if p.MessageID == 0 {
		return nothing, nil
	}
	to := ch.liveLocked(p.MessageID)
	switch {
	case to == nil && p.Allow:
		return nothing, nil
	case to == nil:
		return nil, badRequest("message to be replied not found")
	case p.Quote != "" && !strings.Contains(to.Text, p.Quote):
		return nil, badRequest("QUOTE_TEXT_INVALID")
	}
	return func(m *message) {
		ch.answerLocked(m, to)
		m.quotePart(p.Quote)
	}, nil
}

// markup validates reply_markup and returns the inline keyboard in it.
func (c *call) markup() (json.RawMessage, [][]Button, *apiError) {
	raw := c.str("reply_markup")
	if raw == "" {
		return nil, nil, nil
	}
	var kb struct {
		Inline *[][]Button `json:"inline_keyboard"`
	}
	if err := json.Unmarshal([]byte(raw), &kb); err != nil {
		return nil, nil, badRequest("can't parse reply keyboard markup JSON object")
	}
	if kb.Inline == nil {
		return nil, nil, nil // messages do not show other kinds of keyboards
	}
	buttons := 0
	for _, row := range *kb.Inline {
		for _, b := range row {
			buttons++
			switch {
			case b.Text == "":
				return nil, nil, badRequest("can't parse inline keyboard button: Field \"text\" must be of type String")
			case len(b.Data) > 64:
				return nil, nil, badRequest("BUTTON_DATA_INVALID")
			case b.Data == "" && b.URL == "" && !strings.Contains(raw, "web_app") && !strings.Contains(raw, "switch_inline") &&
				!strings.Contains(raw, "copy_text") && !strings.Contains(raw, "login_url"):
				return nil, nil, badRequest("can't parse inline keyboard button: Text buttons are unallowed in the inline keyboard")
			}
		}
	}
	if buttons == 0 {
		return nil, nil, nil
	}
	return json.RawMessage(raw), *kb.Inline, nil
}
