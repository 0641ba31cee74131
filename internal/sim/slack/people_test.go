package slack_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"hermesd/internal/sim/slack"
)

// An event holds the fields of an offered event that the tests check.
type event struct {
	Type, Subtype, Text, User, TS, Channel, Reaction, Inviter, Username string
	Kind                                                                string `json:"channel_type"`
	At                                                                  string `json:"event_ts"`
	Thread                                                              string `json:"thread_ts"`
	Parent                                                              string `json:"parent_user_id"`
	Bot                                                                 string `json:"bot_id"`
	App                                                                 string `json:"app_id"`
	Client                                                              string `json:"client_msg_id"`
	Deleted                                                             string `json:"deleted_ts"`
	Message, Root                                                       *event
	Before                                                              *event `json:"previous_message"`
	Edited                                                              *struct{ User, TS string }
	Files                                                               []struct{ ID, Name, Mimetype string }
	Item                                                                struct{ Channel, TS string }
	Assistant                                                           struct {
		User    string `json:"user_id"`
		Channel string `json:"channel_id"`
		Thread  string `json:"thread_ts"`
	} `json:"assistant_thread"`
}

// events returns the events offered since the n-th.
func (p *place) events(t *testing.T, from int) []event {
	t.Helper()
	var out []event
	for _, o := range p.Recorder().Offers()[from:] {
		var payload struct {
			Event event
			Type  string
			Team  string `json:"team_id"`
			App   string `json:"api_app_id"`
			ID    string `json:"event_id"`
		}
		if err := json.Unmarshal(o.Payload, &payload); err != nil {
			t.Fatal(err)
		}
		if payload.Type != "event_callback" || payload.Team != o.Team || payload.App != o.App || payload.ID != o.Event {
			t.Errorf("frame of %s", o.Payload)
		}
		out = append(out, payload.Event)
	}
	return out
}

func names(list []event) string {
	var out []string
	for _, e := range list {
		out = append(out, strings.Trim(e.Type+":"+e.Subtype, ":"))
	}
	return strings.Join(out, " ")
}

// TestWhatPeopleDoIsOffered checks which events the actions of people produce.
func TestWhatPeopleDoIsOffered(t *testing.T) {
	p := newPlace(t, slack.Options{}, slack.AppOptions{})
	bob := p.team.AddUser(slack.Person{Name: "bob"})
	other := p.team.AddUser(slack.Person{Name: "jenkins", Bot: true})
	mention := p.bot.User().Mention()
	own := p.post1(t, p.room, "mine")
	root := p.room.Say(p.ann, "root")
	p.room.Reply(p.ann, root.TS, "a reply")
	lone := p.room.Say(p.ann, "lone")
	for _, tc := range []struct {
		name string
		do   func()
		want string
	}{
		{"says", func() { p.room.Say(p.ann, "hi") }, "message"},
		{"mentions", func() { p.room.Say(p.ann, mention+" hi") }, "message app_mention"},
		{"mentions in the direct message", func() { p.dm.Say(p.ann, mention+" hi") }, "message"},
		{"replies", func() { p.room.Reply(p.ann, root.TS, "yes") }, "message"},
		{"broadcasts", func() {
			p.room.Post(slack.Post{From: p.ann, Text: "yes", Thread: root.TS, Broadcast: true})
		}, "message:thread_broadcast"},
		{"edits", func() { _ = p.room.Edit(lone.TS, "else") }, "message:message_changed"},
		{"mentions by an edit", func() { _ = p.room.Edit(lone.TS, mention) }, "message:message_changed app_mention"},
		{"edits a mention", func() { _ = p.room.Edit(lone.TS, mention+"!") }, "message:message_changed"},
		{"links", func() { _ = p.room.Unfurl(lone.TS, "A page") }, "message:message_changed"},
		{"deletes", func() { _ = p.room.Delete(lone.TS) }, "message:message_deleted"},
		{"deletes a root", func() { _ = p.room.Delete(root.TS) }, "message:message_changed"},
		{"uploads", func() { p.room.Upload(p.ann, mention, &slack.File{Name: "a.txt"}) }, "message:file_share app_mention"},
		{"reacts", func() { _ = p.room.React(p.ann, own, "eyes") }, "reaction_added"},
		{"reacts again", func() { _ = p.room.React(p.ann, own, "eyes") }, ""},
		{"joins", func() { p.room.Join(bob, p.ann) }, "message:channel_join member_joined_channel"},
		{"joins again", func() { p.room.Join(bob, p.ann) }, ""},
		{"opens the assistant", func() { p.ann.OpenAssistant(p.bot) }, "assistant_thread_started"},
		{"other bot", func() { p.room.Say(other, "built") }, "message:bot_message"},
		{"the bot posts", func() { p.post1(t, p.room, "own") }, "message"},
		{"the bot names itself", func() { p.post1(t, p.room, mention) }, "message"},
		{"the bot edits", func() {
			mustOK(t, p.call(t, "chat.update", "channel", p.room.ID(), "ts", own, "text", "new"))
		}, "message:message_changed"},
		{"the bot deletes", func() { mustOK(t, p.call(t, "chat.delete", "channel", p.room.ID(), "ts", own)) }, "message:message_deleted"},
		{"the bot leaves", func() { p.room.Leave(p.bot.User()) }, ""},
		{"says without the bot", func() { p.room.Say(p.ann, mention) }, ""},
	} {
		before := len(p.Recorder().Offers())
		tc.do()
		if got := names(p.events(t, before)); got != tc.want {
			t.Errorf("%s: %q, want %q", tc.name, got, tc.want)
		}
	}
}

