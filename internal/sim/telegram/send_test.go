package telegram_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"hermesd/internal/sim/telegram"
)

func TestRefusals(t *testing.T) {
	p := newPlace(t, telegram.Options{})
	forum := p.AddChat(telegram.ChatOptions{Forum: true, Members: []*telegram.User{p.ann}, Bots: []*telegram.Bot{p.bot}})
	topic := forum.AddTopic(p.ann, "News")
	away := p.AddChat(telegram.ChatOptions{Type: telegram.Supergroup, Members: []*telegram.User{p.ann}})
	news := p.AddChat(telegram.ChatOptions{Type: telegram.Channel})
	news.SetStatus(p.ann, p.bot.User(), telegram.Member)
	stranger, silent := p.AddUser(telegram.Person{}), p.AddUser(telegram.Person{})
	forum.SetStatus(p.ann, silent, telegram.Member)
	gone := p.AddUser(telegram.Person{})
	gone.Chat(p.bot)
	gone.Deactivate()
	said := p.dm.Say(p.ann, "hello")
	id := func(c *telegram.Chat) string { return fmt.Sprint(c.ID()) }
	uid := func(u *telegram.User) string { return fmt.Sprint(u.ID()) }
	dm := id(p.dm)
	const long = 4096
	for _, tc := range []struct {
		name   string
		method string
		params []string
		code   int
		want   string
	}{
		{"unknown method", "sendTelepathy", nil, 404, "Not Found"},
		{"no chat", "sendMessage", []string{"text", "x"}, 400, "Bad Request: chat_id is empty"},
		{"unknown chat", "sendMessage", []string{"chat_id", "42", "text", "x"}, 400, "Bad Request: chat not found"},
		{"no text", "sendMessage", []string{"chat_id", dm}, 400, "Bad Request: message text is empty"},
		{"blank text", "sendMessage", []string{"chat_id", dm, "text", " \n "}, 400, "Bad Request: text must be non-empty"},
		{"too long", "sendMessage", []string{"chat_id", dm, "text", strings.Repeat("x", long+1)}, 400, "Bad Request: message is too long"},
		{"too long in UTF-16", "sendMessage", []string{"chat_id", dm, "text", strings.Repeat("😀", long/2) + "x"}, 400, "Bad Request: message is too long"},
		{"far too long", "sendMessage", []string{"chat_id", dm, "text", strings.Repeat("x", 40000)}, 400, "Bad Request: text is too long"},
		{"broken UTF-8", "sendMessage", []string{"chat_id", dm, "text", "a\xffb"}, 400, "Bad Request: strings must be encoded in UTF-8"},
		{"a stranger", "sendMessage", []string{"chat_id", uid(stranger), "text", "x"}, 400, "Bad Request: chat not found"},
		{"a stranger seen in a group", "sendMessage", []string{"chat_id", uid(silent), "text", "x"}, 403, "Forbidden: bot can't initiate conversation with a user"},
		{"a deleted account", "sendMessage", []string{"chat_id", uid(gone), "text", "x"}, 403, "Forbidden: user is deactivated"},
		{"itself", "sendMessage", []string{"chat_id", fmt.Sprint(p.bot.ID()), "text", "x"}, 403, "Forbidden: bots can't send messages to bots"},
		{"not a member", "sendMessage", []string{"chat_id", id(away), "text", "x"}, 403, "Forbidden: bot is not a member of the supergroup chat"},
		{"no admin of the channel", "sendMessage", []string{"chat_id", id(news), "text", "x"}, 400, "Bad Request: need administrator rights in the channel chat"},
		{"unknown topic", "sendMessage", []string{"chat_id", id(forum), "text", "x", "message_thread_id", "77"}, 400, "Bad Request: message thread not found"},
		{"General by its number", "sendMessage", []string{"chat_id", id(forum), "text", "x", "message_thread_id", "1"}, 400, "Bad Request: message thread not found"},
		{"topic in a private chat", "sendChatAction", []string{"chat_id", dm, "action", "typing", "message_thread_id", "5"}, 400, "Bad Request: message thread not found"},
		{"reply to nothing", "sendMessage", []string{"chat_id", dm, "text", "x", "reply_parameters", `{"message_id":99}`}, 400, "Bad Request: message to be replied not found"},
		{"old reply to nothing", "sendMessage", []string{"chat_id", dm, "text", "x", "reply_to_message_id", "99"}, 400, "Bad Request: message to be replied not found"},
		{"quote of nothing", "sendMessage", []string{"chat_id", dm, "text", "x", "reply_parameters", fmt.Sprintf(`{"message_id":%d,"quote":"bye"}`, said.ID)}, 400, "Bad Request: QUOTE_TEXT_INVALID"},
		{"long button data", "sendMessage", []string{"chat_id", dm, "text", "x", "reply_markup", `{"inline_keyboard":[[{"text":"a","callback_data":"` + strings.Repeat("d", 65) + `"}]]}`}, 400, "Bad Request: BUTTON_DATA_INVALID"},
		{"button without use", "sendMessage", []string{"chat_id", dm, "text", "x", "reply_markup", `{"inline_keyboard":[[{"text":"a"}]]}`}, 400, "Bad Request: can't parse inline keyboard button: Text buttons are unallowed in the inline keyboard"},
		{"long caption", "sendPhoto", []string{"chat_id", dm, "photo", "BAACx_1", "caption", strings.Repeat("x", 1025)}, 400, "Bad Request: wrong file identifier/HTTP URL specified"},
		{"no photo", "sendPhoto", []string{"chat_id", dm}, 400, "Bad Request: there is no photo in the request"},
		{"photo by address", "sendPhoto", []string{"chat_id", dm, "photo", "https://a.example/b.png"}, 400, "Bad Request: failed to get HTTP URL content"},
		{"edit nothing", "editMessageText", []string{"text", "x"}, 400, "Bad Request: message identifier is not specified"},
		{"edit the unknown", "editMessageText", []string{"chat_id", dm, "message_id", "99", "text", "x"}, 400, "Bad Request: message to edit not found"},
		{"delete the unknown", "deleteMessage", []string{"chat_id", dm, "message_id", "99"}, 400, "Bad Request: message to delete not found"},
		{"wrong action", "sendChatAction", []string{"chat_id", dm, "action", "thinking"}, 400, "Bad Request: wrong parameter action in request"},
		{"wrong command", "setMyCommands", []string{"commands", `[{"command":"Help!","description":"x"}]`}, 400, "Bad Request: BOT_COMMAND_INVALID"},
		{"draft in a group", "sendMessageDraft", []string{"chat_id", id(forum), "draft_id", "1", "text", "x"}, 400, "Bad Request: chat must be a private chat"},
		{"unknown query", "answerCallbackQuery", []string{"callback_query_id", "1"}, 400, "Bad Request: query is too old and response timeout expired or query ID is invalid"},
		{"reaction on nothing", "setMessageReaction", []string{"chat_id", dm, "message_id", "99", "reaction", `[{"type":"emoji","emoji":"👍"}]`}, 400, "Bad Request: message to react not found"},
	} {
		t.Run(tc.name, func(t *testing.T) { mustRefuse(t, p.call(t, tc.method, tc.params...), tc.code, tc.want) })
	}
	mustRefuse(t, p.callAs(t, "1:nobody", "getMe"), 401, "Unauthorized")
	mustRefuse(t, p.callAs(t, "nonsense", "getMe"), 401, "Unauthorized: invalid token specified")
	mustOK(t, p.call(t, "sendMessage", "chat_id", dm, "text", strings.Repeat("😀", long/2)))
	mustOK(t, p.call(t, "sendMessage", "chat_id", dm, "text", "x", "reply_parameters", `{"message_id":99,"allow_sending_without_reply":true}`))
	mustOK(t, p.call(t, "SENDMESSAGE", "chat_id", id(forum), "text", "x", "message_thread_id", fmt.Sprint(topic)))
	if m := forum.FromBots()[0]; m.Thread != topic || !m.Topic {
		t.Errorf("in the topic: %+v", m)
	}
}

