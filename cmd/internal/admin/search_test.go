package admin_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hermesd/cmd/internal/admin"
	"hermesd/gateway/session"
)

// numbered is a store whose rows contain their numbers.
type numbered struct{ *store }

func (numbered) Rows(_ context.Context, _ session.ID, span session.Span) (rows []json.RawMessage, err error) {
	for i := span.From; i < span.To; i++ {
		rows = append(rows, json.RawMessage(fmt.Sprintf(`{"role":"user","blocks":[{"type":"text","text":"row %d"}]}`, i)))
	}
	return rows, nil
}

func TestAWholeConversationHasItsArchivedMessagesFirst(t *testing.T) {
	s := filled(t)
	for i := range s.sessions {
		if s.sessions[i].ID == one {
			s.sessions[i].Start, s.sessions[i].Messages = 10, 3
			s.sessions[i].Archive = []session.Span{{From: 1, To: 4}, {From: 6, To: 7}}
		}
	}
	c := admin.Local(admin.NewHandler(admin.Options{Store: numbered{s}}))
	defer func() { _ = c.Close(t.Context()) }()
	for from, want := range map[int][]int{0: {1, 2, 3, 6, 10, 11, 12}, 2: {3, 6, 10, 11, 12}, 5: {11, 12}, 9: nil} {
		got, err := c.SessionWithArchive(t.Context(), string(one), from)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, got.Rows); d != "" || len(got.Messages) != len(want) {
			t.Errorf("from %d: %s", from, d)
		}
		for i, n := range got.Rows {
			if text := got.Messages[i].Text(); text != fmt.Sprint("row ", n) {
				t.Errorf("row %d says %q", n, text)
			}
		}
	}
}
