package slack_test

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"hermesd/adapters/adaptertest"
	"hermesd/adapters/slack"
	"hermesd/gateway/chat"
	"hermesd/gateway/session"
	sim "hermesd/internal/sim/slack"
)

func TestTheSuiteOfEveryAdapter(t *testing.T) {
	adaptertest.Suite(t, adaptertest.Platform{
		Profile: slack.Profile(), People: []string{"U02ABCDEF", "W012A3CDE", "B01"}, Strangers: []string{"*", "ann", "u02abcdef", "123", "C0123456789"}, Kinds: map[string]chat.Kind{"C0123456789": chat.Group},
		Key: regexp.MustCompile(`^[CDG][A-Z0-9]+:[0-9]+\.[0-9]+$`), Period: 30 * time.Second,
		New: func(t *testing.T) adaptertest.Simulator { return newWorld(t, sim.Options{}, sim.AppOptions{}) },
	})
}

func (w *world) Mentions() []adaptertest.Mention {
	name := w.bots[""].User().Mention()
	ann, bob := w.people[0], w.people[1]
	say := func(text string) func() { return func() { w.closed.Say(ann, text) } }
	labelled := strings.TrimSuffix(name, ">") + "|hermes>"
	var thread string
	return []adaptertest.Mention{
		{Name: "not named", Say: say("hello all")},
		{Name: "named first", Say: func() { thread = w.closed.Say(ann, name+" hello").TS }, Addressed: true, Text: "hello"},
		{Name: "named last", Say: say("hello " + name), Addressed: true, Text: "hello @hermes"},
		{Name: "named with a label", Say: say(labelled + ": hello"), Addressed: true, Text: "hello"},
		{Name: "another person", Say: say(bob.Mention() + " hello")},
		{Name: "in a thread that we are part of", Say: func() { w.closed.Reply(bob, thread, "and then?") }, Addressed: true, Text: "and then?"},
		{Name: "in a thread that we are not part of", Say: func() { w.closed.Reply(bob, w.closed.Messages()[0].TS, "and then?") }},
		{Name: "named in such a thread", Say: func() { w.closed.Reply(bob, w.closed.Messages()[0].TS, name+" and then?") }, Addressed: true, Text: "and then?"},
		{Name: "command behind an exclamation mark", Say: func() { w.closed.Reply(ann, thread, "!status all") }, Addressed: true, Text: "/status all"},
		{Name: "no command behind it", Say: func() { w.closed.Reply(ann, thread, "!important thing") }, Addressed: true, Text: "!important thing"},
		{Name: "a file with words", Say: func() {
			w.closed.Upload(ann, name+" look", &sim.File{Name: "a.txt", Data: []byte("x")})
		}, Addressed: true, Text: "look"},
		{Name: "in a channel that is answered always", Say: func() { w.open.Say(ann, "hello") }, Addressed: true, Text: "hello"},
		{Name: "everybody", Say: say("<!channel> hello")},
		{Name: "a command", Say: func() { w.closed.Slash(w.bots[""], ann, "/hermes", "new") }, Addressed: true, Text: "/new"},
		{Name: "a question behind the command", Say: func() { w.closed.Slash(w.bots[""], ann, "/hermes", "what time is it?") }, Addressed: true, Text: "what time is it?"},
		{Name: "the command alone", Say: func() { w.closed.Slash(w.bots[""], ann, "/hermes", "") }, Addressed: true, Text: "/help"},
		{Name: "a command by its own name", Say: func() { w.closed.Slash(w.bots[""], ann, "/usage", " all ") }, Addressed: true, Text: "/usage all"},
	}
}

