package memory_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"hermesd/agent/memory/provider"
	"hermesd/gateway/memory"
	"hermesd/gateway/session"
)

func TestTurnsAreToldInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.sync = func(ctx context.Context, _ provider.Event) (provider.Receipt, error) {
			return provider.Receipt{}, pause(ctx, time.Second)
		}
		b := open(t, f, newQueue(), settings())
		for i := range 3 {
			for _, id := range []session.ID{"a", "b", "c"} {
				b.say(id, fmt.Sprint(id, i))
			}
		}
		later(5 * time.Second)
		if want := []string{"a0", "b0", "a1", "b1", "a2", "b2", "c0", "c1", "c2"}; len(f.texts()) != 9 || !slices.Equal(sorted(f.texts()), sorted(want)) || f.most != 2 {
			t.Errorf("%q are told, %d at the same time", f.texts(), f.most)
		}
		for _, id := range []string{"a", "b", "c"} {
			if own := slices.DeleteFunc(f.texts(), func(s string) bool { return !strings.HasPrefix(s, id) }); !slices.IsSorted(own) {
				t.Errorf("out of order: %q", own)
			}
		}
		e := f.got().told[0]
		if e.Kind != provider.Turn || len(e.Messages) != 2 || e.Messages[1] != (provider.Message{Role: "assistant", Text: "yes: " + e.Messages[0].Text, At: e.At}) || !strings.HasPrefix(e.Messages[0].Text, e.Scope.Session) || e.Scope.Person != "" || len(e.Key) != 36 {
			t.Errorf("%+v", e)
		}
		if st := b.Status(); st.Queue.Waiting != 3 || st.Sync.LastOK.IsZero() {
			t.Errorf("the ends wait: %+v", st)
		}
	})
}

func sorted(list []string) []string { return slices.Sorted(slices.Values(list)) }

// The end of a conversation is told 30 minutes after its last turn, or when it ends.
func TestEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, q := newFake(), newQueue()
		b := open(t, f, q, settings())
		b.say("s", "one")
		later(20 * time.Minute)
		b.say("s", "two")
		later(29 * time.Minute)
		if want := []string{"one", "two"}; !slices.Equal(f.texts(), want) {
			t.Errorf("%q", f.texts())
		}
		b.Reload()
		if later(0); len(f.got().told) != 2 {
			t.Errorf("a reload ends it: %q", f.texts())
		}
		later(time.Minute)
		if want := []string{"one", "two", "end"}; !slices.Equal(f.texts(), want) {
			t.Errorf("%q", f.texts())
		}
		b.say("s", "three")
		b.commit(b.EndEvents(owner("s", 3, "")))
		later(0)
		if want := []string{"one", "two", "end", "three", "end"}; !slices.Equal(f.texts(), want) || f.got().told[2].Key == f.got().told[4].Key {
			t.Errorf("%q", f.texts())
		}
		if len(q.all()) != 0 || b.EndEvents(owner("empty", 0, "")) != nil {
			t.Errorf("%+v are left", q.all())
		}
	})
}

func TestQueueSleepsWhenItIsEmpty(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, q := newFake(), newQueue()
		b := open(t, f, q, settings())
		b.say("s", "one")
		b.commit(b.EndEvents(owner("s", 1, "")))
		later(time.Second)
		before := q.count(&q.reads)
		later(10 * time.Minute)
		if q.count(&q.reads) != before || len(q.all()) != 0 {
			t.Errorf("%d reads in 10 minutes", q.count(&q.reads)-before)
		}
	})
}

