package anthropic

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"hermesd/agent/llm"
	"hermesd/agent/llm/internal/apiclient"
)

var errReaderStopped = errors.New("anthropic: enough")

type answer struct {
	call     *apiclient.Call
	provider string
	model    string
	blocks   []*block
	usage    llm.Usage
	stop     string
	started  bool
}

// event is the union of all events of a stream.
type event struct {
	Type    string `json:"type"`
	Index   int    `json:"index"`
	Message struct {
		Model string `json:"model"`
		Usage usage  `json:"usage"`
	} `json:"message"`
	ContentBlock json.RawMessage `json:"content_block"`
	Delta        struct {
		Type        string `json:"type"`
		Text        string `json:"text"`
		Thinking    string `json:"thinking"`
		Signature   string `json:"signature"`
		PartialJSON string `json:"partial_json"`
		StopReason  string `json:"stop_reason"`
	} `json:"delta"`
	Usage usage `json:"usage"`
}

type usage struct {
	Input      *int `json:"input_tokens"`
	CacheWrite *int `json:"cache_creation_input_tokens"`
	CacheRead  *int `json:"cache_read_input_tokens"`
	Output     *int `json:"output_tokens"`
	Creation   struct {
		Hour *int `json:"ephemeral_1h_input_tokens"`
	} `json:"cache_creation"`
}

// read yields the answer's events up to Done. It returns the error that ended the stream,
// and nil also if the reader stopped.
func (a *answer) read(yield func(llm.Event, error) bool) error {
	send := func(e llm.Event) error {
		if !yield(e, nil) {
			return errReaderStopped
		}
		return nil
	}
	for {
		e, err := a.call.Next()
		if errors.Is(err, io.EOF) {
			return a.call.Cut()
		}
		if err != nil {
			return err
		}
		done, err := a.handle(e, send)
		switch {
		case errors.Is(err, errReaderStopped):
			return nil
		case err != nil:
			return err
		case done:
			return nil
		}
	}
}

// handle processes one event and reports whether the answer is complete.
func (a *answer) handle(raw apiclient.Event, send func(llm.Event) error) (done bool, err error) {
	var e event
	if err := json.Unmarshal(raw.Data, &e); err != nil {
		return false, a.call.Garbage("an event is no JSON", err)
	}
	e.Type = cmp.Or(e.Type, raw.Name)
	if !a.started && (e.Type == "content_block_start" || e.Type == "message_delta" || e.Type == "message_stop") {
		return false, a.call.Garbage("the answer does not begin with message_start", nil)
	}
	switch e.Type {
	case "message_start":
		a.started = true
		if e.Message.Model != "" {
			a.model = e.Message.Model
		}
		a.count(e.Message.Usage)
	case "content_block_start":
		return false, a.start(e, send)
	case "content_block_delta":
		return false, a.delta(e, send)
	case "message_delta":
		if e.Delta.StopReason != "" {
			a.stop = e.Delta.StopReason
		}
		a.count(e.Usage)
	case "message_stop":
		d, err := a.done()
		if err != nil {
			return false, err
		}
		a.call.Complete()
		return true, send(d)
	case "error":
		return false, a.call.Refused(200, raw.Data)
	}
	return false, nil
}

func (a *answer) count(u usage) {
	set := func(to, from *int) {
		if from != nil && *from >= 0 {
			*to = *from
		}
	}
	set(&a.usage.Input, u.Input)
	set(&a.usage.CacheWrite, u.CacheWrite)
	set(&a.usage.CacheRead, u.CacheRead)
	set(&a.usage.Output, u.Output)
	set(&a.usage.CacheWrite1h, u.Creation.Hour)
}

func (a *answer) start(e event, send func(llm.Event) error) error {
	if e.Index != len(a.blocks) {
		return a.call.Garbage(fmt.Sprintf("block %d begins where block %d should", e.Index, len(a.blocks)), nil)
	}
	var b block
	if err := json.Unmarshal(e.ContentBlock, &b); err != nil || b.Type == "" {
		return a.call.Garbage("a block that cannot be read begins", err)
	}
	b.raw = append(json.RawMessage(nil), e.ContentBlock...)
	a.blocks = append(a.blocks, &b)
	switch {
	case b.Type == "tool_use":
		return send(llm.ToolStart{Name: b.Name})
	case b.Type == "text" && b.Text != "":
		b.text.WriteString(b.Text)
		return send(llm.TextDelta(b.Text))
	case b.Type == "thinking" && b.Thinking != "":
		b.text.WriteString(b.Thinking)
		return send(llm.ThinkingDelta(b.Thinking))
	}
	return nil
}

