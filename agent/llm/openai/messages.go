package openai

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	"hermesd/agent/llm"
	"hermesd/agent/llm/internal/apiclient"
)

// A shape is the content format for one target. Without cache breakpoints, contents are
// plain strings, and lists only for images. With them, every content that could carry a
// breakpoint is always a list, so that adding or removing a breakpoint changes no other
// byte.
type shape struct {
	dialect    string // of messages whose reasoning details are sent back
	mark       string // the JSON member of a cache breakpoint; "" for targets without them
	plainTools bool   // contents of tool messages are strings, without breakpoints
}

func (s shape) hasLists() bool { return s.mark != "" }

func (s shape) form() apiclient.Form {
	key := s.dialect
	switch {
	case s.hasLists() && s.plainTools:
		key += " in lists but for tools"
	case s.hasLists():
		key += " in lists"
	}
	return apiclient.Form{Key: key, Bare: key + " without thinking", Encode: func(dst []byte, m llm.Message, bare bool) []byte {
		return s.appendMessage(dst, s.split(m, bare), false, nil)
	}}
}

// appendMessages appends the system message and the list of messages. Those with a cache
// breakpoint or an overlay are encoded separately; the others come from the transcript's
// cached wire form.
func (s shape) appendMessages(b *apiclient.Body, r *llm.Request, l apiclient.List) {
	var marked []int
	if s.hasLists() {
		marked = l.Marked(s.markable)
	}
	from := len(b.Buf)
	b.Buf = s.appendSystem(b.Buf, r)
	l.Append(b, s.form(), marked, func(dst []byte, i int) []byte {
		return s.appendMessage(dst, s.split(l.At(i), l.DropThinking(i)), slices.Contains(marked, i), l.Overlays(i))
	})
	b.Buf[from] = '[' // replaces the first comma
	b.Buf = append(b.Buf, ']')
}

func (s shape) appendSystem(dst []byte, r *llm.Request) []byte {
	switch {
	case apiclient.Blank(r.System) && apiclient.Blank(r.SystemOverlay):
		return dst
	case apiclient.Blank(r.System):
		return s.appendContent(dst, message{open: `{"role":"system"`, parts: texts(r.SystemOverlay)})
	}
	m := message{open: `{"role":"system"`, parts: texts(r.System), marked: s.hasLists()}
	if !apiclient.Blank(r.SystemOverlay) {
		m.overlays = []string{r.SystemOverlay}
	}
	return s.appendContent(dst, m)
}

// markable reports whether one of the wire messages of m can carry a cache breakpoint.
func (s shape) markable(m llm.Message) bool {
	return slices.ContainsFunc(s.split(m, true), s.usesList)
}

// appendMessage appends the wire messages of one message, each with a leading comma. The cache
// breakpoint is added to the last one that can carry it; overlays follow everything.
func (s shape) appendMessage(dst []byte, split []message, marked bool, overlays []string) []byte {
	for i := len(split) - 1; i >= 0 && marked; i-- {
		if s.usesList(split[i]) {
			split[i].marked, marked = true, false
		}
	}
	split[len(split)-1].overlays = overlays
	for _, w := range split {
		dst = s.appendContent(dst, w)
	}
	return dst
}

type message struct {
	open         string      // start of the object, up to the content
	parts        []llm.Block // non-blank texts and images
	emptyContent string      // content if there are no parts, as JSON
	suffix       string      // end of the object, after the content
	tool         bool
	marked       bool
	overlays     []string
}

// usesList reports whether m's content is a list of parts that can carry a cache breakpoint.
func (s shape) usesList(m message) bool {
	return len(m.parts) > 0 && s.hasLists() && !(m.tool && s.plainTools)
}

const emptyMessage = "(empty message)"

// split returns the wire messages of m: one for each tool result, and one for the rest. bare
// omits reasoning details.
func (s shape) split(m llm.Message, bare bool) []message {
	if m.Role == llm.Assistant {
		w := assistant(m)
		if !bare && m.Dialect == s.dialect && len(m.Raw) > 0 {
			w.suffix += `,"reasoning_details":` + string(m.Raw)
		}
		return []message{w}
	}
	var out []message
	rest := message{open: `{"role":"user"`, emptyContent: quoted(emptyMessage)}
	for _, b := range m.Blocks {
		switch {
		case b.Type == llm.ToolResult:
			w := message{open: `{"role":"tool","tool_call_id":` + quoted(callID(b.ID)), emptyContent: quoted("(no output)"), tool: true}
			if !apiclient.Blank(b.Text) {
				w.parts = texts(b.Text)
			}
			out = append(out, w)
		case b.Type == llm.Image, b.Type == llm.Text && !apiclient.Blank(b.Text):
			rest.parts = append(rest.parts, b)
		}
	}
	if len(rest.parts) > 0 || len(out) == 0 {
		out = append(out, rest)
	}
	return out
}

