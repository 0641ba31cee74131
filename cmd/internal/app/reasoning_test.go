package app_test

import (
	"strings"
	"testing"

	"hermesd/internal/sim/llm"
)

// TestReasoningSurvivesToolLoopOfOpenRouter has turns with two steps of tools. The service
// refuses a call of a tool without its reasoning (Gemini 3), or reasoning that does not fit
// what stands before it.
func TestReasoningSurvivesToolLoopOfOpenRouter(t *testing.T) {
	t.Parallel()
	for _, model := range []string{"google/gemini-3-pro-preview", "anthropic/claude-opus-4.8"} {
		t.Run(model, func(t *testing.T) {
			reply := func(r llm.Request) llm.Reply {
				call := llm.Call{Name: "todo", Args: `{"todos":[{"id":"1","content":"a thing","status":"pending"}]}`}
				if len(r.Tools) == 0 {
					return llm.Reply{Text: "a title"}
				}
				for steps, i := 0, len(r.Messages)-1; ; i-- {
					switch {
					case r.Messages[i].Role == "tool":
						steps++
					case r.Messages[i].Role == "user" && steps < 2:
						return llm.Reply{Thinking: "I think", Calls: []llm.Call{call}}
					case r.Messages[i].Role == "user":
						return llm.Reply{Thinking: "I have thought", Text: "done " + r.Newest()}
					}
				}
			}
			w := newFormatHarness(t, "agent: {reasoning_effort: high}\n", strings.NewReplacer("provider: anthropic", "provider: openrouter", "claude-sonnet-4-5", model, "\n  api_key", "/api/v1\n  api_key"),
				llm.Options{Reply: reply, PrefixCheck: true})
			w.start()
			w.askConsole("first", "done first")
			w.askConsole("second", "done second")
			w.stop()
			w.start()
			w.askConsole("third", "done third")
			w.stop()
			kept, most := 0, 0
			for _, r := range w.model.Requests() {
				if r.Status == 400 {
					t.Errorf("request %d was refused", r.N)
				}
				kept = 0
				for _, m := range r.Messages {
					for _, b := range m.Blocks {
						if b.Signature != "" {
							kept++
						}
					}
				}
				most = max(most, kept)
			}
			if most != 2 {
				t.Errorf("at most %d of 2 thoughts of a turn came back", most)
			}
		})
	}
}

// TestRoutingIsSentToOpenRouter: what restricts the providers behind OpenRouter is in every
// request, and in none to another service.
func TestRoutingIsSentToOpenRouter(t *testing.T) {
	const routing = "provider_routing: {data_collection: deny, only: [anthropic], ignore: [some, other], sort: price"
	const all = `"provider":{"data_collection":"deny","only":["anthropic"],"ignore":["some","other"],"sort":"price"}`
	for _, c := range []struct{ provider, url, models, want string }{
		{"openrouter", "/api/v1", "", all},
		{"openrouter", "/api/v1", ", models: {another/model: {only: [x]}}", all},
		{"openrouter", "/api/v1", ", models: {claude-sonnet-4.5: {only: [x], sort: latency}}", `"provider":{"data_collection":"deny","only":["x"],"ignore":["some","other"],"sort":"latency"}`},
		{"custom", "/v1", "", ""},
	} {
		w := newFormatHarness(t, routing+c.models+"}\n", strings.NewReplacer("provider: anthropic", "provider: "+c.provider, "\n  api_key", c.url+"\n  api_key"), llm.Options{})
		w.start()
		w.askConsole("hello", "hello")
		w.stop()
		n := 0
		for _, r := range w.model.Requests() {
			if len(r.Messages) == 0 {
				continue
			}
			if n++; r.Status == 400 || !strings.Contains(string(r.Body), c.want) || c.want == "" && strings.Contains(string(r.Body), `"provider":{"data`) {
				t.Errorf("%s: status %d, %s", c.provider, r.Status, r.Body[max(0, len(r.Body)-200):])
			}
		}
		if n == 0 {
			t.Errorf("%s: no request", c.provider)
		}
	}
}
