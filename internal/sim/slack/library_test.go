package slack_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	slackgo "github.com/slack-go/slack"
	"github.com/slack-go/slack/slackevents"
	"github.com/slack-go/slack/socketmode"

	"hermesd/internal/sim/slack"
)

// library returns an unmodified slack-go client that uses the given HTTP
// client.
func (p *place) library(web *http.Client) *slackgo.Client {
	return slackgo.New(p.bot.Token(), slackgo.OptionAppLevelToken(p.app.Token()),
		slackgo.OptionAPIURL(p.APIURL()), slackgo.OptionHTTPClient(web))
}

// echo runs socketmode until ctx ends: it answers messages in their thread,
// commands with their text, buttons with "pressed".
func echo(ctx context.Context, t *testing.T, api *slackgo.Client, options ...socketmode.Option) (wait func()) {
	sm := socketmode.New(api, options...)
	var running sync.WaitGroup
	running.Go(func() {
		if err := sm.RunContext(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("socket mode ended: %v", err)
		}
	})
	running.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case e := <-sm.Events:
				react(ctx, t, sm, e)
			}
		}
	})
	return running.Wait
}

func react(ctx context.Context, t *testing.T, sm *socketmode.Client, e socketmode.Event) {
	post := func(channel, thread, text string) {
		if _, _, err := sm.PostMessageContext(ctx, channel, slackgo.MsgOptionText(text, false), slackgo.MsgOptionTS(thread)); err != nil && ctx.Err() == nil {
			t.Errorf("post: %v", err)
		}
	}
	switch data := e.Data.(type) {
	case slackevents.EventsAPIEvent:
		_ = sm.Ack(*e.Request)
		if m, ok := data.InnerEvent.Data.(*slackevents.MessageEvent); ok && m.BotID == "" && m.SubType == "" {
			post(m.Channel, m.TimeStamp, "echo "+m.Text)
		}
	case slackgo.SlashCommand:
		_ = sm.Ack(*e.Request, map[string]string{"text": "you said " + data.Text})
	case slackgo.InteractionCallback:
		_ = sm.Ack(*e.Request)
		post(data.Channel.ID, data.Message.Timestamp, "pressed "+data.ActionCallback.BlockActions[0].Value)
	}
}

// TestLibraryOverTCP checks that slack-go connects, receives, acknowledges and
// answers.
func TestLibraryOverTCP(t *testing.T) {
	p := newPlace(t, slack.Options{}, slack.AppOptions{})
	if _, err := p.Start(); err != nil {
		t.Fatal(err)
	}
	web := &http.Client{Transport: &http.Transport{}}
	defer web.CloseIdleConnections()
	ctx, stop := context.WithCancel(t.Context())
	wait := echo(ctx, t, p.library(web))
	defer wait()
	defer stop()
	p.meet(ctx, t)
}

// TestLibraryInMemory does the same inside a bubble.
func TestLibraryInMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlace(t, slack.Options{}, slack.AppOptions{})
		ctx, stop := context.WithCancel(t.Context())
		wait := echo(ctx, t, p.library(p.web), socketmode.OptionDialer(p.Dialer()))
		defer wait()
		defer stop()
		p.meet(ctx, t)
	})
}

// meet has a conversation with echo.
func (p *place) meet(ctx context.Context, t *testing.T) {
	t.Helper()
	if err := p.Recorder().WaitCount(ctx, 1, func(c slack.Counts) int { return c.Open }); err != nil {
		t.Fatal(err)
	}
	said := p.room.Say(p.ann, p.bot.User().Mention()+" hello")
	m, err := p.room.WaitText(ctx, "hello")
	if err != nil || m.Thread != said.TS || m.Bot != p.bot.BotID() {
		t.Fatalf("answer: %+v, %v", m, err)
	}
	i := p.room.Slash(p.bot, p.ann, "/hermes", "status")
	button := slackgo.NewButtonBlockElement("yes", "42", slackgo.NewTextBlockObject("plain_text", "Yes", false, false))
	_, ts, err := p.library(p.clientOf(t)).PostMessageContext(ctx, p.dm.ID(), slackgo.MsgOptionBlocks(slackgo.NewActionBlock("ask", button)))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.dm.Press(p.ann, ts, "yes"); err != nil {
		t.Fatal(err)
	}
	if m, err := p.dm.WaitText(ctx, "pressed 42"); err != nil || m.Thread != ts {
		t.Errorf("button: %+v, %v", m, err)
	}
	err = p.Recorder().WaitFor(ctx, func(*slack.Recorder) bool { return len(p.room.Ephemeral()) == 1 })
	if _, acked := i.Acked(); err != nil || !acked || p.room.Ephemeral()[0].Text != "you said status" {
		t.Errorf("command: %v, %+v", err, p.room.Ephemeral())
	}
	err = p.Recorder().WaitFor(ctx, func(l *slack.Recorder) bool { c := l.Counts(); return c.Acked == c.Offered })
	if c := p.Recorder().Counts(); err != nil || c.Delivered != c.Offered || c.Lost+c.Late+c.Strange != 0 {
		t.Errorf("counts: %+v, %v", c, err)
	}
}