// TestTimesAreUnique checks this even if no time passes between two messages.
func TestTimesAreUnique(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlace(t, slack.Options{}, slack.AppOptions{})
		last := ""
		for range 100 {
			m := p.room.Say(p.ann, "x")
			if m.TS <= last || len(m.TS) != 17 || p.dm.Say(p.ann, "x").TS != m.TS { // each channel has its own sequence
				t.Fatalf("%s after %s", m.TS, last)
			}
			last = m.TS
		}
	})
}

// TestOtherBots checks that their messages have a name and no user.
func TestOtherBots(t *testing.T) {
	p := newPlace(t, slack.Options{}, slack.AppOptions{})
	m := p.room.Say(p.team.AddUser(slack.Person{Name: "jenkins", Bot: true}), "built")
	if e := p.events(t, 0)[0]; e.User != "" || e.Username != "jenkins" || e.Bot == "" || e.Bot != m.Bot || e.App != "" || e.Client != "" {
		t.Errorf("event: %+v", e)
	}
}

func TestTheTwoFacesOfAMention(t *testing.T) {
	p := newPlace(t, slack.Options{}, slack.AppOptions{})
	m := p.room.Say(p.ann, p.bot.User().Mention()+" hi")
	e, offers := p.events(t, 0), p.Recorder().Offers()
	if len(e) != 2 || offers[0].Event == offers[1].Event {
		t.Fatalf("events: %+v", e)
	}
	for _, e := range e {
		if e.TS != m.TS || e.At != m.TS || e.Channel != p.room.ID() || e.User != p.ann.ID() || e.Text != m.Text || e.Client == "" {
			t.Errorf("event: %+v", e)
		}
	}
	if e[0].Kind != "channel" || e[1].Kind != "" {
		t.Errorf("channel_type: %q and %q", e[0].Kind, e[1].Kind)
	}
}

func TestTheInsidesOfEvents(t *testing.T) {
	p := newPlace(t, slack.Options{}, slack.AppOptions{})
	root := p.room.Say(p.ann, "root")
	p.room.Post(slack.Post{From: p.ann, Text: "both", Thread: root.TS, Broadcast: true})
	said := p.dm.Say(p.ann, "old")
	_ = p.dm.Edit(said.TS, "new")
	_ = p.dm.Delete(said.TS)
	_ = p.room.React(p.ann, root.TS, "tada")
	_, thread := p.ann.OpenAssistant(p.bot)
	mine := p.post1(t, p.dm, "mine")
	e := p.events(t, 0)
	if b := e[1]; b.Root == nil || b.Root.Text != "root" || b.Thread != root.TS || b.Parent != p.ann.ID() {
		t.Errorf("broadcast: %+v", b)
	}
	if c := e[3]; c.Message == nil || c.Message.Text != "new" || c.Before.Text != "old" || c.Message.TS != said.TS || c.TS == said.TS ||
		c.Message.Edited == nil || c.Before.Edited != nil || c.Kind != "im" {
		t.Errorf("changed: %+v", c)
	}
	if d := e[4]; d.Deleted != said.TS || d.Before == nil || d.Before.Text != "new" {
		t.Errorf("deleted: %+v", d)
	}
	if r := e[5]; r.Reaction != "tada" || r.Item.TS != root.TS || r.Item.Channel != p.room.ID() {
		t.Errorf("reaction: %+v", r)
	}
	if a := e[6].Assistant; a.User != p.ann.ID() || a.Thread != thread || a.Channel != p.dm.ID() {
		t.Errorf("assistant: %+v", a)
	}
	if m := e[7]; m.TS != mine || m.Bot != p.bot.BotID() || m.App != p.app.ID() || m.User != p.bot.User().ID() || m.Subtype != "" {
		t.Errorf("own message: %+v", m)
	}
}

