package memory_test

import (
	"context"
	"os"
	"strings"
	"testing"
	"testing/synctest"

	"hermesd/agent/injection"
	"hermesd/agent/memory/provider"
	"hermesd/agent/prompt"
)

// Attacks that a provider returns as memories: what the scan finds enters no prompt.
func TestAttacksAsMemories(t *testing.T) {
	raw, err := os.ReadFile("../../agent/injection/testdata/last/attacks.txt")
	if err != nil {
		t.Fatal(err)
	}
	var attacks []string
	for part := range strings.SplitSeq("\n"+string(raw), "\n== ") {
		if _, text, ok := strings.Cut(part, "\n"); ok && strings.TrimSpace(text) != "" {
			attacks = append(attacks, strings.TrimSpace(text))
		}
	}
	found := 0
	synctest.Test(t, func(t *testing.T) {
		f, set := newFake(), settings()
		set.MaxChars = 1 << 20
		f.recall = func(context.Context, provider.Scope, string) ([]provider.Item, error) { return items(attacks...), nil }
		standing := ""
		f.standing = func(provider.Scope) (string, error) { return standing, nil }
		b := open(t, f, newQueue(), set)
		block, _ := b.begin(owner("s", 0, question))
		for _, a := range attacks {
			shown := strings.Contains(block, "- "+strings.ReplaceAll(prompt.EscapeTags(a), "\n", "\n  ")+"\n")
			if hit := injection.Scan(a) != nil; hit == shown {
				t.Errorf("found %v, shown %v: %q", hit, shown, a)
			} else if hit {
				found++
			}
			f.locked(func() { standing = a })
			b.commit(b.EndEvents(owner("s", 1, "")))
			later(0)
			if text, _ := b.Static(t.Context(), owner("s", 1, "")); injection.Scan(a) != nil && (strings.Contains(text, a) || !strings.Contains(text, "[1 item left out: ")) {
				t.Errorf("frozen: %q", text)
			}
		}
	})
	if t.Logf("%d of %d attacks are left out", found, len(attacks)); found < len(attacks)/2 {
		t.Error("that is less than half")
	}
}
