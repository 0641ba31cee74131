package bolt_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"hermesd/agent/llm"
	"hermesd/agent/llm/ledger"
	"hermesd/gateway/chat"
	"hermesd/gateway/inbox"
	"hermesd/gateway/outbox"
	"hermesd/gateway/session"
	"hermesd/gateway/store"
	"hermesd/storage/bolt"
	"hermesd/storage/storagetest"
)

// canary is part of every text that a session can contain.
const canary = "canary-5f1c"

// fillWithCanaries fills a session with canaries wherever users, models and
// platforms can put text.
func fillWithCanaries(t *testing.T, s *bolt.Store, id session.ID) {
	t.Helper()
	e := event("lane", "k1", canary+" text")
	e.Inbound.Sender = chat.Person{ID: "7", Name: canary, Handle: canary}
	e.Inbound.ReplyTo = &chat.Quote{ID: "1", Text: canary}
	e.Inbound.Files = []chat.File{{Name: canary, Path: "/media/" + canary}}
	e.Inbound.Prompt, e.Inbound.ChatName, e.Inbound.Topic = canary, canary, canary
	must[[]store.Acceptance](t)(s.Accept(t.Context(), []store.Admission{{Entry: e}}))
	c := must[store.Claim](t)(s.Claim(t.Context(), "lane", 0))
	ok(t, s.RecordStep(t.Context(), c, store.Step{Doc: []byte(`"` + canary + `"`)}))
	secret := []byte(`{"text":"` + canary + `"}`)
	rec := session.Record{ID: id, Key: "lane", Address: testDM, Updated: time.Now(), Messages: 2, Calls: 1, Name: canary, Title: canary}
	row := newRow(testDM, canary)
	row.Msg.File = &chat.File{Name: canary, Path: "/media/" + canary}
	row.Msg.Buttons = [][]chat.Button{{{Label: canary, Data: canary}}}
	m := store.Turn{
		End:     store.End{Outcome: inbox.Outcome{Result: inbox.Failed, Reason: canary}, Trace: secret, Rows: []outbox.Row{row, row}},
		Session: rec, Create: &store.Creation{Record: rec, Prompt: secret},
		Compactions: []store.Compaction{{Append: []store.Doc[llm.Message]{secret, secret}, To: 2, Active: []store.Doc[llm.Message]{secret}}},
		Messages:    []store.Doc[llm.Message]{secret}, Calls: []store.Doc[ledger.Record]{secret}, Engine: secret,
	}
	m.Events = []store.Event{{Queue: "q", Key: "k", Group: string(id), Doc: secret}}
	must[[]outbox.Row](t)(s.CommitTurn(t.Context(), c, m))
	for _, state := range []outbox.State{outbox.Sent, outbox.Dead} {
		r, _, _, err := s.Next(t.Context(), testDM)
		ok(t, err)
		ok(t, s.Settle(t.Context(), outbox.Settlement{ID: r.ID, State: state, Reason: canary, Receipt: &chat.Receipt{ID: "r"}}))
	}
	edit := event("lane", "k2", canary+" edited")
	edit.Inbound.Kind, edit.Inbound.EditedKey = chat.Edit, "k1"
	must[[]store.Acceptance](t)(s.Accept(t.Context(), []store.Admission{{Entry: edit}}))
}

// countCanaries returns the number of canaries in the file.
func countCanaries(t *testing.T, path string) int {
	t.Helper()
	return bytes.Count(must[[]byte](t)(os.ReadFile(path)), []byte(canary))
}

func TestDeleteSessionLeavesNoTextInFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, dir)
	runTurn(t, s, "others", "s0", 0)
	fillWithCanaries(t, s, "s1")
	if n := countCanaries(t, storePath(dir)); n < 20 {
		t.Fatalf("%d canaries in the file: the test proves nothing", n)
	}
	must[session.Deleted](t)(s.DeleteSession(t.Context(), store.Deletion{ID: "s1"}))
	ok(t, s.Verify(t.Context()))
	ok(t, s.Compact(t.Context()))
	if n := countCanaries(t, storePath(dir)); n > 0 {
		t.Errorf("%d canaries are left", n)
	}
	ok(t, s.Verify(t.Context()))
	ok(t, s.Close())
	s = open(t, dir)
	if rows := must[[]store.Doc[llm.Message]](t)(storagetest.Transcript(t.Context(), s, "s0", 0)); len(rows) != 2 {
		t.Errorf("the other session has %d rows, want 2", len(rows))
	}
	accepted := must[[]store.Acceptance](t)(s.Accept(t.Context(), []store.Admission{{Entry: event("lane", "k1", "again")}}))
	if accepted[0].IsNew {
		t.Error("a message of the deleted session counts as new")
	}
}

// TestFullFileRejectsBranchWithoutChanges also checks a deletion in a closed
// store.
func TestFullFileRejectsBranchWithoutChanges(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, dir)
	runTurn(t, s, "lane", "s1", 0)
	long := `"` + strings.Repeat("x", 100_000) + `"`
	for n := range 30 {
		must[[]store.Acceptance](t)(s.Accept(t.Context(), []store.Admission{{Entry: event("lane", fmt.Sprint("long", n), "x")}}))
		c := must[store.Claim](t)(s.Claim(t.Context(), "lane", 0))
		m := turnCommit("lane", "s1", n+1)
		m.Messages[1], m.Rows = []byte(long), nil
		must[[]outbox.Row](t)(s.CommitTurn(t.Context(), c, m))
	}
	ok(t, s.Compact(t.Context()))
	ok(t, s.Close())
	s = openWith(t, dir, bolt.Options{MaxBytes: fileSize(t, storePath(dir))})
	to := store.Creation{Record: session.Record{ID: "s2", Key: "lane", Address: testDM, Created: time.Now(), Updated: time.Now()}}
	if _, err := s.Branch(t.Context(), "s1", -1, to); err == nil {
		t.Fatal("a branch was stored in a full file")
	}
	checkUnchanged := func() {
		t.Helper()
		if rows := must[[]store.Doc[llm.Message]](t)(storagetest.Transcript(t.Context(), s, "s1", 0)); len(rows) != 62 {
			t.Errorf("%d rows, want 62", len(rows))
		}
		if _, found, err := s.SessionByID(t.Context(), "s2"); found || err != nil {
			t.Errorf("part of a branch is stored (%t, %v)", found, err)
		}
		ok(t, s.Verify(t.Context()))
	}
	checkUnchanged()
	ok(t, s.Close())
	if _, err := s.DeleteSession(t.Context(), store.Deletion{ID: "s1"}); !errors.Is(err, bolt.ErrClosed) {
		t.Errorf("delete in a closed store: %v", err)
	}
	s = open(t, dir)
	checkUnchanged()
	if rec := must[session.Record](t)(s.Branch(t.Context(), "s1", -1, to)); rec.Messages != 62 {
		t.Errorf("the branch has %d messages, want 62", rec.Messages)
	}
	must[session.Deleted](t)(s.DeleteSession(t.Context(), store.Deletion{ID: "s1"}))
	ok(t, s.Verify(t.Context()))
}