// A failed event is told again after pauses that grow; that of the provider wins.
func TestPausesAfterFailures(t *testing.T) {
	down := &provider.Error{Class: provider.Down, Text: "connection refused"}
	for name, c := range map[string]struct {
		errs []error
		want []time.Duration // between the calls
		says string
	}{
		"down":        {[]error{down, down, down, down}, []time.Duration{5 * time.Second, 15 * time.Second, time.Minute, 5 * time.Minute}, "does not answer: connection refused. I go on without it; what you say is kept for later."},
		"no class":    {[]error{errors.New("odd")}, []time.Duration{5 * time.Second}, "odd"},
		"limit":       {[]error{&provider.Error{Class: provider.Limit, Text: "slow down", RetryAfter: 42 * time.Second}}, []time.Duration{42 * time.Second}, "slow down"},
		"long limit":  {[]error{&provider.Error{Class: provider.Limit, Text: "slow down", RetryAfter: 5 * time.Hour}}, []time.Duration{time.Hour}, "slow down"},
		"auth":        {[]error{&provider.Error{Class: provider.Auth, Status: 401, Text: "the key is refused"}}, []time.Duration{15 * time.Minute}, "the key is refused (HTTP 401)"},
		"refused":     {[]error{&provider.Error{Class: provider.Refused, Text: "no"}, &provider.Error{Class: provider.Refused, Text: "no"}}, []time.Duration{5 * time.Second, 15 * time.Second}, ""},
		"not its API": {[]error{&provider.Error{Class: provider.Garbage, Text: "HTML", Sent: true}}, []time.Duration{5 * time.Second}, "HTML"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake()
				f.sync = func(context.Context, provider.Event) (r provider.Receipt, err error) {
					f.mu.Lock()
					defer f.mu.Unlock()
					if n := len(f.told); n <= len(c.errs) {
						err = c.errs[n-1]
					}
					return r, err
				}
				b := open(t, f, newQueue(), settings())
				b.say("s", "one")
				later(2 * time.Hour)
				if len(f.texts()) != len(c.errs)+2 { // and the end
					t.Fatalf("told %q at %v", f.texts(), f.got().at)
				}
				for i, want := range c.want {
					got := f.got().at[i+1] - f.got().at[i]
					jitter := want / 5
					if c.says == "slow down" || name == "auth" {
						jitter = 0
					}
					if got < want-jitter || got > want+jitter {
						t.Errorf("pause %d is %v, want %v", i, got, want)
					}
				}
				if st := b.Status(); !st.Up || st.Queue.Waiting+st.Queue.Aside != 0 {
					t.Errorf("%+v", st)
				}
				if c.says == "" && len(b.told()) != 0 || c.says != "" && (len(b.told()) != 1 || !strings.Contains(b.told()[0], c.says)) {
					t.Errorf("notices %q", b.told())
				}
			})
		})
	}
}

// What the provider refuses three times is set aside, and what comes after it is told.
func TestRefusedEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, q := newFake(), newQueue()
		refuse := true
		f.sync = func(_ context.Context, e provider.Event) (provider.Receipt, error) {
			if refuse && len(e.Messages) > 0 && e.Messages[0].Text == "bad" {
				return provider.Receipt{}, &provider.Error{Class: provider.Refused, Status: 422, Text: "not allowed"}
			}
			return provider.Receipt{}, nil
		}
		b := open(t, f, q, settings())
		b.say("s", "bad")
		b.say("s", "good")
		later(time.Minute)
		if want := []string{"bad", "bad", "bad", "good"}; !slices.Equal(f.texts(), want) {
			t.Errorf("%q", f.texts())
		}
		if st := b.Status(); st.Queue.Aside != 1 || !st.Up || st.Breaker != "closed" || q.all()[0].Aside != "not allowed (HTTP 422)" {
			t.Errorf("%+v, %+v", st, q.all())
		}
		if want := []string{"Long-term memory (Fake) does not take something: not allowed (HTTP 422). It is set aside; `hermesd memory queue` shows it."}; !slices.Equal(b.told(), want) {
			t.Errorf("notices %q", b.told())
		}
		refuse = false
		b.Reload()
		later(0)
		if st := b.Status(); st.Queue.Aside != 0 || f.texts()[4] != "bad" {
			t.Errorf("%+v", st)
		}
	})
}

// What is too large for one call is told in several, in order and whole.
func TestEventsThatAreTooLargeAreHalved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, most := newFake(), 4000
		var said strings.Builder
		var keys []string
		times := map[time.Time]bool{} // of the user's messages, by call
		f.sync = func(_ context.Context, e provider.Event) (provider.Receipt, error) {
			size := 0
			for _, m := range e.Messages {
				size += len(m.Text)
			}
			if size > most {
				return provider.Receipt{}, &provider.Error{Class: provider.TooLarge, Status: 413, Text: "too large"}
			}
			if e.Kind == provider.Turn {
				keys = append(keys, e.Key)
				if e.Messages[0].Role == "user" && times[e.Messages[0].At] {
					t.Errorf("two calls have messages of %v", e.Messages[0].At)
				}
				times[e.Messages[0].At] = true
			}
			for _, m := range e.Messages {
				said.WriteString(m.Role[:1] + m.Text)
			}
			return provider.Receipt{}, nil
		}
		b := open(t, f, newQueue(), settings())
		question, answer := strings.Repeat("äx", 30000), "short"
		b.commit(b.TurnEvents(owner("s", 1, ""), "k", question, answer, time.Now()))
		later(time.Minute)
		got := strings.NewReplacer("u", "", "a", "").Replace(said.String())
		if got != question+answer {
			t.Errorf("%d of %d bytes were told", len(got), len(question+answer))
		}
		if len(keys) < 2 || len(slices.Compact(slices.Sorted(slices.Values(keys)))) != len(keys) {
			t.Errorf("keys %q", keys)
		}
		if st := b.Status(); st.Queue.Aside != 0 {
			t.Errorf("%+v", st)
		}
		most = -1
		b.say("s", "never")
		later(time.Minute)
		if st := b.Status(); st.Queue.Aside != 1 {
			t.Errorf("%+v", st)
		}
	})
}

