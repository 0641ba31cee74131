package telegram_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	tg "github.com/go-telegram/bot"
	"github.com/go-telegram/bot/models"
	"github.com/google/go-cmp/cmp"

	"hermesd/internal/sim/telegram"
)

// TestLibraryEcho uses the real client, which polls, answers and confirms.
func TestLibraryEcho(t *testing.T) {
	p := newPlace(t, telegram.Options{})
	ctx, stop := context.WithCancel(t.Context())
	b := p.library(t, tg.WithNotAsyncHandlers(), tg.WithDefaultHandler(func(ctx context.Context, b *tg.Bot, u *models.Update) {
		if _, err := b.SendMessage(ctx, &tg.SendMessageParams{ChatID: u.Message.Chat.ID, Text: "echo " + u.Message.Text}); err != nil && ctx.Err() == nil {
			t.Errorf("send: %v", err)
		}
	}))
	var done sync.WaitGroup
	done.Go(func() { b.Start(ctx) })
	for i := range 50 {
		p.dm.Say(p.ann, telegram.Token(i))
	}
	if _, err := p.dm.WaitText(ctx, telegram.Token(49)); err != nil {
		t.Fatal(err)
	}
	if err := p.Recorder().WaitCount(ctx, 50, func(c telegram.Counts) int { return c.Confirmed }); err != nil {
		t.Fatal(err)
	}
	stop()
	done.Wait()
	v := telegram.Judge{}.Judge(p.Server)
	if !v.OK() || v.Offered != 50 || v.Answered != 50 {
		t.Errorf("verdict: %v", v)
	}
	for _, o := range p.Recorder().Offers() {
		if o.Times != 1 || o.Confirmed.Before(o.Delivered) || o.Kind != "message" || o.Chat != p.dm.ID() {
			t.Errorf("offer: %+v", o)
		}
	}
}

func TestLibraryMe(t *testing.T) {
	p := newPlace(t, telegram.Options{})
	b := p.library(t)
	me, err := b.GetMe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if me.Username != "sim_bot" || me.ID != p.bot.ID() || !me.IsBot || !me.CanJoinGroups || !me.CanReadAllGroupMessages {
		t.Errorf("me: %+v", me)
	}
	p.bot.SetPrivacy(true)
	if me, err = b.GetMe(t.Context()); err != nil || me.CanReadAllGroupMessages {
		t.Errorf("with privacy: %+v, %v", me, err)
	}
	_, err = tg.New("1:wrong", tg.WithServerURL(p.URL()), tg.WithHTTPClient(time.Second, p.web))
	if !errors.Is(err, tg.ErrorUnauthorized) {
		t.Errorf("wrong token: %v", err)
	}
}

