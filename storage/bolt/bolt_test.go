package bolt_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"

	"hermesd/agent/llm"
	"hermesd/gateway/chat"
	"hermesd/gateway/inbox"
	"hermesd/gateway/outbox"
	"hermesd/gateway/session"
	"hermesd/gateway/store"
	"hermesd/storage/bolt"
	"hermesd/storage/storagetest"
)

var _ store.Store = (*bolt.Store)(nil)

// childEnv, if set, selects what this process does instead of running tests.
const childEnv = "BOLT_TEST_CHILD"

func TestMain(m *testing.M) {
	if what := os.Getenv(childEnv); what != "" {
		os.Exit(child(what))
	}
	// Each check of the model syncs several hundred times; a flag on the
	// command line can raise the number.
	if err := flag.Set("rapid.checks", "50"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

func open(t testing.TB, dir string) *bolt.Store {
	t.Helper()
	return openWith(t, dir, bolt.Options{})
}

func openWith(t testing.TB, dir string, o bolt.Options) *bolt.Store {
	t.Helper()
	s, err := bolt.Open(t.Context(), storePath(dir), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func storePath(dir string) string { return filepath.Join(dir, "hermesd.db") }

func TestSuite(t *testing.T) {
	t.Parallel()
	storagetest.Suite(t, func(t testing.TB, dir string) store.Store {
		s, err := bolt.Open(t.Context(), storePath(dir), bolt.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return s
	})
}

func must[T any](t testing.TB) func(v T, err error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

var testDM = chat.Address{Platform: chat.Telegram, Kind: chat.DM, Chat: "7"}

func event(lane inbox.Lane, key, text string) inbox.Entry {
	return inbox.Entry{
		Lane: lane, Session: session.Key(lane),
		Inbound: chat.Inbound{IdempotencyKey: key, ID: "id-" + key, Kind: chat.Message, Address: testDM, Text: text},
	}
}

func newRow(to chat.Address, text string) outbox.Row {
	return outbox.Row{Role: outbox.Reply, Msg: chat.Outbound{To: to, Text: chat.PlainText(text)}}
}

// runTurn runs one complete turn: accepted, claimed, one message added to the
// session, one row sent.
func runTurn(t testing.TB, s *bolt.Store, lane inbox.Lane, id session.ID, n int) {
	t.Helper()
	must[[]store.Acceptance](t)(s.Accept(t.Context(), []store.Admission{{Entry: event(lane, fmt.Sprintf("%s-%d", lane, n), "a question")}}))
	c := must[store.Claim](t)(s.Claim(t.Context(), lane, 0))
	must[[]outbox.Row](t)(s.CommitTurn(t.Context(), c, turnCommit(lane, id, n)))
	r, _, sending, err := s.Next(t.Context(), testDM)
	ok(t, err)
	if !sending {
		t.Fatal("the answer is not to be sent")
	}
	ok(t, s.Settle(t.Context(), outbox.Settlement{ID: r.ID, State: outbox.Sent, Receipt: &chat.Receipt{ID: "r"}}))
}

// turnCommit returns the commit of the nth turn of a session.
func turnCommit(lane inbox.Lane, id session.ID, n int) store.Turn {
	rec := session.Record{ID: id, Key: session.Key(lane), Address: testDM, Updated: time.Now(), Messages: 2 * (n + 1)}
	m := store.Turn{
		End:      store.End{Outcome: inbox.Outcome{Result: inbox.Replied}, Rows: []outbox.Row{newRow(testDM, "an answer")}, Trace: []byte(`{}`)},
		Session:  rec,
		Messages: []store.Doc[llm.Message]{fmt.Appendf(nil, `{"role":"user","n":%d}`, n), fmt.Appendf(nil, `{"role":"assistant","n":%d}`, n)},
	}
	if n == 0 {
		m.Create = &store.Creation{Record: rec, Prompt: []byte(`{"system":"you are"}`)}
	}
	return m
}