// TestKindsOfChannels checks which events an app receives for each kind, with
// its scopes and subscriptions.
func TestKindsOfChannels(t *testing.T) {
	p := newPlace(t, slack.Options{}, slack.AppOptions{Events: []string{"message.groups", "message.mpim", "message.im", "app_mention"}})
	members := []*slack.User{p.ann, p.bot.User()}
	group := p.team.AddChannel(slack.ChannelOptions{Name: "secret", Private: true, Members: members})
	several := p.team.GroupDM(append(members, p.team.AddUser(slack.Person{}))...)
	p.bot.SetScopes("channels:history", "groups:history", "mpim:history", "app_mentions:read")
	for _, ch := range []*slack.Channel{p.room, group, several, p.dm} {
		ch.Say(p.ann, "in "+string(ch.Kind())+p.bot.User().Mention())
	}
	var got []string
	for _, e := range p.events(t, 0) {
		got = append(got, e.Type+":"+e.Kind)
	}
	want := "app_mention: message:group app_mention: message:mpim app_mention:"
	if fmt.Sprint(strings.Join(got, " ")) != want {
		t.Errorf("got %v, want %s", got, want)
	}
}

// TestSeveralWorkspaces checks one app with two tokens, each of which sees only
// its own workspace.
func TestSeveralWorkspaces(t *testing.T) {
	p := newPlace(t, slack.Options{}, slack.AppOptions{})
	team := p.AddTeam("Other Place")
	bot := p.app.Install(team)
	eve := team.AddUser(slack.Person{Name: "eve"})
	k := p.open(t)
	eve.DM(bot).Say(eve, "hello")
	f := k.next()
	var frame struct {
		Payload struct {
			Team string `json:"team_id"`
		}
	}
	if err := json.Unmarshal([]byte(f.Raw), &frame); err != nil || frame.Payload.Team != team.ID() || team.ID() == p.team.ID() {
		t.Errorf("frame: %s", f.Raw)
	}
	k.ack(f)
	mustRefuse(t, p.call(t, "chat.postMessage", "channel", eve.DM(bot).ID(), "text", "x"), "channel_not_found")
	mustRefuse(t, p.call(t, "users.info", "user", eve.ID()), "user_not_found")
	mustRefuse(t, p.call(t, "conversations.info", "channel", team.AddChannel(slack.ChannelOptions{Name: "theirs"}).ID()), "channel_not_found")
	mustRefuse(t, p.call(t, "chat.postMessage", "channel", "theirs", "text", "x"), "channel_not_found")
	mustOK(t, p.callAs(t, bot.Token(), "chat.postMessage", "channel", eve.DM(bot).ID(), "text", "x"))
	if a := p.callAs(t, bot.Token(), "auth.test"); a.Raw["team"] != "Other Place" || a.Raw["user"] != "hermes" {
		t.Errorf("auth.test: %v", a.Raw)
	}
}

