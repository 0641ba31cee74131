package index_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/zap"

	"hermesd/agent/llm"
	"hermesd/gateway/session"
	"hermesd/gateway/store"
	"hermesd/storage/index"
)

// canaries returns words of one session, in their original and in their indexed
// form.
func canaries() []string { return []string{"zyzzyva", "quokkaberry", "貓頭鷹"} }

// findCanary returns a canary that is in a file of the index, "" if there is
// none.
func findCanary(t *testing.T, path string) string {
	t.Helper()
	for _, end := range []string{"", "-wal", "-shm", "-journal"} {
		raw, err := os.ReadFile(path + end)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		for _, c := range append(canaries(), "貓頭", "頭鷹") {
			if bytes.Contains(raw, []byte(c)) {
				return c + " in " + filepath.Base(path+end)
			}
		}
	}
	return ""
}

func TestForgetLeavesNothingInFile(t *testing.T) {
	for name, optimized := range map[string]bool{"in many pieces": false, "in one piece": true} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "search.db")
			x := open(t, path)
			for i := range 40 {
				addTexts(t, x, dm(fmt.Sprint("other", i), "2"), "an ordinary sentence", fmt.Sprint("number", i))
			}
			addTexts(t, x, dm("s1", "1"), "the zyzzyva is here", "and the quokkaberry, 貓頭鷹")
			if optimized {
				if err := x.Compact(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			if findCanary(t, path) == "" {
				t.Fatal("the words were never in the file: the test proves nothing")
			}
			if err := x.Forget(t.Context(), "s1"); err != nil {
				t.Fatal(err)
			}
			for _, c := range canaries() {
				if rows := rowsOf(t, x, c); len(rows) > 0 {
					t.Errorf("%s is found", c)
				}
			}
			if err := x.Compact(t.Context()); err != nil {
				t.Fatal(err)
			}
			if c := findCanary(t, path); c != "" {
				t.Error("the file still contains ", c)
			}
			if n := len(find(t, x, index.Query{Text: "ordinary", Scope: index.OperatorScope(), Limit: 100})); n != 40 {
				t.Errorf("%d of 40 others are found", n)
			}
		})
	}
}

// TestForgottenSessionIsNotIndexedAgain deletes a session after its rows were
// read and before they are indexed.
func TestForgottenSessionIsNotIndexedAgain(t *testing.T) {
	x, w := newIndex(t), newFakeStore()
	w.add(dm("s1", "1"), "the zyzzyva")
	w.add(dm("s2", "1"), "another")
	late := newFollower(x, w)
	slow := slowSource{w, func(id session.ID) {
		if id == "s1" {
			delete(w.recs, id)
			if err := x.Forget(context.Background(), id); err != nil {
				t.Error(err)
			}
		}
	}}
	if _, err := index.NewFollower(x, slow, "", nopLog()).CatchUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	if rows := rowsOf(t, x, "zyzzyva"); len(rows) > 0 {
		t.Error("it is found")
	}
	if err := x.Reset(); err != nil { // rebuilt from the store
		t.Fatal(err)
	}
	if _, err := late.CatchUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	if rows := rowsOf(t, x, "zyzzyva"); len(rows) > 0 {
		t.Error("it is found in the new index")
	}
	if rows := rowsOf(t, x, "another"); len(rows) != 1 {
		t.Error("the other session is not found")
	}
}

// TestCatchUpRemovesSessionDeletedInCrash deletes a session from the store
// only.
func TestCatchUpRemovesSessionDeletedInCrash(t *testing.T) {
	x, w := newIndex(t), newFakeStore()
	w.add(dm("s1", "1"), "the zyzzyva")
	if _, err := newFollower(x, w).CatchUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	delete(w.recs, "s1")
	if _, err := newFollower(x, w).CatchUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	if rows := rowsOf(t, x, "zyzzyva"); len(rows) > 0 {
		t.Error("it is found")
	}
}

func TestCompactOfClosedIndex(t *testing.T) {
	x := open(t, filepath.Join(t.TempDir(), "search.db"))
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
	if err := x.Compact(t.Context()); err == nil {
		t.Error("no error")
	}
}

// A slowSource calls read for a session after it has read rows and before it
// returns them.
type slowSource struct {
	*fakeStore
	read func(session.ID)
}

func (s slowSource) Rows(ctx context.Context, id session.ID, span session.Span) ([]store.Doc[llm.Message], error) {
	rows, err := s.fakeStore.Rows(ctx, id, span)
	s.read(id)
	return rows, err
}

func nopLog() *zap.Logger { return zap.NewNop() }
