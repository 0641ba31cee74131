package index_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/zap"

	"hermesd/gateway/session"
	"hermesd/storage/index"
)

// canaries are words that stand in one session only, as they are and as they are
// indexed.
func canaries() []string { return []string{"zyzzyva", "quokkaberry", "貓頭鷹"} }

// holds reports which canary stands in a file of the index.
func holds(t *testing.T, path string) string {
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

func TestOfAForgottenSessionNothingIsLeft(t *testing.T) {
	for name, optimized := range map[string]bool{"in many pieces": false, "in one piece": true} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "search.db")
			x := open(t, path)
			for i := range 40 {
				put(t, x, dm(fmt.Sprint("other", i), "2"), "an ordinary sentence", fmt.Sprint("number", i))
			}
			put(t, x, dm("s1", "1"), "the zyzzyva is here", "and the quokkaberry, 貓頭鷹")
			if optimized {
				if err := x.Compact(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			if holds(t, path) == "" {
				t.Fatal("the words were never there: the test proves nothing")
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
			if c := holds(t, path); c != "" {
				t.Error("there is ", c)
			}
			if n := len(find(t, x, index.Query{Text: "ordinary", Scope: index.OperatorScope(), Limit: 100})); n != 40 {
				t.Errorf("%d of 40 others are found", n)
			}
		})
	}
}

// TestAFollowerDoesNotBringAForgottenSessionBack has a session deleted between
// the read of its rows and their coming into the index.
func TestAFollowerDoesNotBringAForgottenSessionBack(t *testing.T) {
	x, w := fresh(t), newWorld()
	w.say(dm("s1", "1"), "the zyzzyva")
	w.say(dm("s2", "1"), "another")
	late := follow(x, w)
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
	if err := x.Reset(); err != nil { // made anew from the store
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

// TestASessionDeletedInACrashIsSweptAtTheStart deletes it from the store alone.
func TestASessionDeletedInACrashIsSweptAtTheStart(t *testing.T) {
	x, w := fresh(t), newWorld()
	w.say(dm("s1", "1"), "the zyzzyva")
	if _, err := follow(x, w).CatchUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	delete(w.recs, "s1")
	if _, err := follow(x, w).CatchUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	if rows := rowsOf(t, x, "zyzzyva"); len(rows) > 0 {
		t.Error("it is found")
	}
}

func TestAClosedIndexIsNotCompacted(t *testing.T) {
	x := open(t, filepath.Join(t.TempDir(), "search.db"))
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
	if err := x.Compact(t.Context()); err == nil {
		t.Error("no error")
	}
}

// A slowSource says of which session it has read rows before it hands them over.
type slowSource struct {
	*world
	read func(session.ID)
}

func (s slowSource) Rows(ctx context.Context, id session.ID, span session.Span) ([]json.RawMessage, error) {
	rows, err := s.world.Rows(ctx, id, span)
	s.read(id)
	return rows, err
}

func nopLog() *zap.Logger { return zap.NewNop() }
