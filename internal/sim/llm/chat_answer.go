package llm

import (
	"fmt"
	"net/http"
)

// chatStops maps stop reasons of the Messages API to those of Chat Completions.
var chatStops = map[string]string{"refusal": "content_filter", "max_tokens": "length", "end_turn": "stop", "tool_use": "tool_calls"}

func (a chatAPI) answer(o *out, req Request, rep Reply) {
	stop := rep.Stop
	if s, ok := chatStops[stop]; ok {
		stop = s
	}
	if stop == "" {
		stop = "stop"
		if len(rep.Calls) > 0 {
			stop = "tool_calls"
		}
	}
	for i := range rep.Calls {
		if rep.Calls[i].ID == "" {
			rep.Calls[i].ID = fmt.Sprintf("call_%s%06d_%d", a.s.salt, req.N, i)
		}
	}
	id := fmt.Sprintf("chatcmpl-sim%06d", req.N)
	if !req.Stream {
		o.json(http.StatusOK, chatWhole(id, req, rep, stop))
		return
	}
	o.stream()
	o.write([]byte(": PROCESSING\n\n"))
	chunk := func(delta ordered, finish any) any {
		return ordered{
			{"id", id}, {"object", "chat.completion.chunk"}, {"created", 1767225600}, {"model", req.Model},
			{"choices", []any{ordered{{"index", 0}, {"delta", delta}, {"finish_reason", finish}}}},
		}
	}
	o.event("", chunk(ordered{{"role", "assistant"}, {"content", ""}}, nil))
	if a.router {
		for _, d := range routed(req, rep) {
			o.delta("", chunk(d, nil))
		}
		rep.Thinking = ""
	}
	for _, s := range pieces(rep.Thinking, rep.Pieces) {
		o.delta("", chunk(ordered{{"reasoning_content", s}}, nil))
	}
	for _, s := range pieces(rep.Text, rep.Pieces) {
		o.delta("", chunk(ordered{{"content", s}}, nil))
	}
	for i, c := range rep.Calls {
		o.delta("", chunk(ordered{{"tool_calls", []any{ordered{
			{"index", i}, {"id", c.ID}, {"type", "function"}, {"function", ordered{{"name", c.Name}, {"arguments", ""}}},
		}}}}, nil))
		for _, s := range pieces(c.Args, rep.Pieces) {
			o.delta("", chunk(ordered{{"tool_calls", []any{ordered{{"index", i}, {"function", ordered{{"arguments", s}}}}}}}, nil))
		}
	}
	o.event("", chunk(ordered{}, stop))
	if req.includeUsage {
		o.event("", ordered{
			{"id", id}, {"object", "chat.completion.chunk"}, {"created", 1767225600}, {"model", req.Model},
			{"choices", []any{}}, {"usage", chatUsage(rep.counted)},
		})
	}
	o.data("", []byte("[DONE]"))
}

func chatUsage(u Usage) any {
	prompt := u.Input + u.CacheRead + u.CacheWrite
	return ordered{
		{"prompt_tokens", prompt}, {"completion_tokens", u.Output}, {"total_tokens", prompt + u.Output},
		{"prompt_tokens_details", ordered{{"cached_tokens", u.CacheRead}, {"cache_write_tokens", u.CacheWrite}}},
	}
}

func chatWhole(id string, req Request, rep Reply, stop string) any {
	msg := ordered{{"role", "assistant"}, {"content", nil}}
	if rep.Text != "" || len(rep.Calls) == 0 {
		msg[1].value = rep.Text
	}
	if rep.Thinking != "" {
		msg = append(msg, member{"reasoning_content", rep.Thinking})
	}
	if len(rep.Calls) > 0 {
		var calls []any
		for _, c := range rep.Calls {
			calls = append(calls, ordered{
				{"id", c.ID}, {"type", "function"}, {"function", ordered{{"name", c.Name}, {"arguments", c.Args}}},
			})
		}
		msg = append(msg, member{"tool_calls", calls})
	}
	return ordered{
		{"id", id}, {"object", "chat.completion"}, {"created", 1767225600}, {"model", req.Model},
		{"choices", []any{ordered{{"index", 0}, {"message", msg}, {"finish_reason", stop}}}},
		{"usage", chatUsage(rep.counted)},
	}
}