func assistant(m llm.Message) message {
	w := message{open: `{"role":"assistant"`, emptyContent: quoted(emptyMessage)}
	if text := m.Text(); !apiclient.Blank(text) {
		w.parts = texts(text)
	}
	calls := m.ToolUses()
	if len(calls) == 0 {
		return w
	}
	w.emptyContent = `null`
	dst := []byte(`,"tool_calls":[`)
	for i, b := range calls {
		if i > 0 {
			dst = append(dst, ',')
		}
		input := string(b.Input)
		if !llm.ValidInput(b.Input) {
			input = "{}"
		}
		dst = apiclient.AppendString(append(dst, `{"id":`...), callID(b.ID))
		dst = apiclient.AppendString(append(dst, `,"type":"function","function":{"name":`...), apiclient.Name(b.Name))
		dst = apiclient.AppendString(append(dst, `,"arguments":`...), input)
		dst = append(dst, `}}`...)
	}
	w.suffix = string(append(dst, ']'))
	return w
}

func texts(text string) []llm.Block { return []llm.Block{{Type: llm.Text, Text: text}} }

func quoted(s string) string { return string(apiclient.AppendString(nil, s)) }

// appendContent appends m with a leading comma.
func (s shape) appendContent(dst []byte, m message) []byte {
	dst = append(append(append(dst, ','), m.open...), `,"content":`...)
	pictures := slices.ContainsFunc(m.parts, func(b llm.Block) bool { return b.Type == llm.Image })
	switch {
	case pictures || s.usesList(m):
		dst = s.appendParts(dst, m)
	case len(m.parts) == 0 && len(m.overlays) == 0:
		dst = append(dst, m.emptyContent...)
	default:
		dst = apiclient.AppendString(dst, m.plain())
	}
	return append(append(dst, m.suffix...), '}')
}

func (m message) plain() string {
	var all []string
	for _, b := range m.parts {
		all = append(all, b.Text)
	}
	switch {
	case len(all) > 0:
	case m.tool:
		all = append(all, "(no output)")
	default:
		all = append(all, emptyMessage)
	}
	return strings.Join(append(all, m.overlays...), "\n\n")
}

func (s shape) appendParts(dst []byte, m message) []byte {
	dst = append(dst, '[')
	for i, b := range m.parts {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendPart(dst, b)
		if m.marked && i == len(m.parts)-1 {
			dst = append(append(dst[:len(dst)-1], s.mark...), '}')
		}
	}
	for _, text := range m.overlays {
		dst = appendPart(append(dst, ','), llm.Block{Type: llm.Text, Text: text})
	}
	return append(dst, ']')
}

func appendPart(dst []byte, b llm.Block) []byte {
	text := b.Text
	if b.Type == llm.Image {
		from := len(dst)
		dst = append(append(append(dst, `{"type":"image_url","image_url":{"url":"data:`...), mimeOf(b)...), `;base64,`...)
		dst, ok := apiclient.AppendImage(dst, b)
		if ok {
			return append(dst, `"}}`...)
		}
		dst, text = dst[:from], apiclient.MissingImage
		return append(apiclient.AppendString(append(dst, `{"type":"text","text":`...), text), '}')
	}
	return append(apiclient.AppendString(append(dst, `{"type":"text","text":`...), text), '}')
}

// mimeOf returns the MIME type of an image, or a default if it contains characters that
// would end the data URL.
func mimeOf(b llm.Block) string {
	for _, r := range b.MIME {
		if r <= ' ' || r > '~' || r == '"' || r == '\\' || r == ',' || r == ';' {
			return "application/octet-stream"
		}
	}
	return b.MIME
}

// callID returns the ID of a call in a form that every service accepts: an ID that is empty
// or too long is replaced by one derived from its hash.
func callID(id string) string {
	const maxLen = 40
	if id != "" && len(id) <= maxLen {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return "call_" + hex.EncodeToString(sum[:16])
}
