package adaptertest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"hermesd/gateway/chat"
)

// cuts breaks connections at chosen moments while users write messages.
func (s *stage) cuts() {
	r, room := s.start(""), s.w.Direct("", 0)
	rng := rand.New(rand.NewPCG(1, 2))
	var want []string
	for i := range 30 {
		want = append(want, fmt.Sprintf("message %d", i))
		if rng.IntN(3) == 0 {
			s.w.Cut()
		}
		room.Say(want[i])
		if rng.IntN(3) == 0 {
			s.w.Cut()
		}
		pass(time.Duration(rng.Int64N(int64(2 * time.Second))))
	}
	s.arrived("messages are missing", 5*time.Minute, func() bool { return len(r.inbox.Texts(room.At())) >= len(want) })
	if got := r.inbox.Texts(room.At()); !slices.Equal(got, want) {
		s.Errorf("got %q\nwant %q", got, want)
	}
	s.until(r.a, chat.Connected, 5*time.Minute)
	s.keepsSecret("Health", r.a.Health())
}

// restart stops and starts the adapter several times; messages sent meanwhile
// must not be lost.
func (s *stage) restart() {
	inbox, room := NewInbox(s.T), s.w.Direct("", 0)
	var want []string
	say := func(n int) {
		for range n {
			want = append(want, fmt.Sprintf("message %d", len(want)))
			room.Say(want[len(want)-1])
		}
	}
	for range 4 {
		r := s.into("", inbox)
		say(2)
		pass(time.Second)
		say(1)
		if err := r.end(); err != nil {
			s.Fatal(err)
		}
		say(1)
		pass(time.Hour)
	}
	s.into("", inbox)
	s.arrived("messages are missing", 2*s.p.Period, func() bool { return len(inbox.Texts(room.At())) >= len(want) })
	if got := inbox.Texts(room.At()); !slices.Equal(got, want) {
		s.Errorf("got %q\nwant %q", got, want)
	}
}

// refusedStore checks that nothing is confirmed while nothing can be stored, and
// that all messages arrive afterwards.
func (s *stage) refusedStore() {
	r, room := s.start(""), s.w.Direct("", 0)
	pass(s.p.Period)
	r.inbox.Fail(true)
	before := s.w.Confirmed("")
	want := []string{"one", "two", "three"}
	for _, text := range want {
		room.Say(text)
		pass(s.p.Period)
	}
	if r.inbox.Refused() == 0 {
		s.Fatal("nothing was offered")
	}
	if n := s.w.Confirmed(""); n != before {
		s.Errorf("%d events were confirmed although none was stored", n-before)
	}
	if h := r.a.Health(); h.State == chat.Connected && h.Error == "" {
		s.Errorf("health says nothing of it: %+v", h)
	}
	r.inbox.Fail(false)
	s.arrived("the messages are missing", 5*time.Minute, func() bool { return len(r.inbox.Texts(room.At())) >= len(want) })
	if got := r.inbox.Texts(room.At()); !slices.Equal(got, want) {
		s.Errorf("got %q", got)
	}
	s.arrived("nothing is confirmed", 5*time.Minute, func() bool { return s.w.Confirmed("") >= before+len(want) })
}

// A panicking sink panics on its first non-empty batches.
type panicking struct {
	*Inbox
	left int
}

func (p *panicking) Accept(ctx context.Context, batch []chat.Inbound) error {
	if len(batch) > 0 && p.left > 0 {
		p.left--
		panic("accept")
	}
	return p.Inbox.Accept(ctx, batch)
}

func (s *stage) panickingStore() {
	inbox, room := NewInbox(s.T), s.w.Direct("", 0)
	r := s.launch(s.w.Connect(""), &panicking{Inbox: inbox, left: 2})
	s.until(r.a, chat.Connected, s.p.Period)
	room.Say("hello")
	s.arrived("the message is missing", 5*time.Minute, func() bool { return len(inbox.Texts(room.At())) == 1 })
}

// blackHole checks that a connection that carries nothing is detected within two
// periods and replaced.
func (s *stage) blackHole() {
	r, room := s.start(""), s.w.Direct("", 0)
	for i := range 3 {
		pass(s.p.Period / 3)
		s.w.Swallow()
		begin := time.Now()
		text := fmt.Sprintf("into the hole %d", i)
		room.Say(text)
		s.arrived("the message is missing", 2*s.p.Period+5*time.Second, func() bool {
			return slices.Contains(r.inbox.Texts(room.At()), text)
		})
		s.Logf("noticed after %v", time.Since(begin))
		s.until(r.a, chat.Connected, s.p.Period)
	}
}

// accounts runs two accounts of one platform in one process.
func (s *stage) accounts() {
	one, two := s.start(""), s.start("second")
	here, there := s.w.Direct("", 0), s.w.Direct("second", 0)
	here.Say("to the first")
	there.Say("to the second")
	s.arrived("messages are missing", s.p.Period, func() bool {
		return len(one.inbox.Texts(here.At())) == 1 && len(two.inbox.Texts(there.At())) == 1
	})
	if here.At().Account == there.At().Account {
		s.Error("the account is not part of the address")
	}
	if n, m := one.inbox.Texts(there.At()), two.inbox.Texts(here.At()); n != nil || m != nil {
		s.Errorf("they hear each other: %q, %q", n, m)
	}
	for r, room := range map[*run]TestChat{one: here, two: there} {
		if _, err := r.a.Send(s.Context(), chat.Outbound{ID: "o1", To: room.At(), Text: chat.PlainText("I am <" + room.At().Account + ">")}); err != nil {
			s.Error(err)
		}
		if got := room.Visible(); len(got) != 1 || got[0] != "I am <"+room.At().Account+">" {
			s.Errorf("visible to %q: %q", room.At().Account, got)
		}
	}
	if err := one.end(); err != nil { // one stops, the other continues
		s.Error(err)
	}
	there.Say("still there?")
	s.arrived("the message is missing", s.p.Period, func() bool { return len(two.inbox.Texts(there.At())) == 2 })
}
