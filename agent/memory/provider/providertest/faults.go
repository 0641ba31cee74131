package providertest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"hermesd/agent/memory/provider"
	"hermesd/internal/sim/memory"
)

// list returns the calls of the provider; no target is kept.
func (o Options) list(t *testing.T) (ops []op, http bool) {
	t.Helper()
	o.run(t, func(s *subject) { ops, http = o.ops(s.Provider), s.Server != nil })
	return ops, http
}

// faults checks what each call does when the server fails.
func (o Options) faults(t *testing.T) {
	ops, http := o.list(t)
	if !http {
		t.Skip("no server")
	}
	for _, f := range []struct {
		fault memory.Fault
		class provider.Class
	}{
		{memory.Fault{Kind: memory.Refuse, Status: 401}, provider.Auth},
		{memory.Fault{Kind: memory.Refuse, Status: 403}, provider.Auth},
		{memory.Fault{Kind: memory.Refuse, Status: 413}, provider.TooLarge},
		{memory.Fault{Kind: memory.Refuse, Status: 422}, provider.Refused},
		{memory.Fault{Kind: memory.Refuse, Status: 429, RetryAfter: 7 * time.Second}, provider.Limit},
		{memory.Fault{Kind: memory.Refuse}, provider.Down},
		{memory.Fault{Kind: memory.Page}, provider.Down},
		{memory.Fault{Kind: memory.Cut}, provider.Down},
		{memory.Fault{Kind: memory.HalfAfter}, provider.Down},
		{memory.Fault{Kind: memory.Page, Status: 200}, provider.Garbage},
		{memory.Fault{Kind: memory.ShortAfter}, provider.Garbage},
		{memory.Fault{Kind: memory.Empty}, provider.Garbage},
		{memory.Fault{Kind: memory.Huge}, provider.Garbage},
		{memory.Fault{Kind: memory.Huge, Size: 10 << 20}, provider.Garbage},
	} {
		f.fault.Times = -1
		t.Run(fmt.Sprintf("kind %d status %d", f.fault.Kind, f.fault.Status), func(t *testing.T) {
			for i, op := range ops {
				if f.fault.Kind == memory.Huge && i > 2 {
					break // 50 MB take their time
				}
				o.run(t, func(s *subject) { s.fails(op, f.fault, f.class) })
			}
		})
	}
}

// fails checks the error of a call with a fault.
func (s *subject) fails(op op, fault memory.Fault, class provider.Class) {
	s.t.Helper()
	s.Server.Inject(fault)
	err := op.call(s.t.Context(), s.Provider)
	switch {
	case s.calls() == 0:
		if err != nil {
			s.t.Errorf("%s: no call was made: %v", op.name, err)
		}
		return
	case err == nil && op.bodyless && fault.Kind == memory.Empty:
		return
	case err == nil && (fault.Kind == memory.HalfAfter || fault.Kind == memory.ShortAfter) && (op.bodyless || op.name == "synced"):
		return // the status has said that there is no such thing
	case err == nil:
		s.t.Errorf("%s: the fault is not reported", op.name)
		return
	}
	s.keyless(op.name, err)
	if strings.HasPrefix(op.name, "tool ") {
		return // the model reads the text
	}
	e, ok := errors.AsType[*provider.Error](err)
	if !ok || e.Class != class || e.RetryAfter != fault.RetryAfter {
		s.t.Errorf("%s: %v is no error of class %s, Retry-After %v", op.name, err, class, fault.RetryAfter)
	}
}

// keyless checks that no error in a chain shows the key.
func (s *subject) keyless(name string, err error) {
	s.t.Helper()
	for ; err != nil; err = errors.Unwrap(err) {
		if s.Key != "" && strings.Contains(fmt.Sprintf("%v %#v", err, err), s.Key) {
			s.t.Errorf("%s: the key is in the error %v", name, err)
		}
	}
}

// lostAnswers breaks the connection at each call of a Sync, before or after it had an
// effect, and repeats the event as the queue does.
func (o Options) lostAnswers(t *testing.T) {
	for word, text := range map[string]string{"jasmine": teaText, "papaya": fruitText} {
		event := func() provider.Event {
			if word == "papaya" {
				return Added(1, Owner("one"), text)
			}
			return Turn(1, Owner("one"), text)
		}
		calls := 0
		o.run(t, func(s *subject) {
			s.sync(event())
			calls = s.calls()
		})
		for _, kind := range []memory.Kind{memory.Cut, memory.CutAfter, memory.HalfAfter} {
			for n := range calls {
				o.run(t, func(s *subject) {
					e := event()
					s.Server.Inject(memory.Fault{Kind: kind, Skip: n})
					_, err := s.Provider.Sync(s.t.Context(), e)
					s.keyless("sync", err)
					time.Sleep(5 * time.Second)
					s.repeat(e)
					time.Sleep(o.Settle)
					s.counted(e, word, 2)
					if stored, err := s.Provider.Synced(s.t.Context(), e, provider.Receipt{}); !stored && !errors.Is(err, provider.ErrUnknown) {
						s.t.Errorf("call %d, fault %d: synced %v, %v", n, kind, stored, err)
					}
				})
			}
		}
	}
}

