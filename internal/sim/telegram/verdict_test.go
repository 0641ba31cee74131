package telegram_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"hermesd/internal/sim/telegram"
)

// TestJudge runs steps, one per letter, and checks the verdict as one line.
func TestJudge(t *testing.T) {
	for _, tc := range []struct {
		name string
		do   func(p *place, say func(...int), answer func(string))
		want string
		ok   bool
	}{
		{"all well", func(_ *place, say func(...int), answer func(string)) {
			say(1, 2, 3)
			answer("#m1#")
			answer("#m2# and #m3#")
		}, "3 offered, 3 answered, 0 lost, 0 doubled, 0 repeats, 0 out of order, 0 stray", true},
		{"lost", func(_ *place, say func(...int), answer func(string)) {
			say(1, 2)
			answer("#m2#")
		}, "2 offered, 1 answered, 1 lost, 0 doubled, 0 repeats, 0 out of order, 0 stray", false},
		{"doubled", func(_ *place, say func(...int), answer func(string)) {
			say(1)
			answer("#m1#")
			answer("#m1#")
		}, "1 offered, 1 answered, 0 lost, 1 doubled, 0 repeats, 0 out of order, 0 stray", false},
		{"twice in one message is once", func(_ *place, say func(...int), answer func(string)) {
			say(1)
			answer("#m1# #m1#")
		}, "1 offered, 1 answered, 0 lost, 0 doubled, 0 repeats, 0 out of order, 0 stray", true},
		{"a marked repeat", func(_ *place, say func(...int), answer func(string)) {
			say(1, 2)
			answer("#m1#")
			answer("#m1# (may be a repeat)")
			answer("#m2# (may be a repeat)")
		}, "2 offered, 2 answered, 0 lost, 0 doubled, 2 repeats, 0 out of order, 0 stray", true},
		{"out of order", func(_ *place, say func(...int), answer func(string)) {
			say(1, 2, 3)
			answer("#m2#")
			answer("#m1#")
			answer("#m3#")
		}, "3 offered, 3 answered, 0 lost, 0 doubled, 0 repeats, 1 out of order, 0 stray", false},
		{"stray", func(_ *place, say func(...int), answer func(string)) {
			say(1)
			answer("#m1#")
			answer("#m9#")
		}, "1 offered, 1 answered, 0 lost, 0 doubled, 0 repeats, 0 out of order, 1 stray", false},
		{"a deleted answer is none", func(p *place, say func(...int), answer func(string)) {
			say(1)
			answer("#m1#")
			answer("#m1#")
			p.do("deleteMessage", "message_id", "3")
		}, "1 offered, 1 answered, 0 lost, 0 doubled, 0 repeats, 0 out of order, 0 stray", true},
		{"the final text counts", func(p *place, say func(...int), answer func(string)) {
			say(1, 2)
			answer("...")
			answer("#m2#")
			p.do("editMessageText", "message_id", "3", "text", "#m1#")
		}, "2 offered, 2 answered, 0 lost, 0 doubled, 0 repeats, 0 out of order, 0 stray", true},
		{"an edit answers what was said after its message", func(p *place, say func(...int), answer func(string)) {
			say(1)
			answer("...")
			say(2)
			p.do("editMessageText", "message_id", "2", "text", "#m1# #m2#")
		}, "2 offered, 2 answered, 0 lost, 0 doubled, 0 repeats, 0 out of order, 0 stray", true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := newPlace(t, telegram.Options{})
			p.t = t
			tc.do(p,
				func(list ...int) {
					for _, n := range list {
						p.dm.Say(p.ann, "please "+telegram.Token(n))
					}
				},
				func(text string) { p.do("sendMessage", "text", text) })
			v := telegram.Judge{}.Judge(p.Server)
			if got, _, _ := strings.Cut(v.String(), ";"); got != tc.want || v.OK() != tc.ok {
				t.Errorf("got %v %s\nwant %v %s", v.OK(), got, tc.ok, tc.want)
			}
		})
	}
}