func (a *answer) delta(e event, send func(llm.Event) error) error {
	if e.Index < 0 || e.Index >= len(a.blocks) {
		return a.call.Garbage(fmt.Sprintf("more of block %d, which has not begun", e.Index), nil)
	}
	b := a.blocks[e.Index]
	switch d := e.Delta; d.Type {
	case "text_delta":
		b.text.WriteString(d.Text)
		if b.Type == "text" && d.Text != "" {
			return send(llm.TextDelta(d.Text))
		}
	case "thinking_delta":
		b.text.WriteString(d.Thinking)
		if b.Type == "thinking" && d.Thinking != "" {
			return send(llm.ThinkingDelta(d.Thinking))
		}
	case "signature_delta":
		b.Signature += d.Signature
	case "input_json_delta":
		b.input.WriteString(d.PartialJSON)
	}
	return nil
}

func (a *answer) done() (llm.Done, error) {
	m := llm.Message{Role: llm.Assistant, Dialect: Dialect}
	raw := []byte{'['}
	for _, b := range a.blocks {
		out, wireForm := b.finish()
		if wireForm == nil {
			continue
		}
		if len(raw) > 1 {
			raw = append(raw, ',')
		}
		raw = append(raw, wireForm...)
		if out.Type != "" {
			m.Blocks = append(m.Blocks, out)
		}
	}
	m.Raw = append(raw, ']')
	stop, ok := stops[a.stop]
	calls := len(m.ToolUses()) > 0
	switch {
	case a.stop == "":
		return llm.Done{}, a.call.Garbage("the answer ends without a reason", nil)
	case !ok || stop == llm.EndTurn || stop == llm.CallTools:
		stop = llm.EndTurn
		if calls {
			stop = llm.CallTools
		}
	}
	return llm.Done{Message: m, Stop: stop, Usage: a.usage, Model: a.model, Provider: a.provider}, nil
}

var stops = map[string]llm.StopReason{
	"end_turn": llm.EndTurn, "stop_sequence": llm.EndTurn, "tool_use": llm.CallTools,
	"max_tokens": llm.Length, "model_context_window_exceeded": llm.Length,
	"refusal": llm.Refusal, "pause_turn": llm.Paused,
}

type block struct {
	Type      string          `json:"type"`
	Text      string          `json:"text"`
	Thinking  string          `json:"thinking"`
	Signature string          `json:"signature"`
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Input     json.RawMessage `json:"input"`

	raw   json.RawMessage // as received at its start
	text  bytes.Buffer
	input bytes.Buffer
}

// finish returns b as an llm.Block, and in the wire form in which it is sent back; nil if
// the service would reject it. A block of a type that llm does not have returns the zero
// Block.
func (b *block) finish() (llm.Block, []byte) {
	switch b.Type {
	case "text":
		if apiclient.Blank(b.text.String()) {
			return llm.Block{}, nil
		}
		out := llm.Block{Type: llm.Text, Text: b.text.String()}
		return out, appendBlock(nil, out)
	case "thinking":
		raw := apiclient.AppendString([]byte(`{"type":"thinking","thinking":`), b.text.String())
		raw = apiclient.AppendString(append(raw, `,"signature":`...), b.Signature)
		return llm.Block{Type: llm.Thinking, Text: b.text.String()}, append(raw, '}')
	case "tool_use":
		out := llm.Block{Type: llm.ToolUse, ID: b.ID, Name: apiclient.Name(b.Name)}
		if !llm.ValidToolCallID(out.ID) {
			out.ID = "call_" + rand.Text()
		}
		out.Input, out.Text = b.arguments()
		return out, appendBlock(nil, out)
	}
	var compact bytes.Buffer
	if json.Compact(&compact, b.raw) != nil {
		return llm.Block{}, nil
	}
	return llm.Block{}, compact.Bytes()
}

// arguments returns the input of a call as the model wrote it; if that is not a JSON
// object, {} and the text.
func (b *block) arguments() (json.RawMessage, string) {
	in := bytes.TrimSpace(b.input.Bytes())
	if len(in) == 0 {
		in = bytes.TrimSpace(b.Input)
	}
	switch {
	case len(in) == 0:
		return json.RawMessage(`{}`), ""
	case llm.ValidInput(in):
		return json.RawMessage(bytes.Clone(in)), ""
	}
	return json.RawMessage(`{}`), string(in)
}
