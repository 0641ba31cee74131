package accounts_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap"

	"hermesd/gateway/accounts"
	"hermesd/gateway/chat"
)

// A platform is an adapter that records its calls. Each call takes delay.
type platform struct {
	caps       chat.Capabilities
	clockAhead time.Duration
	delay      time.Duration

	mu    sync.Mutex // guards calls
	calls []string
}

func (p *platform) record(ctx context.Context, format string, args ...any) error {
	if p.delay > 0 {
		select {
		case <-time.After(p.delay):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls = append(p.calls, fmt.Sprintf(format, args...))
	return nil
}

func (p *platform) recorded() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.calls)
}

func (p *platform) Run(context.Context, chat.Sink) error { return nil }
func (p *platform) Capabilities() chat.Capabilities      { return p.caps }
func (p *platform) Health() chat.Health {
	return chat.Health{State: chat.Connected, ClockAhead: p.clockAhead}
}

func (p *platform) Send(ctx context.Context, m chat.Outbound) (chat.Receipt, error) {
	return chat.Receipt{}, p.record(ctx, "send %s", m.ID)
}

// A fullPlatform implements all optional interfaces that a Set uses.
type fullPlatform struct{ *platform }

func (p fullPlatform) React(ctx context.Context, _ chat.Address, id string, r chat.Reaction) error {
	return p.record(ctx, "react %s %s", id, r)
}

func (p fullPlatform) AnswerCallback(ctx context.Context, in chat.Inbound, text string) error {
	return p.record(ctx, "answer %s %q", in.ID, text)
}

func (p fullPlatform) Dismiss(in chat.Inbound) {
	_ = p.record(context.Background(), "dismiss %s", in.ID)
}

func (p fullPlatform) MessagesBefore(context.Context, chat.Inbound, time.Time) ([]chat.Quote, error) {
	return []chat.Quote{{Text: "before"}}, errors.New("incomplete")
}

var (
	telegram = chat.Account{Platform: chat.Telegram}
	work     = chat.Account{Platform: chat.Telegram, Name: "work"}
	console  = chat.Account{Platform: chat.Console}
	api      = chat.Account{Platform: chat.HTTP}
)

func message(on chat.Account, id string) chat.Inbound {
	return chat.Inbound{ID: id, Kind: chat.Message, Address: addressOn(on)}
}

func addressOn(on chat.Account) chat.Address {
	return chat.Address{Platform: on.Platform, Account: on.Name, Kind: chat.DM, Chat: "7"}
}

func profiles() chat.Profiles {
	return chat.ProfilesOf(chat.Profile{Platform: chat.Telegram, Unasked: true}, chat.Profile{Platform: chat.Console, Unasked: true, Answers: true}, chat.Profile{Platform: chat.HTTP, Answers: true})
}

func TestLookups(t *testing.T) {
	s := accounts.New(accounts.Options{Log: zap.NewNop(), Profiles: profiles(), ReplyToMode: map[chat.Account]string{work: "all"}})
	s.Add(work, &platform{clockAhead: time.Minute})
	s.Add(telegram, &platform{})
	s.Add(console, &platform{})
	s.Add(api, &platform{})

	if d := cmp.Diff([]string{"console", "http", "telegram"}, s.Platforms()); d != "" {
		t.Errorf("platforms: %s", d)
	}
	if d := cmp.Diff([]string{"", "work"}, s.Names(chat.Telegram)); d != "" {
		t.Errorf("names: %s", d)
	}
	if names := s.Names(chat.Slack); names != nil {
		t.Errorf("accounts of a platform that is not connected: %q", names)
	}
	if _, ok := s.Adapter(chat.Account{Platform: chat.Slack}); ok {
		t.Error("an account that is not connected has an adapter")
	}
	if a, b := s.ReplyToMode(work), s.ReplyToMode(telegram); a != "all" || b != "" {
		t.Errorf("reply_to_mode %q and %q", a, b)
	}
	if a, b := s.ClockAhead(work), s.ClockAhead(chat.Account{Platform: chat.Slack}); a != time.Minute || b != 0 {
		t.Errorf("clock ahead by %v and %v", a, b)
	}
	for account, want := range map[chat.Account]bool{telegram: true, console: true, api: false, {Platform: chat.Slack}: false, {Platform: chat.Cron}: false} {
		if got := s.CanSendUnasked(addressOn(account)); got != want {
			t.Errorf("can send unasked to %v: %v", account, got)
		}
	}
	var order []chat.Account
	for _, h := range s.Health() {
		order = append(order, h.Account)
		if h.State != chat.Connected {
			t.Errorf("%v: state %s", h.Account, h.State)
		}
	}
	if d := cmp.Diff([]chat.Account{console, api, telegram, work}, order); d != "" {
		t.Errorf("health: %s", d)
	}
}

