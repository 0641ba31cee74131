package openai_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"

	"hermesd/agent/llm"
	"hermesd/agent/llm/llmtest"
	"hermesd/agent/llm/openai"
	sim "hermesd/internal/sim/llm"
)

func use(id string) llm.Message {
	return llm.Message{Role: llm.Assistant, Blocks: []llm.Block{{Type: llm.ToolUse, ID: id, Name: "n", Input: json.RawMessage(`{}`)}}}
}

func results(texts ...string) llm.Message {
	m := llm.Message{Role: llm.User}
	for i, s := range texts {
		m.Blocks = append(m.Blocks, llm.Block{Type: llm.ToolResult, ID: string(rune('a' + i)), Text: s})
	}
	return m
}

// TestBreakpointsThroughOpenRouter prints the messages of a Claude model, with # for a cache
// breakpoint.
func TestBreakpointsThroughOpenRouter(t *testing.T) {
	text := func(s string) string { return `[{"type":"text","text":"` + s + `"}]` }
	for name, c := range map[string]struct {
		system, extra string
		ms            []llm.Message
		turn          *llm.TurnOverlay
		want          string
	}{
		"texts": {"s", "", []llm.Message{llm.UserText("a"), llm.AssistantText("b"), llm.UserText("c"), llm.AssistantText("d"), llm.UserText("e")}, nil,
			`[{"role":"system","content":[{"type":"text","text":"s"#}]},{"role":"user","content":` + text("a") + `},{"role":"assistant","content":` + text("b") + `},` +
				`{"role":"user","content":[{"type":"text","text":"c"#}]},{"role":"assistant","content":[{"type":"text","text":"d"#}]},` +
				`{"role":"user","content":[{"type":"text","text":"e"#},{"type":"text","text":"over"}]}]`},
		"no system": {"", "", []llm.Message{llm.UserText("a"), llm.AssistantText("b"), llm.UserText("c"), llm.AssistantText("d"), llm.UserText("e")}, nil,
			`[{"role":"user","content":` + text("a") + `},{"role":"assistant","content":[{"type":"text","text":"b"#}]},` +
				`{"role":"user","content":[{"type":"text","text":"c"#}]},{"role":"assistant","content":[{"type":"text","text":"d"#}]},` +
				`{"role":"user","content":[{"type":"text","text":"e"#},{"type":"text","text":"over"}]}]`},
		"a call without words cannot carry one, of several results the last does": {"s", "more", []llm.Message{llm.UserText("q"), use("a"), results("x", "y")}, nil,
			`[{"role":"system","content":[{"type":"text","text":"s"#},{"type":"text","text":"more"}]},{"role":"user","content":[{"type":"text","text":"q"#}]},` +
				`{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"n","arguments":"{}"}}]},` +
				`{"role":"tool","tool_call_id":"a","content":` + text("x") + `},{"role":"tool","tool_call_id":"b","content":[{"type":"text","text":"y"#},{"type":"text","text":"over"}]}]`},
		"an empty result gives its place to the one before": {"s", "", []llm.Message{llm.UserText("q"), use("a"), results("x", " ")}, nil,
			`[{"role":"system","content":[{"type":"text","text":"s"#}]},{"role":"user","content":[{"type":"text","text":"q"#}]},` +
				`{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"n","arguments":"{}"}}]},` +
				`{"role":"tool","tool_call_id":"a","content":[{"type":"text","text":"x"#}]},{"role":"tool","tool_call_id":"b","content":"(no output)\n\nover"}]`},
		"the overlay of a turn": {"s", "", []llm.Message{llm.UserText("q"), use("a"), results("x"), use("a"), results("y")}, &llm.TurnOverlay{Text: "turn"},
			`[{"role":"system","content":[{"type":"text","text":"s"#}]},{"role":"user","content":[{"type":"text","text":"q"#},{"type":"text","text":"turn"}]},` +
				`{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"n","arguments":"{}"}}]},` +
				`{"role":"tool","tool_call_id":"a","content":[{"type":"text","text":"x"#}]},` +
				`{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"n","arguments":"{}"}}]},` +
				`{"role":"tool","tool_call_id":"a","content":[{"type":"text","text":"y"#},{"type":"text","text":"over"}]}]`},
	} {
		t.Run(name, func(t *testing.T) {
			got := body(t, router, &llm.Request{
				Model: "anthropic/claude-opus-4.8", System: c.system, SystemOverlay: c.extra, Turn: c.turn, CacheTTL: "1h", Overlay: "over", Transcript: llm.NewTranscript(c.ms...),
			})
			_, got, _ = strings.Cut(got, `"messages":`)
			got, _, _ = strings.Cut(got, `,"stream":true`)
			got = strings.ReplaceAll(got, `,"cache_control":{"type":"ephemeral","ttl":"1h"}`, "#")
			if got != c.want {
				t.Errorf("got\n%s\nwant\n%s", got, c.want)
			}
		})
	}
}