func TestLibrarySendEditDelete(t *testing.T) {
	p := newPlace(t, telegram.Options{})
	b := p.library(t)
	ctx := t.Context()
	asked := p.dm.Say(p.ann, "how are you?")
	sent, err := b.SendMessage(ctx, &tg.SendMessageParams{
		ChatID: p.dm.ID(), Text: "<b>fine</b> &amp; you", ParseMode: models.ParseModeHTML,
		ReplyParameters: &models.ReplyParameters{MessageID: asked.ID, Quote: "are you"},
		ReplyMarkup: &models.InlineKeyboardMarkup{InlineKeyboard: [][]models.InlineKeyboardButton{
			{{Text: "yes", CallbackData: "y"}, {Text: "no", CallbackData: "n"}},
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if sent.Text != "fine & you" || sent.ReplyToMessage == nil || sent.ReplyToMessage.Text != "how are you?" ||
		sent.Quote.Position != 4 || sent.From.Username != "sim_bot" || sent.Entities[0].Type != models.MessageEntityTypeBold {
		t.Errorf("sent: %+v", sent)
	}
	got, _ := p.dm.Message(sent.ID)
	want := telegram.Message{
		Chat: p.dm.ID(), ID: sent.ID, N: got.N, From: got.From, Text: "fine & you", ReplyTo: asked.ID, Quote: "are you", Sent: got.Sent,
		Entities: []telegram.Entity{{Type: "bold", Length: 4}},
		Buttons:  [][]telegram.Button{{{Text: "yes", Data: "y"}, {Text: "no", Data: "n"}}},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("seen (-want +got):\n%s", d)
	}

	edit := &tg.EditMessageTextParams{ChatID: p.dm.ID(), MessageID: sent.ID, Text: "better"}
	if _, err := b.EditMessageText(ctx, edit); err != nil {
		t.Fatal(err)
	}
	if _, err := b.EditMessageText(ctx, edit); err == nil || !strings.Contains(err.Error(), "message is not modified") {
		t.Errorf("same again: %v", err)
	}
	got, _ = p.dm.Message(sent.ID)
	if got.Text != "better" || len(got.Versions) != 1 || got.Versions[0].Text != "fine & you" || got.Edited.IsZero() || got.Buttons != nil {
		t.Errorf("edited: %+v", got)
	}
	edit.MessageID = asked.ID
	if _, err := b.EditMessageText(ctx, edit); err == nil || !strings.Contains(err.Error(), "message can't be edited") {
		t.Errorf("someone else's: %v", err)
	}
	if ok, err := b.DeleteMessage(ctx, &tg.DeleteMessageParams{ChatID: p.dm.ID(), MessageID: sent.ID}); err != nil || !ok {
		t.Errorf("delete: %v, %v", ok, err)
	}
	edit.MessageID = sent.ID
	if _, err := b.EditMessageText(ctx, edit); err == nil || !strings.Contains(err.Error(), "message to edit not found") {
		t.Errorf("deleted: %v", err)
	}
	if _, err := b.DeleteMessages(ctx, &tg.DeleteMessagesParams{ChatID: p.dm.ID(), MessageIDs: []int{asked.ID, 4711}}); err != nil {
		t.Errorf("delete several: %v", err)
	}
	if left := p.dm.Visible(); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}

func TestLibraryFiles(t *testing.T) {
	p := newPlace(t, telegram.Options{})
	b := p.library(t)
	ctx := t.Context()
	content := bytes.Repeat([]byte("0123456789"), 30_000)
	doc, err := b.SendDocument(ctx, &tg.SendDocumentParams{
		ChatID: p.dm.ID(), Caption: "*list*", ParseMode: models.ParseModeMarkdown,
		Document: &models.InputFileUpload{Filename: "list.txt", Data: bytes.NewReader(content)},
	})
	if err != nil {
		t.Fatal(err)
	}
	if doc.Document.FileName != "list.txt" || doc.Document.FileSize != int64(len(content)) || doc.Caption != "list" {
		t.Errorf("document: %+v", doc)
	}
	again, err := b.SendDocument(ctx, &tg.SendDocumentParams{
		ChatID: p.dm.ID(), Document: &models.InputFileString{Data: doc.Document.FileID},
	})
	if err != nil || again.Document.FileUniqueID != doc.Document.FileUniqueID {
		t.Errorf("by id: %+v, %v", again, err)
	}
	photo, err := b.SendPhoto(ctx, &tg.SendPhotoParams{ChatID: p.dm.ID(), Photo: &models.InputFileUpload{Filename: "a.png", Data: strings.NewReader("png")}})
	if err != nil || len(photo.Photo) != 2 {
		t.Fatalf("photo: %+v, %v", photo, err)
	}
	if _, err := b.SendVoice(ctx, &tg.SendVoiceParams{ChatID: p.dm.ID(), Duration: 3, Voice: &models.InputFileUpload{Filename: "a.oga", Data: strings.NewReader("ogg")}}); err != nil {
		t.Error(err)
	}
	group, err := b.SendMediaGroup(ctx, &tg.SendMediaGroupParams{ChatID: p.dm.ID(), Media: []models.InputMedia{
		&models.InputMediaPhoto{Media: "attach://one.png", Caption: "two", MediaAttachment: strings.NewReader("1")},
		&models.InputMediaPhoto{Media: photo.Photo[1].FileID},
	}})
	if err != nil || len(group) != 2 || group[0].MediaGroupID == "" || group[0].MediaGroupID != group[1].MediaGroupID {
		t.Errorf("album: %+v, %v", group, err)
	}

	in := p.dm.Post(telegram.Post{Text: "look", Media: &telegram.Media{Kind: telegram.Document, Name: "in.csv", Data: content}})
	updates := p.updates(t)
	id := updates[0].Message.Document.FileID
	file, err := b.GetFile(ctx, &tg.GetFileParams{FileID: id})
	if err != nil {
		t.Fatal(err)
	}
	body := fetch(t, p, b.FileDownloadLink(file), http.StatusOK)
	if !bytes.Equal(body, content) || in.Media.Name != "in.csv" {
		t.Errorf("downloaded %d bytes, want %d", len(body), len(content))
	}
	fetch(t, p, p.URL()+"/file/bot"+p.bot.Token()+"/documents/none", http.StatusNotFound)

	big := &telegram.Media{Kind: telegram.Video, Name: "big.mp4", Size: 21 << 20}
	p.dm.Post(telegram.Post{Media: big})
	updates = p.updates(t, "offset", "-1")
	if _, err := b.GetFile(ctx, &tg.GetFileParams{FileID: updates[0].Message.Video.FileID}); err == nil || !strings.Contains(err.Error(), "file is too big") {
		t.Errorf("too big: %v", err)
	}
	other := p.AddBot(telegram.BotOptions{})
	mustRefuse(t, p.callAs(t, other.Token(), "getFile", "file_id", id), 400, "Bad Request: wrong file_id or the file is temporarily unavailable")
	if _, err := b.SendDocument(ctx, &tg.SendDocumentParams{
		ChatID: p.dm.ID(), Document: &models.InputFileUpload{Filename: "huge", Data: io.LimitReader(zeros{}, 51<<20)},
	}); err == nil || !strings.Contains(err.Error(), "413") {
		t.Errorf("51 MB: %v", err)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func fetch(t *testing.T, p *place, address string, status int) []byte {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := p.web.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != status {
		t.Errorf("get %s: HTTP %d, %v, want %d", address, resp.StatusCode, err, status)
	}
	return body
}

func TestLibraryButtonsReactionsCommands(t *testing.T) {
	p := newPlace(t, telegram.Options{})
	b := p.library(t)
	ctx := t.Context()
	m, err := b.SendMessage(ctx, &tg.SendMessageParams{ChatID: p.dm.ID(), Text: "sure?", ReplyMarkup: &models.InlineKeyboardMarkup{
		InlineKeyboard: [][]models.InlineKeyboardButton{{{Text: "yes", CallbackData: "approve:1"}}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.dm.Press(p.ann, m.ID, "no such"); !errors.Is(err, telegram.ErrNoMessage) {
		t.Errorf("press nothing: %v", err)
	}
	id, err := p.dm.Press(p.ann, m.ID, "approve:1")
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Query *models.CallbackQuery `json:"callback_query"`
	}
	one(t, p.call(t, "getUpdates"), &got)
	if got.Query.ID != id || got.Query.Data != "approve:1" || got.Query.Message.Message.ID != m.ID || got.Query.From.ID != p.ann.ID() {
		t.Errorf("query: %+v", got.Query)
	}
	if ok, err := b.AnswerCallbackQuery(ctx, &tg.AnswerCallbackQueryParams{CallbackQueryID: id, Text: "done"}); err != nil || !ok {
		t.Errorf("answer: %v", err)
	}
	if _, err := b.AnswerCallbackQuery(ctx, &tg.AnswerCallbackQueryParams{CallbackQueryID: id}); err == nil || !strings.Contains(err.Error(), "query is too old") {
		t.Errorf("second answer: %v", err)
	}
	react := &tg.SetMessageReactionParams{ChatID: p.dm.ID(), MessageID: m.ID, Reaction: []models.ReactionType{
		{Type: models.ReactionTypeTypeEmoji, ReactionTypeEmoji: &models.ReactionTypeEmoji{Type: models.ReactionTypeTypeEmoji, Emoji: "👀"}},
	}}
	if _, err := b.SetMessageReaction(ctx, react); err != nil {
		t.Errorf("react: %v", err)
	}
	if seen, _ := p.dm.Message(m.ID); seen.Reaction != "👀" {
		t.Errorf("reaction: %q", seen.Reaction)
	}
	react.Reaction[0].ReactionTypeEmoji.Emoji = "✅"
	if _, err := b.SetMessageReaction(ctx, react); err == nil || !strings.Contains(err.Error(), "REACTION_INVALID") {
		t.Errorf("an emoji that Telegram does not have: %v", err)
	}
	commands := []models.BotCommand{{Command: "help", Description: "what I can do"}}
	if _, err := b.SetMyCommands(ctx, &tg.SetMyCommandsParams{Commands: commands, Scope: &models.BotCommandScopeAllGroupChats{}}); err != nil {
		t.Errorf("commands: %v", err)
	}
	list, err := b.GetMyCommands(ctx, &tg.GetMyCommandsParams{Scope: &models.BotCommandScopeAllGroupChats{}})
	if err != nil || !slices.Equal(list, commands) || !slices.Equal(p.bot.Commands("all_group_chats"), []string{"help"}) {
		t.Errorf("commands: %v, %v", list, err)
	}
	if list, err = b.GetMyCommands(ctx, nil); err != nil || len(list) != 0 {
		t.Errorf("commands of another scope: %v, %v", list, err)
	}
	if _, err := b.SendChatAction(ctx, &tg.SendChatActionParams{ChatID: p.dm.ID(), Action: models.ChatActionTyping}); err != nil {
		t.Errorf("typing: %v", err)
	}
	if _, err := b.SendMessageDraft(ctx, &tg.SendMessageDraftParams{ChatID: p.dm.ID(), DraftID: "7", Text: "half an ans"}); err != nil || p.dm.Draft() != "half an ans" {
		t.Errorf("draft: %q, %v", p.dm.Draft(), err)
	}
}

func TestLibraryGroups(t *testing.T) {
	p := newPlace(t, telegram.Options{})
	b := p.library(t)
	ctx := t.Context()
	g := p.AddChat(telegram.ChatOptions{Title: "Team", Members: []*telegram.User{p.ann}, Bots: []*telegram.Bot{p.bot}})
	chat, err := b.GetChat(ctx, &tg.GetChatParams{ChatID: g.ID()})
	if err != nil || chat.Title != "Team" || chat.Type != models.ChatTypeGroup {
		t.Errorf("chat: %+v, %v", chat, err)
	}
	m, err := b.GetChatMember(ctx, &tg.GetChatMemberParams{ChatID: g.ID(), UserID: p.ann.ID()})
	if err != nil || m.Type != models.ChatMemberTypeOwner || m.Owner.User.Username != "ann" {
		t.Errorf("member: %+v, %v", m, err)
	}
	next := g.Upgrade(p.ann)
	_, err = b.SendMessage(ctx, &tg.SendMessageParams{ChatID: g.ID(), Text: "hi"})
	var moved *tg.MigrateError
	if !errors.As(err, &moved) || int64(moved.MigrateToChatID) != next.ID() {
		t.Errorf("migrated: %v", err)
	}
	if _, err = b.SendMessage(ctx, &tg.SendMessageParams{ChatID: next.ID(), Text: "hi"}); err != nil {
		t.Error(err)
	}
	next.SetStatus(p.ann, p.bot.User(), telegram.Kicked)
	if _, err = b.SendMessage(ctx, &tg.SendMessageParams{ChatID: next.ID(), Text: "hi"}); !errors.Is(err, tg.ErrorForbidden) ||
		!strings.Contains(err.Error(), "bot was kicked from the supergroup chat") {
		t.Errorf("kicked: %v", err)
	}
	p.ann.Block(p.bot, true)
	if _, err = b.SendMessage(ctx, &tg.SendMessageParams{ChatID: p.dm.ID(), Text: "hi"}); !errors.Is(err, tg.ErrorForbidden) {
		t.Errorf("blocked: %v", err)
	}
	p.SetLimits(telegram.Limits{Chat: telegram.Rate{N: 1, Per: time.Minute}})
	p.ann.Block(p.bot, false)
	if _, err = b.SendMessage(ctx, &tg.SendMessageParams{ChatID: p.dm.ID(), Text: "one"}); err != nil {
		t.Error(err)
	}
	_, err = b.SendMessage(ctx, &tg.SendMessageParams{ChatID: p.dm.ID(), Text: "two"})
	var many *tg.TooManyRequestsError
	if !errors.As(err, &many) || many.RetryAfter < 58 || many.RetryAfter > 60 {
		t.Errorf("rate: %v", err)
	}
}

// TestLibraryWebhook passes the updates to the library's own webhook handler.
func TestLibraryWebhook(t *testing.T) {
	p := newPlace(t, telegram.Options{})
	ctx, stop := context.WithCancel(t.Context())
	b := p.library(t, tg.WithWebhookSecretToken("s3cret"), tg.WithNotAsyncHandlers(),
		tg.WithDefaultHandler(func(ctx context.Context, b *tg.Bot, u *models.Update) {
			_, _ = b.SendMessage(ctx, &tg.SendMessageParams{ChatID: u.Message.Chat.ID, Text: "got " + u.Message.Text})
		}))
	receiver := httptest.NewServer(b.WebhookHandler())
	defer receiver.Close()
	var done sync.WaitGroup
	done.Go(func() { b.StartWebhook(ctx) })
	p.dm.Say(p.ann, "before")
	if _, err := b.SetWebhook(ctx, &tg.SetWebhookParams{URL: receiver.URL, SecretToken: "s3cret"}); err != nil {
		t.Fatal(err)
	}
	p.dm.Say(p.ann, "after")
	if _, err := p.dm.WaitText(ctx, "got after"); err != nil {
		t.Fatal(err)
	}
	info, err := b.GetWebhookInfo(ctx)
	if err != nil || info.URL != receiver.URL || info.LastErrorMessage != "" {
		t.Errorf("info: %+v, %v", info, err)
	}
	if ok, err := b.DeleteWebhook(ctx, &tg.DeleteWebhookParams{}); err != nil || !ok {
		t.Errorf("delete: %v", err)
	}
	stop()
	done.Wait()
	if got := p.dm.FromBots(); len(got) != 2 || got[0].Text != "got before" {
		t.Errorf("answers: %v", got)
	}
}
