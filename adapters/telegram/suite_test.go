package telegram_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"hermesd/adapters/adaptertest"
	"hermesd/adapters/telegram"
	"hermesd/gateway/chat"
	"hermesd/gateway/session"
	sim "hermesd/internal/sim/telegram"
)

func TestTheSuiteOfEveryAdapter(t *testing.T) {
	adaptertest.Suite(t, adaptertest.Platform{
		Profile: telegram.Profile(), People: []string{"7", "123456789"}, Strangers: []string{"*", "@ann", "ann", "-100123", "12.5", strings.Repeat("9", 21)}, Kinds: map[string]chat.Kind{"123456789": chat.DM, "-1001234567890": chat.Group},
		Key: regexp.MustCompile(`^-?[0-9]+:[0-9]+$`), Period: 30 * time.Second,
		New: func(t *testing.T) adaptertest.Simulator { return newWorld(t, sim.Options{}) },
	})
}

func (w *world) Mentions() []adaptertest.Mention {
	name := "@" + w.bots[""].Username()
	ann := w.people[0]
	say := func(text string) func() { return func() { w.closed.Say(ann, text) } }
	return []adaptertest.Mention{
		{Name: "not named", Say: say("hello all")},
		{Name: "named first", Say: say(name + " hello"), Addressed: true, Text: "hello"},
		{Name: "named last", Say: say("hello " + name), Addressed: true, Text: "hello " + name},
		{Name: "behind an emoji", Say: say("👩‍👩‍👧😀 " + name + " hello"), Addressed: true},
		{Name: "in capitals", Say: say(strings.ToUpper(name) + " hello"), Addressed: true, Text: "hello"},
		{Name: "another bot", Say: say("@other_bot hello")},
		{Name: "command for us", Say: say("/status" + name), Addressed: true, Text: "/status"},
		{Name: "command for another", Say: say("/status@other_bot")},
		{Name: "caption", Say: func() {
			w.closed.Post(sim.Post{From: ann, Text: name + " look", Media: &sim.Media{Kind: sim.Photo, Data: []byte("x")}})
		}, Addressed: true, Text: "look"},
		{Name: "in a group that is answered always", Say: func() { w.groups[0].Say(ann, "hello") }, Addressed: true, Text: "hello"},
	}
}

func (w *world) Keys() []adaptertest.Key {
	perUser := session.KeyPolicy{GroupPerUser: true}
	ann := w.people[0]
	id := func(c *sim.Chat) string { return fmt.Sprint(c.ID()) }
	private := ann.Chat(w.bots[""])
	return []adaptertest.Key{
		{Name: "direct", Policy: perUser, Say: func() { private.Say(ann, "x") }, Want: session.Key("agent:main:telegram:dm:" + id(private))},
		{Name: "group, per user", Policy: perUser, Say: func() { w.groups[0].Say(ann, "x") }, Want: session.Key("agent:main:telegram:group:" + id(w.groups[0]) + ":" + fmt.Sprint(ann.ID()))},
		{Name: "group, shared", Say: func() { w.groups[0].Say(ann, "x") }, Want: session.Key("agent:main:telegram:group:" + id(w.groups[0]))},
		{Name: "topic", Policy: perUser, Say: func() { w.forum.Post(sim.Post{From: ann, Text: "x", Thread: w.topic}) }, Want: session.Key("agent:main:telegram:group:" + id(w.forum) + ":" + fmt.Sprint(w.topic))},
		{Name: "topic, per user", Policy: session.KeyPolicy{ThreadPerUser: true}, Say: func() { w.forum.Post(sim.Post{From: ann, Text: "x", Thread: w.topic}) }, Want: session.Key("agent:main:telegram:group:" + id(w.forum) + ":" + fmt.Sprint(w.topic) + ":" + fmt.Sprint(ann.ID()))},
		{Name: "general topic", Policy: perUser, Say: func() { w.forum.Say(ann, "x") }, Want: session.Key("agent:main:telegram:group:" + id(w.forum) + ":" + fmt.Sprint(ann.ID()))},
	}
}

func (w *world) Files() []adaptertest.File {
	ann := w.people[0]
	private := ann.Chat(w.bots[""])
	send := func(m *sim.Media) func() { return func() { private.Post(sim.Post{Media: m}) } }
	plain := send(&sim.Media{Kind: sim.Document, Name: "a.txt", Data: []byte("content")})
	to := func(path string) func(chat.File) chat.File {
		return func(chat.File) chat.File {
			w.mu.Lock()
			defer w.mu.Unlock()
			id := fmt.Sprintf("hostile-%d-", len(w.paths))
			w.paths[id] = path
			return chat.File{Kind: chat.Document, Ref: id}
		}
	}
	const notOwn = "not its own"
	return []adaptertest.File{
		{Name: "whole", Say: plain, Want: "content"},
		{Name: "exactly the limit", Say: send(&sim.Media{Kind: sim.Voice, Data: []byte("12345678")}), Want: "12345678", Limit: 8},
		{Name: "over our limit", Say: send(&sim.Media{Kind: sim.Document, Data: []byte("123456789")}), Fail: "larger than", Limit: 8},
		{Name: "over Telegram's limit", Say: send(&sim.Media{Kind: sim.Video, Data: []byte("x"), Size: 21 << 20}), Fail: "20 MB", Limit: 100 << 20},
		{Name: "name with a path", Say: send(&sim.Media{Kind: sim.Document, Name: "../../etc/passwd", Data: []byte("x")}), Want: "x"},
		{Name: "no such file", Say: plain, Bend: func(chat.File) chat.File { return chat.File{Ref: "BAACnothing_1"} }, Fail: "no longer"},
		{Name: "upwards", Say: plain, Bend: to("../../botX/getMe"), Fail: notOwn},
		{Name: "upwards in the middle", Say: plain, Bend: to("photos/../../x"), Fail: notOwn},
		{Name: "absolute", Say: plain, Bend: to("/etc/passwd"), Fail: notOwn},
		{Name: "another server", Say: plain, Bend: to("http://169.254.169.254/latest"), Fail: notOwn},
		{Name: "another host", Say: plain, Bend: to("//169.254.169.254/latest"), Fail: notOwn},
		{Name: "a query", Say: plain, Bend: to("photos/a?x=1"), Fail: notOwn},
		{Name: "escaped", Say: plain, Bend: to("photos/%2e%2e/a"), Fail: notOwn},
		{Name: "a line feed", Say: plain, Bend: to("photos/a\nb"), Fail: notOwn},
		{Name: "empty", Say: plain, Bend: to(""), Fail: notOwn},
	}
}
