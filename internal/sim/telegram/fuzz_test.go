package telegram_test

import (
	"encoding/json"
	"net/http/httptest"
	"strings"
	"testing"
	"unicode/utf16"
	"unicode/utf8"

	"hermesd/internal/sim/telegram"
)

// FuzzRequest checks that the answer to any request is JSON with a known
// status.
func FuzzRequest(f *testing.F) {
	f.Add("application/json", "", `{"chat_id":100001,"text":"x","reply_parameters":{"message_id":1}}`, uint8(0))
	f.Add("multipart/form-data; boundary=b", "", "--b\r\nContent-Disposition: form-data; name=\"chat_id\"\r\n\r\n100001\r\n--b--\r\n", uint8(1))
	f.Add("multipart/form-data; boundary=b", "chat_id=100001", "--b\r\nContent-Disposition: form-data; name=\"photo\"; filename=\"a\"\r\n\r\nx\r\n--b--", uint8(2))
	f.Add("application/x-www-form-urlencoded", "offset=-5", "limit=%zz", uint8(3))
	f.Add("", "media=[{\"type\":\"photo\",\"media\":\"attach://a\"},{}]&chat_id=100001", "", uint8(4))
	methods := []string{"sendMessage", "editMessageText", "sendPhoto", "getUpdates", "sendMediaGroup", "deleteMessages",
		"setMyCommands", "setMessageReaction", "getFile", "answerCallbackQuery", "sendMessageDraft"}
	s := telegram.New(telegram.Options{CountersOnly: true, NoPollGuard: true})
	f.Cleanup(s.Close)
	bot := s.AddBot(telegram.BotOptions{})
	s.AddUser(telegram.Person{ID: 100001}).Chat(bot)
	f.Fuzz(func(t *testing.T, kind, query, body string, pick uint8) {
		if strings.Contains(query+body, "timeout") {
			return // a waiting poll
		}
		req := httptest.NewRequest("POST", "/bot"+bot.Token()+"/"+methods[int(pick)%len(methods)], strings.NewReader(body))
		req.URL.RawQuery = query
		req.Header.Set("Content-Type", kind)
		w := httptest.NewRecorder()
		s.ServeHTTP(w, req)
		switch w.Code {
		case 200, 400, 403, 404, 409, 413, 429:
		default:
			t.Errorf("HTTP %d", w.Code)
		}
		if !json.Valid(w.Body.Bytes()) {
			t.Errorf("no JSON: %s", w.Body)
		}
	})
}

// FuzzMarkup checks that accepted texts have entities within the text that do
// not cross.
func FuzzMarkup(f *testing.F) {
	for _, seed := range []string{
		"<b>a<i>😀</i></b>", "<pre><code class=\"language-x\">y</code></pre>", "*a _b_ __c__ ~d~ ||e||*", "```go\nx```", ">q\n>r\nz",
		"[a](http://b.example)", "![x](tg://emoji?id=1)", "&lt;&#x41;&", "<a href='x", " \r\n\u2028x ",
	} {
		f.Add(seed, uint8(0))
		f.Add(seed, uint8(1))
		f.Add(seed, uint8(2))
	}
	f.Add(`[{"type":"bold","offset":0,"length":3},{"type":"italic","offset":1,"length":5},{"type":"code","offset":2,"length":2}]`, uint8(3))
	s := telegram.New(telegram.Options{CountersOnly: true})
	f.Cleanup(s.Close)
	bot := s.AddBot(telegram.BotOptions{})
	ann := s.AddUser(telegram.Person{ID: 100001})
	dm := ann.Chat(bot)
	f.Fuzz(func(t *testing.T, text string, pick uint8) {
		params := map[string]string{"chat_id": "100001", "text": text}
		switch pick % 4 {
		case 3:
			params["text"], params["entities"] = "  0123 😀\r\n 89 ", text
		default:
			params["parse_mode"] = []string{"HTML", "MarkdownV2", "Markdown"}[pick%4]
		}
		body, err := json.Marshal(params)
		if err != nil {
			t.Skip()
		}
		req := httptest.NewRequest("POST", "/bot"+bot.Token()+"/sendMessage", strings.NewReader(string(body)))
		req.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		s.ServeHTTP(w, req)
		if w.Code != 200 {
			return
		}
		seen := dm.FromBots()
		m := seen[len(seen)-1]
		n := len(utf16.Encode([]rune(m.Text)))
		if !utf8.ValidString(m.Text) || n == 0 || n > 4096 {
			t.Fatalf("text of %d units: %q", n, m.Text)
		}
		for i, a := range m.Entities {
			if a.Offset < 0 || a.Length <= 0 || a.Offset+a.Length > n {
				t.Errorf("entity %+v outside of %d units", a, n)
			}
			for _, b := range m.Entities[i+1:] {
				if b.Offset < a.Offset || b.Offset < a.Offset+a.Length && b.Offset+b.Length > a.Offset+a.Length && b.Offset > a.Offset {
					t.Errorf("entities cross: %+v in %q", m.Entities, m.Text)
				}
			}
		}
	})
}
