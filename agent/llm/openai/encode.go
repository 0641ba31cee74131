package openai

import (
	"cmp"
	"strconv"

	"hermesd/agent/llm"
	"hermesd/agent/llm/internal/apiclient"
)

// Encode appends the body of the request r to dst. Equal requests append equal bytes, until
// the service has rejected lists in tool messages. It uses and fills the transcript's
// cached wire form.
func (p *Provider) Encode(dst []byte, r *llm.Request) ([]byte, error) {
	body := apiclient.Body{Buf: dst}
	if err := p.encode(&body, r, p.shape(r)); err != nil {
		return nil, err
	}
	return body.Bytes(), nil
}

// shape returns the content format for the target of r.
func (p *Provider) shape(r *llm.Request) shape {
	on, _ := llm.CacheBreakpoints(p.Name(), r.Model, p.url)
	if !on || r.CacheTTL == "" {
		return shape{dialect: p.dialect()}
	}
	return shape{dialect: p.dialect(), mark: apiclient.Mark(r.CacheTTL), plainTools: p.plainTools.Load()}
}

func (p *Provider) encode(b *apiclient.Body, r *llm.Request, s shape) error {
	msgs, err := apiclient.ListOf(r)
	if err != nil {
		return &llm.Error{Class: llm.Format, Provider: p.Name(), Message: err.Error()}
	}
	dst := apiclient.AppendString(append(b.Buf, `{"model":`...), r.Model)
	b.Buf = append(dst, `,"messages":`...)
	s.appendMessages(b, r, msgs)
	if len(r.Tools) > 0 {
		b.Buf = append(b.Buf, `,"tools":[`...)
		p.tools.Append(b, r.Tools, appendTool)
		b.Buf = append(b.Buf, ']')
		if r.NoTools {
			b.Buf = append(b.Buf, `,"tool_choice":"none"`...)
		}
	}
	b.Buf = p.appendOptions(b.Buf, r)
	return nil
}

// appendOptions appends the members after the tools.
func (p *Provider) appendOptions(dst []byte, r *llm.Request) []byte {
	dst = append(dst, `,"stream":true,"stream_options":{"include_usage":true}`...)
	n := cmp.Or(r.MaxTokens, p.maxTokens)
	if r.OutputLimit > 0 && (n == 0 || n > r.OutputLimit) {
		n = r.OutputLimit
	}
	if n > 0 {
		field := `,"max_tokens":`
		if p.isHost("openai.com") || p.isHost("azure.com") {
			field = `,"max_completion_tokens":`
		}
		dst = strconv.AppendInt(append(dst, field...), int64(n), 10)
	}
	if r.Effort != "" && p.isHost("openrouter.ai") {
		dst = apiclient.AppendString(append(dst, `,"reasoning":{"effort":`...), r.Effort)
		dst = append(dst, '}')
	} else if r.Effort != "" {
		dst = apiclient.AppendString(append(dst, `,"reasoning_effort":`...), r.Effort)
	}
	if p.routing != nil {
		dst = append(append(dst, `,"provider":`...), p.routing...)
	}
	return append(dst, '}')
}

func appendTool(dst []byte, t llm.Tool) []byte {
	dst = apiclient.AppendString(append(dst, `{"type":"function","function":{"name":`...), t.Name)
	if t.Description != "" {
		dst = apiclient.AppendString(append(dst, `,"description":`...), t.Description)
	}
	dst = append(dst, `,"parameters":`...)
	if len(t.Schema) == 0 {
		dst = append(dst, `{"type":"object","properties":{}}`...)
	}
	return append(append(dst, t.Schema...), `}}`...)
}
