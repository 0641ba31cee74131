package slack_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"hermesd/internal/sim/slack"
)

// TestFaults checks what the client receives, how long it takes, and whether
// the message exists afterwards.
func TestFaults(t *testing.T) {
	for _, tc := range []struct {
		name   string
		fault  slack.Fault
		see    string // part of the error; "": success
		took   time.Duration
		exists bool
	}{
		{"delay", slack.Fault{Delay: 5 * time.Second}, "", 5 * time.Second, true},
		{"late answer", slack.Fault{Late: 9 * time.Second}, "", 9 * time.Second, true},
		{"error", slack.Fault{Kind: slack.Fail, Error: "fatal_error"}, "200 fatal_error", 0, false},
		{"error after", slack.Fault{Kind: slack.FailAfter, Error: "internal_error"}, "200 internal_error", 0, true},
		{"502", slack.Fault{Kind: slack.Fail}, "502 Bad Gateway", 0, false},
		{"503 after", slack.Fault{Kind: slack.FailAfter, Status: 503}, "503 Service Unavailable", 0, true},
		{"503 in JSON", slack.Fault{Kind: slack.Fail, Status: 503, Error: "service_unavailable"}, "503 service_unavailable", 0, false},
		{"429", slack.Fault{Kind: slack.Fail, RetryAfter: 1500 * time.Millisecond}, "429 ratelimited 2", 0, false},
		{"hang", slack.Fault{Kind: slack.Hang}, "deadline exceeded", 30 * time.Second, false},
		{"hang after", slack.Fault{Kind: slack.HangAfter}, "deadline exceeded", 30 * time.Second, true},
		{"cut", slack.Fault{Kind: slack.Cut}, "EOF", 0, false},
		{"cut after", slack.Fault{Kind: slack.CutAfter}, "EOF", 0, true},
		{"cut in the body", slack.Fault{Kind: slack.CutBody}, "unexpected EOF", 0, true},
		{"garbage", slack.Fault{Kind: slack.Garbage}, "no JSON", 0, false},
		{"garbage after", slack.Fault{Kind: slack.GarbageAfter}, "no JSON", 0, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPlace(t, slack.Options{}, slack.AppOptions{})
				in := p.Inject(tc.fault)
				ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
				defer cancel()
				start := time.Now()
				a, err := p.try(ctx, p.bot.Token(), "chat.postMessage", "channel", p.room.ID(), "text", "x")
				saw := ""
				switch {
				case err != nil:
					saw = err.Error()
				case !a.OK:
					saw = fmt.Sprint(a.Status, " ", a.Error, " ", a.Header.Get("Retry-After"))
				}
				if (tc.see == "") != (saw == "") || !strings.Contains(saw, tc.see) {
					t.Errorf("saw %q, want %q", saw, tc.see)
				}
				if took := time.Since(start); took.Round(time.Second) != tc.took {
					t.Errorf("took %v, want %v", took, tc.took)
				}
				synctest.Wait()
				if exists := len(p.room.FromBots()) == 1; exists != tc.exists {
					t.Errorf("message exists: %v, want %v", exists, tc.exists)
				}
				c := p.Recorder().Calls("chat.postMessage")[0]
				if c.Handled != tc.exists || c.Fault != tc.fault.Kind || in.Hits() != 1 || c.Done.IsZero() || (c.TS != "") != tc.exists {
					t.Errorf("call: %+v", c)
				}
				if answered := !strings.Contains(saw, "EOF") && !strings.Contains(saw, "deadline"); c.Answered != answered || c.Status != 0 != answered {
					t.Errorf("answered %v with %d, client saw %q", c.Answered, c.Status, saw)
				}
				mustOK(t, p.call(t, "auth.test")) // used up
			})
		})
	}
}