func (w *world) Keys() []adaptertest.Key {
	perUser := session.KeyPolicy{GroupPerUser: true}
	ann, bot := w.people[0], w.bots[""]
	team := w.team.ID()
	key := func(parts ...string) session.Key {
		return session.Key("agent:main:slack:" + strings.Join(parts, ":"))
	}
	private := ann.DM(bot)
	keys := []adaptertest.Key{
		{Name: "direct", Policy: perUser, Say: func() { private.Say(ann, "x") }, Want: key("dm", team, private.ID())},
		{Name: "group, per user", Policy: perUser, Say: func() { w.groups[0].Say(ann, "x") }, Want: key("group", team, w.groups[0].ID(), ann.ID())},
		{Name: "group, shared", Say: func() { w.groups[0].Say(ann, "x") }, Want: key("group", team, w.groups[0].ID())},
		{Name: "slash command in a channel", Policy: perUser, Say: func() { w.open.Slash(bot, ann, "/hermes", "x") }, Want: key("group", team, w.open.ID(), ann.ID())},
	}
	// The ts of a message that is yet to be said is not known: these are said first.
	in, first := w.open.Say(ann, "root").TS, private.Say(ann, "first").TS
	return append(keys,
		adaptertest.Key{Name: "thread", Policy: perUser, Say: func() { w.open.Reply(ann, in, "x") }, Want: key("thread", team, w.open.ID(), in)},
		adaptertest.Key{Name: "thread, per user", Policy: session.KeyPolicy{ThreadPerUser: true}, Say: func() { w.open.Reply(ann, in, "x") }, Want: key("thread", team, w.open.ID(), in, ann.ID())},
		adaptertest.Key{Name: "a thread of a direct chat", Policy: perUser, Say: func() { private.Reply(ann, first, "x") }, Want: key("dm", team, private.ID(), first)},
	)
}

func (w *world) Files() []adaptertest.File {
	ann := w.people[0]
	private := ann.DM(w.bots[""])
	send := func(f *sim.File) func() { return func() { private.Upload(ann, "", f) } }
	plain := func() { private.Upload(ann, "", &sim.File{Name: "a.txt", Data: []byte("content")}) }
	to := func(ref string) func(chat.File) chat.File {
		return func(f chat.File) chat.File { f.Ref = ref; return f }
	}
	const notOwn = "not at Slack"
	return []adaptertest.File{
		{Name: "whole", Say: plain, Want: "content"},
		{Name: "exactly the limit", Say: send(&sim.File{Name: "v.bin", Data: []byte("12345678")}), Want: "12345678", Limit: 8},
		{Name: "over our limit", Say: send(&sim.File{Name: "v.bin", Data: []byte("123456789")}), Fail: "larger than", Limit: 8},
		{Name: "over our limit, of a size that is not told", Say: send(&sim.File{Name: "v.bin", Data: []byte("123456789")}), Bend: func(f chat.File) chat.File { f.Size = 0; return f }, Fail: "larger than", Limit: 8},
		{Name: "a page that is the file", Say: send(&sim.File{Name: "a.html", MIME: "text/html", Data: []byte("<p>x</p>")}), Want: "<p>x</p>"},
		{Name: "name with a path", Say: send(&sim.File{Name: "../../etc/passwd", Data: []byte("x")}), Want: "x"},
		{Name: "no such file", Say: plain, Bend: to(w.srv.URL() + "/files-pri/T1-F999/x"), Fail: "sign-in page"},
		{Name: "a page instead of the file", Say: plain, Bend: to(w.srv.URL() + "/anywhere"), Fail: "sign-in page"},
		{Name: "only its id", Say: plain, Bend: func(f chat.File) chat.File {
			parts := strings.Split(f.Ref, "/")
			_, id, _ := strings.Cut(parts[len(parts)-2], "-")
			f.Ref = "id:" + id
			return f
		}, Want: "content"},
		{Name: "an id that is none", Say: plain, Bend: to("id:F999"), Fail: "no longer"},
		{Name: "another server", Say: plain, Bend: to("http://169.254.169.254/latest"), Fail: notOwn},
		{Name: "a host that looks like Slack's", Say: plain, Bend: to("https://files.slack.com.evil.test/x"), Fail: notOwn},
		{Name: "Slack without encryption", Say: plain, Bend: to("http://files.slack.com/x"), Fail: notOwn},
		{Name: "a name before the host", Say: plain, Bend: to("https://files.slack.com@evil.test/x"), Fail: notOwn},
		{Name: "another port", Say: plain, Bend: to("https://files.slack.com:8443/x"), Fail: notOwn},
		{Name: "a file of ours", Say: plain, Bend: to("file:///etc/passwd"), Fail: notOwn},
		{Name: "a line feed", Say: plain, Bend: to("https://files.slack.com/a\nb"), Fail: notOwn},
		{Name: "empty", Say: plain, Bend: to(""), Fail: notOwn},
	}
}
