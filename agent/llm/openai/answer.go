package openai

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"strings"

	"hermesd/agent/llm"
	"hermesd/agent/llm/internal/apiclient"
)

var errReaderStopped = errors.New("openai: enough")

// answer assembles one answer from its chunks. It is complete when a chunk has named the
// stop reason and the service has ended the stream.
type answer struct {
	call     *apiclient.Call
	provider string
	model    string
	dialect  string            // of messages with reasoning details
	known    func(string) bool // whether the conversation has a call with this ID
	hour     bool              // cache writes have a time to live of one hour

	text, thought strings.Builder
	details       details
	calls         []*call
	refused       bool
	stop          string
	usage         llm.Usage
}

// A call is a tool call while it is streamed.
type call struct {
	index     int
	id, name  string
	args      bytes.Buffer
	announced bool // its ToolStart was sent
}

type chunk struct {
	Object  string   `json:"object"`
	Model   string   `json:"model"`
	Choices []choice `json:"choices"`
	Usage   *usage   `json:"usage"`

	Error        json.RawMessage `json:"error"`
	ErrorMessage json.RawMessage `json:"error_message"`
}

type choice struct {
	Index int `json:"index"`
	Delta struct {
		Content          json.RawMessage `json:"content"`
		Reasoning        string          `json:"reasoning"`
		ReasoningContent string          `json:"reasoning_content"`
		ReasoningDetails json.RawMessage `json:"reasoning_details"`
		Refusal          string          `json:"refusal"`
		ToolCalls        []callDelta     `json:"tool_calls"`
	} `json:"delta"`
	FinishReason string          `json:"finish_reason"`
	Error        json.RawMessage `json:"error"`
}

type callDelta struct {
	Index    *int   `json:"index"`
	ID       string `json:"id"`
	Function struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	} `json:"function"`
}

type usage struct {
	Prompt     int `json:"prompt_tokens"`
	Completion int `json:"completion_tokens"`
	Details    struct {
		Cached  int `json:"cached_tokens"`
		Written int `json:"cache_write_tokens"`
	} `json:"prompt_tokens_details"`
	Hit int `json:"prompt_cache_hit_tokens"`
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
	err := a.readChunks(send)
	if err == nil {
		err = send(a.done())
	}
	if errors.Is(err, errReaderStopped) {
		return nil
	}
	return err
}

// readChunks processes chunks up to the end of a complete answer.
func (a *answer) readChunks(send func(llm.Event) error) error {
	for {
		e, err := a.call.Next()
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if err != nil || string(bytes.TrimSpace(e.Data)) == "[DONE]" {
			if a.stop == "" {
				return a.call.Cut()
			}
			a.call.Complete()
			return nil
		}
		if len(bytes.TrimSpace(e.Data)) == 0 {
			continue
		}
		if e.Name == "error" {
			return a.failed(e.Data)
		}
		if err := a.handle(e.Data, send); err != nil {
			return err
		}
	}
}

func (a *answer) handle(data []byte, send func(llm.Event) error) error {
	var c chunk
	if err := json.Unmarshal(data, &c); err != nil {
		return a.call.Garbage("a chunk is no JSON", err)
	}
	if isSet(c.Error) || isSet(c.ErrorMessage) || c.Object == "error" {
		return a.failed(data)
	}
	if c.Model != "" {
		a.model = c.Model
	}
	if c.Usage != nil {
		a.count(*c.Usage)
	}
	for _, ch := range c.Choices {
		if ch.Index != 0 {
			continue
		}
		if isSet(ch.Error) {
			return a.failed(ch.Error)
		}
		if err := a.handleChoice(ch, send); err != nil {
			return err
		}
	}
	return nil
}

func (a *answer) handleChoice(ch choice, send func(llm.Event) error) error {
	d := ch.Delta
	if ch.FinishReason == "error" {
		return &llm.Error{Class: llm.Server, Provider: a.provider, Message: "the service broke the answer off"}
	}
	if s := d.ReasoningContent + d.Reasoning; s != "" {
		if d.Reasoning == d.ReasoningContent {
			s = d.Reasoning // some services send it in both fields
		}
		a.thought.WriteString(s)
		if err := send(llm.ThinkingDelta(s)); err != nil {
			return err
		}
	}
	a.details.add(d.ReasoningDetails)
	text, err := textOf(d.Content)
	if err != nil {
		return a.call.Garbage("the content of a chunk is no text", err)
	}
	if d.Refusal != "" {
		a.refused = true
		text += d.Refusal
	}
	if text != "" {
		a.text.WriteString(text)
		if err := send(llm.TextDelta(text)); err != nil {
			return err
		}
	}
	for _, c := range d.ToolCalls {
		if err := a.addCall(c, send); err != nil {
			return err
		}
	}
	if ch.FinishReason != "" {
		a.stop = ch.FinishReason
	}
	return nil
}

