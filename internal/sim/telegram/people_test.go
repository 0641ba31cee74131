package telegram_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf16"

	"hermesd/internal/sim/telegram"
)

func TestPrivateMessage(t *testing.T) {
	p := newPlace(t, telegram.Options{})
	first := p.dm.Say(p.ann, "hi 😀 @sim_bot /help")
	p.dm.Post(telegram.Post{Text: "because", ReplyTo: first.ID, Quote: "@sim_bot"})
	got := p.updates(t)
	m := got[0].Message
	if m.Chat.ID != p.ann.ID() || m.Chat.Type != "private" || m.From.Username != "ann" || m.From.IsBot || m.Chat.FirstName != "Ann" {
		t.Errorf("message: %+v", m)
	}
	if e := m.Entities; len(e) != 2 || e[0].Type != "mention" || e[0].Offset != 6 || e[0].Length != 8 || e[1].Type != "bot_command" || e[1].Offset != 15 {
		t.Errorf("entities: %+v", m.Entities)
	}
	if r := got[1].Message; r.ReplyToMessage == nil || r.ReplyToMessage.ID != first.ID || r.Quote.Text != "@sim_bot" || r.Quote.Position != 6 || !r.Quote.IsManual {
		t.Errorf("reply: %+v", r)
	}
	if err := p.dm.Edit(first.ID, "hello"); err != nil {
		t.Fatal(err)
	}
	edited := p.updates(t, "offset", "-1")[0].Edited
	if edited == nil || edited.Text != "hello" || edited.EditDate == 0 || edited.ID != first.ID {
		t.Errorf("edited: %+v", edited)
	}
	if err := p.dm.Delete(first.ID); err != nil {
		t.Fatal(err)
	}
	if err := p.dm.Edit(first.ID, "x"); err == nil {
		t.Error("a deleted message was edited")
	}
}

func TestPrivateIDsAreShared(t *testing.T) {
	p := newPlace(t, telegram.Options{})
	bob := p.AddUser(telegram.Person{})
	a, b := p.dm.Say(p.ann, "x"), bob.Chat(p.bot).Say(bob, "y")
	if a.ID == b.ID {
		t.Errorf("both have id %d", a.ID)
	}
	other := p.AddBot(telegram.BotOptions{})
	if m := p.ann.Chat(other).Say(p.ann, "z"); m.ID != 1 {
		t.Errorf("another bot's first message is %d", m.ID)
	}
	if n := other.Pending(); n != 1 || p.bot.Pending() != 2 {
		t.Errorf("pending %d and %d", n, p.bot.Pending())
	}
}

func TestPrivacyMode(t *testing.T) {
	for _, tc := range []struct {
		name string
		say  func(g *telegram.Chat, ann *telegram.User, bots int) telegram.Post
		sees bool
	}{
		{"plain", func(*telegram.Chat, *telegram.User, int) telegram.Post { return telegram.Post{Text: "hi"} }, false},
		{"mention", func(*telegram.Chat, *telegram.User, int) telegram.Post {
			return telegram.Post{Text: "hey @Private_Bot!"}
		}, true},
		{"someone else", func(*telegram.Chat, *telegram.User, int) telegram.Post { return telegram.Post{Text: "hey @sim_bot"} }, false},
		{"its command", func(*telegram.Chat, *telegram.User, int) telegram.Post {
			return telegram.Post{Text: "/help@private_bot"}
		}, true},
		{"another's command", func(*telegram.Chat, *telegram.User, int) telegram.Post {
			return telegram.Post{Text: "/help@sim_bot"}
		}, false},
		{"reply to it", func(_ *telegram.Chat, _ *telegram.User, bots int) telegram.Post {
			return telegram.Post{Text: "yes", ReplyTo: bots}
		}, true},
		{"command after it spoke", func(*telegram.Chat, *telegram.User, int) telegram.Post { return telegram.Post{Text: "/help"} }, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := newPlace(t, telegram.Options{})
			shy := p.AddBot(telegram.BotOptions{Username: "private_bot", Privacy: true})
			g := p.AddChat(telegram.ChatOptions{Members: []*telegram.User{p.ann}, Bots: []*telegram.Bot{p.bot, shy}})
			mustOK(t, p.callAs(t, shy.Token(), "sendMessage", "chat_id", fmt.Sprint(g.ID()), "text", "I am here"))
			post := tc.say(g, p.ann, g.FromBots()[0].ID)
			post.From = p.ann
			g.Post(post)
			if sees := shy.Pending() == 1; sees != tc.sees {
				t.Errorf("sees: %v, want %v", sees, tc.sees)
			}
			if p.bot.Pending() != 1 {
				t.Errorf("the open bot has %d updates, want 1: bots do not see bots", p.bot.Pending())
			}
		})
	}
}

