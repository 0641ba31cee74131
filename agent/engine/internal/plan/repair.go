package plan

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"hermesd/agent/llm"
)

// Texts that replace missing results and a missing first user message.
const (
	Stub    = "[Result from earlier conversation, see the summary above]"
	Opening = "[The conversation begins before this point]"
)

// Repair returns a legal list: results without a call are removed, calls
// without a result get one, adjacent messages of the same role are merged,
// empty messages are removed. A legal list is returned unchanged.
func Repair(ms []llm.Message) (out []llm.Message, changed bool) {
	if llm.ValidateMessages(ms) == nil {
		return ms, false
	}
	r := repair{used: map[string]bool{}}
	for _, m := range ms {
		if m.Role == llm.Assistant {
			r.addAssistant(m)
		} else {
			r.addUser(m)
		}
	}
	r.closeCalls()
	return r.out, true
}

type repair struct {
	out  []llm.Message
	used map[string]bool
	open []openCall // calls of the last message of out, which is an assistant message
	n    int
}

// An openCall is a call without a result, with its original and its new ID.
type openCall struct{ oldID, newID string }

func (r *repair) last() *llm.Message {
	if len(r.out) == 0 {
		return nil
	}
	return &r.out[len(r.out)-1]
}

// closeCalls adds a stub result for each open call.
func (r *repair) closeCalls() {
	if len(r.open) == 0 {
		return
	}
	m := llm.Message{Role: llm.User}
	for _, c := range r.open {
		m.Blocks = append(m.Blocks, llm.Block{Type: llm.ToolResult, ID: c.newID, Text: Stub})
	}
	r.out, r.open = append(r.out, m), nil
}

func (r *repair) addUser(m llm.Message) {
	var results, words []llm.Block
	open := slices.Clone(r.open)
	for _, b := range m.Blocks {
		switch {
		case b.Type == llm.ToolResult:
			if i := slices.IndexFunc(open, func(c openCall) bool { return c.oldID == b.ID }); i >= 0 {
				b.ID = open[i].newID
				open = slices.Delete(open, i, i+1)
				results = append(results, b)
			}
		case b.Type == llm.Image, b.Type == llm.Text && strings.TrimSpace(b.Text) != "":
			words = append(words, b)
		}
	}
	if len(r.open) > 0 {
		if len(results)+len(words) == 0 {
			return
		}
		for _, c := range open {
			results = append(results, llm.Block{Type: llm.ToolResult, ID: c.newID, Text: Stub})
		}
		r.open = nil
		r.out = append(r.out, llm.Message{Role: llm.User, Blocks: append(results, words...)})
		return
	}
	if len(words) == 0 {
		return
	}
	if l := r.last(); l != nil && l.Role == llm.User {
		l.Blocks = append(slices.Clip(l.Blocks), words...)
		return
	}
	r.out = append(r.out, llm.Message{Role: llm.User, Blocks: words})
}

func (r *repair) addAssistant(m llm.Message) {
	blocks, calls, said := []llm.Block(nil), []openCall(nil), false
	whole := true
	for _, b := range m.Blocks {
		switch {
		case b.Type == llm.Thinking:
			blocks = append(blocks, b)
			continue
		case b.Type == llm.Text && strings.TrimSpace(b.Text) != "":
		case b.Type == llm.ToolUse && llm.ValidToolName(b.Name):
			was := b.ID
			b = r.repairCall(b)
			whole = whole && b.ID == was
			calls = append(calls, openCall{was, b.ID})
		default:
			whole = false
			continue
		}
		said = true
		blocks = append(blocks, b)
	}
	if !said {
		return
	}
	r.closeCalls()
	m.Blocks = blocks
	if l := r.last(); l == nil {
		r.out = append(r.out, llm.UserText(Opening))
	} else if l.Role == llm.Assistant {
		l.Blocks = append(slices.Clip(l.Blocks), blocks...)
		l.Raw, l.Dialect, r.open = nil, "", calls
		return
	}
	if !whole {
		m.Raw, m.Dialect = nil, ""
	}
	r.out, r.open = append(r.out, m), calls
}

// repairCall gives a call an ID and an input that every dialect can represent.
func (r *repair) repairCall(b llm.Block) llm.Block {
	if !llm.ValidToolCallID(b.ID) || r.used[b.ID] {
		for {
			r.n++
			if b.ID = fmt.Sprintf("repaired_%d", r.n); !r.used[b.ID] {
				break
			}
		}
	}
	r.used[b.ID] = true
	if !llm.ValidInput(b.Input) {
		b.Input = json.RawMessage(`{}`)
	}
	return b
}
