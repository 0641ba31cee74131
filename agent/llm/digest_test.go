package llm_test

import (
	"encoding/json"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"hermesd/agent/llm"
)

func TestDigestsDifferByMessage(t *testing.T) {
	base := llm.Message{Role: llm.User, Blocks: []llm.Block{{Type: llm.Text, Text: "ab"}, {Type: llm.Text, Text: "c"}}}
	others := map[string]func(*llm.Message){
		"role":     func(m *llm.Message) { m.Role = llm.Assistant },
		"text":     func(m *llm.Message) { m.Blocks[0].Text = "aB" },
		"border":   func(m *llm.Message) { m.Blocks[0].Text, m.Blocks[1].Text = "a", "bc" },
		"type":     func(m *llm.Message) { m.Blocks[0].Type = llm.Thinking },
		"id":       func(m *llm.Message) { m.Blocks[0].ID = "x" },
		"name":     func(m *llm.Message) { m.Blocks[0].Name = "x" },
		"input":    func(m *llm.Message) { m.Blocks[0].Input = json.RawMessage(`{}`) },
		"failed":   func(m *llm.Message) { m.Blocks[0].Failed = true },
		"picture":  func(m *llm.Message) { m.Blocks[0].Path = "/p" },
		"raw":      func(m *llm.Message) { m.Raw = json.RawMessage(`[]`) },
		"dialect":  func(m *llm.Message) { m.Dialect = "d" },
		"one more": func(m *llm.Message) { m.Blocks = append(m.Blocks, llm.Block{}) },
	}
	var zero llm.Digest
	seen := map[llm.Digest]string{zero.Message(base): "base"}
	for name, change := range others {
		m := base
		m.Blocks = slices.Clone(base.Blocks)
		change(&m)
		d := zero.Message(m)
		if other, ok := seen[d]; ok {
			t.Errorf("%s has the digest of %s", name, other)
		}
		seen[d] = name
	}
	if zero.Add("a").Add("b") == zero.Add("b").Add("a") {
		t.Error("the order does not count")
	}
	// Stored digests must keep their value in later versions.
	if got := zero.Message(base).String(); got != wantDigest {
		t.Errorf("the digest changed: %s", got)
	}
	b, _ := json.Marshal(zero.Message(base))
	var back llm.Digest
	if err := json.Unmarshal(b, &back); err != nil || back != zero.Message(base) {
		t.Errorf("%s came back as %v, %v", b, back, err)
	}
	for _, bad := range []string{`"zz"`, `""`, `"00"`} {
		if err := json.Unmarshal([]byte(bad), &back); err == nil {
			t.Errorf("%s was read as a digest", bad)
		}
	}
}

// TestTranscriptCachesFollowChanges grows and truncates a transcript and compares it with a new
// one.
func TestTranscriptCachesFollowChanges(t *testing.T) {
	size := func(m llm.Message) int { return len(m.Text()) }
	rapid.Check(t, func(t *rapid.T) {
		tr := llm.NewTranscript()
		var held, copied [][]llm.Digest
		for range rapid.IntRange(1, 20).Draw(t, "steps") {
			if rapid.IntRange(0, 3).Draw(t, "kind") == 0 {
				tr.Truncate(rapid.IntRange(0, tr.Len()).Draw(t, "to"))
			} else {
				tr.Append(llm.UserText(rapid.StringN(0, 5, -1).Draw(t, "text")))
			}
			n := rapid.IntRange(0, tr.Len()).Draw(t, "n")
			fresh := llm.NewTranscript(slices.Clone(tr.Since(0))...)
			if got, want := tr.Sum("size", n, size), fresh.Sum("size", n, size); got != want {
				t.Fatalf("sum of %d: got %d, want %d", n, got, want)
			}
			got := tr.Digests(n)
			if !slices.Equal(got, fresh.Digests(n)) {
				t.Fatalf("digests of %d differ", n)
			}
			held, copied = append(held, got), append(copied, slices.Clone(got))
		}
		for i := range held {
			if !slices.Equal(held[i], copied[i]) {
				t.Fatal("digests that were given out changed")
			}
		}
	})
}

const wantDigest = "925497bbd3d842bbb600e0dd"
