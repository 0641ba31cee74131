package httpapi_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"hermesd/adapters/httpapi"
	"hermesd/gateway/chat"
)

func keyed(t *testing.T, key, body string) *http.Request {
	r := ask(t, body)
	r.Header.Set("Idempotency-Key", key)
	return r
}

func TestOneKeyIsOneMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := start(t, nil)
		one, two := d.later(keyed(t, "k", user("hi"))), d.later(keyed(t, "k", streamed("hi")))
		synctest.Wait()
		if n := len(d.taken()); n != 1 {
			t.Fatalf("%d were taken", n)
		}
		d.echo(d.taken()[0])
		if a := <-one; a.text() != "you said: hi" {
			t.Errorf("the first: %d %s", a.status, a.body)
		}
		if s := events(t, []byte((<-two).body)); s.text() != "you said: hi" {
			t.Errorf("the second: %+v", s)
		}
		if a := d.do(keyed(t, "k", user("hi"))); a.text() != "you said: hi" {
			t.Errorf("again: %d %s", a.status, a.body)
		}
		if a := d.do(keyed(t, "k", user("something else"))); a.status != 422 || a.code() != "idempotency_key_reused" {
			t.Errorf("another message: %d %s", a.status, a.body)
		}
		d.answers(d.echo)
		r := keyed(t, "k", user("hi"))
		r.Header.Set("X-Hermes-Session", "other")
		d.do(r)
		if n := len(d.taken()); n != 2 {
			t.Errorf("%d were taken; keys belong to their session", n)
		}
	})
}

// disconnect sends a request whose client disconnects once its message is taken.
func disconnect(t *testing.T, d *daemon, r *http.Request) chat.Inbound {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		resp, err := d.web.Do(r.WithContext(ctx))
		if err == nil {
			_ = resp.Body.Close()
		}
		done <- err
	}()
	synctest.Wait()
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("the client that disconnects: %v", err)
	}
	synctest.Wait()
	all := d.taken()
	return all[len(all)-1]
}

func TestAClientThatLeavesLeavesTheAnswerInTheSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := start(t, nil)
		in := disconnect(t, d, ask(t, user("hi")))
		for _, as := range []chat.Purpose{chat.PurposePreview, chat.PurposeNotice, chat.PurposeAnswer, chat.PurposeFailure} {
			if err := d.says(in, as, "x"); !rejected(err) || !strings.Contains(err.Error(), httpapi.NoClient) {
				t.Errorf("%s for nobody: %v", as, err)
			}
			if err := d.a.Edit(t.Context(), "chatcmpl-"+in.ID, out(in, as, "x")); !errors.Is(err, chat.ErrGone) {
				t.Errorf("edit for nobody: %v", err)
			}
		}
		if _, ok, err := d.a.Find(t.Context(), out(in, chat.PurposeAnswer, "x")); ok || err != nil {
			t.Errorf("found %v, %v", ok, err)
		}
		d.answers(d.echo)
		if a := d.do(ask(t, user("next"))); a.text() != "you said: next" {
			t.Errorf("the next one waits for it: %d %s", a.status, a.body)
		}
	})
}

func TestAClientWithAKeyGetsItsAnswerWhenItComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := start(t, nil)
		in := disconnect(t, d, keyed(t, "k", user("hi")))
		if err := d.says(in, chat.PurposePreview, "you"); err != nil {
			t.Error(err)
		}
		d.echo(in)
		if a := d.do(keyed(t, "k", user("hi"))); a.text() != "you said: hi" || len(d.taken()) != 1 {
			t.Errorf("after the answer: %d %s", a.status, a.body)
		}
		in = disconnect(t, d, keyed(t, "k2", user("ho")))
		back := d.later(keyed(t, "k2", user("ho")))
		synctest.Wait()
		d.echo(in)
		if a := <-back; a.text() != "you said: ho" || len(d.taken()) != 2 {
			t.Errorf("before the answer: %d %s", a.status, a.body)
		}
	})
}

func TestWhatWasWrittenIsFoundAndNotSentAgain(t *testing.T) {
	d := start(t, nil)
	d.answers(d.echo)
	a := d.do(ask(t, user("hi")))
	m := out(d.taken()[0], chat.PurposeAnswer, "you said: hi")
	r, ok, err := d.a.Find(t.Context(), m)
	if !ok || err != nil || !strings.Contains(a.body, `"id":"`+r.ID+`"`) {
		t.Errorf("find: %+v %v %v", r, ok, err)
	}
	if again, err := d.a.Send(t.Context(), m); err != nil || again != r {
		t.Errorf("send again: %+v %v", again, err)
	}
}