// clientOf returns p.web, or a client for the network once the server listens.
func (p *place) clientOf(t *testing.T) *http.Client {
	if !strings.Contains(p.URL(), "127.0.0.1") {
		return p.web
	}
	web := &http.Client{Transport: &http.Transport{}}
	t.Cleanup(web.CloseIdleConnections)
	return web
}

// TestLibraryCalls checks that the server understands slack-go's requests and
// slack-go understands the answers.
func TestLibraryCalls(t *testing.T) {
	p := newPlace(t, slack.Options{}, slack.AppOptions{})
	api, ctx, room := p.library(p.web), t.Context(), p.room.ID()
	who, err := api.AuthTestContext(ctx)
	if err != nil || who.UserID != p.bot.User().ID() || who.BotID != p.bot.BotID() || who.TeamID != p.team.ID() {
		t.Errorf("auth.test: %+v, %v", who, err)
	}
	meta := slackgo.SlackMetadata{EventType: "out", EventPayload: map[string]any{"id": "row1"}}
	_, ts, err := api.PostMessageContext(ctx, room, slackgo.MsgOptionMarkdownText("**hi**"), slackgo.MsgOptionMetadata(meta))
	if err != nil {
		t.Fatal(err)
	}
	if _, _, _, err = api.UpdateMessageContext(ctx, room, ts, slackgo.MsgOptionText("edited", false)); err != nil {
		t.Error(err)
	}
	if _, err := api.PostEphemeralContext(ctx, room, p.ann.ID(), slackgo.MsgOptionText("psst", false)); err != nil {
		t.Error(err)
	}
	page, err := api.GetConversationHistoryContext(ctx, &slackgo.GetConversationHistoryParameters{ChannelID: room, IncludeAllMetadata: true})
	if err != nil || len(page.Messages) != 1 || page.Messages[0].Text != "edited" || page.Messages[0].Metadata.EventPayload["id"] != "row1" ||
		page.Messages[0].BotProfile.AppID != p.app.ID() || page.Messages[0].Edited == nil {
		t.Errorf("history: %+v, %v", page, err)
	}
	p.room.Reply(p.ann, ts, "in the thread")
	list, more, _, err := api.GetConversationRepliesContext(ctx, &slackgo.GetConversationRepliesParameters{ChannelID: room, Timestamp: ts})
	if err != nil || more || len(list) != 2 || list[0].ReplyCount != 1 || list[1].ParentUserId != who.UserID {
		t.Errorf("replies: %+v, %v", list, err)
	}
	if err := api.AddReactionContext(ctx, "eyes", slackgo.NewRefToMessage(room, ts)); err != nil {
		t.Error(err)
	}
	if err := api.AddReactionContext(ctx, "eyes", slackgo.NewRefToMessage(room, ts)); err == nil || err.Error() != "already_reacted" {
		t.Errorf("second reaction: %v", err)
	}
	if err := api.RemoveReactionContext(ctx, "eyes", slackgo.NewRefToMessage(room, ts)); err != nil {
		t.Error(err)
	}
	if err := api.SetAssistantThreadsStatusContext(ctx, slackgo.AssistantThreadsSetStatusParameters{ChannelID: room, ThreadTS: ts, Status: "is thinking"}); err != nil ||
		p.room.Status(ts) != "is thinking" {
		t.Errorf("status %q: %v", p.room.Status(ts), err)
	}
	if _, _, err := api.DeleteMessageContext(ctx, room, ts); err != nil {
		t.Error(err)
	}
	var refused slackgo.SlackErrorResponse
	p.bot.SetScopes("chat:write")
	if _, err := api.GetUserInfoContext(ctx, p.ann.ID()); !errors.As(err, &refused) || refused.Needed != "users:read" || refused.Provided != "chat:write" {
		t.Errorf("scope: %+v, %v", refused, err)
	}
	p.SetLimits(slack.RealLimits())
	var many *slackgo.RateLimitedError
	for range 6 {
		_, _, err = api.PostMessageContext(ctx, room, slackgo.MsgOptionText("x", false))
	}
	if !errors.As(err, &many) || many.RetryAfter != time.Second {
		t.Errorf("rate: %v", err)
	}
}