// Calls are made in order by the adapters that support them; others are not called.
func TestOptionalCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		full, plain := fullPlatform{&platform{}}, &platform{}
		s := accounts.New(accounts.Options{Log: zap.NewNop()})
		s.Add(telegram, full)
		s.Add(work, plain)
		s.Start(t.Context())
		defer s.Close()
		edit := message(telegram, "2")
		edit.Kind = chat.Edit
		for _, on := range []chat.Account{telegram, work, {Platform: chat.Slack}} {
			s.React(message(on, "1"), chat.ReactionSeen)
			s.React(message(on, "1"), chat.ReactionAnswered)
			synctest.Wait()
			s.AnswerCallback(message(on, "3"), "No.")
			synctest.Wait()
			s.Dismiss(message(on, "4"))
		}
		s.React(edit, chat.ReactionSeen) // only messages get reactions
		synctest.Wait()
		if d := cmp.Diff([]string{"react 1 seen", "react 1 answered", `answer 3 "No."`, "dismiss 4"}, full.recorded()); d != "" {
			t.Error(d)
		}
		if got := plain.recorded(); len(got) != 0 {
			t.Errorf("an adapter without the interfaces got %q", got)
		}
		if q, err := s.ThreadHistory(t.Context(), message(telegram, "1"), time.Time{}); len(q) != 1 || err == nil {
			t.Errorf("history %v, %v", q, err)
		}
		if q, err := s.ThreadHistory(t.Context(), message(work, "1"), time.Time{}); q != nil || err != nil {
			t.Errorf("history without a reader %v, %v", q, err)
		}
	})
}

// A slow platform delays nobody: what does not fit into its queue is dropped, and a call
// that takes too long is ended.
func TestSlowPlatform(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow, fast := fullPlatform{&platform{delay: time.Minute}}, fullPlatform{&platform{}}
		s := accounts.New(accounts.Options{Log: zap.NewNop()})
		s.Add(telegram, slow)
		s.Add(work, fast)
		s.Start(t.Context())
		defer s.Close()
		began := time.Now()
		s.AnswerCallback(message(telegram, "0"), "")
		synctest.Wait()
		slow.delay = 0 // of the calls that follow
		for i := range 100 {
			s.AnswerCallback(message(telegram, fmt.Sprint(i+1)), "")
		}
		s.AnswerCallback(message(work, "1"), "")
		synctest.Wait()
		if d := time.Since(began); d != 0 {
			t.Errorf("the caller waited %v", d)
		}
		if got := fast.recorded(); len(got) != 1 {
			t.Errorf("the other account got %q", got)
		}
		time.Sleep(11 * time.Second)
		synctest.Wait()
		if got := slow.recorded(); len(got) != 64 || got[0] != `answer 1 ""` || got[63] != `answer 64 ""` {
			t.Errorf("%d calls: %q", len(got), got)
		}
	})
}

// During shutdown buttons are still answered and outages announced, but no reaction is set.
func TestShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := fullPlatform{&platform{delay: time.Second}}
		s := accounts.New(accounts.Options{Log: zap.NewNop()})
		s.Add(telegram, p)
		ctx, cancel := context.WithCancel(t.Context())
		s.Start(ctx)
		cancel()
		synctest.Wait()
		s.React(message(telegram, "1"), chat.ReactionSeen)
		s.AnswerCallback(message(telegram, "2"), "")
		time.Sleep(2 * time.Second)
		s.SendOutageNotice(chat.Outbound{ID: "3", To: addressOn(telegram)})
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if d := cmp.Diff([]string{`answer 2 ""`, "send 3"}, p.recorded()); d != "" {
			t.Error(d)
		}
		s.AnswerCallback(message(telegram, "4"), "")
		synctest.Wait()
		s.Close() // ends the running call
		if got := p.recorded(); len(got) != 2 {
			t.Errorf("after Close: %q", got)
		}
	})
}

// The console and clients that fetch answers get the error of the store at once.
func TestOutageNoticeOnlyByMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := accounts.New(accounts.Options{Log: zap.NewNop(), Profiles: profiles()})
		notified := map[chat.Account]*platform{telegram: {}, console: {}, api: {}}
		for account, p := range notified {
			s.Add(account, p)
		}
		s.Start(t.Context())
		defer s.Close()
		for account := range notified {
			s.SendOutageNotice(chat.Outbound{ID: "1", To: addressOn(account)})
		}
		s.SendOutageNotice(chat.Outbound{ID: "1", To: addressOn(work)}) // not connected
		synctest.Wait()
		for account, p := range notified {
			if got := len(p.recorded()); got != map[bool]int{true: 1}[account == telegram] {
				t.Errorf("%v: %d notices", account, got)
			}
		}
	})
}