func TestOnlyAnswersToRequestsAreCarried(t *testing.T) {
	d := start(t, nil)
	for name, m := range map[string]chat.Outbound{
		"a message by itself": {To: httpapi.Address("default"), Text: chat.PlainText("good morning")},
		"too long":            {To: httpapi.Address("default"), Text: chat.PlainText(strings.Repeat("x", d.a.Capabilities().MaxTextSize+1)), ReplyContext: &chat.ReplyContext{IDs: []string{"r1"}}},
		"a file":              {To: httpapi.Address("default"), File: &chat.File{Path: "/x"}},
		"for a stranger":      {To: httpapi.Address("default"), Text: chat.PlainText("x"), ReplyContext: &chat.ReplyContext{Purpose: chat.PurposeAnswer, IDs: []string{"r123"}}},
	} {
		if _, err := d.a.Send(t.Context(), m); !rejected(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := d.a.Delete(t.Context(), httpapi.Address("default"), "x"); err != nil {
		t.Error(err)
	}
}

// known is a store that knows what it is told.
type known struct {
	mu sync.Mutex // guards what follows
	m  map[string]httpapi.StoredMessage
}

func (k *known) set(key string, v httpapi.StoredMessage) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.m[key] = v
}

func (k *known) lookup(_ context.Context, key string) (httpapi.StoredMessage, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.m[key], nil
}

func withStore(k *known) func(*httpapi.Config, *httpapi.Options) {
	return func(_ *httpapi.Config, o *httpapi.Options) { o.Lookup = k.lookup }
}

func TestAKeyOutlivesTheProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &known{m: map[string]httpapi.StoredMessage{}}
		first := start(t, withStore(k))
		in := disconnect(t, first, keyed(t, "k", user("hi")))
		failed := disconnect(t, first, keyed(t, "f", user("ho")))
		_ = first.stop()

		d := start(t, withStore(k))
		k.set(in.IdempotencyKey, httpapi.StoredMessage{Accepted: true})
		d.seen[in.IdempotencyKey] = true
		one := d.later(keyed(t, "k", user("hi")))
		synctest.Wait()
		d.echo(in) // the turn was taken up again
		if a := <-one; a.text() != "you said: hi" {
			t.Errorf("while it runs: %d %s", a.status, a.body)
		}
		_ = d.stop()

		d = start(t, withStore(k))
		k.set(in.IdempotencyKey, httpapi.StoredMessage{Accepted: true, Ended: true, Text: "you said: hi"})
		k.set(failed.IdempotencyKey, httpapi.StoredMessage{Accepted: true, Ended: true, Reason: "stopped by /stop"})
		if a := d.do(keyed(t, "k", user("hi"))); a.text() != "you said: hi" || a.Usage != nil {
			t.Errorf("once it has ended: %d %s", a.status, a.body)
		}
		if a := d.do(keyed(t, "f", user("ho"))); a.status != 409 || !strings.Contains(a.Error.Message, "stopped by /stop") || a.header.Get("X-Should-Retry") != "false" {
			t.Errorf("without an answer: %d %s", a.status, a.body)
		}
		if n := len(d.taken()); n != 0 {
			t.Errorf("%d were taken again", n)
		}
		if r, err := d.a.Send(t.Context(), out(in, chat.PurposeAnswer, "x")); err != nil || r.ID == "" {
			t.Errorf("an answer that can be asked for: %v", err)
		}
	})
}

func TestATurnThatEndsWithoutAWordEndsTheWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &known{m: map[string]httpapi.StoredMessage{}}
		d := start(t, withStore(k))
		res := d.later(ask(t, user("hi")))
		<-time.After(12 * time.Second)
		k.set(d.taken()[0].IdempotencyKey, httpapi.StoredMessage{Accepted: true, Ended: true, Reason: "stopped by /stop"})
		began := time.Now()
		a := <-res
		if a.status != 409 || a.code() != "no_answer" || time.Since(began) > 10*time.Second {
			t.Errorf("after %v: %d %s", time.Since(began), a.status, a.body)
		}
	})
}

func TestRequestsOfASessionFollowEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := start(t, nil)
		texts := func() (all []string) {
			synctest.Wait()
			for _, in := range d.taken() {
				all = append(all, in.Text)
			}
			return all
		}
		one := d.later(ask(t, user("one")))
		texts()
		two := d.later(ask(t, user("two")))
		other := ask(t, user("elsewhere"))
		other.Header.Set("X-Hermes-Session", "other")
		three := d.later(other)
		if got := texts(); !cmp.Equal(got, []string{"one", "elsewhere"}) {
			t.Fatalf("taken: %q", got)
		}
		stop := d.later(ask(t, user("/stop")))
		if got := texts(); !cmp.Equal(got, []string{"one", "elsewhere", "/stop"}) {
			t.Fatalf("a command waits: %q", got)
		}
		path := d.later(ask(t, user("/etc/hosts is what?")))
		for i, name := range []string{"one", "elsewhere", "/stop"} {
			if d.taken()[i].Text != name {
				t.Fatal(d.taken())
			}
			d.echo(d.taken()[i])
		}
		d.answers(d.echo)
		if got := texts(); len(got) < 4 {
			t.Fatalf("the next does not come: %q", got)
		}
		d.echo(d.taken()[3]) // taken before there was somebody to answer, or answered already
		for _, ch := range []<-chan answer{one, two, three, stop, path} {
			if a := <-ch; a.status != 200 {
				t.Errorf("got %d %s", a.status, a.body)
			}
		}
	})
}

func TestWhoLeavesTheLineIsNeverTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := start(t, nil)
		one := d.later(ask(t, user("one")))
		synctest.Wait()
		disconnect(t, d, ask(t, user("two")))
		d.answers(d.echo)
		d.echo(d.taken()[0])
		<-one
		d.do(ask(t, user("three")))
		if all := d.taken(); len(all) != 2 || all[1].Text != "three" {
			t.Errorf("taken: %+v", all)
		}
	})
}

func TestAStopTellsThoseWhoWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := start(t, func(_ *httpapi.Config, o *httpapi.Options) { o.Drain = 10 * time.Second })
		quick := ask(t, user("quick"))
		quick.Header.Set("X-Hermes-Session", "q")
		one := d.later(quick)
		synctest.Wait()
		slower := ask(t, streamed("slower"))
		slower.Header.Set("X-Hermes-Session", "s")
		two, three := d.later(keyed(t, "k", user("slow"))), d.later(slower)
		<-time.After(11 * time.Second)
		began := time.Now()
		stopped := make(chan error, 1)
		go func() { stopped <- d.stop() }()
		<-time.After(time.Second)
		if a := d.do(ask(t, user("late"))); a.status != 503 || a.code() != "stopping" || a.header.Get("X-Should-Retry") != "" {
			t.Errorf("late: %d %s", a.status, a.body)
		}
		d.echo(d.taken()[0])
		if a := <-one; a.status != 200 {
			t.Errorf("what ends in time: %d %s", a.status, a.body)
		}
		if a := <-two; a.status != 503 || !strings.Contains(a.Error.Message, "is stored") || a.header.Get("X-Should-Retry") != "false" {
			t.Errorf("what does not: %d %s", a.status, a.body)
		}
		if s := events(t, []byte((<-three).body)); !strings.HasPrefix(s.failure, "stopping: ") || s.done {
			t.Errorf("a stream that does not: %+v", s)
		}
		if err := <-stopped; err != nil || time.Since(began) > 13*time.Second {
			t.Errorf("stopped after %v: %v", time.Since(began), err)
		}
		if h := d.a.Health(); h.State != chat.Failed {
			t.Errorf("health %+v", h)
		}
	})
}

func TestAnAnswerThatIsNotTakenInTimeIsUncertain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := start(t, nil)
		resp := make(chan *http.Response, 1)
		go func() { r, _ := d.web.Do(ask(t, streamed("hi"))); resp <- r }()
		synctest.Wait()
		in := d.taken()[0]
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
		defer cancel()
		_, err := d.a.Send(ctx, out(in, chat.PurposeAnswer, strings.Repeat("x", 1<<20)))
		var se *chat.SendError
		if !errors.As(err, &se) || se.Outcome != chat.Uncertain {
			t.Errorf("got %v", err)
		}
		_ = (<-resp).Body.Close()
		<-time.After(time.Minute)
		if _, ok, err := d.a.Find(t.Context(), out(in, chat.PurposeAnswer, "x")); ok || err != nil {
			t.Errorf("the client left without it, but %v, %v", ok, err)
		}
	})
}
