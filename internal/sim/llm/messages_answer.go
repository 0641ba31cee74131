package llm

import (
	"encoding/json"
	"fmt"
	"net/http"
)

// An ordered is a JSON object whose members keep their order.
type ordered []member

type member struct {
	name  string
	value any
}

// MarshalJSON implements json.Marshaler.
func (o ordered) MarshalJSON() ([]byte, error) {
	b := []byte{'{'}
	for i, m := range o {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(append(b, encode(m.name)...), ':')
		b = append(b, encode(m.value)...)
	}
	return append(b, '}'), nil
}

func (a messagesAPI) answer(o *out, req Request, rep Reply) {
	blocks := a.blocks(req, rep)
	stop := rep.Stop
	if stop == "" {
		stop = "end_turn"
		if len(rep.Calls) > 0 {
			stop = "tool_use"
		}
	}
	u := rep.counted
	id := fmt.Sprintf("msg_sim%06d", req.N)
	if !req.Stream {
		content := make([]any, 0, len(blocks))
		for _, b := range blocks {
			content = append(content, b.whole)
		}
		o.json(http.StatusOK, ordered{
			{"id", id}, {"type", "message"}, {"role", "assistant"}, {"model", req.Model}, {"content", content},
			{"stop_reason", stop}, {"stop_sequence", nil}, {"usage", usageOf(u, u.Output)},
		})
		return
	}
	o.stream()
	o.event("message_start", ordered{{"type", "message_start"}, {"message", ordered{
		{"id", id}, {"type", "message"}, {"role", "assistant"}, {"model", req.Model}, {"content", []any{}},
		{"stop_reason", nil}, {"stop_sequence", nil}, {"usage", usageOf(u, 1)},
	}}})
	o.event("ping", ordered{{"type", "ping"}})
	for i, b := range blocks {
		o.event("content_block_start", ordered{{"type", "content_block_start"}, {"index", i}, {"content_block", b.begin}})
		for _, d := range b.deltas {
			o.delta("content_block_delta", ordered{{"type", "content_block_delta"}, {"index", i}, {"delta", d}})
		}
		o.event("content_block_stop", ordered{{"type", "content_block_stop"}, {"index", i}})
	}
	o.event("message_delta", ordered{
		{"type", "message_delta"}, {"delta", ordered{{"stop_reason", stop}, {"stop_sequence", nil}}},
		{"usage", ordered{{"output_tokens", u.Output}}},
	})
	o.event("message_stop", ordered{{"type", "message_stop"}})
}

func usageOf(u Usage, out int) any {
	return ordered{
		{"input_tokens", u.Input}, {"cache_creation_input_tokens", u.CacheWrite}, {"cache_read_input_tokens", u.CacheRead},
		{"cache_creation", ordered{{"ephemeral_5m_input_tokens", u.CacheWrite - u.CacheWrite1h}, {"ephemeral_1h_input_tokens", u.CacheWrite1h}}},
		{"output_tokens", out}, {"service_tier", "standard"},
	}
}

// A messagesPart is one block of an answer, whole and as deltas.
type messagesPart struct {
	whole, begin any
	deltas       []any
}

func (a messagesAPI) blocks(req Request, rep Reply) []messagesPart {
	var parts []messagesPart
	if rep.Thinking != "" {
		sig := req.signature(len(req.Messages), rep.Thinking)
		p := messagesPart{
			whole: ordered{{"type", "thinking"}, {"thinking", rep.Thinking}, {"signature", sig}},
			begin: ordered{{"type", "thinking"}, {"thinking", ""}, {"signature", ""}},
		}
		for _, s := range pieces(rep.Thinking, rep.Pieces) {
			p.deltas = append(p.deltas, ordered{{"type", "thinking_delta"}, {"thinking", s}})
		}
		p.deltas = append(p.deltas, ordered{{"type", "signature_delta"}, {"signature", sig}})
		parts = append(parts, p)
	}
	if rep.Redacted != "" {
		b := ordered{{"type", "redacted_thinking"}, {"data", rep.Redacted}}
		parts = append(parts, messagesPart{whole: b, begin: b})
	}
	if rep.Text != "" {
		p := messagesPart{whole: ordered{{"type", "text"}, {"text", rep.Text}}, begin: ordered{{"type", "text"}, {"text", ""}}}
		for _, s := range pieces(rep.Text, rep.Pieces) {
			p.deltas = append(p.deltas, ordered{{"type", "text_delta"}, {"text", s}})
		}
		parts = append(parts, p)
	}
	for i, c := range rep.Calls {
		parts = append(parts, a.call(req, rep, i, c))
	}
	return parts
}

func (a messagesAPI) call(req Request, rep Reply, i int, c Call) messagesPart {
	if c.ID == "" {
		c.ID = fmt.Sprintf("toolu_%s%06d_%d", a.s.salt, req.N, i)
	}
	input := any(json.RawMessage(c.Args))
	if c.Args == "" || !json.Valid([]byte(c.Args)) {
		input = ordered{}
	}
	p := messagesPart{
		whole: ordered{{"type", "tool_use"}, {"id", c.ID}, {"name", c.Name}, {"input", input}},
		begin: ordered{{"type", "tool_use"}, {"id", c.ID}, {"name", c.Name}, {"input", ordered{}}},
	}
	for _, s := range pieces(c.Args, rep.Pieces) {
		p.deltas = append(p.deltas, ordered{{"type", "input_json_delta"}, {"partial_json", s}})
	}
	return p
}
