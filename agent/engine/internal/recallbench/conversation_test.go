// Package recallbench_test measures how much context engines retain: it generates
// long conversations with planted facts, plays them call by call through an
// engine, and counts the facts that are in the context afterwards, those that a
// search of the archive finds, and those that are lost. It also counts the
// tokens sent. The main type is Bench.
//
// Everything is derived from a seed, so the same input gives the same figures.
package recallbench_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"

	"hermesd/agent/llm"
)

// Planted is the number of facts in a conversation.
const Planted = 50

// A Language describes the text of a conversation.
type Language struct {
	Name  string
	words []string
	gap   string // between words
	stop  string // after a sentence
	fact  string // takes the number of a thing and its key
	key   string // takes four digits
	digit []string
}

// English returns a language with words separated by spaces.
func English() Language {
	return Language{
		Name: "English", gap: " ", stop: ". ",
		words: strings.Fields("the build was slow because a worker waits for its lock and nobody reads queue files before noon so we moved every report into another table that keeps old rows while new ones arrive from several hosts"),
		fact:  "The locker of crew %d is %s", key: "heron-%s",
		digit: strings.Split("0123456789", ""),
	}
}

// Japanese returns a language without spaces.
func Japanese() Language {
	return Language{
		Name: "Japanese", stop: "。",
		words: strings.Fields("朝の 報告は 表に 移し 古い 行を 残す 作業は 遅い ので 鍵を 待つ 列を 読む 前に 保存 する 新しい 機械から 届く 記録を 調べて 直す 予定 です しかし 誰も 見ない"),
		fact:  "班%dの棚の番号は%sです", key: "青鷺%s",
		digit: strings.Split("〇一二三四五六七八九", ""),
	}
}

// A Conversation is a transcript and the keys of the facts planted in it.
type Conversation struct {
	Messages []llm.Message
	Keys     []string
}

// messagesPerTurn counts the question, a call, its output and the answer.
const messagesPerTurn = 4

// Make returns a conversation of n messages, which must be a multiple of four
// and at least 4 × Planted. Of each five facts three are in user messages, one
// in an assistant message and one in tool output, at the beginning, in the
// middle or at the end of the text.
func Make(l Language, n int, seed uint64) Conversation {
	r := rand.New(rand.NewPCG(seed, uint64(n)))
	turns := n / messagesPerTurn
	at := map[int]int{}
	for i := range Planted {
		from, to := i*turns/Planted, (i+1)*turns/Planted
		at[from+r.IntN(to-from)] = i
	}
	c := Conversation{Keys: make([]string, Planted)}
	for t := range turns {
		var facts [3]string
		if i, ok := at[t]; ok {
			c.Keys[i] = l.keyFor(1000 + 137*i)
			facts[[5]int{0, 0, 0, 1, 2}[i%5]] = fmt.Sprintf(l.fact, i, c.Keys[i])
		}
		id := fmt.Sprintf("call_%d", t)
		input, err := json.Marshal(map[string]string{"query": l.sentence(r)})
		if err != nil {
			panic(err) // unreachable: a map of strings
		}
		c.Messages = append(c.Messages,
			llm.UserText(l.text(r, 5, facts[0])),
			llm.Message{Role: llm.Assistant, Blocks: []llm.Block{
				{Type: llm.Text, Text: l.text(r, 1, "")}, {Type: llm.ToolUse, ID: id, Name: "look", Input: input}}},
			llm.Message{Role: llm.User, Blocks: []llm.Block{{Type: llm.ToolResult, ID: id, Text: l.text(r, 40, facts[2])}}},
			llm.AssistantText(l.text(r, 10, facts[1])))
	}
	return c
}

// keyFor returns a key that occurs nowhere else in a conversation.
func (l Language) keyFor(n int) string {
	var b strings.Builder
	for _, d := range fmt.Sprint(n) {
		b.WriteString(l.digit[d-'0'])
	}
	return fmt.Sprintf(l.key, b.String())
}

func (l Language) sentence(r *rand.Rand) string {
	out := make([]string, 8+r.IntN(8))
	for i := range out {
		out[i] = l.words[r.IntN(len(l.words))]
	}
	return strings.Join(out, l.gap)
}

// text returns about n sentences, including fact unless it is empty.
func (l Language) text(r *rand.Rand, n int, fact string) string {
	n = max(n/2+r.IntN(n+1), 1)
	at := [3]int{0, n / 2, n}[r.IntN(3)]
	var b strings.Builder
	for i := range n + 1 {
		if i == at && fact != "" {
			b.WriteString(fact + l.stop)
		}
		if i < n {
			b.WriteString(l.sentence(r) + l.stop)
		}
	}
	return strings.TrimSpace(b.String())
}
