package anthropic

import (
	"bytes"
	"cmp"
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"

	"hermesd/agent/llm"
	"hermesd/agent/llm/internal/apiclient"
)

// emptyContent replaces the content of a message of which nothing can be sent, so that
// roles keep alternating.
const emptyContent = `{"type":"text","text":"(empty message)"}`

// wireForm returns the encoding that the transcript caches.
func wireForm() apiclient.Form {
	return apiclient.Form{Key: Dialect, Bare: Dialect + " without thinking", Encode: func(dst []byte, m llm.Message, bare bool) []byte {
		return appendMessage(dst, m, bare, "", nil)
	}}
}

// appendMessages appends the list of messages. Those with a cache breakpoint or an overlay
// are encoded separately; the others come from the transcript's cached wire form.
func appendMessages(b *apiclient.Body, l apiclient.List, mark string) {
	var marked []int
	if mark != "" {
		marked = l.Marked(markable)
	}
	from := len(b.Buf)
	l.Append(b, wireForm(), marked, func(dst []byte, i int) []byte {
		marker := ""
		if slices.Contains(marked, i) {
			marker = mark
		}
		return appendMessage(dst, l.At(i), l.DropThinking(i), marker, l.Overlays(i))
	})
	b.Buf[from] = '[' // replaces the first comma
	b.Buf = append(b.Buf, ']')
}

// appendMessage appends a comma and m. mark is added to the last block that can carry it;
// overlays follow all blocks.
func appendMessage(dst []byte, m llm.Message, dropThinking bool, mark string, overlays []string) []byte {
	dst = append(dst, `,{"role":"`...)
	dst = append(append(dst, m.Role...), `","content":[`...)
	blocks := contentOf(m, dropThinking)
	last := -1
	if mark != "" {
		last = lastMarkable(blocks)
	}
	for i, b := range blocks {
		if i > 0 {
			dst = append(dst, ',')
		}
		if i == last {
			dst = append(append(append(dst, b[:len(b)-1]...), mark...), '}')
			continue
		}
		dst = append(dst, b...)
	}
	if len(blocks) == 0 {
		dst = append(dst, emptyContent...)
	}
	for _, text := range overlays {
		dst = apiclient.AppendString(append(dst, `,{"type":"text","text":`...), text)
		dst = append(dst, '}')
	}
	return append(dst, `]}`...)
}

// contentOf returns the encoded blocks of m: tool results first, then the others. A message
// that came from this API keeps its original blocks.
func contentOf(m llm.Message, dropThinking bool) [][]byte {
	if m.Dialect == Dialect && len(m.Raw) > 0 {
		var raw []json.RawMessage
		if json.Unmarshal(m.Raw, &raw) == nil {
			return trimBlocks(raw, dropThinking)
		}
	}
	var blocks [][]byte
	for _, results := range []bool{true, false} {
		for _, b := range m.Blocks {
			if (b.Type == llm.ToolResult) != results {
				continue
			}
			if e := appendBlock(nil, b); e != nil {
				blocks = append(blocks, e)
			}
		}
	}
	return blocks
}

func trimBlocks(raw []json.RawMessage, dropThinking bool) [][]byte {
	blocks := make([][]byte, 0, len(raw))
	for _, b := range raw {
		if dropThinking && (typeOf(b) == "thinking" || typeOf(b) == "redacted_thinking") {
			continue
		}
		blocks = append(blocks, bytes.TrimSpace(b))
	}
	return blocks
}

func typeOf(block []byte) string {
	var t struct {
		Type string `json:"type"`
	}
	_ = json.Unmarshal(block, &t) // a block that is not an object has no type
	return t.Type
}

func lastMarkable(blocks [][]byte) int {
	for i := len(blocks) - 1; i >= 0; i-- {
		switch typeOf(blocks[i]) {
		case "text", "image", "tool_use", "tool_result":
			return i
		}
	}
	return -1
}

// markable reports whether one of m's blocks can carry a cache breakpoint.
func markable(m llm.Message) bool {
	if m.Dialect == Dialect && len(m.Raw) > 0 {
		return lastMarkable(contentOf(m, true)) >= 0
	}
	for _, b := range m.Blocks {
		switch b.Type {
		case llm.Text:
			if !apiclient.Blank(b.Text) {
				return true
			}
		case llm.Image, llm.ToolUse, llm.ToolResult:
			return true
		}
	}
	return false
}

