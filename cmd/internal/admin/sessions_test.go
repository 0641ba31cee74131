package admin_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap"

	"hermesd/agent/llm"
	"hermesd/cmd/internal/admin"
	"hermesd/gateway/session"
	"hermesd/gateway/store"
	"hermesd/internal/secret"
)

// An archivist is a store whose conversations can be renamed and deleted.
type archivist struct {
	*fakeStore
	store.Editor
	gone []session.ID
}

func (k *archivist) SetTitle(_ context.Context, id session.ID, title string) error {
	for i := range k.sessions {
		if k.sessions[i].ID == id {
			k.sessions[i].Title = title
			return k.err
		}
	}
	return session.ErrNotFound
}

func (k *archivist) Session(_ context.Context, id session.ID) (session.Deleted, error) {
	if k.err != nil {
		return session.Deleted{}, k.err
	}
	k.gone = append(k.gone, id)
	return session.Deleted{ID: id, Messages: 3, Files: []string{"f"}}, nil
}

func newArchivist(t *testing.T) (*archivist, *admin.Client) {
	t.Helper()
	k := &archivist{fakeStore: filled(t)}
	c := admin.Local(admin.NewHandler(admin.Options{Log: zap.NewNop(), Masker: new(secret.Masker), Store: k.fakeStore, Keeper: k, Eraser: k}))
	ends(t, c.Close)
	return k, c
}

func TestConversationsAreNamedAndDeletedByAnyNameTheyHave(t *testing.T) {
	k, c := newArchivist(t)
	rec, err := c.Rename(t.Context(), "aaaa1111", " The\ntrip & more?\u202e ")
	if err != nil || rec.ID != one || rec.Title != "The trip & more?" || k.sessions[0].Title != rec.Title {
		t.Errorf("got %+v, %v", rec, err)
	}
	gone, err := c.Delete(t.Context(), "the trip & MORE?")
	if err != nil || gone.ID != one || gone.Messages != 3 {
		t.Errorf("got %+v, %v", gone, err)
	}
	if d := cmp.Diff([]session.ID{one}, k.gone); d != "" {
		t.Error(d)
	}
	_, err = c.Delete(t.Context(), "20261121") // both begin so
	wantError(t, err, http.StatusConflict, "fits 2 sessions")
	_, err = c.Rename(t.Context(), "nowhere", "x")
	wantError(t, err, http.StatusNotFound, "no session")
	if rec, err = c.Rename(t.Context(), string(one), ""); err != nil || rec.Title != "" {
		t.Errorf("got %+v, %v", rec, err)
	}
}

// The list shows the name of the chat where there is no title.
func TestSessionIsFoundByTheNameInTheList(t *testing.T) {
	k, c := newArchivist(t)
	k.sessions[0].Title, k.sessions[0].Name, k.sessions[1].Title, k.sessions[1].Name = "", "terminal", "Trip", "terminal"
	if s, err := c.Session(t.Context(), "Terminal", 0, false); err != nil || s.Record.ID != k.sessions[0].ID {
		t.Errorf("got %s, %v", s.Record.ID, err)
	}
	k.sessions[1].Title = ""
	_, err := c.Session(t.Context(), "terminal", 0, false)
	wantError(t, err, http.StatusConflict, "fits 2 sessions")
}

func TestWhatCannotBeDeletedSaysWhy(t *testing.T) {
	k, _ := newArchivist(t)
	for want, err := range map[string]error{"/stop": session.ErrBusy, "any more": session.ErrNotFound, "disk on fire": errors.New("disk on fire")} {
		code := map[error]int{session.ErrBusy: http.StatusConflict, session.ErrNotFound: http.StatusNotFound}[err]
		if code == 0 {
			code = http.StatusInternalServerError
		}
		failing := &archivist{fakeStore: &fakeStore{err: err}}
		fc := admin.Local(admin.NewHandler(admin.Options{Log: zap.NewNop(), Masker: new(secret.Masker), Store: k.fakeStore, Keeper: k, Eraser: failing}))
		_, got := fc.Delete(t.Context(), string(one))
		wantError(t, got, code, want)
		ends(t, fc.Close)
	}
	if len(k.gone) > 0 {
		t.Errorf("%v are gone", k.gone)
	}
}

func TestExportsComeOverTheSocket(t *testing.T) {
	each(t, func(t *testing.T, r *rig, c *admin.Client) {
		md, err := c.Export(t.Context(), string(one), "markdown")
		if err != nil || md.Session != one || !strings.Contains(md.Text, "### 1 assistant\n\nmy key is <secret>\n") {
			t.Errorf("got %+v, %v", md, err)
		}
		lines, err := c.Export(t.Context(), string(one), "jsonl")
		if err != nil || strings.Count(lines.Text, "\n") != 4 || strings.Contains(lines.Text, "sk-very-secret") {
			t.Errorf("got %+v, %v", lines, err)
		}
		_, err = c.Export(t.Context(), string(one), "docx")
		wantError(t, err, http.StatusBadRequest, "markdown or jsonl")
		_, err = c.Export(t.Context(), "nowhere", "jsonl")
		wantError(t, err, http.StatusNotFound, "nowhere")
	})
}

func TestExpiredConversationsAreListed(t *testing.T) {
	k, c := newArchivist(t)
	now := time.Now()
	k.sessions[0].Updated, k.sessions[1].Updated = now, now.Add(-48*time.Hour)
	ids, err := c.Expired(t.Context(), now.Add(-24*time.Hour))
	if err != nil || len(ids) != 1 || ids[0] != k.sessions[1].ID {
		t.Errorf("got %v, %v", ids, err)
	}
	if ids, err = c.Expired(t.Context(), now.Add(-72*time.Hour)); err != nil || len(ids) != 0 {
		t.Errorf("got %v, %v", ids, err)
	}
}

// numbered is a store whose rows contain their numbers.
type numbered struct{ *fakeStore }

func (numbered) Rows(_ context.Context, _ session.ID, span session.Span) (rows []store.Doc[llm.Message], err error) {
	for i := span.From; i < span.To; i++ {
		rows = append(rows, []byte(fmt.Sprintf(`{"role":"user","blocks":[{"type":"text","text":"row %d"}]}`, i)))
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
	c := admin.Local(admin.NewHandler(admin.Options{Log: zap.NewNop(), Masker: new(secret.Masker), Store: numbered{s}}))
	defer func() { _ = c.Close(t.Context()) }()
	for from, want := range map[int][]int{0: {1, 2, 3, 6, 10, 11, 12}, 2: {3, 6, 10, 11, 12}, 5: {11, 12}, 9: nil} {
		got, err := c.Session(t.Context(), string(one), from, true)
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
