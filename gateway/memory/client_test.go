package memory_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"hermesd/agent/memory/provider"
)

// refuse makes a fake refuse its key.
func (f *fake) refuse(text string) {
	err := &provider.Error{Class: provider.Auth, Status: 401, Text: text}
	f.check = err
	f.sync = func(context.Context, provider.Event) (provider.Receipt, error) { return provider.Receipt{}, err }
	f.recall = func(context.Context, provider.Scope, string) ([]provider.Item, error) { return nil, err }
}

// remembers makes a fake recall a text.
func (f *fake) remembers(text string) {
	f.recall = func(context.Context, provider.Scope, string) ([]provider.Item, error) { return items(text), nil }
}

// An event that was refused with the key of an earlier process is told at the start.
func TestStartTellsWhatWasRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, q := newFake(), newQueue()
		f.refuse("the key is refused")
		b := open(t, f, q, settings())
		b.say("s", "one")
		b.commit(b.EndEvents(owner("other", 1, "")))
		later(10 * time.Minute)
		if st := b.Status(); st.Queue.Waiting != 3 || len(f.got().told) == 0 {
			t.Fatalf("%+v, told %q", st, f.texts())
		}
		b.Close()
		next := newFake()
		open(t, next, q, settings())
		later(time.Second)
		if want := []string{"end", "one"}; !slices.Equal(sorted(next.texts()), want) {
			t.Errorf("told after the restart: %q, want %q", next.texts(), want)
		}
		if rest := q.all(); len(rest) != 1 || !rest[0].Due.After(time.Now()) {
			t.Errorf("the end of a conversation is not due: %+v", rest)
		}
	})
}

// An event that waits because it is set aside is not told by a start.
func TestStartLeavesWhatIsSetAside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, q := newFake(), newQueue()
		f.sync = func(context.Context, provider.Event) (provider.Receipt, error) {
			return provider.Receipt{}, &provider.Error{Class: provider.Refused, Status: 422, Text: "not allowed"}
		}
		b := open(t, f, q, settings())
		b.say("s", "bad")
		later(10 * time.Minute)
		b.Close()
		next := newFake()
		open(t, next, q, settings())
		if later(time.Minute); len(next.got().told) != 0 {
			t.Errorf("told after the restart: %q", next.texts())
		}
	})
}

// After a change of the key everything asks with the new one, at once.
func TestConfigureReplacesTheProvider(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tools := []provider.Tool{{Name: "think"}}
		f, next := newFake(), newFake()
		f.about.Tools, next.about.Tools = tools, slices.Clone(tools)
		f.refuse("the key is refused")
		f.health = provider.Health{Version: "1"}
		b := open(t, f, newQueue(), settings())
		b.say("s", "one")
		b.begin(owner("s", 1, question))
		later(time.Second)
		if st := b.Status(); st.Up || st.Breaker != "open" || st.Version != "" {
			t.Fatalf("before: %+v", st)
		}
		next.remembers("papaya")
		next.about.Header, next.about.Place, next.health = "Another text.", "there", provider.Health{Version: "2", Detail: "account of ann"}
		next.call = func(provider.Scope, string, json.RawMessage) (string, error) { return "thought", nil }
		set := settings()
		set.People = "members"
		if !b.Configure(next, set) {
			t.Fatal("it is not replaced")
		}
		b.Reload()
		later(0)
		if st := b.Status(); !st.Up || st.Breaker != "closed" {
			t.Errorf("after the reload: %+v", st)
		}
		if block, _ := b.begin(owner("s", 1, question)); !strings.Contains(block, "papaya") {
			t.Errorf("recalled: %q", block)
		}
		if out, err := b.Call(t.Context(), owner("s", 1, ""), "think", nil); out != "thought" || err != nil {
			t.Errorf("tool: %q, %v", out, err)
		}
		if want := []string{"one"}; !slices.Equal(next.texts(), want) || !f.isClosed() || next.isClosed() {
			t.Errorf("told %q; closed: %t, %t", next.texts(), f.isClosed(), next.isClosed())
		}
		if st := b.Status(); !st.Up || st.Breaker != "closed" || st.Place != "there" || st.Version != "2" || st.Detail != "account of ann" {
			t.Errorf("after: %+v", st)
		}
		member := owner("s", 1, "")
		member.Level--
		if text, _ := b.Static(t.Context(), member); text != "Another text." {
			t.Errorf("a new session gets %q", text)
		}
		b.Close()
		if !next.isClosed() {
			t.Error("the new one is not closed")
		}
	})
}