// TestLibraryDirectory checks users and conversations.
func TestLibraryDirectory(t *testing.T) {
	p := newPlace(t, slack.Options{}, slack.AppOptions{})
	api, ctx := p.library(p.web), t.Context()
	u, err := api.GetUserInfoContext(ctx, p.ann.ID())
	if err != nil || u.Name != "ann" || u.Profile.Email != "ann@example.org" || u.IsBot {
		t.Errorf("user: %+v, %v", u, err)
	}
	users, err := api.GetUsersContext(ctx)
	if err != nil || len(users) != 2 {
		t.Errorf("users: %+v, %v", users, err)
	}
	ch, err := api.GetConversationInfoContext(ctx, &slackgo.GetConversationInfoInput{ChannelID: p.room.ID()})
	if err != nil || ch.Name != "general" || !ch.IsMember || ch.NumMembers != 2 || !ch.IsChannel {
		t.Errorf("channel: %+v, %v", ch, err)
	}
	ch, err = api.GetConversationInfoContext(ctx, &slackgo.GetConversationInfoInput{ChannelID: p.dm.ID()})
	if err != nil || !ch.IsIM || ch.User != p.ann.ID() {
		t.Errorf("dm: %+v, %v", ch, err)
	}
	ch, _, _, err = api.OpenConversationContext(ctx, &slackgo.OpenConversationParameters{Users: []string{p.ann.ID()}, ReturnIM: true})
	if err != nil || ch.ID != p.dm.ID() {
		t.Errorf("open: %+v, %v", ch, err)
	}
	for i := range 5 {
		p.team.AddChannel(slack.ChannelOptions{Name: fmt.Sprint("room", i)})
	}
	names, cursor := []string{}, ""
	for {
		list, next, err := api.GetConversationsContext(ctx, &slackgo.GetConversationsParameters{Limit: 2, Cursor: cursor})
		if err != nil {
			t.Fatal(err)
		}
		for _, ch := range list {
			names = append(names, ch.Name)
		}
		if cursor = next; cursor == "" {
			break
		}
	}
	if got := strings.Join(names, " "); got != "general room0 room1 room2 room3 room4" {
		t.Errorf("conversations: %s", got)
	}
	members, _, err := api.GetUsersInConversationContext(ctx, &slackgo.GetUsersInConversationParameters{ChannelID: p.room.ID()})
	if err != nil || len(members) != 2 {
		t.Errorf("members: %v, %v", members, err)
	}
}

// TestLibraryFiles checks uploads in three steps, and downloads with and
// without the token.
func TestLibraryFiles(t *testing.T) {
	p := newPlace(t, slack.Options{}, slack.AppOptions{})
	api, ctx := p.library(p.web), t.Context()
	up, err := api.UploadFileContext(ctx, slackgo.UploadFileParameters{
		Filename: "a.txt", FileSize: 5, Reader: strings.NewReader("hello"), Title: "A", Channel: p.room.ID(), InitialComment: "look",
	})
	if err != nil || up.Title != "A" {
		t.Fatalf("upload: %+v, %v", up, err)
	}
	if list := p.room.FromBots(); len(list) != 1 || list[0].Subtype != "file_share" || string(list[0].Files[0].Data) != "hello" || list[0].Text != "look" {
		t.Errorf("shared: %+v", list)
	}
	p.room.Upload(p.ann, "", &slack.File{Name: "b.png", Data: []byte("png")})
	shared := p.room.Messages()[1].Files[0]
	f, _, _, err := api.GetFileInfoContext(ctx, shared.ID(), 0, 0)
	if err != nil || f.Mimetype != "image/png" || f.Size != 3 {
		t.Fatalf("info: %+v, %v", f, err)
	}
	var got bytes.Buffer
	if err := api.GetFileContext(ctx, f.URLPrivateDownload, &got); err != nil || got.String() != "png" {
		t.Errorf("download: %q, %v", got.String(), err)
	}
	p.bot.SetScopes("chat:write")
	if err := api.GetFileContext(ctx, f.URLPrivateDownload, &got); err == nil || !strings.Contains(err.Error(), "sign-in page") {
		t.Errorf("download without the scope: %v", err)
	}
}
