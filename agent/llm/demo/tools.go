package demo

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"hermesd/agent/llm"
	"hermesd/internal/lazyregexp"
)

// maxCalls is the maximum number of tool calls in one answer.
const maxCalls = 8

// calls returns the tool calls that the newest text asks for, among the tools that the
// request offers.
func (c conversation) calls() []llm.Block {
	if c.r.NoTools || len(c.r.Tools) == 0 {
		return nil
	}
	calls := c.explicitCalls()
	if len(calls) == 0 {
		calls = c.namedCalls()
	}
	if len(calls) == 0 {
		calls = c.impliedCalls()
	}
	return calls[:min(len(calls), maxCalls)]
}

var spelledOut = lazyregexp.New(`([a-zA-Z0-9_-]{1,64})\s*:\s*\{`)

// explicitCalls finds calls of the form name: {json}.
func (c conversation) explicitCalls() []llm.Block {
	var calls []llm.Block
	for _, m := range spelledOut().FindAllStringSubmatchIndex(c.newest, 50) {
		t, ok := c.tool(c.newest[m[2]:m[3]])
		if !ok {
			continue
		}
		if in, ok := objectAt(c.newest[m[1]-1:]); ok {
			calls = append(calls, c.call(t, in, len(calls)))
		}
	}
	return calls
}

func objectAt(s string) (json.RawMessage, bool) {
	var raw json.RawMessage
	err := json.NewDecoder(strings.NewReader(s)).Decode(&raw)
	return raw, err == nil && llm.ValidInput(raw)
}

var useTool = lazyregexp.New(`(?is)\b(?:use|call|invoke)\s+(?:the\s+)?(?:tool\s+)?([a-zA-Z0-9_-]{1,64})\b(?:\s+tool\b)?(.*)`)

// namedCalls finds "please use NAME …".
func (c conversation) namedCalls() []llm.Block {
	for rest := c.newest; ; {
		m := useTool().FindStringSubmatch(rest)
		if m == nil {
			return nil
		}
		if t, ok := c.tool(m[1]); ok {
			if i := strings.IndexByte(m[2], '{'); i >= 0 {
				if in, ok := objectAt(m[2][i:]); ok {
					return []llm.Block{c.call(t, in, 0)}
				}
			}
			return []llm.Block{c.call(t, fill(t.Schema, stripFiller(m[2])), 0)}
		}
		rest = m[1] + m[2]
	}
}

// A rule recognizes a request that does not name a tool.
type rule struct {
	asks  func() *regexp.Regexp
	tools []string // names or parts of names, in order of preference
	also  []string // properties that are given although they are not required
}

var rules = []rule{
	{lazyregexp.New(`(?is)\bread\s+(?:the\s+)?file\s+(\S+)`), []string{"read_file", "file_read", "read"}, nil},
	{lazyregexp.New(`(?is)\bsearch\s+(?:(?:the\s+)?(?:web|history|sessions?)\s+)?for\s+(.+)`), []string{"web_search", "session_search", "search"}, nil},
	{lazyregexp.New(`(?is)\bremember\s+(?:that\s+)?(.+)`), []string{"memory", "remember"}, []string{"action", "content"}},
	{lazyregexp.New(`(?is)\brun\s+(?:the\s+)?command\s+(.+)`), []string{"terminal", "shell", "bash"}, nil},
}

func (c conversation) impliedCalls() []llm.Block {
	for _, r := range rules {
		m := r.asks().FindStringSubmatch(c.newest)
		if m == nil {
			continue
		}
		for _, want := range r.tools {
			i := slices.IndexFunc(c.r.Tools, func(t llm.Tool) bool { return strings.Contains(t.Name, want) })
			if i >= 0 {
				return []llm.Block{c.call(c.r.Tools[i], fill(c.r.Tools[i].Schema, stripFiller(m[1]), r.also...), 0)}
			}
		}
	}
	return nil
}

// stripFiller strips the filler words between the name of a tool and its argument.
func stripFiller(s string) string {
	s = strings.TrimSpace(s)
	for _, word := range []string{":", "to ", "with ", "for ", "on ", "and "} {
		s = strings.TrimSpace(strings.TrimPrefix(s, word))
	}
	return strings.Trim(s, " \t\n.!?`'\"")
}

