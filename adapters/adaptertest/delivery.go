package adaptertest

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"hermesd/gateway/chat"
)

// A Promise is what docs/delivery.md promises for a platform, as far as it can be tested.
type Promise struct {
	Once   bool // the platform recognizes a message that is sent again
	Lookup bool // the adapter can find out whether a message arrived
}

// PromisedFor returns the promise for p from the first of the two tables with a row for
// each platform. The working directory is a folder of adapters.
func PromisedFor(t testing.TB, p chat.Platform) Promise {
	t.Helper()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "delivery.md"))
	if err != nil {
		t.Fatal(err)
	}
	var rows [][]string
	for line := range strings.Lines(string(page)) {
		if strings.HasPrefix(line, "| **"+string(p)+"** |") {
			rows = append(rows, strings.Split(strings.Trim(strings.TrimSpace(line), "| "), " | "))
		}
	}
	if len(rows) != 2 || len(rows[0]) != 6 || len(rows[1]) != 3 {
		t.Fatalf("docs/delivery.md has no row for %s in each table, of 6 and 3 cells", p)
	}
	answers := rows[0][4:]
	if slices.ContainsFunc(answers, func(s string) bool { return s != "yes" && s != "no" }) {
		t.Fatalf("docs/delivery.md says %q for %s, want yes or no", answers, p)
	}
	return Promise{Once: answers[0] == "yes", Lookup: answers[1] == "yes"}
}

// delivery compares an adapter with the guarantees of its platform.
func (s *stage) delivery() {
	d, r, room := PromisedFor(s, s.p.Profile.Platform), s.start(""), s.w.Direct("", 0)
	in, ok := s.next(r, func() { room.Say("hello") })
	if !ok || !s.p.Key.MatchString(in.IdempotencyKey) {
		s.Errorf("the key of a message is %q, want %s", in.IdempotencyKey, s.p.Key)
	}
	_, finds := r.a.(chat.Finder)
	if f := r.a.Capabilities(); f.CanFind != d.Lookup || finds != d.Lookup {
		s.Errorf("it can be asked: features say %v, the adapter %v, promised is %v", f.CanFind, finds, d.Lookup)
	}
	m := chat.Outbound{ID: "o1", To: room.At(), Text: chat.PlainText("the same again")}
	for range 2 {
		if _, err := r.a.Send(s.Context(), m); err != nil {
			s.Fatal(err)
		}
		pass(time.Second)
	}
	if n := len(room.Visible()); (n == 1) != d.Once {
		s.Errorf("sent twice, visible %d times, promised is that a repeat is known: %v", n, d.Once)
	}
	if !finds {
		return
	}
	again := s.w.Connect("") // without memory of the sends
	s.until(s.launch(again, r.inbox).a, chat.Connected, s.p.Period)
	finder := again.(chat.Finder)
	if _, ok, err := finder.Find(s.Context(), m); err != nil || !ok {
		s.Errorf("a message that arrived is not found: %v", err)
	}
	never := chat.Outbound{ID: "o2", To: room.At(), Text: chat.PlainText("never sent")}
	if _, ok, err := finder.Find(s.Context(), never); err != nil || ok {
		s.Errorf("a message that was never sent is found: %v, %v", ok, err)
	}
}
