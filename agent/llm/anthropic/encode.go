package anthropic

import (
	"cmp"
	"strconv"

	"hermesd/agent/llm"
	"hermesd/agent/llm/internal/apiclient"
)

// Encode appends the body of the request r to dst. Equal requests append equal bytes. It
// uses and fills the transcript's cached wire form.
func (p *Provider) Encode(dst []byte, r *llm.Request) ([]byte, error) {
	body := apiclient.Body{Buf: dst}
	if err := p.encode(&body, r); err != nil {
		return nil, err
	}
	return body.Bytes(), nil
}

func (p *Provider) encode(b *apiclient.Body, r *llm.Request) error {
	msgs, err := apiclient.ListOf(r)
	if err != nil {
		return &llm.Error{Class: llm.Format, Provider: p.Name(), Message: err.Error()}
	}
	mark := ""
	if on, _ := llm.CacheBreakpoints("anthropic", r.Model, p.url); on {
		mark = apiclient.Mark(r.CacheTTL)
	}
	th := thinkingFor(r.Model, r.Effort, cmp.Or(r.MaxTokens, p.maxTokens), r.OutputLimit)

	dst := apiclient.AppendString(append(b.Buf, `{"model":`...), r.Model)
	dst = strconv.AppendInt(append(dst, `,"max_tokens":`...), int64(th.maxTokens), 10)
	dst = appendSystem(dst, r, mark)
	if len(r.Tools) > 0 {
		b.Buf = append(dst, `,"tools":[`...)
		p.tools.Append(b, r.Tools, appendTool)
		dst = append(b.Buf, ']')
	}
	b.Buf = append(dst, `,"messages":`...)
	appendMessages(b, msgs, mark)
	dst = append(b.Buf, `,"stream":true`...)
	if r.NoTools && len(r.Tools) > 0 {
		dst = append(dst, `,"tool_choice":{"type":"none"}`...)
	}
	b.Buf = append(append(dst, th.fields...), '}')
	return nil
}

// appendSystem appends the cached prompt with its cache breakpoint, followed by the system
// overlay.
func appendSystem(dst []byte, r *llm.Request, mark string) []byte {
	const next = `,"system":[`
	from := len(dst)
	dst = append(dst, next...)
	if !apiclient.Blank(r.System) {
		dst = apiclient.AppendString(append(dst, `{"type":"text","text":`...), r.System)
		dst = append(append(dst, mark...), `},`...)
	}
	if !apiclient.Blank(r.SystemOverlay) {
		dst = apiclient.AppendString(append(dst, `{"type":"text","text":`...), r.SystemOverlay)
		dst = append(dst, `},`...)
	}
	if len(dst) == from+len(next) {
		return dst[:from]
	}
	dst[len(dst)-1] = ']' // replaces the last comma
	return dst
}

func appendTool(dst []byte, t llm.Tool) []byte {
	dst = apiclient.AppendString(append(dst, `{"name":`...), t.Name)
	if t.Description != "" {
		dst = apiclient.AppendString(append(dst, `,"description":`...), t.Description)
	}
	dst = append(dst, `,"input_schema":`...)
	if len(t.Schema) == 0 {
		dst = append(dst, `{"type":"object"}`...)
	}
	return append(append(dst, t.Schema...), '}')
}