// addCall adds d to the call that it belongs to: the one with its index, unless d has a
// different ID; without an index, the last one.
func (a *answer) addCall(d callDelta, send func(llm.Event) error) error {
	args, err := argsOf(d.Function.Arguments)
	if err != nil {
		return a.call.Garbage("the arguments of a call are no text", err)
	}
	c := a.find(d)
	if c == nil {
		c = &call{index: -1}
		if d.Index != nil {
			c.index = *d.Index
		}
		a.calls = append(a.calls, c)
	}
	c.id = cmp.Or(c.id, d.ID)
	if !c.announced {
		c.name += d.Function.Name
	}
	c.args.WriteString(args)
	if !c.announced && c.name != "" {
		c.announced = true
		return send(llm.ToolStart{Name: c.name})
	}
	return nil
}

func (a *answer) find(d callDelta) *call {
	for i := len(a.calls) - 1; i >= 0; i-- {
		c := a.calls[i]
		if d.ID != "" && c.id != "" && d.ID != c.id {
			continue
		}
		if d.Index == nil && (d.ID == "" && d.Function.Name == "" || d.ID != "" && d.ID == c.id) || d.Index != nil && *d.Index == c.index {
			return c
		}
	}
	return nil
}

func (a *answer) count(u usage) {
	cached := max(u.Details.Cached, u.Hit)
	a.usage = llm.Usage{
		Input: max(0, u.Prompt-cached-u.Details.Written), CacheRead: cached, CacheWrite: u.Details.Written, Output: u.Completion,
	}
	if a.hour {
		a.usage.CacheWrite1h = u.Details.Written
	}
}

func (a *answer) failed(data []byte) error { return a.call.Refused(200, data) }

func (a *answer) done() llm.Done {
	m := llm.Message{Role: llm.Assistant, Dialect: Dialect}
	if s := a.thought.String(); s != "" {
		m.Blocks = append(m.Blocks, llm.Block{Type: llm.Thinking, Text: s})
	}
	if s := a.text.String(); !apiclient.Blank(s) {
		m.Blocks = append(m.Blocks, llm.Block{Type: llm.Text, Text: s})
	}
	m.Blocks = append(m.Blocks, a.callBlocks()...)
	if m.Raw = a.details.raw(); m.Raw != nil {
		m.Dialect = a.dialect
	}
	stop, ok := stops[a.stop]
	switch {
	case a.refused:
		stop = llm.Refusal
	case !ok || stop == llm.EndTurn || stop == llm.CallTools:
		stop = llm.EndTurn
		if len(a.calls) > 0 {
			stop = llm.CallTools
		}
	}
	return llm.Done{Message: m, Stop: stop, Usage: a.usage, Model: a.model, Provider: a.provider}
}

var stops = map[string]llm.StopReason{
	"stop": llm.EndTurn, "tool_calls": llm.CallTools, "function_call": llm.CallTools,
	"length": llm.Length, "content_filter": llm.Refusal,
}

// callBlocks returns the finished calls. Their IDs are valid for every service and unique
// within the conversation; details name the calls by them.
func (a *answer) callBlocks() []llm.Block {
	var blocks []llm.Block
	used := map[string]bool{}
	for _, c := range a.calls {
		b := c.block()
		if !llm.ValidToolCallID(b.ID) || callID(b.ID) != b.ID || used[b.ID] || a.known(b.ID) {
			b.ID = "call_" + rand.Text()
		}
		if c.id != "" && b.ID != c.id && !used[c.id] {
			a.details.rename(c.id, b.ID)
		}
		used[c.id], used[b.ID] = true, true
		blocks = append(blocks, b)
	}
	return blocks
}

func (c *call) block() llm.Block {
	b := llm.Block{Type: llm.ToolUse, ID: c.id, Name: apiclient.Name(c.name)}
	in := bytes.TrimSpace(c.args.Bytes())
	switch {
	case len(in) == 0 || string(in) == "null":
		b.Input = json.RawMessage(`{}`)
	case llm.ValidInput(in):
		b.Input = json.RawMessage(bytes.Clone(in))
	default:
		b.Input, b.Text = json.RawMessage(`{}`), string(in)
	}
	return b
}

func isSet(raw json.RawMessage) bool { return len(raw) > 0 && string(raw) != "null" }

// textOf decodes a content that is a string, null, or a list of parts.
func textOf(raw json.RawMessage) (string, error) {
	if !isSet(raw) {
		return "", nil
	}
	if raw[0] != '[' {
		var s string
		err := json.Unmarshal(raw, &s)
		return s, err
	}
	var list []struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	err := json.Unmarshal(raw, &list)
	var s strings.Builder
	for _, p := range list {
		if p.Type == "text" {
			s.WriteString(p.Text)
		}
	}
	return s.String(), err
}

// argsOf decodes arguments that are a string or, against the specification, an object.
func argsOf(raw json.RawMessage) (string, error) {
	if !isSet(raw) {
		return "", nil
	}
	if raw[0] != '"' {
		return string(raw), nil
	}
	var s string
	err := json.Unmarshal(raw, &s)
	return s, err
}