// An event that was accepted is done when the provider has processed it.
func TestAcceptedEvents(t *testing.T) {
	for name, c := range map[string]struct {
		answers []any // of Synced
		asked   []time.Duration
		told    int
		aside   bool
	}{
		"processed": {[]any{true}, []time.Duration{2 * time.Second}, 1, false},
		"slow":      {[]any{false, false, false, true}, []time.Duration{2 * time.Second, 12 * time.Second, 72 * time.Second, 372 * time.Second}, 1, false},
		"unknown":   {[]any{provider.ErrUnknown}, []time.Duration{2 * time.Second}, 1, false},
		"failed":    {[]any{provider.ErrFailed, true}, []time.Duration{2 * time.Second, 4 * time.Second}, 2, false},
		"always":    {[]any{provider.ErrFailed, provider.ErrFailed, provider.ErrFailed}, []time.Duration{2 * time.Second, 4 * time.Second, 6 * time.Second}, 3, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake()
				f.sync = func(_ context.Context, e provider.Event) (provider.Receipt, error) {
					return provider.Receipt{ID: "op1", Pending: e.Kind == provider.Turn}, nil
				}
				f.synced = func(_ provider.Event, r provider.Receipt) (bool, error) {
					if r.ID != "op1" {
						t.Errorf("the receipt is %+v", r)
					}
					err, failed := c.answers[len(f.asked)-1].(error)
					return !failed && c.answers[len(f.asked)-1].(bool), err
				}
				b := open(t, f, newQueue(), settings())
				later(time.Nanosecond)
				f.began = time.Now()
				b.say("s", "one")
				later(20 * time.Minute)
				if !slices.Equal(f.got().asked, c.asked) || len(f.got().told) != c.told {
					t.Errorf("asked at %v, told %d times", f.got().asked, len(f.got().told))
				}
				if st := b.Status(); (st.Queue.Aside == 1) != c.aside || !st.Up {
					t.Errorf("%+v", st)
				}
			})
		})
	}
}

// A process that ends between the call and its settlement leaves an event that may have
// arrived: the next one asks first, for the first event of each session.
func TestEndOfTheProcessInACall(t *testing.T) {
	for name, back := range map[string]time.Duration{"": 0, "and the clock is set back": time.Hour} {
		t.Run(name, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { endInACall(t, back) }) })
	}
}

func endInACall(t *testing.T, back time.Duration) {
	f, q, has := newFake(), newQueue(), map[string]int{}
	dies := true
	f.sync = func(ctx context.Context, e provider.Event) (provider.Receipt, error) {
		f.locked(func() { has[e.Key]++ })
		if dies {
			return provider.Receipt{}, pause(ctx, time.Minute) // the answer is lost
		}
		return provider.Receipt{}, nil
	}
	f.synced = func(e provider.Event, _ provider.Receipt) (bool, error) { return has[e.Key] > 0, nil }
	b := open(t, f, q, settings())
	later(time.Nanosecond)
	for i := range 3 {
		b.say("a", fmt.Sprint("a", i))
		b.say("b", fmt.Sprint("b", i))
	}
	later(time.Second)
	b.Close()
	if !f.closed || len(q.all()) != 8 || q.all()[0].Tries != 0 {
		t.Errorf("%+v", q.all())
	}
	dies = false
	for i := range q.rows {
		q.rows[i].Added = q.rows[i].Added.Add(back)
	}
	later(time.Second)
	open(t, f, q, settings())
	later(time.Second)
	for key, n := range has {
		if n != 1 {
			t.Errorf("%s was told %d times", key, n)
		}
	}
	if len(has) != 6 || len(f.got().asked) != 2 || len(q.all()) != 2 {
		t.Errorf("%d events, %d questions, %d are left", len(has), len(f.got().asked), len(q.all()))
	}
}