func TestCaptionLimit(t *testing.T) {
	p := newPlace(t, telegram.Options{})
	p.dm.Post(telegram.Post{Media: &telegram.Media{Kind: telegram.Photo, Data: []byte("x")}})
	id := p.updates(t)[0].Message.Photo[1].FileID
	mustRefuse(t, p.call(t, "sendPhoto", "chat_id", "100001", "photo", id, "caption", strings.Repeat("x", 1025)), 400, "Bad Request: message caption is too long")
	mustOK(t, p.call(t, "sendPhoto", "chat_id", "100001", "photo", id, "caption", strings.Repeat("x", 1024)))
	m := p.dm.FromBots()[0]
	number := fmt.Sprint(m.ID)
	mustRefuse(t, p.call(t, "editMessageText", "chat_id", "100001", "message_id", number, "text", "x"), 400, "Bad Request: there is no text in the message to edit")
	mustOK(t, p.call(t, "editMessageCaption", "chat_id", "100001", "message_id", number, "caption", "short"))
	if m, _ = p.dm.Message(m.ID); m.Text != "short" || len(m.Versions) != 1 {
		t.Errorf("caption: %+v", m)
	}
}

func TestDeleteAfterTwoDays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlace(t, telegram.Options{})
		mustOK(t, p.call(t, "sendMessage", "chat_id", "100001", "text", "x"))
		<-time.After(49 * time.Hour)
		mustRefuse(t, p.call(t, "deleteMessage", "chat_id", "100001", "message_id", "1"), 400, "Bad Request: message can't be deleted for everyone")
	})
}