// appendBlock appends an llm.Block. Blank texts, and thinking of other services, which has
// no signature, append nothing.
func appendBlock(dst []byte, b llm.Block) []byte {
	switch b.Type {
	case llm.Text:
		if apiclient.Blank(b.Text) {
			return dst
		}
		dst = apiclient.AppendString(append(dst, `{"type":"text","text":`...), b.Text)
	case llm.Image:
		return appendImage(dst, b)
	case llm.ToolUse:
		dst = apiclient.AppendString(append(dst, `{"type":"tool_use","id":`...), callID(b.ID))
		dst = apiclient.AppendString(append(dst, `,"name":`...), apiclient.Name(b.Name))
		dst = append(dst, `,"input":`...)
		if llm.ValidInput(b.Input) {
			dst = append(dst, b.Input...)
		} else {
			dst = append(dst, `{}`...)
		}
	case llm.ToolResult:
		dst = apiclient.AppendString(append(dst, `{"type":"tool_result","tool_use_id":`...), callID(b.ID))
		if !apiclient.Blank(b.Text) {
			dst = apiclient.AppendString(append(dst, `,"content":[{"type":"text","text":`...), b.Text)
			dst = append(dst, `}]`...)
		}
		if b.Failed {
			dst = append(dst, `,"is_error":true`...)
		}
	default:
		return dst
	}
	return append(dst, '}')
}

func appendImage(dst []byte, b llm.Block) []byte {
	from := len(dst)
	dst = apiclient.AppendString(append(dst, `{"type":"image","source":{"type":"base64","media_type":`...), b.MIME)
	dst, ok := apiclient.AppendImage(append(dst, `,"data":"`...), b)
	if !ok {
		dst = apiclient.AppendString(append(dst[:from], `{"type":"text","text":`...), apiclient.MissingImage)
		return append(dst, '}')
	}
	return append(dst, `"}}`...)
}

// callID returns the ID of a call in a form that this API accepts.
func callID(id string) string {
	if id == "" {
		return "call"
	}
	return apiclient.Ident(id)
}

// A form is the way in which thinking is requested from a model.
type form int

const (
	budget    form = iota // off unless a budget is given
	optional              // off unless "adaptive" is requested
	defaultOn             // on unless "disabled" is requested
	alwaysOn              // cannot be switched off
)

// formOf returns the form of a model by the version in its name. A name without a version
// is that of a newer model.
func formOf(model string) form {
	if strings.Contains(model, "fable") || strings.Contains(model, "mythos") {
		return alwaysOn
	}
	major, minor := version(model)
	switch {
	case major == 0 || major > 5 || major == 5 && minor >= 5:
		return alwaysOn
	case major == 5:
		return defaultOn
	case major == 4 && minor >= 6:
		return optional
	}
	return budget
}

// version parses the two version numbers of names such as claude-opus-4-8, claude-sonnet-5,
// claude-3-7-sonnet-20250219 and anthropic/claude-opus-4.8.
func version(model string) (major, minor int) {
	_, model, _ = strings.Cut(model, "claude")
	found := 0
	for _, part := range strings.FieldsFunc(model, func(r rune) bool { return strings.ContainsRune("-./@:_", r) }) {
		n, err := strconv.Atoi(part)
		switch {
		case err != nil && found == 0:
			continue
		case err != nil || n > 99:
			return major, minor
		case found == 0:
			major = n
		default:
			return major, n
		}
		found++
	}
	return major, minor
}

// thinking holds the thinking-related parts of a request.
type thinking struct {
	fields    string // JSON members, each with a leading comma
	maxTokens int    // max_tokens of the request
}

// budgets maps efforts to thinking tokens, for models that need a budget.
var budgets = map[string]int{"minimal": 1024, "low": 2048, "medium": 8192, "high": 16_384, "xhigh": 32_768}

// minBudget is the smallest budget that the API accepts.
const minBudget = 1024

// thinkingFor returns the parts for a request of an answer of at most maxTokens. limit is
// llm.Request.OutputLimit.
func thinkingFor(model, effort string, maxTokens, limit int) thinking {
	limit = cmp.Or(limit, math.MaxInt)
	t := thinking{maxTokens: min(maxTokens, limit)}
	f := formOf(model)
	switch effort {
	case "", "none":
		if f == defaultOn {
			t.fields = `,"thinking":{"type":"disabled"}`
		} else if f == alwaysOn && effort == "none" {
			t.fields = `,"output_config":{"effort":"low"}`
		}
		return t
	}
	if budgets[effort] == 0 {
		effort = "medium"
	}
	if f == budget {
		n := budgets[effort]
		if maxTokens <= n {
			t.maxTokens = min(maxTokens+n, limit)
		}
		n = min(n, t.maxTokens-min(maxTokens, t.maxTokens/4))
		if n < minBudget {
			return t // the model writes too little to think first
		}
		t.fields = `,"thinking":{"type":"enabled","budget_tokens":` + strconv.Itoa(n) + `}`
		return t
	}
	switch {
	case effort == "minimal":
		effort = "low"
	case effort == "xhigh" && f == optional && strings.Contains(strings.ReplaceAll(model, ".", "-"), "4-6"):
		effort = "high"
	}
	t.fields = `,"thinking":{"type":"adaptive","display":"summarized"},"output_config":{"effort":"` + effort + `"}`
	return t
}