func TestFaultMatching(t *testing.T) {
	p := newPlace(t, slack.Options{}, slack.AppOptions{})
	room, dm := p.room.ID(), p.dm.ID()
	run := func(f slack.Fault) string {
		f.Kind, f.Error = slack.Fail, "fatal_error"
		in := p.Inject(f)
		defer in.Remove()
		got := ""
		for _, say := range [][2]string{{room, "a"}, {room, "b"}, {room, "a"}, {room, "a"}, {dm, "a"}} {
			got += map[bool]string{true: ".", false: "x"}[p.call(t, "chat.postMessage", "channel", say[0], "text", say[1]).OK]
		}
		return got
	}
	for _, tc := range []struct {
		f    slack.Fault
		want string
	}{
		{slack.Fault{}, "x...."},
		{slack.Fault{Times: 2}, "xx..."},
		{slack.Fault{Times: -1}, "xxxxx"},
		{slack.Fault{Skip: 2, Times: 2}, "..xx."},
		{slack.Fault{Text: "b", Times: -1}, ".x..."},
		{slack.Fault{Channel: dm, Times: -1}, "....x"},
		{slack.Fault{Team: "T0", Times: -1}, "....."},
		{slack.Fault{Method: "chat.postMessage"}, "x...."},
		{slack.Fault{Method: "chat.*"}, "x...."},
		{slack.Fault{Method: "chat.update", Times: -1}, "....."},
		{slack.Fault{Times: -1, Match: func(c slack.Call) bool { return c.Params["text"] == "a" && c.Channel == dm }}, "....x"},
	} {
		if got := run(tc.f); got != tc.want {
			t.Errorf("%+v: got %s, want %s", tc.f, got, tc.want)
		}
	}
	p.Inject(slack.Fault{Kind: slack.Cut, Times: -1})
	p.ClearFaults()
	mustOK(t, p.call(t, "auth.test"))
	if slack.CutBody.String() != "cut body" || slack.FaultKind(99).String() != "unknown" {
		t.Error("names of kinds")
	}
}

func TestFaultForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlace(t, slack.Options{}, slack.AppOptions{})
		p.Inject(slack.Fault{Method: "apps.*", Kind: slack.Fail, Error: "invalid_auth", Times: -1, For: time.Minute})
		mustRefuse(t, p.callAs(t, p.app.Token(), "apps.connections.open"), "invalid_auth")
		<-time.After(61 * time.Second)
		p.open(t)
	})
}

// TestClientDies checks that a request has its effect even if the client has
// disconnected.
func TestClientDies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlace(t, slack.Options{}, slack.AppOptions{})
		p.SetLatency(2 * time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		if _, err := p.try(ctx, p.bot.Token(), "chat.postMessage", "channel", p.room.ID(), "text", "x"); err == nil {
			t.Error("answered")
		}
		<-time.After(time.Second)
		c := p.Recorder().Calls()[0]
		if len(p.room.FromBots()) != 1 || !c.Handled || c.Answered {
			t.Errorf("call: %+v", c)
		}
	})
}

// TestRates checks bursts and the rate after them, per channel and per method.
func TestRates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlace(t, slack.Options{Limits: slack.RealLimits()}, slack.AppOptions{})
		say := func(ch *slack.Channel) string {
			a := p.call(t, "chat.postMessage", "channel", ch.ID(), "text", "x")
			return fmt.Sprint(a.Error, a.Header.Get("Retry-After"))
		}
		got := ""
		for range 5 {
			got += say(p.room) + ","
		}
		if got != ",,,,ratelimited1," || say(p.dm) != "" {
			t.Errorf("in one channel: %s", got)
		}
		<-time.After(time.Second)
		if got := say(p.room) + "," + say(p.room); got != ",ratelimited1" {
			t.Errorf("after a second: %s", got)
		}
		n := 0
		for p.call(t, "users.list").OK {
			n++
		}
		if n != 20 || !p.call(t, "users.info", "user", p.ann.ID()).OK {
			t.Errorf("%d calls of tier 2", n)
		}
		p.SetLimits(slack.Limits{})
		mustOK(t, p.call(t, "users.list"))
	})
}
