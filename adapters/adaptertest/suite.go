package adaptertest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"hermesd/gateway/chat"
)

// Suite runs every test that an adapter must pass.
func Suite(t *testing.T, p Platform) {
	t.Run("Profile", func(t *testing.T) { CheckProfile(t, p) })
	for _, c := range []struct {
		name string
		test func(*stage)
	}{
		{"ConnectsAndProvesIt", (*stage).connects},
		{"WrongCredentialsAreTheOperators", (*stage).wrongCredentials},
		{"EachEventIsTakenOnce", (*stage).redelivery},
		{"OrderIsKeptWithinAChat", (*stage).order},
		{"CutConnectionsLoseNothing", (*stage).cuts},
		{"ARestartLosesNothing", (*stage).restart},
		{"NothingIsConfirmedThatIsNotStored", (*stage).refusedStore},
		{"ASinkThatPanicsIsARefusal", (*stage).panickingStore},
		{"ABlackHoleIsNoticed", (*stage).blackHole},
		{"TwoAccountsStayApart", (*stage).accounts},
		{"SendsSayWhatTheyKnow", (*stage).outcomes},
		{"SizeIsThePlatforms", (*stage).size},
		{"EditsAndDeletes", (*stage).edits},
		{"Mentions", (*stage).mentions},
		{"SessionKeys", (*stage).keys},
		{"Files", (*stage).files},
		{"DeliveryIsWhatIsPromised", (*stage).delivery},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { c.test(&stage{T: t, p: p, w: p.New(t)}) })
		})
	}
}

// CheckProfile checks the profile of a platform.
func CheckProfile(t *testing.T, p Platform) {
	v := p.Profile
	if v.Platform == "" || v.Name == "" || v.KindOf == nil || v.Person.Valid == nil || v.Person.Is == "" || strings.TrimSpace(v.Hint) == "" || v.OwnerRule != "" && v.Pairing {
		t.Errorf("profile %+v", v)
	}
	if strings.Contains(v.Note+v.Source, "\n") {
		t.Errorf("note %q and source %q are not one line each", v.Note, v.Source)
	}
	for _, c := range v.Secrets {
		if c.Key == "" || c.Env == "" || c.Is == "" || c.Title == "" || c.Check == nil || c.Check("no secret") == nil || v.Steps == "" || v.Endpoint == "" {
			t.Errorf("secret %+v", c)
		}
	}
	if len(v.Secrets) > 0 && (v.Secrets[0].Key != "token" || v.Try == nil) {
		t.Errorf("%s: the first secret has the key %q, which must be token, since it switches an account on; or it cannot be tried", v.Name, v.Secrets[0].Key)
	}
	for _, id := range p.People {
		if !v.Person.Valid(id) {
			t.Errorf("%q is no ID of a person", id)
		}
	}
	for _, id := range append(p.Strangers, "", " ", "a b") {
		if v.Person.Valid(id) {
			t.Errorf("%q is an ID of a person", id)
		}
	}
	for id, want := range p.Kinds {
		if got := v.KindOf(id); got != want {
			t.Errorf("%s is the ID of a %s, want %s", id, got, want)
		}
	}
}

// A stage is one running test.
type stage struct {
	*testing.T
	p Platform
	w Simulator
}

// A run is a running adapter with its own inbox.
type run struct {
	s     *stage
	a     chat.Adapter
	inbox *Inbox
	stop  context.CancelFunc
	ended chan error
}

// start runs an adapter and waits until it is connected.
func (s *stage) start(account string) *run {
	s.Helper()
	return s.into(account, NewInbox(s.T))
}

func (s *stage) into(account string, b *Inbox) *run {
	s.Helper()
	r := s.launch(s.w.Connect(account), b)
	s.until(r.a, chat.Connected, s.p.Period)
	r.inbox = b
	return r
}

// launch runs a with sink. The test's cleanup stops it.
func (s *stage) launch(a chat.Adapter, sink chat.Sink) *run {
	ctx, stop := context.WithCancel(context.Background())
	r := &run{s: s, a: a, stop: stop, ended: make(chan error, 1)}
	go func() { r.ended <- a.Run(ctx, sink) }() // end receives it
	s.Cleanup(func() { r.end() })
	return r
}