// Calls that are under way at a reload end where they began. What comes of them says
// nothing of the new key, and an event that failed goes to the new one at once.
func TestConfigureDuringCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tools := []provider.Tool{{Name: "think"}}
		f, next := newFake(), newFake()
		f.about.Tools, next.about.Tools = tools, tools
		refused := &provider.Error{Class: provider.Auth, Status: 401, Text: "the key is refused"}
		f.sync = func(ctx context.Context, _ provider.Event) (provider.Receipt, error) {
			_ = pause(ctx, 10*time.Second)
			return provider.Receipt{}, refused
		}
		f.recall = func(ctx context.Context, _ provider.Scope, _ string) ([]provider.Item, error) {
			return items("papaya"), pause(ctx, 20*time.Second)
		}
		f.call = func(provider.Scope, string, json.RawMessage) (string, error) {
			_ = pause(t.Context(), 30*time.Second)
			return "thought", nil
		}
		next.remembers("mango")
		b := open(t, f, newQueue(), settings())
		b.say("s", "one")
		r := b.Recall(owner("s", 0, question))
		thought := make(chan string)
		go func() {
			out, _ := b.Call(t.Context(), owner("s", 1, ""), "think", nil)
			thought <- out
		}()
		synctest.Wait()
		if !b.Configure(next, settings()) {
			t.Fatal("it is not replaced")
		}
		b.Reload()
		if block, _ := b.begin(owner("other", 0, question)); !strings.Contains(block, "mango") {
			t.Errorf("a later turn recalls %q", block)
		}
		if text := r.Await(t.Context()); text != "" {
			t.Errorf("the turn does not wait for its recall: %q", text)
		}
		later(11 * time.Second)
		if st := b.Status(); !slices.Equal(next.texts(), []string{"one"}) || !st.Up || st.Breaker != "closed" || len(b.told()) != 0 {
			t.Errorf("told %q, %+v, notices %q", next.texts(), st, b.told())
		}
		later(10 * time.Second)
		if f.isClosed() {
			t.Error("it is closed before its last call has ended")
		}
		if out := <-thought; out != "thought" {
			t.Errorf("the tool says %q", out)
		}
		if synctest.Wait(); !f.isClosed() || next.isClosed() {
			t.Errorf("closed: %t, %t", f.isClosed(), next.isClosed())
		}
	})
}

// Another wrong key is the same outage: it is told once, and loses nothing.
func TestConfigureWithABadKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, q := newFake(), newQueue()
		f.refuse("the key is refused")
		b := open(t, f, q, settings())
		b.commit(b.EndEvents(owner("other", 1, "")))
		said := []string{"one", "two", "three"}
		for i, text := range said {
			b.say("s", text)
			later(time.Minute)
			bad := newFake()
			bad.refuse("the key is refused" + strings.Repeat(" again", i))
			b.Configure(bad, settings())
			b.Reload()
			later(time.Minute)
			if st := b.Status(); st.Up || st.Breaker != "open" || len(bad.got().told) > 2 {
				t.Errorf("with a wrong key: %+v, told %q", st, bad.texts())
			}
		}
		if len(b.told()) != 1 {
			t.Errorf("notices %q", b.told())
		}
		good := newFake()
		b.Configure(good, settings())
		b.Reload()
		later(time.Second)
		got := slices.DeleteFunc(good.texts(), func(text string) bool { return text == "end" })
		if !slices.Equal(got, said) || len(good.texts()) != 4 || len(b.told()) != 1 || b.Status().Queue.Waiting != 1 {
			t.Errorf("told %q, notices %q, %+v", good.texts(), b.told(), b.Status())
		}
	})
}

// What the agent and its sessions have of the provider does not change while the process
// runs.
func TestConfigureKeepsNameAndTools(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		b := open(t, f, newQueue(), settings())
		for name, change := range map[string]func(*provider.About){
			"name":     func(a *provider.About) { a.Name = "other" },
			"tools":    func(a *provider.About) { a.Tools = []provider.Tool{{Name: "think"}} },
			"no tools": func(a *provider.About) { a.NoTools = true },
		} {
			next := newFake()
			change(&next.about)
			if b.Configure(next, settings()) || !next.isClosed() || f.isClosed() {
				t.Errorf("%s: it is replaced, or not closed", name)
			}
		}
		b.say("s", "one")
		if later(0); !slices.Equal(f.texts(), []string{"one"}) {
			t.Errorf("told %q", f.texts())
		}
		b.Close()
		late := newFake()
		if b.Configure(late, settings()) || !late.isClosed() {
			t.Error("a closed service takes a provider, or leaves it open")
		}
	})
}