func TestBreakpointsOnlyIfSupported(t *testing.T) {
	for _, c := range []struct {
		p     *openai.Provider
		model string
	}{{router, "openai/gpt-5"}, {provider, "claude-opus-4-8"}} {
		got := body(t, c.p, &llm.Request{Model: c.model, System: "s", SystemOverlay: "more", CacheTTL: "5m", Transcript: llm.NewTranscript(llm.UserText("a")), Turn: &llm.TurnOverlay{Text: "turn"}, Overlay: "over"})
		if want := `"messages":[{"role":"system","content":"s\n\nmore"},{"role":"user","content":"a\n\nturn\n\nover"}]`; !strings.Contains(got, want) {
			t.Errorf("got %s", got)
		}
	}
	if _, err := provider.Encode(nil, &llm.Request{CacheTTL: "2h", Transcript: llm.NewTranscript(llm.UserText("a"))}); err == nil {
		t.Error("a ttl of 2h was taken")
	}
}

func TestUsageOfOneHourCacheWrites(t *testing.T) {
	for ttl, hour := range map[string]bool{"5m": false, "1h": true} {
		s := sim.New(sim.Options{})
		p := openai.New(openai.Options{Name: "openrouter", BaseURL: s.URL + "/v1", Key: "k", HTTP: s.Client()})
		got := llmtest.Collect(p.Stream(t.Context(), &llm.Request{
			Model: "claude-opus-4.8", CacheTTL: ttl, System: strings.Repeat("word", 3000), Transcript: llm.NewTranscript(llm.UserText("a")),
		}))
		if got.Err != nil {
			t.Fatal(got.Err)
		}
		if u := got.Done.Usage; u.CacheWrite < 3000 || (u.CacheWrite1h == u.CacheWrite) != hour || !hour && u.CacheWrite1h != 0 {
			t.Errorf("%s: %+v", ttl, u)
		}
		s.Close()
	}
}

// TestRejectedToolListsAreNotSentAgain uses a service that accepts only strings in
// tool messages.
func TestRejectedToolListsAreNotSentAgain(t *testing.T) {
	s := sim.New(sim.Options{Models: []string{"claude"}})
	defer s.Close()
	s.Inject(sim.Fault{
		Kind: sim.Custom, Times: -1, Status: 400, Text: `{"error":{"message":"tool message content must be a string","code":400}}`,
		Match: func(r sim.Request) bool {
			return bytes.Contains(r.Body, []byte(`"tool_call_id":"a","content":[`))
		},
	})
	p := openai.New(openai.Options{Name: "openrouter", BaseURL: s.URL + "/v1", Key: "k", HTTP: &http.Client{Transport: s.Transport()}})
	ask := func(r *llm.Request) error {
		t.Helper()
		return llmtest.Collect(p.Stream(t.Context(), r)).Err
	}
	r := &llm.Request{Model: "claude", CacheTTL: "5m", Transcript: llm.NewTranscript(llm.UserText("q"), use("a"), results("x"),
		llm.AssistantText("b"), llm.UserText("c"), llm.AssistantText("d"), llm.UserText("e"))}
	for i, want := range []int{2, 3} { // the first call is retried, the second is not
		if err := ask(r); err != nil || s.Count() != want {
			t.Fatalf("call %d: %v after %d requests, want %d", i, err, s.Count(), want)
		}
	}
	last := string(s.Requests()[2].Body)
	if !strings.Contains(last, `"tool_call_id":"a","content":"x"`) || strings.Count(last, "cache_control") != 4 {
		t.Errorf("got %s", last)
	}
	// A rejection for another reason changes nothing.
	other := openai.New(openai.Options{Name: "openrouter", BaseURL: s.URL + "/v1", Key: "k", HTTP: &http.Client{Transport: s.Transport()}})
	s.Heal()
	r.Transcript.Append(use("a"), results("x"))
	s.Inject(sim.Fault{Kind: sim.Custom, Times: 2, Status: 400, Text: `{"error":{"message":"unknown parameter: stream"}}`})
	p = other
	if err := ask(r); !errors.As(err, new(*llm.Error)) {
		t.Fatalf("got %v", err)
	}
	if err := ask(r); err != nil {
		t.Fatal(err)
	}
	if last := s.Requests(); !strings.Contains(string(last[len(last)-1].Body), `"content":[{"type":"text","text":"x","cache_control"`) {
		t.Errorf("lists are no longer sent: %s", last[len(last)-1].Body)
	}
}
