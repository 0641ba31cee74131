package telegram_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"hermesd/internal/sim/telegram"
)

// TestFaults checks what the client receives, how long it takes, and whether
// the message exists afterwards.
func TestFaults(t *testing.T) {
	for _, tc := range []struct {
		name   string
		fault  telegram.Fault
		see    string // part of the description or of the error; "": success
		took   time.Duration
		exists bool
	}{
		{"delay", telegram.Fault{Delay: 5 * time.Second}, "", 5 * time.Second, true},
		{"late answer", telegram.Fault{Late: 9 * time.Second}, "", 9 * time.Second, true},
		{"502", telegram.Fault{Kind: telegram.Fail}, "502 Bad Gateway", 0, false},
		{"500", telegram.Fault{Kind: telegram.Fail, Status: 500}, "500 Internal Server Error", 0, false},
		{"500 after", telegram.Fault{Kind: telegram.FailAfter, Status: 500}, "500 Internal Server Error", 0, true},
		{"502 as a page", telegram.Fault{Kind: telegram.Fail, NoJSON: true}, "no JSON", 0, false},
		{"401", telegram.Fault{Kind: telegram.Fail, Status: 401}, "401 Unauthorized", 0, false},
		{"429", telegram.Fault{Kind: telegram.Fail, RetryAfter: 7 * time.Second}, "429 Too Many Requests: retry after 7", 0, false},
		{"hang", telegram.Fault{Kind: telegram.Hang}, "deadline exceeded", 30 * time.Second, false},
		{"hang after", telegram.Fault{Kind: telegram.HangAfter}, "deadline exceeded", 30 * time.Second, true},
		{"cut", telegram.Fault{Kind: telegram.Cut}, "EOF", 0, false},
		{"cut after", telegram.Fault{Kind: telegram.CutAfter}, "EOF", 0, true},
		{"cut in the body", telegram.Fault{Kind: telegram.CutBody}, "unexpected EOF", 0, true},
		{"garbage", telegram.Fault{Kind: telegram.Garbage}, "no JSON", 0, false},
		{"garbage after", telegram.Fault{Kind: telegram.GarbageAfter}, "no JSON", 0, true},
		{"slow", telegram.Fault{Kind: telegram.Slow, Delay: 10 * time.Second}, "", 10 * time.Second, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPlace(t, telegram.Options{})
				in := p.Inject(tc.fault)
				ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
				defer cancel()
				start := time.Now()
				a, err := p.try(ctx, p.bot.Token(), "sendMessage", "chat_id", "100001", "text", "x")
				saw := ""
				switch {
				case err != nil:
					saw = err.Error()
				case !a.OK:
					saw = fmt.Sprint(a.Status, " ", a.Description)
				}
				if (tc.see == "") != (saw == "") || !strings.Contains(saw, tc.see) {
					t.Errorf("saw %q, want %q", saw, tc.see)
				}
				if took := time.Since(start); took.Round(time.Second) != tc.took {
					t.Errorf("took %v, want %v", took, tc.took)
				}
				synctest.Wait()
				if exists := len(p.dm.FromBots()) == 1; exists != tc.exists {
					t.Errorf("message exists: %v, want %v", exists, tc.exists)
				}
				c := p.Recorder().Calls("sendMessage")[0]
				if c.Handled != tc.exists || c.Fault != tc.fault.Kind || in.Hits() != 1 || c.Done.IsZero() {
					t.Errorf("call: %+v", c)
				}
				if answered := err == nil || strings.HasPrefix(saw, "no JSON"); c.Answered != answered || c.Status != 0 != answered {
					t.Errorf("answered %v with %d, client saw %q", c.Answered, c.Status, saw)
				}
				mustOK(t, p.call(t, "getMe")) // used up
			})
		})
	}
}