func TestJudgeBySender(t *testing.T) {
	p := newPlace(t, telegram.Options{})
	bob := p.AddUser(telegram.Person{})
	g := p.AddChat(telegram.ChatOptions{Members: []*telegram.User{p.ann, bob}, Bots: []*telegram.Bot{p.bot}})
	g.Say(p.ann, telegram.Token(1))
	g.Say(bob, telegram.Token(2))
	for _, n := range []int{2, 1} {
		mustOK(t, p.call(t, "sendMessage", "chat_id", fmt.Sprint(g.ID()), "text", telegram.Token(n)))
	}
	if v := (telegram.Judge{}).Judge(p.Server, g); v.OK() {
		t.Errorf("by chat: %v", v)
	}
	if v := (telegram.Judge{PerSender: true}).Judge(p.Server, g); !v.OK() {
		t.Errorf("by sender: %v", v)
	}
}

// TestJudgeUpgrade checks that an answer in the supergroup answers a question
// in the group.
func TestJudgeUpgrade(t *testing.T) {
	p := newPlace(t, telegram.Options{})
	g := p.AddChat(telegram.ChatOptions{Members: []*telegram.User{p.ann}, Bots: []*telegram.Bot{p.bot}})
	g.Say(p.ann, telegram.Token(1))
	next := g.Upgrade(p.ann)
	next.Say(p.ann, telegram.Token(2))
	for n := 1; n <= 2; n++ {
		mustOK(t, p.call(t, "sendMessage", "chat_id", fmt.Sprint(next.ID()), "text", telegram.Token(n)))
	}
	if v := (telegram.Judge{}).Judge(p.Server); !v.OK() || v.Answered != 2 {
		t.Errorf("verdict: %v", v)
	}
}

// TestJudgeDelay checks that the waits are measured from the messages of
// people.
func TestJudgeDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlace(t, telegram.Options{})
		p.t = t
		for n := 1; n <= 2; n++ {
			p.dm.Say(p.ann, telegram.Token(n))
			<-time.After(time.Duration(n) * time.Second)
			p.do("sendMessage", "text", telegram.Token(n))
		}
		if v := (telegram.Judge{}).Judge(p.Server); v.ShortWait != time.Second || v.LongWait != 2*time.Second {
			t.Errorf("waits %v and %v", v.ShortWait, v.LongWait)
		}
	})
}

func TestWaitForEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlace(t, telegram.Options{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		asked := 0
		err := p.Recorder().WaitFor(ctx, func(*telegram.Recorder) bool { asked++; return false })
		if !errors.Is(err, context.DeadlineExceeded) || asked != 1 {
			t.Errorf("asked %d times, %v", asked, err)
		}
	})
}

func TestCountersOnly(t *testing.T) {
	p := newPlace(t, telegram.Options{CountersOnly: true, NoPollGuard: true})
	for i := range 1000 {
		p.dm.Say(p.ann, fmt.Sprint(i))
	}
	next := 1000
	for range 10 {
		next += len(p.updates(t, "offset", fmt.Sprint(next)))
	}
	p.updates(t, "offset", fmt.Sprint(next))
	l := p.Recorder()
	if c := l.Counts(); c.Offered != 1000 || c.Confirmed != 1000 || c.Delivered != 1000 || c.ByMethod["getupdates"] != 11 {
		t.Errorf("counts: %+v", c)
	}
	if len(l.Offers()) != 0 || len(l.Calls()) != 0 || len(p.dm.Messages()) != 256 {
		t.Errorf("kept %d offers, %d calls, %d messages", len(l.Offers()), len(l.Calls()), len(p.dm.Messages()))
	}
}

// BenchmarkEcho measures one update with one answer over loopback.
func BenchmarkEcho(b *testing.B) {
	s := telegram.New(telegram.Options{CountersOnly: true, NoPollGuard: true})
	defer s.Close()
	bot := s.AddBot(telegram.BotOptions{})
	ann := s.AddUser(telegram.Person{})
	p := &place{Server: s, bot: bot, ann: ann, dm: ann.Chat(bot)}
	if _, err := s.Start(); err != nil {
		b.Fatal(err)
	}
	p.web = s.Client()
	chat := fmt.Sprint(ann.ID())
	for b.Loop() {
		p.dm.Say(ann, "hello there")
		id := bot.NextUpdate() - 1
		if _, err := p.try(b.Context(), bot.Token(), "getUpdates", "offset", fmt.Sprint(id)); err != nil {
			b.Fatal(err)
		}
		if _, err := p.try(b.Context(), bot.Token(), "sendMessage", "chat_id", chat, "text", "hello yourself"); err != nil {
			b.Fatal(err)
		}
	}
}
