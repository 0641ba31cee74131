package discord_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"hermesd/internal/sim/discord"
)

func TestAMessageHasOneThread(t *testing.T) {
	in(t, discord.Options{}, func(t *testing.T, w *web) {
		s := w.socket(t)
		s.ready(all)
		m := w.ch.Say(w.ann, "a question")
		s.next()
		path := "/channels/" + w.ch.ID() + "/messages/" + m.ID + "/threads"
		want(t, "no name", w.do(t, "POST", path, `{"name":" "}`).short(), "400 50035 Invalid Form Body")
		want(t, "odd duration", w.do(t, "POST", path, `{"name":"x","auto_archive_duration":7}`).short(), "400 50035 Invalid Form Body")
		made := w.do(t, "POST", path, `{"name":"a question","auto_archive_duration":60}`)
		want(t, "made", fmt.Sprint(made.Status, made.Type, made.ID == m.ID), "201 11 true")
		want(t, "again", w.do(t, "POST", path, `{"name":"x"}`).short(), "400 160004 A thread has already been created for this message")
		for _, kind := range []string{"THREAD_CREATE", "MESSAGE_UPDATE", "MESSAGE_CREATE"} {
			want(t, "event", s.next().Type, kind)
		}
		r := w.do(t, "GET", "/channels/"+made.ID+"/messages", "")
		want(t, "starter", fmt.Sprint(r.List[0].Type, r.List[0].Referenced.Text), "21a question")
		want(t, "reply to it", w.do(t, "POST", "/channels/"+made.ID+"/messages",
			`{"content":"x","message_reference":{"message_id":"`+r.List[0].ID+`"}}`).short(), "400 50035 Invalid Form Body")
		in := w.do(t, "POST", "/channels/"+made.ID+"/messages/"+r.List[0].ID+"/threads", `{"name":"x"}`)
		want(t, "thread in a thread", in.short(), "400 50024 Cannot execute action on this channel type")
		want(t, "threads", len(w.ch.Threads()), 1)
		want(t, "parent", w.ch.Threads()[0].Parent() == w.ch, true)
		w.ch.Deny(w.home.ID(), discord.CreateThreads)
		other := w.ch.Say(w.ann, "another").ID
		want(t, "not allowed", w.do(t, "POST", "/channels/"+w.ch.ID()+"/messages/"+other+"/threads", `{"name":"x"}`).short(),
			"403 50013 Missing Permissions")
		_ = w.ch.Delete(other)
		want(t, "gone", w.do(t, "POST", "/channels/"+w.ch.ID()+"/messages/"+other+"/threads", `{"name":"x"}`).short(), "404 10008 Unknown Message")
	})
}

func TestThreadsAreArchivedAndLocked(t *testing.T) {
	in(t, discord.Options{}, func(t *testing.T, w *web) {
		made := w.do(t, "POST", "/channels/"+w.ch.ID()+"/threads", `{"name":"talk","type":11}`)
		th := w.ch.Threads()[0]
		send := func() string { return w.do(t, "POST", "/channels/"+made.ID+"/messages", `{"content":"x"}`).short() }
		state := func() string { return fmt.Sprint(th.Archived()) }
		want(t, "told in the channel", strings.Join(w.ch.Visible(w.bot.User()), "|"), "talk")
		own := w.do(t, "POST", "/channels/"+made.ID+"/messages", `{"content":"first"}`).ID
		th.Archive(false)
		want(t, "archived", state(), "true false")
		want(t, "edit", w.do(t, "PATCH", "/channels/"+made.ID+"/messages/"+own, `{"content":"y"}`).short(), "400 50083 Thread is archived")
		want(t, "react", w.do(t, "PUT", "/channels/"+made.ID+"/messages/"+own+"/reactions/%F0%9F%91%80/@me", "").Code, 50083)
		want(t, "unreact", w.do(t, "DELETE", "/channels/"+made.ID+"/messages/"+own+"/reactions/%F0%9F%91%80/@me", "").Code, 50083)
		want(t, "rename", w.do(t, "PATCH", "/channels/"+made.ID, `{"name":"y"}`).Code, 50083)
		want(t, "delete", w.do(t, "DELETE", "/channels/"+made.ID+"/messages/"+own, "").Status, 204)
		want(t, "not joined", w.do(t, "PUT", "/channels/"+made.ID+"/thread-members/@me", "").short(), "400 50083 Thread is archived")
		want(t, "sent", send(), "200 0")
		want(t, "woken", state(), "false false")
		want(t, "joined", w.do(t, "PUT", "/channels/"+made.ID+"/thread-members/@me", "").Status, 204)
		want(t, "archived by the bot", w.do(t, "PATCH", "/channels/"+made.ID, `{"archived":true}`).Meta.Archived, true)
		want(t, "locking is for others", w.do(t, "PATCH", "/channels/"+made.ID, `{"locked":true}`).short(), "403 50013 Missing Permissions")
		th.Archive(true)
		want(t, "refused", send(), "400 50083 Thread is archived")
		w.ch.Allow(w.bot.ID(), discord.ManageThreads)
		want(t, "a moderator may", send(), "200 0")
		want(t, "woken", state(), "false true")
		w.ch.Deny(w.bot.ID(), discord.ManageThreads)
		want(t, "locked, not archived", send(), "403 160005 Thread is locked")
		w.ch.Allow(w.bot.ID(), discord.ManageThreads)
		w.ch.Deny(w.home.ID(), discord.SendInThreads)
		want(t, "muted in threads", send(), "403 50013 Missing Permissions")
		var active struct{ Threads []reply }
		_ = json.Unmarshal([]byte(w.do(t, "GET", "/guilds/"+w.home.ID()+"/threads/active", "").Raw), &active)
		want(t, "active", len(active.Threads), 1)
		want(t, "removed", w.do(t, "DELETE", "/channels/"+made.ID, "").Status, 200)
		want(t, "gone", send(), "404 10003 Unknown Channel")
	})
}

