package discord_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"hermesd/internal/sim/discord"
)

func TestWhatPeopleDoIsTold(t *testing.T) {
	const everything = all | discord.IntentGuildMembers | discord.IntentGuildReactions | discord.IntentDirectReactions |
		discord.IntentGuildTyping | discord.IntentDirectTyping
	in(t, discord.Options{}, func(t *testing.T, w *web) {
		s := w.socket(t)
		s.ready(everything)
		told := func(kinds string) {
			t.Helper()
			for kind := range strings.FieldsSeq(kinds) {
				want(t, "event", s.next().Type, kind)
			}
		}
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Error(err)
			}
		}
		m := w.ch.Post(w.ann, discord.Post{Text: "see", Files: []discord.File{{Name: "a.txt", Data: []byte("hi")}}})
		told("MESSAGE_CREATE")
		must(w.ch.Edit(m.ID, "look"))
		must(w.ch.Unfurl(m.ID))
		must(w.ch.Redeliver(m.ID))
		must(w.ch.React(w.ann, m.ID, "👍"))
		told("MESSAGE_UPDATE MESSAGE_UPDATE MESSAGE_CREATE MESSAGE_REACTION_ADD")
		must(w.ch.Delete(m.ID))
		told("MESSAGE_DELETE")
		for _, err := range []error{w.ch.Delete(m.ID), w.ch.Edit("1", "x"), w.ch.React(w.ann, m.ID, "x")} {
			if !errors.Is(err, discord.ErrNoMessage) {
				t.Errorf("what is gone: %v", err)
			}
		}
		w.ch.Type(w.ann)
		w.ann.DM(w.bot).Type(w.ann)
		told("TYPING_START TYPING_START")
		ben := w.AddUser("ben")
		w.home.Join(ben)
		role := w.home.AddRole("helpers", discord.ManageMessages)
		w.home.Give(ben, role)
		w.home.Take(ben, role)
		w.home.Leave(ben)
		told("GUILD_MEMBER_ADD GUILD_ROLE_CREATE GUILD_MEMBER_UPDATE GUILD_MEMBER_UPDATE GUILD_MEMBER_REMOVE")
		w.ch.Joined(ben)
		told("MESSAGE_CREATE")
		w.home.Outage(true)
		w.home.Outage(false)
		told("GUILD_DELETE GUILD_CREATE")
		th, err := w.ch.Thread(w.ann, "talk", "")
		must(err)
		th.Archive(false)
		told("THREAD_CREATE MESSAGE_CREATE THREAD_UPDATE")
		th.Say(w.ann, "awake")
		told("THREAD_UPDATE MESSAGE_CREATE")
		w.ch.Remove()
		told("THREAD_DELETE CHANNEL_DELETE")
		w.home.Leave(w.bot.User())
		told("GUILD_DELETE")
		w.home.AddChannel(discord.ChannelOptions{Name: "unseen"}).Say(w.ann, "x")
		w.home.Join(w.bot.User())
		told("GUILD_CREATE")
	})
}

func TestRolesDecide(t *testing.T) {
	in(t, discord.Options{}, func(t *testing.T, w *web) {
		mods := w.home.AddRole("mods", discord.ManageMessages)
		theirs := w.ch.Say(w.ann, "spam").ID
		path := "/channels/" + w.ch.ID() + "/messages/" + theirs
		want(t, "without", w.do(t, "DELETE", path, "").Status, 403)
		w.home.Give(w.bot.User(), mods)
		w.ch.Deny(mods.ID, discord.ManageMessages)
		want(t, "denied here", w.do(t, "DELETE", path, "").Status, 403)
		w.ch.Allow(w.bot.ID(), discord.ManageMessages)
		want(t, "allowed by name", w.do(t, "DELETE", path, "").Status, 204)
		admins := w.home.AddRole("admins", discord.Administrator)
		w.home.Give(w.bot.User(), admins)
		w.ch.Deny(w.home.ID(), discord.ViewChannel)
		want(t, "nothing stops an administrator", w.say(t, `{"content":"x"}`).Status, 200)
		m := w.do(t, "GET", "/guilds/"+w.home.ID()+"/members/"+w.bot.ID(), "")
		want(t, "roles are told", strings.Count(m.Raw, mods.ID)+strings.Count(m.Raw, admins.ID), 2)
		want(t, "no member", w.do(t, "GET", "/guilds/"+w.home.ID()+"/members/"+w.AddUser("x").ID, "").Code, 10007)
		want(t, "nobody", w.do(t, "GET", "/guilds/"+w.home.ID()+"/members/1", "").Code, 10013)
		want(t, "no guild", w.do(t, "GET", "/guilds/1", "").Code, 10004)
		want(t, "channels", len(w.do(t, "GET", "/guilds/"+w.home.ID()+"/channels", "").List), 1)
		want(t, "guilds", len(w.do(t, "GET", "/users/@me/guilds", "").List), 1)
		want(t, "renamed", w.do(t, "PATCH", "/channels/"+w.ch.ID(), `{"name":"new"}`).Status, 200)
		want(t, "name", w.ch.Name(), "new")
	})
}

