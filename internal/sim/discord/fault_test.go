package discord_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"hermesd/internal/sim/discord"
)

func TestFaultsHitTheNextMatchingCall(t *testing.T) {
	for _, c := range []struct {
		fault  discord.Fault
		status int // 0: no answer
		made   int
	}{
		{discord.Fault{Kind: discord.Fail}, 502, 0},
		{discord.Fault{Kind: discord.FailAfter, Status: 500, NoJSON: true}, 500, 1},
		{discord.Fault{Kind: discord.Fail, Status: 403, Code: 50013, Message: "Missing Permissions"}, 403, 0},
		{discord.Fault{Kind: discord.Fail, RetryAfter: 1500 * time.Millisecond}, 429, 0},
		{discord.Fault{Kind: discord.Fail, RetryAfter: time.Second, Global: true}, 429, 0},
		{discord.Fault{Kind: discord.Hang}, 0, 0},
		{discord.Fault{Kind: discord.HangAfter}, 0, 1},
		{discord.Fault{Kind: discord.Cut}, 0, 0},
		{discord.Fault{Kind: discord.CutAfter}, 0, 1},
		{discord.Fault{Kind: discord.CutBody}, 0, 1},
		{discord.Fault{Kind: discord.Garbage}, 200, 0},
		{discord.Fault{Kind: discord.GarbageAfter}, 200, 1},
		{discord.Fault{Kind: discord.Slow, Delay: 5 * time.Second}, 200, 1},
		{discord.Fault{Kind: discord.Pass, Delay: time.Second, Late: time.Second}, 200, 1},
		{discord.Fault{Kind: discord.Pass, Delay: time.Hour}, 0, 0},
		{discord.Fault{Kind: discord.Pass, Late: time.Hour}, 0, 1},
	} {
		t.Run(fmt.Sprint(c.fault.Kind, c.fault.Status), func(t *testing.T) {
			in(t, discord.Options{Latency: 20 * time.Millisecond}, func(t *testing.T, w *web) {
				c.fault.Route, c.fault.Text = discord.RouteCreateMessage, "it"
				f := w.Inject(c.fault)
				want(t, "another text passes", w.say(t, `{"content":"other"}`).Status, 200)
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				defer cancel()
				r, err := w.try(ctx, "POST", "/channels/"+w.ch.ID()+"/messages", `{"content":"hit"}`)
				if err != nil {
					r.Status = 0
				}
				synctest.Wait()
				want(t, "status", r.Status, c.status)
				want(t, "made", len(w.ch.Messages())-1, c.made)
				want(t, "hits", f.Hits(), 1)
				call := w.Recorder().Calls(discord.RouteCreateMessage)[1]
				want(t, "fault and effect in the record", fmt.Sprint(call.Fault, call.Handled), fmt.Sprint(c.fault.Kind, c.made == 1))
				want(t, "afterwards", w.say(t, `{"content":"hit"}`).Status, 200)
			})
		})
	}
}

func TestFaultsAreSelective(t *testing.T) {
	in(t, discord.Options{}, func(t *testing.T, w *web) {
		other := w.home.AddChannel(discord.ChannelOptions{Name: "other"})
		f := w.Inject(discord.Fault{Kind: discord.Fail, Route: "POST /channels/*", Channel: w.ch.ID(), Bot: w.bot.ID(), Skip: 1, Times: -1, For: time.Minute})
		got := ""
		for range 3 {
			got += fmt.Sprint(w.say(t, `{"content":"x"}`).Status, " ")
		}
		want(t, "skipped, then all", got, "200 502 502 ")
		want(t, "another channel", w.do(t, "POST", "/channels/"+other.ID()+"/messages", `{"content":"x"}`).Status, 200)
		want(t, "another method", w.do(t, "GET", "/channels/"+w.ch.ID(), "").Status, 200)
		<-time.After(2 * time.Minute)
		want(t, "over", w.say(t, `{"content":"x"}`).Status, 200)
		f.Remove()
		w.Inject(discord.Fault{Kind: discord.Fail, Match: func(c discord.Call) bool { return c.Text == "bad" }})
		want(t, "asked", w.say(t, `{"content":"good"}`).Status, 200)
		w.ClearFaults()
		want(t, "cleared", w.say(t, `{"content":"bad"}`).Status, 200)
		want(t, "in words", discord.Kind(99).String(), "unknown")
	})
}

func TestRatesAreToldAndKept(t *testing.T) {
	in(t, discord.Options{Limits: discord.RealLimits()}, func(t *testing.T, w *web) {
		for left := 4; left >= 0; left-- {
			r := w.say(t, `{"content":"x"}`)
			want(t, "left", r.Header.Get("X-Ratelimit-Remaining"), fmt.Sprint(left))
			want(t, "limit", r.Header.Get("X-Ratelimit-Limit"), "5")
		}
		<-time.After(1500 * time.Millisecond)
		r := w.say(t, `{"content":"x"}`)
		want(t, "refused", r.Raw, `{"global":false,"message":"You are being rate limited.","retry_after":3.5}`)
		want(t, "headers", r.Header.Get("Retry-After")+" "+r.Header.Get("X-Ratelimit-Scope")+" "+r.Header.Get("X-Ratelimit-Reset-After"), "4 user 3.500")
		other := w.home.AddChannel(discord.ChannelOptions{Name: "other"})
		want(t, "another channel", w.do(t, "POST", "/channels/"+other.ID()+"/messages", `{"content":"x"}`).Status, 200)
		<-time.After(3500 * time.Millisecond)
		want(t, "later", w.say(t, `{"content":"x"}`).Status, 200)
		w.SetLimits(discord.Limits{Global: discord.Rate{Requests: 2, Per: time.Second}})
		_, _ = w.do(t, "GET", "/users/@me", ""), w.do(t, "GET", "/gateway/bot", "")
		r = w.do(t, "GET", "/users/@me", "")
		want(t, "over all", fmt.Sprint(r.Status, r.Header.Get("X-Ratelimit-Global"), r.Header.Get("X-Ratelimit-Scope")), "429trueglobal")
		w.SetLimits(discord.Limits{})
		w.Ban(time.Minute)
		want(t, "banned", w.do(t, "GET", "/users/@me", "").Status, 429)
		want(t, "last call", w.Recorder().Calls()[w.Recorder().Counts().Calls-1].Error, "banned")
	})
}