func TestTopics(t *testing.T) {
	p := newPlace(t, telegram.Options{})
	g := p.AddChat(telegram.ChatOptions{Forum: true, Members: []*telegram.User{p.ann}, Admins: []*telegram.Bot{p.bot}})
	id := g.AddTopic(p.ann, "News")
	g.Post(telegram.Post{From: p.ann, Text: "in the topic", Thread: id})
	g.Say(p.ann, "in General")
	got := p.updates(t)
	if m := got[0].Message; m.ForumTopicCreated == nil || m.ForumTopicCreated.Name != "News" {
		t.Errorf("created: %+v", m)
	}
	if m := got[1].Message; m.MessageThreadID != id || !m.IsTopicMessage || m.ReplyToMessage == nil || m.ReplyToMessage.ID != id || !m.Chat.IsForum {
		t.Errorf("in the topic: %+v", m)
	}
	if m := got[2].Message; m.MessageThreadID != 0 || m.IsTopicMessage {
		t.Errorf("in General: %+v", m)
	}
	a := p.call(t, "createForumTopic", "chat_id", fmt.Sprint(g.ID()), "name", "Mine")
	mustOK(t, a)
	if p.Recorder().Offers()[1].Thread != id {
		t.Errorf("offers: %+v", p.Recorder().Offers())
	}
}

// TestThreadWithoutTopic checks that in a supergroup a reply has a thread ID
// that is not a topic.
func TestThreadWithoutTopic(t *testing.T) {
	p := newPlace(t, telegram.Options{})
	g := p.AddChat(telegram.ChatOptions{Type: telegram.Supergroup, Members: []*telegram.User{p.ann}, Bots: []*telegram.Bot{p.bot}})
	root := g.Say(p.ann, "root")
	g.Post(telegram.Post{From: p.ann, Text: "answer", ReplyTo: root.ID})
	if m := p.updates(t)[1].Message; m.MessageThreadID != root.ID || m.IsTopicMessage {
		t.Errorf("reply: %+v", m)
	}
}

func TestAlbumAndMedia(t *testing.T) {
	p := newPlace(t, telegram.Options{})
	p.dm.Album(p.ann, "three", &telegram.Media{Kind: telegram.Photo, Data: []byte("1")},
		&telegram.Media{Kind: telegram.Video, Data: []byte("2"), Seconds: 4}, &telegram.Media{Kind: telegram.Photo, Data: []byte("3")})
	for _, m := range []*telegram.Media{
		{Kind: telegram.Voice, Data: []byte("v"), MIME: "audio/ogg", Seconds: 7},
		{Kind: telegram.Sticker, Data: []byte("s"), Emoji: "👍"},
		{Kind: telegram.Location, Lat: 47.5, Lon: 8.25},
	} {
		p.dm.Post(telegram.Post{From: p.ann, Media: m})
	}
	got := p.updates(t)
	album := got[0].Message.MediaGroupID
	if album == "" || got[1].Message.MediaGroupID != album || got[2].Message.MediaGroupID != album || got[3].Message.MediaGroupID != "" {
		t.Errorf("album: %q %q %q", album, got[1].Message.MediaGroupID, got[2].Message.MediaGroupID)
	}
	if got[0].Message.Caption != "three" || got[1].Message.Caption != "" || got[1].Message.Video.Duration != 4 || len(got[2].Message.Photo) != 2 {
		t.Errorf("members: %+v", got[1].Message)
	}
	if v := got[3].Message.Voice; v == nil || v.Duration != 7 || v.MimeType != "audio/ogg" || v.FileID == "" {
		t.Errorf("voice: %+v", v)
	}
	if s := got[4].Message.Sticker; s == nil || s.Emoji != "👍" {
		t.Errorf("sticker: %+v", s)
	}
	if l := got[5].Message.Location; l == nil || l.Latitude != 47.5 || l.Longitude != 8.25 {
		t.Errorf("location: %+v", l)
	}
}

func TestLongTextIsSplitByTheClient(t *testing.T) {
	p := newPlace(t, telegram.Options{})
	text := strings.Repeat("word ", 1500) + strings.Repeat("😀", 3000)
	var rest strings.Builder
	for _, m := range p.dm.SayLong(p.ann, text) {
		if n := len(utf16.Encode([]rune(m.Text))); n > 4096 || n == 0 || strings.ContainsRune(m.Text, '�') {
			t.Errorf("a piece of %d units", n)
		}
		rest.WriteString(m.Text)
	}
	squeeze := func(s string) string { return strings.ReplaceAll(s, " ", "") }
	if squeeze(rest.String()) != squeeze(text) || p.bot.Pending() < 4 {
		t.Errorf("%d pieces lost something", p.bot.Pending())
	}
}

