package retry_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"hermesd/agent/llm"
	"hermesd/agent/llm/llmtest"
	"hermesd/agent/llm/retry"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func request() *llm.Request {
	return &llm.Request{Model: "asked", Transcript: llm.NewTranscript(llm.UserText("hi"))}
}

func fail(class llm.Class, after time.Duration) llmtest.Answer {
	return llmtest.Answer{Text: "half an ans", Err: &llm.Error{Class: class, Provider: "x", After: after}}
}

func named(name string, answers ...llmtest.Answer) *llmtest.Scripted {
	s := llmtest.NewScripted(answers...)
	s.ProviderName = name
	return s
}

// told abbreviates notices: r2@4s is the second retry after four seconds, >b/two a
// fallback.
func told(notices []llm.Notice) string {
	var s []string
	for _, n := range notices {
		if n.Fallback != "" {
			s = append(s, ">"+n.Fallback)
			continue
		}
		s = append(s, fmt.Sprintf("r%d@%v", n.Retry, n.After))
	}
	return strings.Join(s, " ")
}

func repeat(a llmtest.Answer, n int) []llmtest.Answer {
	var all []llmtest.Answer
	for range n {
		all = append(all, a)
	}
	return all
}

// TestRetriesAndFallbacks checks the waits and fallbacks that follow the answers of two targets, and the
// time they take. Chance is 0 here, so there is no jitter.
func TestRetriesAndFallbacks(t *testing.T) {
	ok, say := llmtest.Say("fine"), func(as ...llmtest.Answer) []llmtest.Answer { return as }
	for _, c := range []struct {
		name   string
		a, b   []llmtest.Answer // b nil: there is no second target
		want   string
		answer string // "a/one", "b/two" or the class of the error
		took   time.Duration
	}{
		{"at once", say(ok), nil, "", "a/one", 0},
		{"one failure", say(fail(llm.Server, 0), ok), nil, "r1@2s", "a/one", 2 * time.Second},
		{"waits double", say(fail(llm.Server, 0), fail(llm.Network, 0), fail(llm.InvalidResponse, 0), ok), nil, "r1@2s r2@4s r3@8s", "a/one", 14 * time.Second},
		{"three retries and no more", repeat(fail(llm.Unknown, 0), 5), nil, "r1@2s r2@4s r3@8s", "unknown", 14 * time.Second},
		{"a hint is kept to the letter", say(fail(llm.RateLimit, 77*time.Second), ok), nil, "r1@1m17s", "a/one", 77 * time.Second},
		{"a short hint too", say(fail(llm.Overloaded, time.Millisecond), ok), nil, "r1@1ms", "a/one", time.Millisecond},
		{"a hint at the limit", say(fail(llm.RateLimit, 600*time.Second), ok), nil, "r1@10m0s", "a/one", 600 * time.Second},
		{"a hint beyond it", say(fail(llm.RateLimit, 601*time.Second), ok), nil, "", "rate_limit", 0},
		{"a hint beyond it, with another target", say(fail(llm.Server, time.Hour), ok), say(ok), ">b/two", "b/two", 0},
		{"a cut stream", say(llmtest.Answer{Text: "half", Cut: true}, ok), nil, "r1@2s", "a/one", 2 * time.Second},
		{"a rate limit falls back at once", say(fail(llm.RateLimit, time.Second)), say(ok), ">b/two", "b/two", 0},
		{"overload falls back from the second retry", say(fail(llm.Overloaded, 0), fail(llm.Overloaded, 0)), say(ok), "r1@2s >b/two", "b/two", 2 * time.Second},
		{"a timeout too", say(fail(llm.Timeout, 0), fail(llm.Timeout, 0)), say(ok), "r1@2s >b/two", "b/two", 2 * time.Second},
		{"a key falls back without a retry", say(fail(llm.Auth, 0)), say(ok), ">b/two", "b/two", 0},
		{"no money falls back", say(fail(llm.Billing, 0)), say(ok), ">b/two", "b/two", 0},
		{"no model falls back", say(fail(llm.NotFound, 0)), say(ok), ">b/two", "b/two", 0},
		{"a malformed request falls back", say(fail(llm.Format, 0)), say(ok), ">b/two", "b/two", 0},
		{"the last target is retried in full", say(fail(llm.Auth, 0)), append(repeat(fail(llm.Overloaded, 0), 3), ok), ">b/two r1@2s r2@4s r3@8s", "b/two", 14 * time.Second},
		{"a failure falls back after the last retry", repeat(fail(llm.Server, 0), 4), say(ok), "r1@2s r2@4s r3@8s >b/two", "b/two", 14 * time.Second},
		{"nobody answers: the first error is told", say(fail(llm.Auth, 0)), say(fail(llm.NotFound, 0)), ">b/two", "auth", 0},
		{"a key alone", say(fail(llm.Auth, 0), ok), nil, "", "auth", 0},
		{"too long", say(fail(llm.ContextOverflow, 0)), say(ok), "", "context_overflow", 0},
		{"too large", say(fail(llm.TooLarge, 0)), say(ok), "", "payload_too_large", 0},
		{"picture too large", say(fail(llm.ImageTooLarge, 0)), say(ok), "", "image_too_large", 0},
		{"thinking that does not fit", say(fail(llm.PrefixCheck, 0)), say(ok), "", "thinking_prefix", 0},
		{"refused for its content", say(fail(llm.ContentPolicy, 0)), say(ok), "", "policy", 0},
		{"a refusal is an answer", say(llmtest.Answer{Stop: llm.Refusal}), say(ok), "", "a/one", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				targets := []retry.Target{{Provider: named("a", c.a...), Model: "one"}}
				if c.b != nil {
					targets = append(targets, retry.Target{Provider: named("b", c.b...), Model: "two"})
				}
				p := retry.New(targets, retry.Options{Chance: func() float64 { return 0 }})
				start := time.Now()
				got := llmtest.Collect(p.Stream(t.Context(), request()))
				if d := cmp.Diff(c.want, told(got.Notices)); d != "" {
					t.Error(d)
				}
				if took := time.Since(start); took != c.took {
					t.Errorf("took %v, want %v", took, c.took)
				}
				answer := ""
				if got.Done != nil {
					answer = got.Done.Provider + "/" + got.Done.Model
				} else if e, ok := errors.AsType[*llm.Error](got.Err); ok {
					answer = string(e.Class)
				}
				if answer != c.answer {
					t.Errorf("got %q (%v), want %q", answer, got.Err, c.answer)
				}
			})
		})
	}
}