// After a timeout the provider is asked whether the event has arrived.
func TestLostAnswer(t *testing.T) {
	for name, unknown := range map[string]error{"arrived": nil, "lost": nil, "the provider cannot tell": provider.ErrUnknown} {
		arrived := name == "arrived"
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake()
				f.sync = func(ctx context.Context, e provider.Event) (r provider.Receipt, err error) {
					if len(f.got().at) == 1 {
						err = pause(ctx, time.Hour)
					}
					return r, err
				}
				f.synced = func(provider.Event, provider.Receipt) (bool, error) { return arrived, unknown }
				b := open(t, f, newQueue(), settings())
				later(time.Nanosecond)
				b.say("s", "one")
				later(3 * time.Minute)
				want := []string{"one", "one"}
				if arrived {
					want = want[:1]
				}
				if !slices.Equal(f.texts(), want) || len(f.got().asked) != 1 {
					t.Errorf("told %q, asked %d times", f.texts(), len(f.got().asked))
				}
				if n := b.count("synced", memory.MayRepeat); (n == 1) != (unknown != nil) {
					t.Errorf("%d events were counted that may be repeated", n)
				}
			})
		})
	}
}

// A thousand turns wait for a provider that is down for a day, and are told in order.
func TestLongOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, down := newFake(), true
		f.sync = func(context.Context, provider.Event) (r provider.Receipt, err error) {
			f.mu.Lock()
			defer f.mu.Unlock()
			if down {
				err = &provider.Error{Class: provider.Down, Text: "connection refused"}
			}
			return r, err
		}
		b := open(t, f, newQueue(), settings())
		later(time.Nanosecond)
		for i := range 1000 {
			b.say(session.ID(fmt.Sprint("s", i%50)), fmt.Sprintf("%03d", i))
		}
		later(24 * time.Hour)
		if n := len(f.got().told); n > 1000 {
			t.Errorf("%d calls in a day of the outage", n)
		}
		if len(b.told()) != 1 {
			t.Errorf("notices %q", b.told())
		}
		f.locked(func() { down, f.told = false, nil })
		later(time.Hour)
		of := map[string][]string{}
		for _, e := range f.got().told {
			if e.Kind == provider.Turn {
				of[e.Scope.Session] = append(of[e.Scope.Session], e.Messages[0].Text)
			}
		}
		for id, list := range of {
			if len(list) != 20 || !slices.IsSorted(list) {
				t.Errorf("%s: %q", id, list)
			}
		}
		if st := b.Status(); len(of) != 50 || st.Queue.Waiting != 0 || !st.Up || len(b.told()) != 1 {
			t.Errorf("%d sessions, %+v", len(of), st)
		}
	})
}

// A refused key holds all sessions back for 15 minutes, or until the configuration is
// loaded again, or until a call of another kind succeeds.
func TestRefusedKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		var err error = &provider.Error{Class: provider.Auth, Status: 401, Text: "the key is refused"}
		begun := func() {}
		f.sync = func(context.Context, provider.Event) (provider.Receipt, error) {
			begun()
			f.mu.Lock()
			defer f.mu.Unlock()
			return provider.Receipt{}, err
		}
		b := open(t, f, newQueue(), settings())
		calls := func(want int) {
			t.Helper()
			if later(0); len(f.got().told) != want {
				t.Errorf("%d calls at %v, want %d", len(f.got().told), f.got().at, want)
			}
			f.locked(func() { f.told, f.at = nil, nil })
		}
		synctest.Wait()
		for i := range 20 {
			b.say(session.ID(fmt.Sprint("s", i)), "one")
			synctest.Wait()
		}
		calls(1)
		later(15*time.Minute - time.Second)
		calls(0)
		later(time.Second)
		calls(1)
		var two sync.WaitGroup // as many as may be told at a time; both begin before one fails
		two.Add(2)
		begun = func() { two.Done(); two.Wait() }
		b.Reload()
		calls(2)
		begun = func() {}
		f.locked(func() { err = nil })
		later(3 * time.Minute)
		b.begin(owner("other", 1, question)) // probes
		calls(18)
		later(15 * time.Minute)
		calls(22) // with the ends
	})
}

func TestFullQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, set := newFake(), settings()
		set.QueueMax = 4
		f.sync = func(context.Context, provider.Event) (provider.Receipt, error) {
			return provider.Receipt{}, &provider.Error{Class: provider.Auth, Text: "the key is refused"}
		}
		b := open(t, f, newQueue(), set)
		for _, text := range []string{"one", "two", "three", "four", "five"} {
			b.say("s", text)
			later(time.Second)
		}
		if st := b.Status(); st.Queue.Waiting != 4 || len(b.told()) != 2 || !strings.Contains(b.told()[1], "no more is kept for it") {
			t.Errorf("%+v, %q", st, b.told())
		}
		if _, err := b.store.DropEvents(t.Context(), memory.Queue, 1); err != nil {
			t.Fatal(err)
		}
		for _, text := range []string{"there is room", "full again"} {
			b.say("s", text)
		}
		if len(b.told()) != 2 {
			t.Errorf("the same was told again: %q", b.told())
		}
		f.sync = nil
		b.Reload()
		later(time.Hour)
		b.store.bytes = 64 << 20
		if b.TurnEvents(owner("s", 1, ""), "k", "x", "y", time.Now()) != nil {
			t.Error("64 MiB are no limit")
		}
		b.store.bytes = 0
		b.say("s", "six")
		later(0)
		if got := f.texts(); got[len(got)-1] != "six" {
			t.Errorf("%q", got)
		}
	})
}

func TestEventsOfAnotherProviderAreSetAside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, other, q := newFake(), newFake(), newQueue()
		b := open(t, f, q, settings())
		events := b.TurnEvents(owner("s", 1, ""), "k", "question", "answer", time.Now())
		b.Close()
		events[1].Doc = json.RawMessage(`{"event":7}`)
		events[1].Due = time.Time{}
		other.about.Name = "other"
		open(t, other, q, settings()).commit(events)
		later(0)
		if len(other.got().told) != 0 || q.all()[0].Aside != "it is for the provider fake" || !strings.HasPrefix(q.all()[1].Aside, "it cannot be read: json: ") {
			t.Errorf("%+v", q.all())
		}
	})
}

// Errors of the store stop nothing for good.
func TestErrorsOfTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, q := newFake(), newQueue()
		f.synced = func(provider.Event, provider.Receipt) (bool, error) { return len(f.told) > 0, nil }
		b := open(t, f, q, settings())
		later(time.Nanosecond)
		q.fail = errors.New("disk full")
		b.say("s", "one")
		later(time.Minute)
		q.mu.Lock()
		q.fail = nil
		q.mu.Unlock()
		later(time.Minute)
		if len(q.all()) != 1 || len(f.got().told) != 1 || len(f.got().asked) > 10 {
			t.Errorf("told %q, asked %d times, %d are left", f.texts(), len(f.got().asked), len(q.all()))
		}
	})
}

func TestSecondStartDoesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, q := newFake(), newQueue()
		b := open(t, f, q, settings())
		b.Start(t.Context())
		later(0)
		b.say("s", "one")
		later(0)
		if n := b.count("check", "ok"); n != 1 || !slices.Equal(f.texts(), []string{"one"}) {
			t.Errorf("%d checks, told %q", n, f.texts())
		}
	})
}

// Close does not wait for a provider that ignores its context.
func TestCloseEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.sync = func(context.Context, provider.Event) (provider.Receipt, error) {
			time.Sleep(time.Minute)
			return provider.Receipt{}, nil
		}
		b := open(t, f, newQueue(), settings())
		b.say("s", "one")
		later(time.Second)
		began := time.Now()
		b.Close()
		if took := time.Since(began); took != 5*time.Second {
			t.Errorf("it takes %v", took)
		}
		b.Close()
		if r := b.Recall(owner("s", 0, question)); r.Await(t.Context()) != "" {
			t.Error("a closed service recalls")
		}
		later(time.Minute)
	})
}

func TestOff(t *testing.T) {
	s := memory.Off()
	s.Start(t.Context())
	s.Wake()
	s.Reload()
	turn := owner("s", 0, question)
	if n := testing.AllocsPerRun(10, func() {
		if s.Recall(turn).Await(t.Context()) != "" || s.TurnEvents(turn, "k", "q", "a", time.Time{}) != nil || s.EndEvents(turn) != nil || s.Tools() != nil {
			t.Error("it does something")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if text, _ := s.Static(t.Context(), turn); text != "" || s.Mirror(t.Context(), turn, nil) != nil || s.ForgetEvents(provider.Scope{}) != nil || s.CheckpointEvents(turn, "k", nil) != nil || s.Status().Provider != "" || s.Allows(turn) {
		t.Error("it does something")
	}
	if _, err := s.Call(t.Context(), turn, "memory_recall", nil); err == nil {
		t.Error("it has tools")
	}
	s.Close()
}