func TestFaultMatching(t *testing.T) {
	p := newPlace(t, telegram.Options{})
	p.AddUser(telegram.Person{ID: 7}).Chat(p.bot)
	outcome := func(chat, text string) string {
		if p.call(t, "sendMessage", "chat_id", chat, "text", text).OK {
			return "."
		}
		return "x"
	}
	run := func(f telegram.Fault) string {
		f.Kind = telegram.Fail
		in := p.Inject(f)
		defer in.Remove()
		got := ""
		for _, text := range []string{"a", "b", "a", "a", "a"} {
			got += outcome("100001", text)
		}
		return got + outcome("7", "a")
	}
	for _, tc := range []struct {
		f    telegram.Fault
		want string
	}{
		{telegram.Fault{}, "x....."},
		{telegram.Fault{Times: 2}, "xx...."},
		{telegram.Fault{Times: -1}, "xxxxxx"},
		{telegram.Fault{Skip: 2, Times: 2}, "..xx.."},
		{telegram.Fault{Text: "b", Times: -1}, ".x...."},
		{telegram.Fault{Chat: 7, Times: -1}, ".....x"},
		{telegram.Fault{Method: "SendMessage"}, "x....."},
		{telegram.Fault{Method: "send*"}, "x....."},
		{telegram.Fault{Method: "editMessageText", Times: -1}, "......"},
		{telegram.Fault{Bot: 1, Times: -1}, "......"},
		{telegram.Fault{Times: -1, Match: func(c telegram.Call) bool { return c.Params["text"] == "a" && c.Chat == 7 }}, ".....x"},
	} {
		if got := run(tc.f); got != tc.want {
			t.Errorf("%+v: got %s, want %s", tc.f, got, tc.want)
		}
	}
}

func TestFaultForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlace(t, telegram.Options{})
		p.Inject(telegram.Fault{Kind: telegram.Fail, Status: 401, Times: -1, For: time.Minute})
		mustRefuse(t, p.call(t, "getMe"), 401, "Unauthorized")
		<-time.After(59 * time.Second)
		mustRefuse(t, p.call(t, "getMe"), 401, "Unauthorized")
		<-time.After(2 * time.Second)
		mustOK(t, p.call(t, "getMe"))
	})
}

// TestDownAndUp checks that connections are cut and refused, and that the
// server continues at the same address with the same state.
func TestDownAndUp(t *testing.T) {
	p := newPlace(t, telegram.Options{NoPollGuard: true})
	address, err := p.Start()
	if err != nil {
		t.Fatal(err)
	}
	p.web = &http.Client{Transport: &http.Transport{}}
	defer p.web.CloseIdleConnections()
	p.dm.Say(p.ann, "x")
	waiting := make(chan error)
	go func() { // received below
		_, err := p.try(t.Context(), p.bot.Token(), "getUpdates", "offset", "1001", "timeout", "40")
		waiting <- err
	}()
	if err := p.Recorder().WaitCount(t.Context(), 1, func(c telegram.Counts) int { return c.ByMethod["getupdates"] }); err != nil {
		t.Fatal(err)
	}
	p.Down()
	if err := <-waiting; !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the poll ended with %v", err)
	}
	if _, err := p.try(t.Context(), p.bot.Token(), "getMe"); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("down: %v", err)
	}
	p.dm.Say(p.ann, "said while down")
	if err := p.Up(); err != nil {
		t.Fatal(err)
	}
	if got := p.updates(t); p.URL() != address || len(got) == 0 || got[len(got)-1].Message.Text != "said while down" {
		t.Errorf("up at %s, was %s: %+v", p.URL(), address, got)
	}
}

// TestDownInMemory does the same in a bubble; a call that was not handled yet
// is dropped.
func TestDownInMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlace(t, telegram.Options{Latency: 2 * time.Second})
		waiting := make(chan error)
		go func() { // received below
			_, err := p.try(t.Context(), p.bot.Token(), "sendMessage", "chat_id", "100001", "text", "x")
			waiting <- err
		}()
		synctest.Wait()
		p.Down()
		if err := <-waiting; err == nil {
			t.Error("answered")
		}
		if _, err := p.try(t.Context(), p.bot.Token(), "getMe"); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("down: %v", err)
		}
		synctest.Wait()
		if n := len(p.dm.FromBots()); n != 0 {
			t.Errorf("%d messages", n)
		}
		if err := p.Up(); err != nil {
			t.Fatal(err)
		}
		mustOK(t, p.call(t, "getMe"))
	})
}

// TestClientDies checks that a request has its effect even if the client has
// disconnected.
func TestClientDies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlace(t, telegram.Options{Latency: 2 * time.Second})
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		if _, err := p.try(ctx, p.bot.Token(), "sendMessage", "chat_id", "100001", "text", "x"); err == nil {
			t.Error("answered")
		}
		<-time.After(time.Second)
		c := p.Recorder().Calls()[0]
		if len(p.dm.FromBots()) != 1 || !c.Handled || c.Answered {
			t.Errorf("call: %+v", c)
		}
	})
}
