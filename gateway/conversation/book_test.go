package conversation_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"hermesd/agent"
	"hermesd/agent/llm"
	"hermesd/agent/llm/llmtest"
	"hermesd/agent/prompt"
	"hermesd/agent/tool"
	"hermesd/gateway/chat"
	"hermesd/gateway/conversation"
	"hermesd/gateway/i18n"
	"hermesd/gateway/inbox"
	"hermesd/gateway/session"
	"hermesd/gateway/store"
	"hermesd/hygiene"
	"hermesd/storage/bolt"
)

// A fixture is a Book on a store.
type fixture struct {
	*conversation.Book
	t     *testing.T
	store *bolt.Store
	count int
	text  string // of the operator, in prompts
}

func newFixture(t *testing.T, o conversation.Options) *fixture {
	t.Helper()
	store, err := bolt.Open(t.Context(), filepath.Join(t.TempDir(), "hermesd.db"), bolt.Options{})
	if err != nil {
		t.Fatal(err)
	}
	tools, err := tool.NewSet()
	if err != nil {
		t.Fatal(err)
	}
	locks := new(session.Locks)
	passes := hygiene.NewPasses(agent.New(agent.Config{}, llmtest.NewScripted(), tools), locks, zap.NewNop())
	t.Cleanup(func() {
		passes.Close()
		passes.Wait()
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	if o.Reset == nil {
		o.Reset = func(chat.Address) session.ResetPolicy { return session.ResetPolicy{} }
	}
	o.Log = zap.NewNop()
	f := &fixture{t: t, store: store}
	f.Book = conversation.NewBook(conversation.Parts{
		Store: store, Locks: locks, Passes: passes, HasBackground: func(session.ID) bool { return false }, Options: o,
		Prefix: func(r session.Record) (prompt.Prefix, []string) {
			return prompt.Build(prompt.Inputs{Session: string(r.ID), Started: r.Created, SystemMessage: f.text}), []string{"a note"}
		},
	})
	return f
}

// claim accepts a message of a chat and claims it.
func (f *fixture) claim(key session.Key) store.Claim {
	f.t.Helper()
	f.count++
	e := inbox.Entry{
		Inbound: chat.Inbound{IdempotencyKey: fmt.Sprint(f.count), ID: fmt.Sprint(f.count), Address: chat.Address{Platform: chat.Telegram, Kind: chat.DM, Chat: "7"}},
		Session: key, Lane: inbox.LaneOf(key), State: inbox.Waiting, Accepted: time.Now(),
	}
	if _, err := f.store.Accept(f.t.Context(), []store.Admission{{Entry: e}}); err != nil {
		f.t.Fatal(err)
	}
	c, err := f.store.Claim(f.t.Context(), e.Lane, 0)
	if err != nil {
		f.t.Fatal(err)
	}
	return c
}

// say adds an exchange to the conversation of claim c and commits it.
func (f *fixture) say(c store.Claim, text string) *conversation.Conversation {
	f.t.Helper()
	conv, err := f.Use(f.t.Context(), c.Entries[0], false)
	if err != nil {
		f.t.Fatal(err)
	}
	defer f.Release(conv)
	conv.Transcript.Append(message(llm.User, text), message(llm.Assistant, "re: "+text))
	if _, err := conv.RecordCall(callOf(conv)); err != nil {
		f.t.Fatal(err)
	}
	f.commit(c, conv)
	return conv
}

func (f *fixture) commit(c store.Claim, conv *conversation.Conversation) {
	f.t.Helper()
	m := store.Turn{End: store.End{Outcome: inbox.Outcome{Result: inbox.Replied}}}
	if err := f.Delta(conv, &m, llm.Usage{Input: 10}); err != nil {
		f.t.Fatal(err)
	}
	if _, err := f.store.CommitTurn(f.t.Context(), c, m); err != nil {
		f.t.Fatal(err)
	}
	f.Committed(conv, m)
}

// callOf returns a model call with what conv has.
func callOf(conv *conversation.Conversation) agent.Call {
	return agent.Call{Provider: "p", Model: "m", Usage: llm.Usage{Input: 10}, Request: &llm.Request{Model: "m", System: conv.Prefix.System(), Transcript: conv.Transcript}}
}

func message(role llm.Role, text string) llm.Message {
	return llm.Message{Role: role, Blocks: []llm.Block{{Type: llm.Text, Text: text}}}
}

func TestAConversationIsTheSameFromMemoryAndFromTheStore(t *testing.T) {
	for _, bytes := range []int64{0, 1 << 20} {
		f := newFixture(t, conversation.Options{CacheBytes: bytes})
		first := f.say(f.claim("k"), "one")
		if first.IsNew() || first.Stored() != 2 || first.HasChanges() {
			t.Errorf("after the commit: new %v, %d stored, changes %v", first.IsNew(), first.Stored(), first.HasChanges())
		}
		c := f.claim("k")
		second, err := f.Use(t.Context(), c.Entries[0], false)
		if err != nil {
			t.Fatal(err)
		}
		if (second == first) != (bytes > 0) {
			t.Errorf("with %d bytes of cache it is the same object: %v", bytes, second == first)
		}
		if second.Transcript.Len() != 2 || second.Stored() != 2 || second.Prefix.Hash() != first.Prefix.Hash() || !second.HasCalls() || second.Record.Turns != 1 {
			t.Errorf("%d messages, %d stored, %d turns", second.Transcript.Len(), second.Stored(), second.Record.Turns)
		}
		f.Release(second)
	}
}

func TestOneTurnAtATimeAndTheSecondSeesTheFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, conversation.Options{CacheBytes: 1 << 20})
		f.say(f.claim("k"), "one")
		c := f.claim("k")
		held, err := f.Use(t.Context(), c.Entries[0], false)
		if err != nil {
			t.Fatal(err)
		}
		id := held.Record.ID
		got := make(chan *conversation.Conversation)
		go func() {
			conv, err := f.UseStored(t.Context(), id)
			if err != nil {
				t.Error(err)
			}
			got <- conv
		}()
		canceled, cancel := context.WithCancelCause(t.Context())
		stop := errors.New("stop")
		cancel(stop)
		if _, err := f.UseStored(canceled, id); !errors.Is(err, stop) {
			t.Errorf("%v", err)
		}
		held.Transcript.Append(message(llm.User, "two"), message(llm.Assistant, "re: two"))
		f.commit(c, held)
		f.Release(held)
		conv := <-got
		if conv.Transcript.Len() != 4 {
			t.Errorf("%d messages", conv.Transcript.Len())
		}
		f.Release(conv)
	})
}