func TestMembership(t *testing.T) {
	p := newPlace(t, telegram.Options{NoPollGuard: true})
	g := p.AddChat(telegram.ChatOptions{Members: []*telegram.User{p.ann}})
	g.Say(p.ann, "before")
	g.SetStatus(p.ann, p.bot.User(), telegram.Member)
	bob := p.AddUser(telegram.Person{FirstName: "Bob"})
	g.SetStatus(p.ann, bob, telegram.Member)
	g.SetStatus(p.ann, bob, telegram.Left)
	next := g.Upgrade(p.ann)
	var kinds []string
	for _, o := range p.Recorder().Offers() {
		kinds = append(kinds, o.Kind)
	}
	if s := strings.Join(kinds, " "); s != "message my_chat_member message message message message" {
		t.Errorf("offers: %s", s)
	}
	got := p.updates(t)
	if got[0].Message.NewChatMembers[0].Username != "sim_bot" || got[2].Message.NewChatMembers[0].FirstName != "Bob" ||
		got[3].Message.LeftChatMember.FirstName != "Bob" || got[4].Message.MigrateToChatID != next.ID() ||
		got[5].Message.MigrateFromChatID != g.ID() {
		t.Errorf("service messages: %+v", got)
	}
}

func TestChannelPost(t *testing.T) {
	p := newPlace(t, telegram.Options{})
	c := p.AddChat(telegram.ChatOptions{Type: telegram.Channel, Title: "News", Username: "news", Bots: []*telegram.Bot{p.bot}})
	c.Post(telegram.Post{Text: "extra"})
	if m := p.updates(t)[0].Post; m == nil || m.SenderChat.Title != "News" || m.From != nil || m.Text != "extra" {
		t.Errorf("post: %+v", m)
	}
	mustOK(t, p.call(t, "sendMessage", "chat_id", "@News", "text", "by the bot"))
}

// TestOddUpdates checks that malformed, repeated and reordered updates are
// delivered as requested.
func TestOddUpdates(t *testing.T) {
	p := newPlace(t, telegram.Options{NoPollGuard: true})
	p.dm.Say(p.ann, "a")
	p.bot.Push("message", []byte(`{"message_id":"not a number"}`))
	p.bot.PushRaw("message", func(id int) []byte { return fmt.Appendf(nil, `{"update_id":%d}`, id) })
	a := p.call(t, "getUpdates")
	var raw []json.RawMessage
	if err := json.Unmarshal(a.Result, &raw); err != nil || len(raw) != 3 || string(raw[2]) != `{"update_id":1002}` ||
		string(raw[1]) != `{"update_id":1001,"message":{"message_id":"not a number"}}` {
		t.Errorf("got %s", a.Result)
	}
	p.bot.PushRaw("message", func(int) []byte { return []byte(`{"update_id":oops`) })
	if _, err := p.try(t.Context(), p.bot.Token(), "getUpdates", "offset", "1003"); err == nil {
		t.Error("broken JSON came out whole")
	}
	p.updates(t, "offset", "1004")
	if id := p.bot.Repeat(1000); id != 1004 {
		t.Errorf("repeated as %d", id)
	}
	for i := range 20 {
		p.dm.Say(p.ann, fmt.Sprint(i))
	}
	p.bot.Shuffle()
	got := p.updates(t)
	inOrder := true
	for i, u := range got {
		if u.ID != 1004+i {
			t.Errorf("id %d at %d", u.ID, i)
		}
		inOrder = inOrder && (i == 0 || u.Message.ID > got[i-1].Message.ID)
	}
	if inOrder {
		t.Error("the contents are still in order")
	}
	for _, o := range p.Recorder().Offers() {
		if o.Update >= 1004 && (o.Times != 1 || o.Message != got[o.Update-1004].Message.ID) {
			t.Errorf("offer does not follow its content: %+v", o)
		}
	}
}

func TestForgedCallback(t *testing.T) {
	p := newPlace(t, telegram.Options{})
	m := p.dm.Say(p.ann, "x")
	p.dm.Forge(p.bot, p.ann, m.ID+50, "approve:9")
	a := p.call(t, "getUpdates", "offset", "-1")
	if s := string(a.Result); !strings.Contains(s, `"date":0`) || !strings.Contains(s, `"data":"approve:9"`) {
		t.Errorf("got %s", s)
	}
}