func TestNoticeVoidsStreamedText(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := named("a", fail(llm.Network, 0), llmtest.Say("the whole answer"))
		got := llmtest.Collect(retry.New([]retry.Target{{Provider: s}}, retry.Options{}).Stream(t.Context(), request()))
		if got.Text != "the whole answer" || len(s.Requests()) != 2 {
			t.Errorf("got %q after %d requests", got.Text, len(s.Requests()))
		}
		if m := s.Requests()[1].Model; m != "asked" {
			t.Errorf("a target without a model asked for %q", m)
		}
	})
}

func TestJitterIsAtMostHalf(t *testing.T) {
	for chance, want := range map[float64]time.Duration{0: 2 * time.Second, 0.5: 2500 * time.Millisecond, 0.999: 2999 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			s := named("a", fail(llm.Server, 0), llmtest.Say("x"))
			p := retry.New([]retry.Target{{Provider: s}}, retry.Options{Chance: func() float64 { return chance }})
			start := time.Now()
			llmtest.Collect(p.Stream(t.Context(), request()))
			if got := time.Since(start); got != want {
				t.Errorf("chance %v: waited %v, want %v", chance, got, want)
			}
		})
	}
}

func TestBackoffIsAtMostOneMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := retry.New([]retry.Target{{Provider: named("a", repeat(fail(llm.Server, 0), 8)...)}},
			retry.Options{Retries: 7, Chance: func() float64 { return 0 }})
		got := llmtest.Collect(p.Stream(t.Context(), request()))
		if d := cmp.Diff("r1@2s r2@4s r3@8s r4@16s r5@32s r6@1m0s r7@1m0s", told(got.Notices)); d != "" {
			t.Error(d)
		}
	})
}

func TestTotalTimeEndsRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := retry.New([]retry.Target{{Provider: named("a", repeat(fail(llm.Server, 0), 8)...)}},
			retry.Options{Retries: 7, Total: 7 * time.Second, Chance: func() float64 { return 0 }})
		got := llmtest.Collect(p.Stream(t.Context(), request()))
		if told(got.Notices) != "r1@2s r2@4s" || got.Err == nil {
			t.Errorf("got %s, %v", told(got.Notices), got.Err)
		}
	})
}

func TestCancelInterruptsBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := retry.New([]retry.Target{{Provider: named("a", fail(llm.RateLimit, 9*time.Minute), llmtest.Say("x"))}}, retry.Options{})
		why := errors.New("the person said stop")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(why) })
		start := time.Now()
		got := llmtest.Collect(p.Stream(ctx, request()))
		if !errors.Is(got.Err, why) || time.Since(start) != time.Second {
			t.Errorf("got %v after %v", got.Err, time.Since(start))
		}
	})
}

func TestNoticeReaderMayStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := named("a", fail(llm.Server, 0), llmtest.Say("x"))
		p := retry.New([]retry.Target{{Provider: s}}, retry.Options{})
		start := time.Now()
		for e := range p.Stream(t.Context(), request()) {
			if _, ok := e.(llm.Notice); ok {
				break
			}
		}
		if time.Since(start) != 0 || len(s.Requests()) != 1 {
			t.Errorf("went on for %v, %d requests", time.Since(start), len(s.Requests()))
		}
	})
}