func TestWhatATurnAddsIsDroppedWithIt(t *testing.T) {
	f := newFixture(t, conversation.Options{CacheBytes: 1 << 20})
	first := f.say(f.claim("k"), "one")
	c := f.claim("k")
	conv, err := f.Use(t.Context(), c.Entries[0], false)
	if err != nil {
		t.Fatal(err)
	}
	conv.Transcript.Append(message(llm.User, "two"))
	f.Discard(conv)
	f.Release(conv)
	if conv, err = f.Use(t.Context(), c.Entries[0], false); err != nil || conv != first || conv.Transcript.Len() != 2 {
		t.Fatalf("%d messages, %v", conv.Transcript.Len(), err)
	}
	// A compaction and a call are not dropped, but read again.
	conv.Transcript.Append(message(llm.User, "two"))
	if _, err := conv.RecordCall(callOf(conv)); err != nil {
		t.Fatal(err)
	}
	f.Discard(conv)
	f.Release(conv)
	if conv, err = f.Use(t.Context(), c.Entries[0], false); err != nil || conv == first || conv.Transcript.Len() != 2 || conv.HasChanges() {
		t.Fatalf("%d messages, %v", conv.Transcript.Len(), err)
	}
	f.Release(conv)
}

func TestUndoOfATurnThatCompacted(t *testing.T) {
	f := newFixture(t, conversation.Options{CacheBytes: 1 << 20})
	f.say(f.claim("k"), "one")
	c := f.claim("k")
	conv, err := f.Use(t.Context(), c.Entries[0], false)
	if err != nil {
		t.Fatal(err)
	}
	old := conv.Transcript.Since(0)
	summary := []llm.Message{message(llm.User, "summary")}
	conv.Transcript.Replace(summary)
	if err := conv.Compacted(agent.Compacted{Compaction: agent.Compaction{From: 0, To: 2, Messages: summary}, Replaced: old, Prefix: conv.Prefix, Reason: agent.WhyHygiene}); err != nil {
		t.Fatal(err)
	}
	if conv.Stored() != 1 || !conv.HasChanges() {
		t.Errorf("%d stored", conv.Stored())
	}
	if err := f.Undo(t.Context(), conv); err != nil {
		t.Fatal(err)
	}
	if conv.Transcript.Len() != 2 || conv.Stored() != 2 || conv.HasChanges() || conv.Record.PendingBreak == "" {
		t.Errorf("%d messages, %d stored, break %q", conv.Transcript.Len(), conv.Stored(), conv.Record.PendingBreak)
	}
	f.Release(conv)
}

