package plan

import (
	"bytes"
	"encoding/json"
	"slices"
	"unicode/utf8"

	"hermesd/agent/llm"
	"hermesd/agent/llm/tokens"
)

// Texts that replace tool output.
const (
	Cleared   = "[Old tool output cleared to save context space]"
	Duplicate = "[Same output as that of a later call, which still stands]"
)

// Maximum lengths, in code points, of tool output and of strings in a call's
// input that stay unchanged.
const (
	maxResultChars = 200
	maxStringChars = 200
)

const truncatedSuffix = "...[truncated]"

// Prune returns the first n of ms with tool output and call inputs shortened.
// An output that is repeated later in ms is replaced by a reference.
func Prune(ms []llm.Message, n int) []llm.Message {
	again := map[string]bool{}
	for _, m := range ms[n:] {
		for _, b := range m.Blocks {
			if b.Type == llm.ToolResult && isLong(b.Text) {
				again[b.Text] = true
			}
		}
	}
	out := make([]llm.Message, n)
	for i := n - 1; i >= 0; i-- {
		out[i] = pruneMessage(ms[i], again)
	}
	return out
}

func pruneMessage(m llm.Message, again map[string]bool) llm.Message {
	blocks, changed := slices.Clone(m.Blocks), false
	for i, b := range blocks {
		switch {
		case b.Type == llm.ToolResult && isLong(b.Text):
			blocks[i].Text, changed = Cleared, true
			if again[b.Text] {
				blocks[i].Text = Duplicate
			}
		case b.Type == llm.ToolUse && len(b.Input) > maxStringChars:
			if in, ok := shortenInput(b.Input); ok {
				blocks[i].Input, changed = in, true
			}
		}
	}
	if changed {
		m.Blocks, m.Raw, m.Dialect = blocks, nil, ""
	}
	return m
}

// isLong reports whether s has more than maxResultChars characters. It reads
// only the necessary part of s.
func isLong(s string) bool {
	return len(s) > maxResultChars && utf8.RuneCountInString(s[:min(len(s), (maxResultChars+1)*utf8.UTFMax)]) > maxResultChars
}

// shortenInput returns a call's JSON input with long strings shortened. ok
// reports whether there were any.
func shortenInput(in json.RawMessage) (out json.RawMessage, ok bool) {
	d := json.NewDecoder(bytes.NewReader(in))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil {
		return in, false
	}
	if v, ok = shortenStrings(v); !ok {
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

func shortenStrings(v any) (any, bool) {
	changed := false
	switch v := v.(type) {
	case string:
		if utf8.RuneCountInString(v) > maxStringChars {
			return string([]rune(v)[:maxStringChars]) + truncatedSuffix, true
		}
	case []any:
		for i, e := range v {
			n, c := shortenStrings(e)
			v[i], changed = n, changed || c
		}
	case map[string]any:
		for k, e := range v {
			n, c := shortenStrings(e)
			v[k], changed = n, changed || c
		}
	}
	return v, changed
}

// lastExchange is the number of messages at the end that always keep their tool
// output.
const lastExchange = 2

// PruneTail returns a tail in which the oldest tool output is cleared until it
// fits into limit tokens, as far as possible, and the number of cleared
// outputs.
func PruneTail(ms []llm.Message, limit int) (out []llm.Message, n int) {
	out = slices.Clone(ms)
	size := Tokens(ms)
	for i := 0; i < len(out)-lastExchange && size > limit; i++ {
		m := out[i]
		var blocks []llm.Block
		for j, b := range m.Blocks {
			if b.Type != llm.ToolResult || !isLong(b.Text) {
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

// Changed returns the range in which a and b, which have equal lengths, differ;
// 0, 0 if they do not.
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

// Equal reports whether two messages are equal.
func Equal(a, b llm.Message) bool {
	return a.Role == b.Role && a.Dialect == b.Dialect && bytes.Equal(a.Raw, b.Raw) &&
		slices.EqualFunc(a.Blocks, b.Blocks, func(x, y llm.Block) bool {
			in := bytes.Equal(x.Input, y.Input)
			x.Input, y.Input = nil, nil
			return in && x.Type == y.Type && x.Text == y.Text && x.ID == y.ID && x.Name == y.Name &&
				x.Failed == y.Failed && x.MIME == y.MIME && x.Path == y.Path
		})
}