// TestEditDropsKeyboard checks that an edit without reply_markup removes the
// buttons.
func TestEditDropsKeyboard(t *testing.T) {
	p := newPlace(t, telegram.Options{})
	mustOK(t, p.call(t, "sendMessage", "chat_id", "100001", "text", "x", "reply_markup", `{"inline_keyboard":[[{"text":"a","callback_data":"b"}]]}`))
	mustOK(t, p.call(t, "editMessageText", "chat_id", "100001", "message_id", "1", "text", "x"))
	if m, _ := p.dm.Message(1); m.Buttons != nil || len(m.Versions[0].Buttons) != 1 {
		t.Errorf("got %+v", m)
	}
	if _, err := p.dm.Press(p.ann, 1, "b"); err == nil {
		t.Error("a button that is gone was pressed")
	}
}

// TestParameterForms checks that JSON, urlencoded, multipart and query
// parameters are equivalent.
func TestParameterForms(t *testing.T) {
	p := newPlace(t, telegram.Options{})
	var form bytes.Buffer
	parts := multipart.NewWriter(&form)
	for _, kv := range [][2]string{{"chat_id", "100001"}, {"text", "x"}} {
		if err := parts.WriteField(kv[0], kv[1]); err != nil {
			t.Fatal(err)
		}
	}
	if err := parts.Close(); err != nil {
		t.Fatal(err)
	}
	whole := form.String()
	for _, tc := range []struct {
		name, method, query, kind, body string
		status                          int
	}{
		{"json", "POST", "", "application/json; charset=utf-8", `{"chat_id":100001,"text":"x","disable_notification":true,"reply_markup":null}`, 200},
		{"urlencoded", "POST", "", "application/x-www-form-urlencoded", "chat_id=100001&text=x", 200},
		{"multipart", "POST", "", parts.FormDataContentType(), whole, 200},
		{"query", "GET", "?chat_id=100001&text=x", "", "", 200},
		{"query and body", "POST", "?chat_id=1&text=x", "application/json", `{"chat_id":"100001"}`, 200},
		{"broken json", "POST", "", "application/json", `{"chat_id":`, 400},
		{"json that is no object", "POST", "", "application/json", `[1]`, 400},
		{"multipart cut off", "POST", "", parts.FormDataContentType(), whole[:len(whole)-60], 400},
		{"multipart without boundary", "POST", "", "multipart/form-data", whole, 400},
		{"unknown type", "POST", "", "text/plain", "chat_id=1", 400},
	} {
		req := httptest.NewRequest(tc.method, "/bot"+p.bot.Token()+"/sendMessage"+tc.query, strings.NewReader(tc.body))
		if tc.kind != "" {
			req.Header.Set("Content-Type", tc.kind)
		}
		w := httptest.NewRecorder()
		p.ServeHTTP(w, req)
		if w.Code != tc.status || !json.Valid(w.Body.Bytes()) {
			t.Errorf("%s: HTTP %d %s, want %d", tc.name, w.Code, w.Body, tc.status)
		}
	}
	if n := len(p.dm.FromBots()); n != 5 {
		t.Errorf("%d messages, want 5", n)
	}
}

func TestFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlace(t, telegram.Options{})
		bob := p.AddUser(telegram.Person{})
		bob.Chat(p.bot)
		p.Flood(p.dm.ID(), 90*time.Second)
		a := p.call(t, "sendMessage", "chat_id", "100001", "text", "x")
		mustRefuse(t, a, http.StatusTooManyRequests, "Too Many Requests: retry after 90")
		if a.Parameters.RetryAfter != 90 {
			t.Errorf("retry_after %d", a.Parameters.RetryAfter)
		}
		mustOK(t, p.call(t, "sendMessage", "chat_id", fmt.Sprint(bob.ID()), "text", "x"))
		mustOK(t, p.call(t, "sendChatAction", "chat_id", "100001", "action", "typing"))
		<-time.After(90 * time.Second)
		mustOK(t, p.call(t, "sendMessage", "chat_id", "100001", "text", "x"))
	})
}

// TestLimits checks three calls at once and one more per second, per chat and
// in total.
func TestLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlace(t, telegram.Options{Limits: telegram.Limits{
			Chat: telegram.Rate{N: 3, Per: 3 * time.Second}, All: telegram.Rate{N: 5, Per: 5 * time.Second},
		}})
		p.AddUser(telegram.Person{ID: 7}).Chat(p.bot)
		send := func(chat string) bool { return p.call(t, "sendMessage", "chat_id", chat, "text", "x").OK }
		var got []bool
		for range 4 {
			got = append(got, send("100001"))
		}
		for range 3 {
			got = append(got, send("7"))
		}
		<-time.After(time.Second)
		got = append(got, send("100001"), send("7"))
		if s := fmt.Sprint(got); s != "[true true true false true true false true false]" {
			t.Errorf("got %s", s)
		}
	})
}