func TestAForumHasPosts(t *testing.T) {
	in(t, discord.Options{}, func(t *testing.T, w *web) {
		s := w.socket(t)
		s.ready(all)
		forum := w.home.AddChannel(discord.ChannelOptions{Name: "help", Kind: discord.Forum, Topic: "be kind"})
		s.next()
		post := forum.ForumPost(w.ann, "it broke", "how do I repair it?")
		want(t, "event", s.next().Type, "THREAD_CREATE")
		want(t, "event", s.next().text(), "5 MESSAGE_CREATE how do I repair it?")
		want(t, "first message", post.Messages()[0].ID, post.ID())
		path := "/channels/" + forum.ID()
		want(t, "no message in the forum itself", w.do(t, "POST", path+"/messages", `{"content":"x"}`).short(),
			"400 40058 Cannot message this channel until it has threads")
		want(t, "no message", w.do(t, "POST", path+"/threads", `{"name":"x"}`).short(), "400 50035 Invalid Form Body")
		want(t, "empty message", w.do(t, "POST", path+"/threads", `{"name":"x","message":{}}`).short(), "400 50006 Cannot send an empty message")
		mine := w.do(t, "POST", path+"/threads", `{"name":"news","message":{"content":"it works"}}`)
		want(t, "made", mine.Status, 201)
		want(t, "stands", strings.Join(forum.Threads()[1].Visible(w.bot.User()), "|"), "it works")
		want(t, "reply", w.do(t, "POST", "/channels/"+post.ID()+"/messages", `{"content":"try this"}`).Status, 200)
	})
}

func TestAnAnnouncementChannelAndPrivateThreads(t *testing.T) {
	in(t, discord.Options{}, func(t *testing.T, w *web) {
		news := w.home.AddChannel(discord.ChannelOptions{Name: "news", Kind: discord.Announcement})
		m := news.Say(w.ann, "hear!")
		want(t, "kind", w.do(t, "POST", "/channels/"+news.ID()+"/messages/"+m.ID+"/threads", `{"name":"x"}`).Type, 10)
		want(t, "private", w.do(t, "POST", "/channels/"+w.ch.ID()+"/threads", `{"name":"x","type":12}`).Type, 12)
		want(t, "not told", len(w.ch.Messages()), 0)
		theirs, err := w.ch.Thread(w.ann, "theirs", w.ch.Say(w.ann, "x").ID)
		if err != nil {
			t.Fatal(err)
		}
		want(t, "seen", w.do(t, "GET", "/channels/"+theirs.ID(), "").Status, 200)
		if _, err := w.ch.Thread(w.ann, "again", theirs.ID()); err == nil {
			t.Error("a second thread from the same message")
		}
		dm := w.ann.DM(w.bot)
		want(t, "in private", w.do(t, "POST", "/channels/"+dm.ID()+"/messages/"+dm.Say(w.ann, "x").ID+"/threads", `{"name":"x"}`).short(),
			"400 50024 Cannot execute action on this channel type")
	})
}