func (c conversation) tool(name string) (llm.Tool, bool) {
	i := slices.IndexFunc(c.r.Tools, func(t llm.Tool) bool { return strings.EqualFold(t.Name, name) })
	if i < 0 {
		return llm.Tool{}, false
	}
	return c.r.Tools[i], true
}

// call returns call i of the answer. Its ID is derived from the conversation and from the
// previous call there, so that IDs are unique.
func (c conversation) call(t llm.Tool, input json.RawMessage, i int) llm.Block {
	before := ""
	for k := len(c.messages) - 1; k >= 0 && before == ""; k-- {
		for _, use := range c.messages[k].ToolUses() {
			before = use.ID
		}
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%d\x00%s\x00%d", before, len(c.messages), c.newest, i))
	return llm.Block{Type: llm.ToolUse, ID: "call_" + hex.EncodeToString(sum[:12]), Name: t.Name, Input: input}
}

// A schema is the subset of JSON Schema that fill supports.
type schema struct {
	Type       json.RawMessage   `json:"type"`
	Enum       []json.RawMessage `json:"enum"`
	Properties map[string]schema `json:"properties"`
	Required   []string          `json:"required"`
	Items      *schema           `json:"items"`
}

// fill returns an input that matches the schema and contains text where possible. It has
// the required properties, and those of also.
func fill(raw json.RawMessage, text string, also ...string) json.RawMessage {
	var s schema
	if json.Unmarshal(raw, &s) != nil {
		return json.RawMessage(`{}`)
	}
	s.Type = json.RawMessage(`"object"`)
	for _, name := range also {
		if !slices.Contains(s.Required, name) {
			s.Required = append(s.Required, name)
		}
	}
	return s.fill(text, 0)
}

var firstNumber = lazyregexp.New(`-?[0-9]{1,15}`)

func (s schema) fill(text string, depth int) json.RawMessage {
	if len(s.Enum) > 0 {
		for _, e := range s.Enum {
			var word string
			if json.Unmarshal(e, &word) == nil && word != "" && strings.Contains(strings.ToLower(text), strings.ToLower(word)) {
				return e
			}
		}
		return s.Enum[0]
	}
	switch s.kind() {
	case "object":
		return s.fillObject(text, depth)
	case "array":
		if s.Items == nil || depth > 4 {
			return json.RawMessage(`[]`)
		}
		return slices.Concat([]byte(`[`), s.Items.fill(text, depth+1), []byte(`]`))
	case "integer", "number":
		if n, err := strconv.ParseInt(firstNumber().FindString(text), 10, 64); err == nil {
			return strconv.AppendInt(nil, n, 10)
		}
		return json.RawMessage(`1`)
	case "boolean":
		return json.RawMessage(`true`)
	}
	return quote(text)
}

func (s schema) kind() string {
	var one string
	if json.Unmarshal(s.Type, &one) == nil {
		return one
	}
	var many []string
	if json.Unmarshal(s.Type, &many) == nil && len(many) > 0 {
		return many[0]
	}
	return "string"
}

// textProperties are the properties that receive the text if no property is required.
var textProperties = []string{"text", "query", "content", "path", "command", "pattern", "name", "url", "prompt"}

func (s schema) fillObject(text string, depth int) json.RawMessage {
	names := s.Required
	if len(names) == 0 && text != "" {
		for _, l := range textProperties {
			if _, ok := s.Properties[l]; ok {
				names = []string{l}
				break
			}
		}
	}
	b := []byte{'{'}
	for _, n := range names {
		p, ok := s.Properties[n]
		if !ok || depth > 4 {
			continue
		}
		if len(b) > 1 {
			b = append(b, ',')
		}
		b = append(append(b, quote(n)...), ':')
		b = append(b, p.fill(text, depth+1)...)
	}
	return append(b, '}')
}

func quote(s string) json.RawMessage {
	b, err := json.Marshal(s)
	if err != nil {
		return json.RawMessage(`""`) // strings always encode
	}
	return b
}
