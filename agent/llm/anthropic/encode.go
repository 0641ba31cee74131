package anthropic

import (
	"cmp"
	"strconv"

	"hermesd/agent/llm"
	"hermesd/agent/llm/internal/wire"
)

// Encode appends the body of the request r to dst. Two calls with equal
// requests append equal bytes. It uses and fills the transcript's wire form.
func (p *Provider) Encode(dst []byte, r *llm.Request) ([]byte, error) {
	msgs, err := newMessages(r)
	if err != nil {
		return nil, &llm.Error{Class: llm.Format, Provider: p.Name(), Message: err.Error()}
	}
	mark := markOf(r.CacheTTL)
	th := thinkingFor(r.Model, r.Effort, cmp.Or(r.MaxTokens, p.maxTokens))

	dst = wire.AppendString(append(dst, `{"model":`...), r.Model)
	dst = strconv.AppendInt(append(dst, `,"max_tokens":`...), int64(th.maxTokens), 10)
	if !wire.Blank(r.System) {
		dst = wire.AppendString(append(dst, `,"system":[{"type":"text","text":`...), r.System)
		dst = append(append(dst, mark...), `}]`...)
	}
	if len(r.Tools) > 0 {
		dst = append(dst, `,"tools":[`...)
		for i, t := range r.Tools {
			dst = appendTool(dst, i, t)
		}
		dst = append(dst, ']')
	}
	dst = append(dst, `,"messages":`...)
	dst = msgs.append(dst, mark)
	dst = append(dst, `,"stream":true`...)
	if r.NoTools && len(r.Tools) > 0 {
		dst = append(dst, `,"tool_choice":{"type":"none"}`...)
	}
	return append(append(dst, th.fields...), '}'), nil
}

// markOf returns the member that marks a block for the cache, with the comma
// before it; "" for no marks.
func markOf(ttl string) string {
	switch ttl {
	case "":
		return ""
	case "1h":
		return `,"cache_control":{"type":"ephemeral","ttl":"1h"}`
	}
	return `,"cache_control":{"type":"ephemeral"}`
}

func appendTool(dst []byte, i int, t llm.Tool) []byte {
	if i > 0 {
		dst = append(dst, ',')
	}
	dst = wire.AppendString(append(dst, `{"name":`...), t.Name)
	if t.Description != "" {
		dst = wire.AppendString(append(dst, `,"description":`...), t.Description)
	}
	dst = append(dst, `,"input_schema":`...)
	if len(t.Schema) == 0 {
		dst = append(dst, `{"type":"object"}`...)
	}
	return append(append(dst, t.Schema...), '}')
}
