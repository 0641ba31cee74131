package anthropic

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"

	"hermesd/agent/llm"
	"hermesd/agent/llm/internal/wire"
)

// emptyContent stands in for a message in which nothing can be sent, so that
// roles keep alternating.
const emptyContent = `{"type":"text","text":"(empty message)"}`

// spare is room for what follows the known messages in most requests.
const spare = 16 << 10

// maxMarks is the number of cache marks that a request may carry.
const maxMarks = 4

// messages is the prefill and the transcript of a request, seen as one list.
type messages struct {
	r     *llm.Request
	wire  string // key of the transcript's wire form
	total int
}

func newMessages(r *llm.Request) (messages, error) {
	m := messages{r: r, wire: Dialect, total: len(r.Prefill)}
	if r.DropThinking {
		m.wire = Dialect + " without thinking"
	}
	if r.Transcript != nil {
		m.total += r.Transcript.Len()
	}
	switch {
	case m.total == 0:
		return m, errors.New("a request without messages")
	case m.at(m.total-1).Role != llm.User:
		return m, errors.New("the last message of a request must be the user's")
	}
	return m, nil
}

func (m messages) at(i int) llm.Message {
	if i < len(m.r.Prefill) {
		return m.r.Prefill[i]
	}
	return m.r.Transcript.At(i - len(m.r.Prefill))
}

// append appends the list of messages. Those that carry a mark or the overlay
// are encoded apart; those before them come from the transcript's wire form.
func (m messages) append(dst []byte, mark string) []byte {
	marks := map[int]bool{}
	if mark != "" {
		marks = m.marks()
	}
	apart := m.total - 1
	for i := range marks {
		apart = min(apart, i)
	}
	from := len(dst)
	i := 0
	for ; i < min(apart, len(m.r.Prefill)); i++ {
		dst = m.one(dst, i, "", "")
	}
	if n := apart - len(m.r.Prefill); n > 0 {
		known := m.r.Transcript.Wire(m.wire, n, m.encode)
		dst = append(slices.Grow(dst, len(known)+spare), known...)
		i = apart
	}
	for ; i < m.total; i++ {
		own, overlay := "", ""
		if marks[i] {
			own = mark
		}
		if i == m.total-1 {
			overlay = m.r.Overlay
		}
		dst = m.one(dst, i, own, overlay)
	}
	dst[from] = '[' // in place of the first comma
	return append(dst, ']')
}

func (m messages) encode(dst []byte, msg llm.Message) []byte {
	return appendMessage(dst, msg, m.r.DropThinking, "", "")
}

func (m messages) one(dst []byte, i int, mark, overlay string) []byte {
	return appendMessage(dst, m.at(i), m.r.DropThinking, mark, overlay)
}

// marks returns the messages that carry a mark: the last three that can, or the
// last four if there is no system prompt to mark.
func (m messages) marks() map[int]bool {
	left := maxMarks
	if !wire.Blank(m.r.System) {
		left--
	}
	marks := make(map[int]bool, left)
	for i := m.total - 1; i >= 0 && left > 0; i-- {
		if markable(m.at(i)) {
			marks[i] = true
			left--
		}
	}
	return marks
}

// appendMessage appends a comma and m. mark goes onto its last block that can
// carry one, overlay behind everything.
func appendMessage(dst []byte, m llm.Message, dropThinking bool, mark, overlay string) []byte {
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
	if !wire.Blank(overlay) {
		dst = wire.AppendString(append(dst, `,{"type":"text","text":`...), overlay)
		dst = append(dst, '}')
	}
	return append(dst, `]}`...)
}

// contentOf returns the encoded blocks of m: results of tools first, then the
// rest; or the blocks as they came, if they came from this API.
func contentOf(m llm.Message, dropThinking bool) [][]byte {
	if m.Dialect == Dialect && len(m.Raw) > 0 {
		var raw []json.RawMessage
		if json.Unmarshal(m.Raw, &raw) == nil {
			return trimmed(raw, dropThinking)
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

func trimmed(raw []json.RawMessage, dropThinking bool) [][]byte {
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
	_ = json.Unmarshal(block, &t) // a block that is no object has no type
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

// markable reports whether one of m's blocks can carry a mark.
func markable(m llm.Message) bool {
	if m.Dialect == Dialect && len(m.Raw) > 0 {
		return lastMarkable(contentOf(m, true)) >= 0
	}
	for _, b := range m.Blocks {
		switch b.Type {
		case llm.Text:
			if !wire.Blank(b.Text) {
				return true
			}
		case llm.Image, llm.ToolUse, llm.ToolResult:
			return true
		}
	}
	return false
}

// appendBlock appends one of our blocks; nothing for those that say nothing
// and for thinking of other services, which has no signature.
func appendBlock(dst []byte, b llm.Block) []byte {
	switch b.Type {
	case llm.Text:
		if wire.Blank(b.Text) {
			return dst
		}
		dst = wire.AppendString(append(dst, `{"type":"text","text":`...), b.Text)
	case llm.Image:
		return appendImage(dst, b)
	case llm.ToolUse:
		dst = wire.AppendString(append(dst, `{"type":"tool_use","id":`...), callID(b.ID))
		dst = wire.AppendString(append(dst, `,"name":`...), wire.Name(b.Name))
		dst = append(dst, `,"input":`...)
		if llm.ValidInput(b.Input) {
			dst = append(dst, b.Input...)
		} else {
			dst = append(dst, `{}`...)
		}
	case llm.ToolResult:
		dst = wire.AppendString(append(dst, `{"type":"tool_result","tool_use_id":`...), callID(b.ID))
		if !wire.Blank(b.Text) {
			dst = wire.AppendString(append(dst, `,"content":[{"type":"text","text":`...), b.Text)
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
	dst = wire.AppendString(append(dst, `{"type":"image","source":{"type":"base64","media_type":`...), b.MIME)
	dst, ok := wire.AppendImage(append(dst, `,"data":"`...), b)
	if !ok {
		dst = wire.AppendString(append(dst[:from], `{"type":"text","text":`...), wire.MissingImage)
		return append(dst, '}')
	}
	return append(dst, `"}}`...)
}

// callID returns the id of a call as this API accepts it.
func callID(id string) string {
	if id == "" {
		return "call"
	}
	return wire.Ident(id)
}
