package enginetest

import (
	"fmt"
	"strings"

	"pgregory.net/rapid"

	"hermesd/agent/llm"
)

// texts generates texts of any size in several scripts.
func texts() *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		word := rapid.SampledFrom([]string{"word ", "日本語の文", "слово ", "안녕 ", "🙂", "x", "{\"a\":1} ", "\n## Goal\n"}).Draw(t, "word")
		n := rapid.SampledFrom([]int{1, 1, 3, 30, 300, 1000}).Draw(t, "times")
		return strings.Repeat(word, n)
	})
}

// Legal generates legal conversations: turns with tool loops, pictures and long
// outputs. They may end with either role.
func Legal() *rapid.Generator[[]llm.Message] {
	return rapid.Custom(func(t *rapid.T) []llm.Message {
		var ms []llm.Message
		id := 0
		for range rapid.IntRange(1, 25).Draw(t, "turns") {
			user := llm.UserText(texts().Draw(t, "ask"))
			if rapid.IntRange(0, 9).Draw(t, "picture") == 0 {
				user.Blocks = append(user.Blocks, llm.Block{Type: llm.Image, MIME: "image/png", Path: "/p.png"})
			}
			ms = append(ms, user)
			for range rapid.SampledFrom([]int{0, 0, 1, 2, 12}).Draw(t, "loop") {
				a, r := llm.Message{Role: llm.Assistant}, llm.Message{Role: llm.User}
				for range rapid.IntRange(1, 3).Draw(t, "calls") {
					id++
					name := fmt.Sprintf("call_%d", id)
					a.Blocks = append(a.Blocks, toolUse(name, `{"q":"`+strings.Repeat("y", rapid.SampledFrom([]int{1, 400}).Draw(t, "input"))+`"}`))
					r.Blocks = append(r.Blocks, toolResult(name, texts().Draw(t, "output")))
				}
				if rapid.Bool().Draw(t, "raw") {
					a.Raw, a.Dialect = []byte(`{"raw":true}`), "d"
				}
				ms = append(ms, a, r)
			}
			ms = append(ms, llm.AssistantText(texts().Draw(t, "answer")))
		}
		if rapid.Bool().Draw(t, "open") {
			ms = append(ms, llm.UserText(texts().Draw(t, "newest")))
		}
		return ms
	})
}

// Any generates lists that may also be illegal for every provider: calls and
// results without their counterpart, duplicate IDs, empty messages, only
// results.
func Any() *rapid.Generator[[]llm.Message] {
	return rapid.Custom(func(t *rapid.T) []llm.Message {
		if rapid.Bool().Draw(t, "legal") {
			return Legal().Draw(t, "conversation")
		}
		only := rapid.IntRange(0, 9).Draw(t, "only results") == 0
		var ms []llm.Message
		for range rapid.IntRange(0, 60).Draw(t, "messages") {
			m := llm.Message{Role: rapid.SampledFrom([]llm.Role{llm.User, llm.Assistant}).Draw(t, "role")}
			for range rapid.IntRange(0, 3).Draw(t, "blocks") {
				id := rapid.SampledFrom([]string{"a", "b", "c", "d", "", "not an id"}).Draw(t, "id")
				kind := rapid.IntRange(0, 5).Draw(t, "kind")
				if only {
					kind = 4
				}
				switch kind {
				case 0, 1:
					m.Blocks = append(m.Blocks, llm.Block{Type: llm.Text, Text: texts().Draw(t, "text")})
				case 2:
					m.Blocks = append(m.Blocks, llm.Block{Type: llm.Text, Text: " "})
				case 3:
					m.Blocks = append(m.Blocks, toolUse(id, rapid.SampledFrom([]string{"{}", "[", ""}).Draw(t, "input")))
				case 4:
					m.Blocks = append(m.Blocks, toolResult(id, texts().Draw(t, "output")))
				default:
					m.Blocks = append(m.Blocks, llm.Block{Type: llm.Image, MIME: "image/png", Path: "/p.png"})
				}
			}
			ms = append(ms, m)
		}
		return ms
	})
}