// end stops the adapter within its time limit, and returns the result of Run.
func (r *run) end() error {
	r.stop()
	select {
	case err := <-r.ended:
		r.ended <- err
		return err
	case <-time.After(max(r.s.p.Stop, time.Second)):
		r.s.Error("Run does not end with its context")
		return <-r.ended
	}
}

// pass advances the time by d.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// until advances the time until a is in the state want, at most by d.
func (s *stage) until(a chat.Adapter, want chat.State, d time.Duration) {
	s.Helper()
	for end := time.Now().Add(d); ; pass(100 * time.Millisecond) {
		synctest.Wait()
		if a.Health().State == want {
			return
		}
		if time.Now().After(end) {
			s.Fatalf("after %v the adapter is not %s but %+v", d, want, a.Health())
		}
	}
}

// arrived advances the time until ok returns true, at most by d.
func (s *stage) arrived(what string, d time.Duration, ok func() bool) {
	s.Helper()
	for end := time.Now().Add(d); ; pass(100 * time.Millisecond) {
		synctest.Wait()
		if ok() {
			return
		}
		if time.Now().After(end) {
			s.Fatalf("after %v: %s", d, what)
		}
	}
}

// keepsSecret reports a credential in a text that users can read.
func (s *stage) keepsSecret(what string, text any) {
	s.Helper()
	if strings.Contains(fmt.Sprintf("%v %+v", text, text), s.w.Secret()) {
		s.Errorf("%s shows a credential: %v", what, text)
	}
}

func (s *stage) connects() {
	r := s.start("")
	h := r.a.Health()
	if h.LastContact.IsZero() || h.Since.IsZero() || h.Error != "" {
		s.Errorf("connected without proof: %+v", h)
	}
	for range 3 { // without messages there must still be signs of life
		pass(s.p.Period * 3 / 2)
		if age := time.Since(r.a.Health().LastContact); age > 2*s.p.Period {
			s.Errorf("the last proof is %v old", age)
		}
	}
	f := r.a.Capabilities()
	if f.MaxTextSize <= 0 || f.TextSize == nil {
		s.Errorf("features: %+v", f)
	}
	if err := r.end(); err != nil {
		s.Errorf("Run ended with %v", err)
	}
}

func (s *stage) wrongCredentials() {
	r := s.launch(s.w.Wrong(), NewInbox(s.T))
	select {
	case err := <-r.ended:
		r.ended <- err
		var ce *chat.ConfigError
		if !errors.As(err, &ce) || strings.Contains(ce.Reason, "\n") || ce.Reason == "" {
			s.Errorf("Run ended with %v", err)
		}
		s.keepsSecret("the error", err)
	case <-time.After(time.Minute):
		s.Fatal("Run goes on with wrong credentials")
	}
	if h := r.a.Health(); h.State != chat.Failed || h.Error == "" {
		s.Errorf("health %+v", h)
	}
}

func (s *stage) redelivery() {
	r, room := s.start(""), s.w.Direct("", 0)
	var want []string
	for i := range 5 {
		want = append(want, fmt.Sprintf("message %d", i))
		room.Say(want[i])
	}
	s.arrived("messages are missing", s.p.Period, func() bool { return len(r.inbox.Texts(room.At())) == 5 })
	for i := range 5 {
		before := r.inbox.Offered()
		s.w.Redeliver("")
		s.arrived("nothing was delivered again", 2*s.p.Period, func() bool { return r.inbox.Offered() > before })
		pass(s.p.Period)
		if got := r.inbox.Texts(room.At()); !slices.Equal(got, want) {
			s.Fatalf("after delivery %d: %q, want %q", i+2, got, want)
		}
	}
}

func (s *stage) order() {
	r := s.start("")
	rooms := []TestChat{s.w.Direct("", 0), s.w.Direct("", 1), s.w.Group("", 0)}
	want := make([][]string, len(rooms))
	for i := range 40 {
		for j, room := range rooms {
			text := fmt.Sprintf("%d in %d", i, j)
			want[j] = append(want[j], text)
			room.Say(text)
		}
		if i%7 == 0 {
			pass(time.Second / 3)
		}
	}
	for j, room := range rooms {
		s.arrived("messages are missing", s.p.Period, func() bool { return len(r.inbox.Texts(room.At())) == 40 })
		if got := r.inbox.Texts(room.At()); !slices.Equal(got, want[j]) {
			s.Errorf("room %d: %q", j, got)
		}
	}
}