func TestWhatIsNotThere(t *testing.T) {
	p := newPlace(t, slack.Options{}, slack.AppOptions{Commands: []string{"/hermes"}})
	own := p.post1(t, p.room, "mine")
	for name, err := range map[string]error{
		"edit": p.room.Edit("1.0", "x"), "edit of the bot's": p.room.Edit(own, "x"), "delete": p.room.Delete("1.0"),
		"unfurl": p.room.Unfurl("1.0", "x"), "react": p.room.React(p.ann, "1.0", "x"),
	} {
		if err != slack.ErrNoMessage {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := p.room.Press(p.ann, own, "x"); err != slack.ErrNoMessage {
		t.Errorf("press: %v", err)
	}
	defer func() {
		if recover() == nil {
			t.Error("a command that the app does not have was sent")
		}
	}()
	p.room.Slash(p.bot, p.ann, "/other", "")
}

// TestAnyEvent checks that any event can be sent, whatever the subscriptions
// are.
func TestAnyEvent(t *testing.T) {
	p := newPlace(t, slack.Options{}, slack.AppOptions{Events: []string{}})
	k := p.open(t)
	p.room.Say(p.ann, "unheard")
	p.bot.Send(map[string]any{"type": "channel_rename", "channel": map[string]any{"id": p.room.ID(), "name": "x"}})
	f := k.next()
	if !strings.Contains(f.Raw, "channel_rename") || len(p.Recorder().Offers()) != 1 || p.Recorder().Offers("channel_rename")[0].Event != f.Payload.EventID {
		t.Errorf("frame: %s", f.Raw)
	}
}

// TestCountersOnly checks that only the counters and the last messages are
// kept.
func TestCountersOnly(t *testing.T) {
	p := newPlace(t, slack.Options{CountersOnly: true}, slack.AppOptions{})
	first := p.dm.Say(p.ann, "0")
	for i := range 2500 {
		p.dm.Say(p.ann, fmt.Sprint(i+1))
	}
	list := p.dm.Messages()
	if len(list) > 2000 || list[len(list)-1].Text != "2500" || p.dm.Edit(first.TS, "x") == nil {
		t.Errorf("%d messages", len(list))
	}
	if c := p.Recorder().Counts(); c.Offered != 2501 || len(p.Recorder().Offers()) != 0 || len(p.Recorder().Calls()) != 0 || p.Redeliver("Ev0SIM00010") {
		t.Errorf("counts: %+v", c)
	}
}

// TestDirectory checks the errors of an app that looks up users and channels.
func TestDirectory(t *testing.T) {
	p := newPlace(t, slack.Options{}, slack.AppOptions{})
	bob := p.team.AddUser(slack.Person{Name: "bob"})
	gone := p.team.AddUser(slack.Person{ID: "U0GONE"})
	gone.Deactivate()
	secret := p.team.AddChannel(slack.ChannelOptions{Name: "secret", Private: true, Members: []*slack.User{bob}})
	a := p.call(t, "conversations.open", "users", p.ann.ID()+","+bob.ID())
	b := p.call(t, "conversations.open", "users", bob.ID()+", "+p.ann.ID(), "return_im", "true")
	c := p.call(t, "conversations.open", "channel", p.dm.ID())
	var one, two struct{ ID string }
	if json.Unmarshal(a.Channel, &one) != nil || json.Unmarshal(b.Channel, &two) != nil || one.ID == "" || one.ID != two.ID || !c.OK {
		t.Errorf("group: %s, %s", a.Channel, b.Channel)
	}
	scoped := p.AddApp(slack.AppOptions{Scopes: []string{"im:write", "channels:read"}}).Install(p.team)
	for _, tc := range []struct {
		want, token, method string
		pairs               []string
	}{
		{"user_not_found", "", "conversations.open", []string{"users", "U1"}},
		{"cannot_dm_bot", "", "conversations.open", []string{"users", gone.ID()}},
		{"channel_not_found", "", "conversations.open", []string{"channel", secret.ID()}},
		{"missing_scope", scoped.Token(), "conversations.open", []string{"users", bob.ID() + "," + p.ann.ID()}},
		{"missing_scope", scoped.Token(), "conversations.list", []string{"types", "public_channel,im"}},
		{"invalid_types", "", "conversations.list", []string{"types", "all"}},
		{"invalid_cursor", "", "conversations.list", []string{"cursor", "x"}},
		{"invalid_cursor", "", "users.list", []string{"cursor", "x"}},
		{"invalid_cursor", "", "conversations.members", []string{"channel", p.room.ID(), "cursor", "x"}},
		{"channel_not_found", "", "conversations.members", []string{"channel", secret.ID()}},
		{"channel_not_found", "", "conversations.info", []string{"channel", secret.ID()}},
		{"user_not_found", "", "users.info", []string{"user", "U1"}},
		{"channel_not_found", "", "assistant.threads.setStatus", []string{"channel_id", "C0"}},
		{"invalid_thread_ts", "", "assistant.threads.setStatus", []string{"channel_id", p.dm.ID(), "thread_ts", "1.000001"}},
	} {
		token := tc.token
		if token == "" {
			token = p.bot.Token()
		}
		if got := p.callAs(t, token, tc.method, tc.pairs...).Error; got != tc.want {
			t.Errorf("%s %v: %q, want %q", tc.method, tc.pairs, got, tc.want)
		}
	}
	user, _ := p.call(t, "users.info", "user", gone.ID()).Raw["user"].(map[string]any)
	if user["deleted"] != true || gone.Person().Name == "" || p.bot.Team() != p.team || p.bot.App() != p.app {
		t.Errorf("user: %v", user)
	}
}
