package discord_test

import (
	"regexp"
	"testing"
	"time"

	"hermesd/adapters/adaptertest"
	"hermesd/adapters/discord"
	"hermesd/adapters/discord/internal/inbound"
	"hermesd/gateway/chat"
	"hermesd/gateway/session"
	sim "hermesd/internal/sim/discord"
)

func TestTheSuiteOfEveryAdapter(t *testing.T) {
	adaptertest.Suite(t, adaptertest.Platform{
		Profile: discord.Profile(), People: []string{"281942384234234234"}, Strangers: []string{"*", "ann", "U02ABCDEF", "-1", "1.5"}, Kinds: map[string]chat.Kind{"281942384234234234": chat.Group},
		Key: regexp.MustCompile(`^[0-9]+:[0-9]+$`), Period: heartbeat, Stop: 2 * time.Second,
		New: func(t *testing.T) adaptertest.Simulator { return newWorld(t, sim.Options{}) },
	})
}

func (w *world) Mentions() []adaptertest.Mention {
	bot, ann, bob := w.bots[""].User(), w.people[0], w.people[1]
	say := func(text string) func() { return func() { w.closed.Say(ann, text) } }
	return []adaptertest.Mention{
		{Name: "not named", Say: say("hello all")},
		{Name: "named first", Say: say(bot.Mention() + " hello"), Addressed: true, Text: "hello"},
		{Name: "named first, the old way", Say: say("<@!" + bot.ID + "> hello"), Addressed: true, Text: "hello"},
		{Name: "named last", Say: say("hello " + bot.Mention()), Addressed: true, Text: "hello @hermes1"},
		{Name: "behind an emoji", Say: say("👩‍👩‍👧😀 " + bot.Mention() + " hello"), Addressed: true},
		{Name: "somebody else", Say: say(bob.Mention() + " hello")},
		{Name: "another bot", Say: say(w.bots["second"].User().Mention() + " hello")},
		{Name: "both bots", Say: say(bot.Mention() + w.bots["second"].User().Mention() + " hello"), Addressed: true},
		{Name: "everyone", Say: say("@everyone hello")},
		{Name: "file", Say: func() {
			w.closed.Post(ann, sim.Post{Text: bot.Mention() + " look", Files: []sim.File{{Name: "a.png", Data: []byte("x")}}})
		}, Addressed: true, Text: "look"},
		{Name: "in a channel that is answered always", Say: func() { w.open[0].Say(ann, "hello") }, Addressed: true, Text: "hello"},
		{Name: "in that channel to somebody else", Say: func() { w.open[0].Say(ann, bob.Mention()+" hello") }, Addressed: true, Text: "@bob hello"},
	}
}

func (w *world) Keys() []adaptertest.Key {
	perUser := session.KeyPolicy{GroupPerUser: true}
	ann, bob, bot := w.people[0], w.people[1], w.bots[""].User()
	private := ann.DM(w.bots[""])
	const base = "agent:main:discord:"
	closed := base + "thread:" + w.closed.ID() + ":"
	standing, err := w.closed.Thread(bob, "standing", "")
	if err != nil {
		w.t.Fatal(err)
	}
	var opener, post string
	return []adaptertest.Key{
		{Name: "direct", Policy: perUser, Say: func() { private.Say(ann, "x") }, Want: session.Key(base + "dm:" + private.ID())},
		{Name: "channel, per user", Policy: perUser, Say: func() { w.open[0].Say(ann, "x") }, Want: session.Key(base + "group:" + w.open[0].ID() + ":" + ann.ID)},
		{Name: "channel, shared", Say: func() { w.open[0].Say(ann, "x") }, Want: session.Key(base + "group:" + w.open[0].ID())},
		{
			Name: "a mention opens a thread", Policy: perUser,
			Say: func() { opener = w.closed.Say(ann, bot.Mention()+" x").ID },
			Key: func() session.Key { return session.Key(closed + opener) },
		},
		{
			Name: "that thread, by somebody else", Policy: perUser, Say: func() {
				t, err := w.closed.Thread(ann, "opened", opener)
				if err != nil {
					w.t.Fatal(err)
				}
				t.Say(bob, "y")
			},
			Key: func() session.Key { return session.Key(closed + opener) },
		},
		{Name: "a thread that stood", Policy: perUser, Say: func() { standing.Say(ann, bot.Mention()+" x") }, Want: session.Key(closed + standing.ID())},
		{Name: "a thread, per user", Policy: session.KeyPolicy{ThreadPerUser: true}, Say: func() { standing.Say(ann, bot.Mention()+" x") }, Want: session.Key(closed + standing.ID() + ":" + ann.ID)},
		{
			Name: "a post of a forum", Policy: perUser,
			Say: func() { post = w.forum.ForumPost(ann, "news", bot.Mention()+" x").ID() },
			Key: func() session.Key { return session.Key(base + "thread:" + w.forum.ID() + ":" + post) },
		},
	}
}

func (w *world) Files() []adaptertest.File {
	ann := w.people[0]
	private := ann.DM(w.bots[""])
	send := func(name, data string) func() {
		return func() { private.Post(ann, sim.Post{Files: []sim.File{{Name: name, Data: []byte(data)}}}) }
	}
	plain := send("a.txt", "content")
	to := func(url string) func(chat.File) chat.File {
		return func(f chat.File) chat.File {
			r, _ := inbound.ParseRef(f.Ref)
			r.URL = url
			f.Ref = r.String()
			return f
		}
	}
	const notOwn = "not its own"
	return []adaptertest.File{
		{Name: "whole", Say: plain, Want: "content"},
		{Name: "exactly the limit", Say: send("a.bin", "12345678"), Want: "12345678", Limit: 8},
		{Name: "over our limit", Say: send("a.bin", "123456789"), Fail: "larger than", Limit: 8},
		{Name: "larger than it says", Say: send("a.bin", "123456789"), Bend: func(f chat.File) chat.File { f.Size = 1; return f }, Fail: "larger than", Limit: 8},
		{Name: "name with a space", Say: send("a b ü.txt", "x"), Want: "x"},
		{Name: "an address that has run out", Say: plain, Bend: func(f chat.File) chat.File {
			<-time.After(25 * time.Hour)
			return f
		}, Want: "content"},
		{Name: "gone", Say: plain, Bend: func(f chat.File) chat.File {
			r, _ := inbound.ParseRef(f.Ref)
			<-time.After(25 * time.Hour)
			if err := private.Delete(r.Message); err != nil {
				w.t.Error(err)
			}
			return f
		}, Fail: "no longer"},
		{Name: "no reference", Say: plain, Bend: func(chat.File) chat.File { return chat.File{Ref: "x"} }, Fail: notOwn},
		{Name: "another server", Say: plain, Bend: to("http://169.254.169.254/latest"), Fail: notOwn},
		{Name: "another server by its end", Say: plain, Bend: to("https://cdn.discordapp.com.evil.test/a"), Fail: notOwn},
		{Name: "a name before the host", Say: plain, Bend: to("https://cdn.discordapp.com@evil.test/a"), Fail: notOwn},
		{Name: "without TLS", Say: plain, Bend: to("http://cdn.discordapp.com/a"), Fail: notOwn},
		{Name: "a file of ours", Say: plain, Bend: to("file:///etc/passwd"), Fail: notOwn},
		{Name: "empty", Say: plain, Bend: to(""), Fail: notOwn},
	}
}