func TestTurnKeepsAnsweringTarget(t *testing.T) {
	a := named("a", fail(llm.Auth, 0), fail(llm.Auth, 0))
	b := named("b", llmtest.Say("1"), llmtest.Say("2"), llmtest.Say("3"))
	p := retry.New([]retry.Target{{Provider: a}, {Provider: b, Model: "two"}, {Provider: a}}, retry.Options{})
	turn := p.Turn()
	llmtest.Collect(turn.Stream(t.Context(), request()))
	if got := llmtest.Collect(turn.Stream(t.Context(), request())); got.Text != "2" || len(got.Notices) != 0 {
		t.Errorf("second call of the turn: %q, %s", got.Text, told(got.Notices))
	}
	if turn.Name() != "b" || p.Name() != "a" {
		t.Errorf("names %q and %q", turn.Name(), p.Name())
	}
	if got := llmtest.Collect(p.Turn().Stream(t.Context(), request())); got.Text != "3" || told(got.Notices) != ">b/two" {
		t.Errorf("next turn: %q, %s", got.Text, told(got.Notices))
	}
	if len(a.Requests()) != 2 {
		t.Errorf("the first target was asked %d times, want once per turn", len(a.Requests()))
	}
}

func TestTurnKeepsTargetIfReaderStopsAtDone(t *testing.T) {
	a, b := named("a", fail(llm.Auth, 0)), named("b", llmtest.Say("1"), llmtest.Say("2"))
	turn := retry.New([]retry.Target{{Provider: a}, {Provider: b}}, retry.Options{}).Turn()
	for range 2 {
		for e, err := range turn.Stream(t.Context(), request()) {
			if err != nil {
				t.Fatal(err)
			}
			if _, ok := e.(llm.Done); ok {
				break
			}
		}
	}
	if len(a.Requests()) != 1 || len(b.Requests()) != 2 {
		t.Errorf("the targets were asked %d and %d times", len(a.Requests()), len(b.Requests()))
	}
}

func TestRetryObservesMaxTokensLimit(t *testing.T) {
	a := named("a", llmtest.Answer{Err: &llm.Error{Class: llm.Format, MaxTokens: 64_000}}, llmtest.Say("x"))
	p := retry.New([]retry.Target{{Provider: a, Model: "one"}}, retry.Options{})
	r := request()
	r.MaxTokens, r.CacheTTL = 100_000, "5m"
	if got := llmtest.Collect(p.Stream(t.Context(), r)); got.Text != "x" || told(got.Notices) != "r1@0s" {
		t.Errorf("got %q, %s", got.Text, told(got.Notices))
	}
	asked := a.Requests()
	if len(asked) != 2 || asked[1].OutputLimit != 63_936 || asked[1].MaxTokens != 100_000 || asked[1].Model != "one" || asked[1].CacheTTL != "5m" {
		t.Errorf("asked %+v", asked)
	}
	if r.MaxTokens != 100_000 || r.Model != "asked" {
		t.Errorf("the request was changed: %+v", r)
	}
}

// limits is an OutputLimits in memory.
type limits map[string]int

func (l limits) OutputLimit(model string) int       { return l[model] }
func (l limits) SetOutputLimit(model string, n int) { l[model] = n }

func TestRetryKeepsOutputLimitOfModel(t *testing.T) {
	kept := limits{}
	a := named("a", llmtest.Answer{Err: &llm.Error{Class: llm.Format, MaxTokens: 32_000, OutputLimit: 32_000}}, llmtest.Say("x"), llmtest.Say("y"),
		llmtest.Answer{Err: &llm.Error{Class: llm.Format, MaxTokens: 9000}}, llmtest.Say("z"))
	p := retry.New([]retry.Target{{Provider: a, Model: "one", Limits: kept}}, retry.Options{})
	for _, want := range []string{"x", "y", "z"} {
		if got := llmtest.Collect(p.Stream(t.Context(), request())); got.Text != want {
			t.Errorf("got %q, %v", got.Text, got.Err)
		}
	}
	var asked []int
	for _, r := range a.Requests() {
		asked = append(asked, r.OutputLimit)
	}
	if !slices.Equal(asked, []int{0, 32_000, 32_000, 32_000, 8936}) || kept["one"] != 32_000 {
		t.Errorf("asked with limits %v, kept %v", asked, kept)
	}
}

func TestSuite(t *testing.T) {
	llmtest.Suite(t, func(*testing.T) llmtest.Subject {
		s := named("a")
		s.Default = func(r llmtest.Recorded) llmtest.Answer { return llmtest.Say("I heard: " + r.Newest()) }
		return llmtest.Subject{
			Provider: retry.New([]retry.Target{{Provider: s}}, retry.Options{Retries: -1}), Model: "m", Script: s.Then,
		}
	})
}