func TestAConversationThatIsDueBeginsAgain(t *testing.T) {
	f := newFixture(t, conversation.Options{CacheBytes: 1 << 20, Printer: i18n.Printer{}, Reset: func(chat.Address) session.ResetPolicy {
		return session.ResetPolicy{Idle: time.Hour}
	}})
	first := f.say(f.claim("k"), "one")
	c := f.claim("k")
	e := c.Entries[0]
	e.Accepted = e.Accepted.Add(2 * time.Hour)
	for _, resumed := range []bool{true, false} { // a resumed turn goes on where it began
		conv, err := f.Use(t.Context(), e, resumed)
		if err != nil {
			t.Fatal(err)
		}
		if (conv.Record.ID == first.Record.ID) != resumed || (conv.ResetNotice == "") != resumed || conv.IsNew() == resumed {
			t.Errorf("resumed %v: session %s after %s, %q", resumed, conv.Record.ID, first.Record.ID, conv.ResetNotice)
		}
		if conv.IsNew() && (len(conv.Notes) != 1 || conv.Creation().Record.ID != conv.Record.ID) {
			t.Errorf("notes %q", conv.Notes)
		}
		f.Release(conv)
	}
}

func TestExchangesCountUserMessages(t *testing.T) {
	result := llm.Message{Role: llm.User, Blocks: []llm.Block{{Type: llm.ToolResult, Text: "42"}}}
	c := conversation.Conversation{Transcript: llm.NewTranscript(
		message(llm.User, "one"), message(llm.Assistant, "a tool"), result, message(llm.Assistant, "1"), message(llm.User, "two `x`  y"), message(llm.Assistant, "2"),
	)}
	for n, want := range map[int]int{1: 4, 2: 0, 3: -1} {
		if at, _ := c.Exchange(n); at != want {
			t.Errorf("the exchange %d begins at %d, want %d", n, at, want)
		}
	}
	_, m := c.Exchange(1)
	if got := conversation.Quote(m); got != "`two 'x' y`" {
		t.Errorf("quoted as %q", got)
	}
	if got := conversation.Quote(message(llm.User, strings.Repeat("x", 90))); got != "`"+strings.Repeat("x", 80)+"…`" {
		t.Errorf("quoted as %q", got)
	}
	if got := conversation.Quote(llm.Message{Blocks: []llm.Block{{Type: llm.Image}}}); got != "" {
		t.Errorf("a picture is quoted as %q", got)
	}
}

func TestAPromptIsBuiltAgain(t *testing.T) {
	f := newFixture(t, conversation.Options{CacheBytes: 1 << 20})
	rec := f.say(f.claim("k"), "one").Record
	for _, c := range []struct {
		reason, prompt, pending string // pending is the break of the session
		want, text              string
	}{
		{"reload", "", "", "", "the same as before"},
		{"model_switch", "", "", "model_switch", "a note"},
		{"reload", "be kind", "", "reload", " is new"},
		{"reload", "be kind", "undo", "undo", " is new"},
		{"model_switch", "be kind", "undo", "model_switch", " is new"},
	} {
		f.text, rec.PendingBreak = c.prompt, c.pending
		r, text, err := f.Rebuild(t.Context(), rec, c.reason)
		if err != nil {
			t.Fatal(err)
		}
		if r.Session != rec.ID || r.Break != c.want || (r.Prompt != nil) != (c.prompt != "") || !strings.Contains(text, c.text) {
			t.Errorf("%+v: break %q, prompt %s, text %q", c, r.Break, r.Prompt, text)
		}
	}
}
