package openai_test

import (
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

func routed(s *sim.Server) *openai.Provider {
	return openai.New(openai.Options{Name: "openrouter", BaseURL: "https://openrouter.ai/api/v1", Key: "k", HTTP: s.Client()})
}

// stored returns m as it is read back from the store.
func stored(t *testing.T, m llm.Message) llm.Message {
	t.Helper()
	raw, err := json.Marshal(m)
	var back llm.Message
	if err != nil || json.Unmarshal(raw, &back) != nil {
		t.Fatalf("%v: %s", err, raw)
	}
	return back
}

func resultsFor(m llm.Message) llm.Message {
	out := llm.Message{Role: llm.User}
	for _, c := range m.ToolUses() {
		out.Blocks = append(out.Blocks, llm.Block{Type: llm.ToolResult, ID: c.ID, Text: "r"})
	}
	return out
}

// TestReasoningDetailsInToolLoop has three calls of tools in each of two turns, with the same
// IDs, as some models number them.
func TestReasoningDetailsInToolLoop(t *testing.T) {
	for _, model := range []string{"anthropic/claude-opus-4.8", "google/gemini-3-pro-preview", "openai/gpt-5.5", "qwen/qwen3"} {
		t.Run(model, func(t *testing.T) {
			s := sim.New(sim.Options{PrefixCheck: true, Reply: func(r sim.Request) sim.Reply {
				steps := 0
				for _, m := range r.Messages {
					if m.Role == "tool" {
						steps++
					}
				}
				if r.Last().Role == "tool" && steps%3 == 0 {
					return sim.Reply{Thinking: "that is all", Text: "done"}
				}
				id := "tool_" + strings.Repeat("x", 7*(steps%3)*(steps%3)*(steps%3)) // the last is too long to send back
				return sim.Reply{Thinking: "step 日本 \"quoted\"", Pieces: 3, Calls: []sim.Call{{ID: id, Name: "read"}, {ID: "other", Name: "list"}}[:1+steps%2]}
			}})
			defer s.Close()
			p := routed(s)
			tr := llm.NewTranscript()
			for turn := range 2 {
				tr.Append(llm.UserText("go"))
				r := &llm.Request{Model: model, Effort: "high", CacheTTL: "5m", Tools: []llm.Tool{{Name: "read"}, {Name: "list"}}, Transcript: tr}
				r.Turn = &llm.TurnOverlay{At: tr.Len() - 1, Text: "<gateway-context>now</gateway-context>"}
				for {
					got := llmtest.Collect(p.Stream(t.Context(), r))
					if got.Err != nil {
						t.Fatalf("turn %d, %d messages: %v", turn, tr.Len(), got.Err)
					}
					m := stored(t, got.Done.Message)
					tr.Append(m)
					if got.Done.Stop != llm.CallTools {
						break
					}
					tr.Append(resultsFor(m))
				}
			}
			if err := llm.ValidateMessages(tr.Since(0)); err != nil {
				t.Error(err)
			}
			rs := s.Requests()
			thoughts := 0
			for _, m := range rs[len(rs)-1].Messages {
				for _, b := range m.Blocks {
					if b.Type == "thinking" && b.Text == "step 日本 \"quoted\"" {
						thoughts++
					}
				}
			}
			if len(rs) < 6 || thoughts < 2 {
				t.Errorf("%d requests, the last with %d thoughts", len(rs), thoughts)
			}
		})
	}
}

func TestReasoningDetailsAreAssembled(t *testing.T) {
	for name, c := range map[string]struct{ deltas, want string }{
		"pieces":               {`[{"type":"reasoning.text","text":"a","x":{"y":1.0},"index":0}] [{"type":"reasoning.text","text":"\"b<","index":0,"format":"f"}] [{"type":"reasoning.text","signature":"s","index":0}]`, `[{"type":"reasoning.text","text":"a\"b<","x":{"y":1.0},"index":0,"format":"f","signature":"s"}]`},
		"null first":           {`[{"type":"reasoning.text","text":null,"signature":null}] [{"type":"reasoning.text","text":"b","signature":"s"}]`, `[{"type":"reasoning.text","text":"b","signature":"s"}]`},
		"two indices":          {`[{"type":"reasoning.text","text":"a","index":0}] [{"type":"reasoning.text","text":"b","index":1}]`, `[{"type":"reasoning.text","text":"a","index":0},{"type":"reasoning.text","text":"b","index":1}]`},
		"after a signature":    {`[{"type":"reasoning.text","text":"a","signature":"s"}] [{"type":"reasoning.text","text":"b"}]`, `[{"type":"reasoning.text","text":"a","signature":"s"},{"type":"reasoning.text","text":"b"}]`},
		"summary and secret":   {`[{"type":"reasoning.summary","summary":"a","id":"rs"}] [{"type":"reasoning.summary","summary":"b","id":"rs"}] [{"type":"reasoning.encrypted","data":"x","id":"rs"}]`, `[{"type":"reasoning.summary","summary":"ab","id":"rs"},{"type":"reasoning.encrypted","data":"x","id":"rs"}]`},
		"two summaries":        {`[{"type":"reasoning.summary","summary":"a","id":"1"}] [{"type":"reasoning.summary","summary":"b","id":"2"}]`, `[{"type":"reasoning.summary","summary":"a","id":"1"},{"type":"reasoning.summary","summary":"b","id":"2"}]`},
		"encrypted twice":      {`[{"type":"reasoning.encrypted","data":"x","index":0},{"type":"reasoning.encrypted","data":"y","index":0}]`, `[{"type":"reasoning.encrypted","data":"x","index":0},{"type":"reasoning.encrypted","data":"y","index":0}]`},
		"a type of the future": {`[{"type":"reasoning.x","text":"a"},{"type":"reasoning.x","text":"a"}]`, `[{"type":"reasoning.x","text":"a"},{"type":"reasoning.x","text":"a"}]`},
		"nothing":              {`[] null "x" [7] {"a":1}`, ``},
	} {
		t.Run(name, func(t *testing.T) {
			var chunks []string
			for d := range strings.SplitSeq(c.deltas, " ") {
				chunks = append(chunks, delta(`{"content":"","reasoning_details":`+d+`}`))
			}
			p := over(streamOf(append(chunks, delta(`{"content":"hi"}`), finish("stop"), done)...))
			got := llmtest.Collect(p.Stream(t.Context(), hi()))
			if got.Done == nil || string(got.Done.Message.Raw) != c.want {
				t.Fatalf("%v, got %s, want %s", got.Err, got.Done.Message.Raw, c.want)
			}
			m := stored(t, got.Done.Message)
			r := &llm.Request{Model: "m", Transcript: llm.NewTranscript(llm.UserText("a"), m, llm.UserText("b"))}
			back := c.want != "" && strings.Contains(body(t, p, r), `"content":"hi","reasoning_details":`+c.want+`}`)
			if back != (c.want != "") {
				t.Errorf("sent %s", body(t, p, r))
			}
		})
	}
}

func TestReasoningDetailsStayWithTheirService(t *testing.T) {
	s := sim.New(sim.Options{Reply: func(sim.Request) sim.Reply { return sim.Reply{Thinking: "hm", Calls: []sim.Call{{Name: "read"}}} }})
	defer s.Close()
	p := routed(s)
	r := &llm.Request{Model: "anthropic/claude-opus-4.8", Transcript: llm.NewTranscript(llm.UserText("a"))}
	got := llmtest.Collect(p.Stream(t.Context(), r))
	if got.Done == nil {
		t.Fatal(got.Err)
	}
	r.Transcript.Append(got.Done.Message, resultsFor(got.Done.Message))
	for name, c := range map[string]struct {
		p    *openai.Provider
		drop bool
		turn int
		want bool
	}{
		"the same service": {p, false, 0, true},
		"another service":  {provider, false, 0, false},
		"dropped":          {p, true, 0, false},
		"an earlier turn":  {p, false, 2, false},
	} {
		q := *r
		q.DropThinking, q.Turn = c.drop, &llm.TurnOverlay{At: c.turn}
		if sent := strings.Contains(body(t, c.p, &q), "reasoning_details"); sent != c.want {
			t.Errorf("%s: sent: %t", name, sent)
		}
	}
}

// TestServicesRejectMissingReasoning checks the simulator against the services' documentation.
func TestServicesRejectMissingReasoning(t *testing.T) {
	s := sim.New(sim.Options{})
	defer s.Close()
	post := func(path, model, member string) int {
		b := `{"model":"` + model + `","messages":[{"role":"user","content":"a"},{"role":"assistant","content":null` + member +
			`,"tool_calls":[{"id":"1","type":"function","function":{"name":"read","arguments":"{}"}}]},{"role":"tool","tool_call_id":"1","content":"r"}]}`
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+path, strings.NewReader(b))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer k")
		resp, err := s.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		return resp.StatusCode
	}
	const router, plain = "/api/v1/chat/completions", "/v1/chat/completions"
	for _, c := range []struct {
		path, model, member string
		want                int
	}{
		{router, "google/gemini-3-pro", ``, 400},
		{router, "google/gemini-3-pro", `,"reasoning_details":[{"type":"reasoning.encrypted","data":"x","id":"1","format":"google-gemini-v1"}]`, 400},
		{router, "google/gemini-2.5-pro", ``, 200},
		{router, "anthropic/claude-opus-4.8", ``, 200},
		{router, "anthropic/claude-opus-4.8", `,"reasoning_details":[{"type":"reasoning.text","text":"x","signature":"x","format":"anthropic-claude-v1"}]`, 400},
		{router, "openai/gpt-5.5", `,"reasoning_details":[{"type":"reasoning.encrypted","data":"x","format":"openai-responses-v1"}]`, 400},
		{plain, "gpt-5.5", `,"reasoning_details":[]`, 400},
		{plain, "gpt-5.5", ``, 200},
	} {
		if got := post(c.path, c.model, c.member); got != c.want {
			t.Errorf("%s %s %s: got %d, want %d", c.path, c.model, c.member, got, c.want)
		}
	}
}

// TestWrongPrefixThroughRouter checks that the error of the provider is recognized, so that
// the thinking is dropped once.
func TestWrongPrefixThroughRouter(t *testing.T) {
	s := sim.New(sim.Options{PrefixCheck: true, Reply: func(sim.Request) sim.Reply { return sim.Reply{Thinking: "hm", Text: "hi"} }})
	defer s.Close()
	p := routed(s)
	got := llmtest.Collect(p.Stream(t.Context(), &llm.Request{Model: "anthropic/claude-opus-4.8", Transcript: llm.NewTranscript(llm.UserText("a"))}))
	if got.Done == nil {
		t.Fatal(got.Err)
	}
	other := &llm.Request{Model: "anthropic/claude-opus-4.8", Transcript: llm.NewTranscript(llm.UserText("b"), got.Done.Message, llm.UserText("c"))}
	e, ok := errors.AsType[*llm.Error](llmtest.Collect(p.Stream(t.Context(), other)).Err)
	if !ok || e.Class != llm.PrefixCheck {
		t.Fatalf("got %v", e)
	}
	other.DropThinking = true
	if got := llmtest.Collect(p.Stream(t.Context(), other)); got.Err != nil {
		t.Error(got.Err)
	}
}