func TestTheJudgeSeesWhatWentWrong(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(w *web, say func(string))
		want string
	}{
		{"all well", func(_ *web, say func(string)) { say("#m1#"); say("#m2#") }, "2 offered, 2 answered, 0 lost, 0 doubled, 0 repeats, 0 out of order, 0 stray"},
		{"in one", func(_ *web, say func(string)) { say("#m1# #m2#") }, "2 offered, 2 answered, 0 lost, 0 doubled, 0 repeats, 0 out of order, 0 stray"},
		{"lost", func(_ *web, say func(string)) { say("#m1#") }, "2 offered, 1 answered, 1 lost, 0 doubled, 0 repeats, 0 out of order, 0 stray; lost: #m2#, 0 answers"},
		{"doubled", func(_ *web, say func(string)) { say("#m1#"); say("#m1#"); say("#m2#") }, "2 offered, 2 answered, 0 lost, 1 doubled, 0 repeats, 0 out of order, 0 stray; doubled: #m1#, 2 answers"},
		{"marked", func(_ *web, say func(string)) { say("#m1#"); say("#m1# (may be a repeat)"); say("#m2#") }, "2 offered, 2 answered, 0 lost, 0 doubled, 1 repeats, 0 out of order, 0 stray"},
		{"disorder", func(_ *web, say func(string)) { say("#m2#"); say("#m1#") }, "2 offered, 2 answered, 0 lost, 0 doubled, 0 repeats, 1 out of order, 0 stray; out of order: #m2#, 1 answers"},
		{"stray", func(_ *web, say func(string)) { say("#m1#"); say("#m2#"); say("#m3#") }, "2 offered, 2 answered, 0 lost, 0 doubled, 0 repeats, 0 out of order, 1 stray; stray: #m3#, 1 answers"},
		{"elsewhere", func(w *web, say func(string)) {
			say("#m1#")
			w.do(w.t, "POST", "/channels/"+w.ann.DM(w.bot).ID()+"/messages", `{"content":"#m2#"}`)
		}, "2 offered, 1 answered, 1 lost, 0 doubled, 0 repeats, 0 out of order, 1 stray; lost: #m2#, 0 answers; stray: #m2#, 1 answers"},
		{"in a thread of its own", func(w *web, say func(string)) {
			say("#m1#")
			th := w.do(w.t, "POST", "/channels/"+w.ch.ID()+"/threads", `{"name":"x","type":12}`)
			w.do(w.t, "POST", "/channels/"+th.ID+"/messages", `{"content":"#m2#"}`)
		}, "2 offered, 2 answered, 0 lost, 0 doubled, 0 repeats, 0 out of order, 0 stray"},
		{"deleted", func(w *web, say func(string)) {
			say("#m1#")
			w.do(w.t, "DELETE", "/channels/"+w.ch.ID()+"/messages/"+w.say(w.t, `{"content":"#m2#"}`).ID, "")
		}, "2 offered, 1 answered, 1 lost, 0 doubled, 0 repeats, 0 out of order, 0 stray; lost: #m2#, 0 answers"},
	} {
		t.Run(c.name, func(t *testing.T) {
			in(t, discord.Options{}, func(t *testing.T, w *web) {
				w.t = t
				w.ch.Say(w.ann, discord.Token(1))
				m := w.ch.Say(w.ann, discord.Token(2))
				_ = w.ch.Edit(m.ID, "what it says now does not count #m9#")
				c.do(w, func(text string) { w.say(t, `{"content":"`+text+`"}`) })
				v := discord.Judge{}.Judge(w.Server)
				want(t, "verdict", v.String(), c.want)
				want(t, "ok", v.OK(), !strings.Contains(c.want, ";"))
			})
		})
	}
}

func TestTheRecorderWaitsAndForgets(t *testing.T) {
	in(t, discord.Options{CountersOnly: true}, func(t *testing.T, w *web) {
		time.AfterFunc(time.Minute, func() { w.ch.Say(w.ann, "x") })
		began := time.Now()
		offered := w.Recorder().Counts().Offered
		err := w.Recorder().WaitCount(within(t, time.Hour), offered+1, func(c discord.Counts) int { return c.Offered })
		want(t, "waited", fmt.Sprint(err, time.Since(began)), "<nil> 1m0s")
		err = w.Recorder().WaitCount(within(t, time.Second), 1, func(c discord.Counts) int { return c.Sent })
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("nothing was sent: %v", err)
		}
		for range 1100 {
			w.ch.Say(w.ann, "x")
		}
		want(t, "kept", fmt.Sprint(len(w.ch.Messages()), len(w.Recorder().Offers()), len(w.Recorder().Calls())), "1000 0 0")
	})
}

func TestIDsCarryTheTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		<-time.After(time.Until(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)))
		p := newPlace(t, discord.Options{})
		a, b := p.ch.Say(p.ann, "x").ID, p.ch.Say(p.ann, "x").ID
		n := func(id string) (v uint64) { _, _ = fmt.Sscan(id, &v); return v }
		want(t, "time", time.UnixMilli(int64(n(a)>>22)+1_420_070_400_000).UTC().Format(time.RFC3339), "2026-01-02T03:04:05Z")
		want(t, "order", n(b) > n(a), true)
	})
}
