package plan

import (
	"bytes"
	"encoding/json"
	"slices"
	"unicode/utf8"

	"hermesd/agent/llm"
	"hermesd/agent/llm/tokens"
)

// What stands where tool output was.
const (
	Cleared   = "[Old tool output cleared to save context space]"
	Duplicate = "[Same output as that of a later call, which still stands]"
)

// The lengths, in code points, up to which tool output and the texts of a
// call's input stay as they are.
const (
	longResult = 200
	longLeaf   = 200
)

const cut = "...[truncated]"

// Prune returns the first n of ms with their tool output and the inputs of
// their calls made small. An output that stands again later in ms points there.
func Prune(ms []llm.Message, n int) []llm.Message {
	again := map[string]bool{}
	for _, m := range ms[n:] {
		for _, b := range m.Blocks {
			if b.Type == llm.ToolResult && long(b.Text) {
				again[b.Text] = true
			}
		}
	}
	out := make([]llm.Message, n)
	for i := n - 1; i >= 0; i-- {
		out[i] = pruned(ms[i], again)
	}
	return out
}

func pruned(m llm.Message, again map[string]bool) llm.Message {
	blocks, changed := slices.Clone(m.Blocks), false
	for i, b := range blocks {
		switch {
		case b.Type == llm.ToolResult && long(b.Text):
			blocks[i].Text, changed = Cleared, true
			if again[b.Text] {
				blocks[i].Text = Duplicate
			}
		case b.Type == llm.ToolUse && len(b.Input) > longLeaf:
			if in, ok := shorter(b.Input); ok {
				blocks[i].Input, changed = in, true
			}
		}
	}
	if changed {
		m.Blocks, m.Raw, m.Dialect = blocks, nil, ""
	}
	return m
}

// long reads no more of s than it needs.
func long(s string) bool {
	return len(s) > longResult && utf8.RuneCountInString(s[:min(len(s), (longResult+1)*utf8.UTFMax)]) > longResult
}

// shorter returns a call's input with its long texts shortened; it is JSON
// before and after. ok: something was.
func shorter(in json.RawMessage) (out json.RawMessage, ok bool) {
	d := json.NewDecoder(bytes.NewReader(in))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil {
		return in, false
	}
	if v, ok = leaves(v); !ok {
		return in, false
	}
	var buf bytes.Buffer
	e := json.NewEncoder(&buf)
	e.SetEscapeHTML(false)
	if e.Encode(v) != nil {
		return in, false
	}
	return bytes.TrimSpace(buf.Bytes()), true
}

func leaves(v any) (any, bool) {
	changed := false
	switch v := v.(type) {
	case string:
		if utf8.RuneCountInString(v) > longLeaf {
			return string([]rune(v)[:longLeaf]) + cut, true
		}
	case []any:
		for i, e := range v {
			n, c := leaves(e)
			v[i], changed = n, changed || c
		}
	case map[string]any:
		for k, e := range v {
			n, c := leaves(e)
			v[k], changed = n, changed || c
		}
	}
	return v, changed
}

// lastExchange is how many messages at the end keep their tool output whatever
// they cost.
const lastExchange = 2

// PruneTail returns a tail with its oldest tool output cleared until it fits
// into limit tokens, as far as that goes, and how many outputs were.
func PruneTail(ms []llm.Message, limit int) (out []llm.Message, n int) {
	out = slices.Clone(ms)
	size := Tokens(ms)
	for i := 0; i < len(out)-lastExchange && size > limit; i++ {
		m := out[i]
		var blocks []llm.Block
		for j, b := range m.Blocks {
			if b.Type != llm.ToolResult || !long(b.Text) {
				continue
			}
			if blocks == nil {
				blocks = slices.Clone(m.Blocks)
			}
			blocks[j].Text = Cleared
			n++
		}
		if blocks != nil {
			size -= tokens.Message(m)
			m.Blocks = blocks
			out[i] = m
			size += tokens.Message(m)
		}
	}
	return out, n
}

// Changed returns the span of the messages in which a and b, which are equally
// long, differ; 0, 0 if they do not.
func Changed(a, b []llm.Message) (from, to int) {
	for i := range a {
		if Equal(a[i], b[i]) {
			continue
		}
		if to == 0 {
			from = i
		}
		to = i + 1
	}
	return from, to
}

// Equal reports whether two messages are the same.
func Equal(a, b llm.Message) bool {
	return a.Role == b.Role && a.Dialect == b.Dialect && bytes.Equal(a.Raw, b.Raw) &&
		slices.EqualFunc(a.Blocks, b.Blocks, func(x, y llm.Block) bool {
			in := bytes.Equal(x.Input, y.Input)
			x.Input, y.Input = nil, nil
			return in && x.Type == y.Type && x.Text == y.Text && x.ID == y.ID && x.Name == y.Name &&
				x.Failed == y.Failed && x.MIME == y.MIME && x.Path == y.Path
		})
}