// contexts checks that calls end with their context.
func (o Options) contexts(t *testing.T) {
	ops, http := o.list(t)
	if !http {
		t.Skip("no server")
	}
	for _, op := range ops {
		o.run(t, func(s *subject) {
			s.Server.Inject(memory.Fault{Delay: 10 * time.Second, Times: -1})
			ctx, cancel := context.WithTimeout(s.t.Context(), time.Second)
			defer cancel()
			s.ends(op, ctx, time.Second)
		})
		o.run(t, func(s *subject) {
			s.Server.Inject(memory.Fault{Delay: 10 * time.Second, Times: -1})
			ctx, cancel := context.WithCancel(s.t.Context())
			time.AfterFunc(time.Second, cancel)
			s.ends(op, ctx, time.Second)
		})
		o.run(t, func(s *subject) {
			ctx, cancel := context.WithCancel(s.t.Context())
			cancel()
			s.ends(op, ctx, 0)
		})
	}
}

// ends checks that a call ends after a time, with an error that says that the provider
// has not answered.
func (s *subject) ends(op op, ctx context.Context, after time.Duration) { //nolint:revive // the context is what is tested
	s.t.Helper()
	start := time.Now()
	err := op.call(ctx, s.Provider)
	took := time.Since(start)
	switch {
	case s.calls() == 0 && took == 0:
	case took != after:
		s.t.Errorf("%s: returned after %v, not %v: %v", op.name, took, after, err)
	case err == nil:
		s.t.Errorf("%s: no error", op.name)
	case !strings.HasPrefix(op.name, "tool ") && provider.ClassOf(err) != provider.Down:
		s.t.Errorf("%s: %v is of class %s", op.name, err, provider.ClassOf(err))
	}
	s.keyless(op.name, err)
}

// FuzzAnswers fuzzes the answers of a provider's server. open returns a provider whose
// client uses a transport; inputs has a valid input of each tool; seeds are answers.
func FuzzAnswers(f *testing.F, open func(*testing.T, http.RoundTripper) provider.Provider, inputs map[string]string, seeds ...string) {
	for _, seed := range append(seeds, "", "{}", "[]", "null", `{"detail":[{"msg":"x"}]}`, "<html><title>502</title></html>") {
		f.Add(200, seed)
		f.Add(404, seed)
	}
	f.Fuzz(func(t *testing.T, status int, body string) {
		switch status {
		case 200, 201, 202, 204, 307, 400, 401, 404, 409, 412, 422, 500: // others are repeated after a pause
		default:
			status = 200
		}
		p := open(t, answer{status, body})
		for _, op := range (Options{Inputs: inputs}).ops(p) {
			err := op.call(t.Context(), p)
			if _, ok := errors.AsType[*provider.Error](err); err != nil && !ok && !errors.Is(err, provider.ErrFailed) && !strings.HasPrefix(op.name, "tool ") {
				t.Errorf("%s: %v is a %T", op.name, err, err)
			}
		}
		if err := p.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
}

// FuzzFile fuzzes a provider's own file. open returns a provider with that file whose
// client uses a transport; inputs has a valid input of each tool; seeds are files.
func FuzzFile(f *testing.F, open func(*testing.T, string, http.RoundTripper) (provider.Provider, error), inputs map[string]string, seeds ...string) {
	for _, seed := range append(seeds, "", "{}", "null", "[", `{"a":{}}`) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, file string) {
		p, err := open(t, file, answer{200, "{}"})
		if err != nil {
			return // for people
		}
		for _, op := range (Options{Inputs: inputs}).ops(p) {
			_ = op.call(t.Context(), p) // it must not panic, whatever it answers
		}
		if err := p.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
}

// An answer is a transport that answers every request.
type answer struct {
	status int
	body   string
}

func (a answer) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{
		Status: http.StatusText(a.status), StatusCode: a.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{}, Body: io.NopCloser(strings.NewReader(a.body)), ContentLength: int64(len(a.body)), Request: r,
	}, nil
}
