package openai

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"slices"
	"strconv"

	"hermesd/agent/llm"
	"hermesd/agent/llm/internal/wire"
)

// Encode appends the body of the request r to dst. Two calls with equal
// requests append equal bytes. It uses and fills the transcript's wire form.
func (p *Provider) Encode(dst []byte, r *llm.Request) ([]byte, error) {
	if err := check(r); err != nil {
		return nil, &llm.Error{Class: llm.Format, Provider: p.Name(), Message: err.Error()}
	}
	dst = wire.AppendString(append(dst, `{"model":`...), r.Model)
	dst = appendMessages(append(dst, `,"messages":`...), r)
	if len(r.Tools) > 0 {
		dst = append(dst, `,"tools":[`...)
		for i, t := range r.Tools {
			dst = appendTool(dst, i, t)
		}
		dst = append(dst, ']')
		if r.NoTools {
			dst = append(dst, `,"tool_choice":"none"`...)
		}
	}
	dst = append(dst, `,"stream":true,"stream_options":{"include_usage":true}`...)
	if n := cmp.Or(r.MaxTokens, p.maxTokens); n > 0 {
		field := `,"max_tokens":`
		if p.isHost("openai.com") || p.isHost("azure.com") {
			field = `,"max_completion_tokens":`
		}
		dst = strconv.AppendInt(append(dst, field...), int64(n), 10)
	}
	if r.Effort != "" && p.isHost("openrouter.ai") {
		dst = wire.AppendString(append(dst, `,"reasoning":{"effort":`...), r.Effort)
		dst = append(dst, '}')
	} else if r.Effort != "" {
		dst = wire.AppendString(append(dst, `,"reasoning_effort":`...), r.Effort)
	}
	return append(dst, '}'), nil
}

func check(r *llm.Request) error {
	last := llm.Assistant
	switch {
	case r.Transcript != nil && r.Transcript.Len() > 0:
		last = r.Transcript.At(r.Transcript.Len() - 1).Role
	case len(r.Prefill) > 0:
		last = r.Prefill[len(r.Prefill)-1].Role
	default:
		return errors.New("a request without messages")
	}
	if last != llm.User {
		return errors.New("the last message of a request must be the user's")
	}
	return nil
}

func appendTool(dst []byte, i int, t llm.Tool) []byte {
	if i > 0 {
		dst = append(dst, ',')
	}
	dst = wire.AppendString(append(dst, `{"type":"function","function":{"name":`...), t.Name)
	if t.Description != "" {
		dst = wire.AppendString(append(dst, `,"description":`...), t.Description)
	}
	dst = append(dst, `,"parameters":`...)
	if len(t.Schema) == 0 {
		dst = append(dst, `{"type":"object","properties":{}}`...)
	}
	return append(append(dst, t.Schema...), `}}`...)
}

// spare is room for what follows the known messages in most requests.
const spare = 16 << 10

// appendMessages appends the list of messages. All but the last come from the
// transcript's wire form; the last is encoded apart with the overlay.
func appendMessages(dst []byte, r *llm.Request) []byte {
	from := len(dst)
	if !wire.Blank(r.System) {
		dst = appendText(dst, "system", r.System)
	}
	prefill, last := r.Prefill, llm.Message{}
	if r.Transcript != nil && r.Transcript.Len() > 0 {
		for _, m := range prefill {
			dst = appendMessage(dst, m)
		}
		n := r.Transcript.Len() - 1
		last = r.Transcript.At(n)
		known := r.Transcript.Wire(Dialect, n, appendMessage)
		dst = append(slices.Grow(dst, len(known)+spare), known...)
	} else {
		for _, m := range prefill[:len(prefill)-1] {
			dst = appendMessage(dst, m)
		}
		last = prefill[len(prefill)-1]
	}
	dst = appendWith(dst, last, r.Overlay)
	dst[from] = '[' // in place of the first comma
	return append(dst, ']')
}

// appendMessage appends m as the messages that it is on the wire, each with a
// comma before it.
func appendMessage(dst []byte, m llm.Message) []byte { return appendWith(dst, m, "") }

func appendWith(dst []byte, m llm.Message, overlay string) []byte {
	if m.Role == llm.Assistant {
		return appendAssistant(dst, m)
	}
	p := partsOf(m)
	for i, b := range p.results {
		text := b.Text
		if wire.Blank(text) {
			text = "(no output)"
		}
		if i == len(p.results)-1 && p.empty() {
			text = withOverlay(text, overlay)
		}
		dst = wire.AppendString(append(dst, `,{"role":"tool","tool_call_id":`...), callID(b.ID))
		dst = wire.AppendString(append(dst, `,"content":`...), text)
		dst = append(dst, '}')
	}
	switch {
	case p.images:
		return appendList(dst, p.rest, overlay)
	case !p.empty():
		return appendText(dst, "user", withOverlay(p.text, overlay))
	case len(p.results) == 0:
		return appendText(dst, "user", withOverlay("(empty message)", overlay))
	}
	return dst
}

// parts is a message of the user, sorted.
type parts struct {
	results []llm.Block
	rest    []llm.Block // texts that say something, and pictures
	text    string      // of rest, if it has no pictures
	images  bool
}

func (p parts) empty() bool { return len(p.rest) == 0 }

func partsOf(m llm.Message) parts {
	var p parts
	for _, b := range m.Blocks {
		switch {
		case b.Type == llm.ToolResult:
			p.results = append(p.results, b)
		case b.Type == llm.Image:
			p.images = true
			p.rest = append(p.rest, b)
		case b.Type == llm.Text && !wire.Blank(b.Text):
			p.rest = append(p.rest, b)
			p.text = withOverlay(p.text, b.Text)
		}
	}
	return p
}

// withOverlay joins two texts that are one content.
func withOverlay(text, more string) string {
	switch {
	case wire.Blank(more):
		return text
	case text == "":
		return more
	}
	return text + "\n\n" + more
}

func appendText(dst []byte, role, text string) []byte {
	dst = append(append(append(dst, `,{"role":"`...), role...), `","content":`...)
	return append(wire.AppendString(dst, text), '}')
}

func appendList(dst []byte, blocks []llm.Block, overlay string) []byte {
	dst = append(dst, `,{"role":"user","content":[`...)
	if !wire.Blank(overlay) {
		blocks = append(slices.Clip(blocks), llm.Block{Type: llm.Text, Text: overlay})
	}
	for i, b := range blocks {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendPart(dst, b)
	}
	return append(dst, `]}`...)
}

func appendPart(dst []byte, b llm.Block) []byte {
	text := b.Text
	if b.Type == llm.Image {
		from := len(dst)
		dst = append(append(append(dst, `{"type":"image_url","image_url":{"url":"data:`...), mimeOf(b)...), `;base64,`...)
		dst, ok := wire.AppendImage(dst, b)
		if ok {
			return append(dst, `"}}`...)
		}
		dst, text = dst[:from], wire.MissingImage
		return append(wire.AppendString(append(dst, `{"type":"text","text":`...), text), '}')
	}
	return append(wire.AppendString(append(dst, `{"type":"text","text":`...), text), '}')
}

// mimeOf returns the type of a picture, which must not leave its string.
func mimeOf(b llm.Block) string {
	for _, r := range b.MIME {
		if r <= ' ' || r > '~' || r == '"' || r == '\\' || r == ',' || r == ';' {
			return "application/octet-stream"
		}
	}
	return b.MIME
}

func appendAssistant(dst []byte, m llm.Message) []byte {
	dst = append(dst, `,{"role":"assistant","content":`...)
	text, calls := m.Text(), m.ToolUses()
	switch {
	case !wire.Blank(text):
		dst = wire.AppendString(dst, text)
	case len(calls) > 0:
		dst = append(dst, `null`...)
	default:
		dst = wire.AppendString(dst, "(empty message)")
	}
	for i, b := range calls {
		if i == 0 {
			dst = append(dst, `,"tool_calls":[`...)
		} else {
			dst = append(dst, ',')
		}
		input := string(b.Input)
		if !llm.ValidInput(b.Input) {
			input = "{}"
		}
		dst = wire.AppendString(append(dst, `{"id":`...), callID(b.ID))
		dst = wire.AppendString(append(dst, `,"type":"function","function":{"name":`...), wire.Name(b.Name))
		dst = wire.AppendString(append(dst, `,"arguments":`...), input)
		dst = append(dst, `}}`...)
	}
	if len(calls) > 0 {
		dst = append(dst, ']')
	}
	return append(dst, '}')
}

// callID returns the id of a call as every service accepts it: an id that is
// too long, or empty, becomes one that is made of it.
func callID(id string) string {
	const most = 40
	if id != "" && len(id) <= most {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return "call_" + hex.EncodeToString(sum[:16])
}
