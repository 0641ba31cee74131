package anthropic_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"hermesd/agent/llm"
	"hermesd/agent/llm/anthropic"
	"hermesd/agent/llm/llmtest"
	sim "hermesd/internal/sim/llm"
)

// fixed answers every request with the same bytes.
type fixed struct {
	status int
	kind   string
	body   string
	header http.Header
}

func (f fixed) RoundTrip(r *http.Request) (*http.Response, error) {
	h := f.header.Clone()
	if h == nil {
		h = http.Header{}
	}
	h.Set("Content-Type", f.kind)
	return &http.Response{StatusCode: f.status, Header: h, Body: io.NopCloser(strings.NewReader(f.body)), Request: r}, nil
}

func streamOf(events ...string) fixed {
	var s strings.Builder
	for _, e := range events {
		var t struct{ Type string }
		_ = json.Unmarshal([]byte(e), &t)
		fmt.Fprintf(&s, "event: %s\r\ndata: %s\r\n\r\n", t.Type, e)
	}
	return fixed{status: 200, kind: "text/event-stream; charset=utf-8", body: s.String()}
}

func hi() *llm.Request {
	return &llm.Request{Model: "claude-opus-4-8", Transcript: llm.NewTranscript(llm.UserText("hush, a secret"))}
}

const start = `{"type":"message_start","message":{"model":"claude-real","usage":{"input_tokens":7,"cache_creation_input_tokens":20,"cache_read_input_tokens":300,"output_tokens":1}}}`

var whole = []string{
	start, `{"type":"ping"}`,
	`{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}`,
	`{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"hm <"}}`,
	`{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"ok>"}}`,
	`{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"abc="}}`,
	`{"type":"content_block_stop","index":0}`,
	`{"type":"content_block_start","index":1,"content_block":{"type":"redacted_thinking","data":"xyz"}}`,
	`{"type":"content_block_stop","index":1}`,
	`{"type":"content_block_start","index":2,"content_block":{"type":"text","text":""}}`,
	`{"type":"content_block_delta","index":2,"delta":{"type":"text_delta","text":"I "}}`,
	`{"type":"content_block_delta","index":2,"delta":{"type":"text_delta","text":"look\n世"}}`,
	`{"type":"content_block_stop","index":2}`,
	`{"type":"content_block_start","index":3,"content_block":{"type":"text","text":""}}`,
	`{"type":"content_block_delta","index":3,"delta":{"type":"text_delta","text":"\n\n"}}`,
	`{"type":"content_block_stop","index":3}`,
	`{"type":"content_block_start","index":4,"content_block":{"type":"tool_use","id":"toolu_1","name":"read","input":{}}}`,
	`{"type":"content_block_delta","index":4,"delta":{"type":"input_json_delta","partial_json":""}}`,
	`{"type":"content_block_delta","index":4,"delta":{"type":"input_json_delta","partial_json":"{\"z\": 1.0,"}}`,
	`{"type":"content_block_delta","index":4,"delta":{"type":"input_json_delta","partial_json":"\"a\":\"<\"}"}}`,
	`{"type":"content_block_stop","index":4}`,
	`{"type":"content_block_start","index":5,"content_block":{"type":"new_kind", "data":{"x":1}}}`,
	`{"type":"content_block_stop","index":5}`,
	`{"type":"some_new_event"}`,
	`{"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":55}}`,
	`{"type":"message_stop"}`,
}

const wholeRaw = `[{"type":"thinking","thinking":"hm <ok>","signature":"abc="},{"type":"redacted_thinking","data":"xyz"},` +
	`{"type":"text","text":"I look\n世"},{"type":"tool_use","id":"toolu_1","name":"read","input":{"z": 1.0,"a":"<"}},{"type":"new_kind","data":{"x":1}}]`

func TestAnswerComplete(t *testing.T) {
	got := llmtest.Collect(over(streamOf(whole...)).Stream(t.Context(), hi()))
	want := &llm.Done{
		Message: llm.Message{
			Role: llm.Assistant, Dialect: "anthropic", Raw: json.RawMessage(wholeRaw),
			Blocks: []llm.Block{
				{Type: llm.Thinking, Text: "hm <ok>"},
				{Type: llm.Text, Text: "I look\n世"},
				{Type: llm.ToolUse, ID: "toolu_1", Name: "read", Input: json.RawMessage(`{"z": 1.0,"a":"<"}`)},
			},
		},
		Stop: llm.CallTools, Usage: llm.Usage{Input: 7, CacheRead: 300, CacheWrite: 20, Output: 55}, Model: "claude-real", Provider: "anthropic",
	}
	bytesAsText := cmp.Transformer("text", func(r json.RawMessage) string { return string(r) })
	if d := cmp.Diff(want, got.Done, bytesAsText); d != "" || got.Err != nil {
		t.Errorf("%v\n%s", got.Err, d)
	}
	r := hi()
	r.Transcript.Append(got.Done.Message, llm.Message{Role: llm.User, Blocks: []llm.Block{{Type: llm.ToolResult, ID: "toolu_1", Text: "x"}}})
	if b := body(t, r); !strings.Contains(b, `{"role":"assistant","content":`+wholeRaw+`}`) {
		t.Errorf("replayed as %s", b)
	}
}

// TestAnswerTruncatedStreamFails cuts an answer at every byte.
func TestAnswerTruncatedStreamFails(t *testing.T) {
	full := streamOf(whole...)
	for n := range full.body {
		cut := full
		cut.body = full.body[:n]
		got := llmtest.Collect(over(cut).Stream(t.Context(), hi()))
		complete := n >= len(full.body)-len("\r\n")+1
		if e, ok := errors.AsType[*llm.Error](got.Err); !complete && (got.Done != nil || !ok || e.Class != llm.Network) {
			t.Fatalf("cut at %d of %d: got %v, %v", n, len(full.body), got.Done, got.Err)
		}
	}
}

func TestAnswerInvalidResponses(t *testing.T) {
	text := `{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`
	for name, c := range map[string]struct {
		from fixed
		want llm.Class
	}{
		"no JSON":               {streamOf(start, `{"type":`), llm.InvalidResponse},
		"wrong index":           {streamOf(start, `{"type":"content_block_start","index":3,"content_block":{"type":"text"}}`), llm.InvalidResponse},
		"a delta of nothing":    {streamOf(start, `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"x"}}`), llm.InvalidResponse},
		"a negative index":      {streamOf(start, text, `{"type":"content_block_delta","index":-1,"delta":{"type":"text_delta","text":"x"}}`), llm.InvalidResponse},
		"no reason":             {streamOf(start, `{"type":"message_stop"}`), llm.InvalidResponse},
		"no beginning":          {streamOf(`{"type":"message_stop"}`), llm.InvalidResponse},
		"overload on the way":   {streamOf(start, text, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`), llm.Overloaded},
		"failure on the way":    {streamOf(start, text, `{"type":"error","error":{"type":"api_error","message":"Internal server error"}}`), llm.Server},
		"nothing":               {fixed{200, "text/event-stream", "", nil}, llm.Network},
		"a page":                {fixed{200, "text/html", "<html><title>Log in</title></html>", nil}, llm.InvalidResponse},
		"an answer in one":      {fixed{200, "application/json", `{"id":"m","content":[]}`, nil}, llm.InvalidResponse},
		"an error with 200":     {fixed{200, "application/json", `{"error":{"message":"Overloaded","code":529}}`, nil}, llm.Overloaded},
		"a redirect":            {fixed{307, "text/html", "", http.Header{"Location": {"http://thief.test/"}}}, llm.Format},
		"a page with a failure": {fixed{502, "text/html", "<html><title>502 Bad Gateway</title></html>", nil}, llm.Server},
	} {
		t.Run(name, func(t *testing.T) {
			got := llmtest.Collect(over(c.from).Stream(t.Context(), hi()))
			e, ok := errors.AsType[*llm.Error](got.Err)
			if !ok || e.Class != c.want || got.Done != nil {
				t.Fatalf("got %v, %+v", got.Err, got.Done)
			}
			for _, s := range []string{"hush", "secret", "key-of-the-test", "thief"} {
				if strings.Contains(e.Error(), s) {
					t.Errorf("%q tells %q", e.Error(), s)
				}
			}
		})
	}
}

func TestAnswerStopReasons(t *testing.T) {
	for reason, want := range map[string]llm.StopReason{
		"end_turn": llm.EndTurn, "stop_sequence": llm.EndTurn, "max_tokens": llm.Length, "model_context_window_exceeded": llm.Length,
		"refusal": llm.Refusal, "pause_turn": llm.Paused, "tool_use": llm.EndTurn, "something_new": llm.EndTurn,
	} {
		got := llmtest.Collect(over(streamOf(start, `{"type":"message_delta","delta":{"stop_reason":"`+reason+`"}}`, `{"type":"message_stop"}`)).Stream(t.Context(), hi()))
		if got.Done == nil || got.Done.Stop != want || string(got.Done.Message.Raw) != "[]" {
			t.Errorf("%s: got %+v, %v", reason, got.Done, got.Err)
		}
	}
}

func TestAnswerIdleTimeout(t *testing.T) {
	for name, c := range map[string]struct {
		fault sim.Fault
		rep   sim.Reply
		want  time.Duration
	}{
		"before the answer": {fault: sim.Fault{Kind: sim.NoAnswer}, want: time.Minute},
		"in the middle":     {fault: sim.Fault{Kind: sim.Stall, At: 4}, want: time.Minute},
		"never at rest":     {rep: sim.Reply{Text: strings.Repeat("slow ", 400), PerDelta: 50 * time.Second}, want: 10 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := sim.New(sim.Options{Reply: func(sim.Request) sim.Reply { return c.rep }})
				defer s.Close()
				if c.fault.Kind != "" {
					s.Inject(c.fault)
				}
				p := anthropic.New(anthropic.Options{
					BaseURL: s.URL, Key: "k", HTTP: s.Client(), IdleTimeout: time.Minute, Timeout: 10 * time.Minute,
				})
				from := time.Now()
				got := llmtest.Collect(p.Stream(t.Context(), hi()))
				if e, ok := errors.AsType[*llm.Error](got.Err); !ok || e.Class != llm.Timeout || time.Since(from) != c.want {
					t.Errorf("got %v after %v", got.Err, time.Since(from))
				}
			})
		})
	}
}

// TestAnswerSlowReaderDoesNotTimeOut takes longer over each event than the idle timeout.
func TestAnswerSlowReaderDoesNotTimeOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := sim.New(sim.Options{})
		defer s.Close()
		p := anthropic.New(anthropic.Options{BaseURL: s.URL, Key: "k", HTTP: s.Client(), IdleTimeout: time.Minute, Timeout: time.Hour})
		done := false
		for e, err := range p.Stream(t.Context(), hi()) {
			if err != nil {
				t.Fatal(err)
			}
			_, done = e.(llm.Done)
			<-time.After(2 * time.Minute)
		}
		if !done {
			t.Error("no answer")
		}
	})
}

// TestProviderOverNetwork uses a real listener and tests broken connections and the request
// itself.
func TestProviderOverNetwork(t *testing.T) {
	s, err := sim.Start(sim.Options{Keys: []string{"right"}, PrefixCheck: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	c := &http.Client{Transport: &http.Transport{}}
	defer c.CloseIdleConnections()
	p := anthropic.New(anthropic.Options{BaseURL: s.URL, Key: "right", HTTP: c, Headers: map[string]string{"X-More": "yes"}})
	s.Inject(sim.Fault{Kind: sim.Cut, At: 700})
	got := llmtest.Collect(p.Stream(t.Context(), hi()))
	if e, ok := errors.AsType[*llm.Error](got.Err); !ok || e.Class != llm.Network {
		t.Errorf("a cut connection: %v", got.Err)
	}
	if got := llmtest.Collect(p.Stream(t.Context(), hi())); got.Done == nil || got.Done.Message.Text() != "echo: hush, a secret" {
		t.Errorf("got %v, %v", got.Done, got.Err)
	}
	if h := s.Requests()[1].Header; h.Get("Anthropic-Version") != "2023-06-01" || h.Get("X-More") != "yes" {
		t.Errorf("headers %v", h)
	}
	s.Close()
	got = llmtest.Collect(p.Stream(t.Context(), hi()))
	if e, ok := errors.AsType[*llm.Error](got.Err); !ok || e.Class != llm.Network {
		t.Errorf("nobody there: %v", got.Err)
	}
	bad := anthropic.New(anthropic.Options{BaseURL: "http://[::", Key: "right"})
	if e, ok := errors.AsType[*llm.Error](llmtest.Collect(bad.Stream(t.Context(), hi())).Err); !ok || e.Class != llm.Format {
		t.Error("a base URL that is none was used")
	}
}

// TestThinkingBoundToPrefix replays thinking in a tool loop, and checks that a changed overlay
// before it is rejected.
func TestThinkingBoundToPrefix(t *testing.T) {
	s := sim.New(sim.Options{PrefixCheck: true, Reply: func(r sim.Request) sim.Reply {
		return sim.Reply{Thinking: fmt.Sprintf("step %d", r.N), Calls: []sim.Call{{Name: "x", Args: `{"a": 1}`}}}
	}})
	defer s.Close()
	p := over(s.Transport())
	r := hi()
	for range 20 {
		got := llmtest.Collect(p.Stream(t.Context(), r))
		if got.Err != nil {
			t.Fatal(got.Err)
		}
		r.Transcript.Append(got.Done.Message, llm.Message{Role: llm.User, Blocks: []llm.Block{
			{Type: llm.ToolResult, ID: got.Done.Message.ToolUses()[0].ID, Text: "ok"},
		}})
	}
	r.System = "another"
	got := llmtest.Collect(p.Stream(t.Context(), r))
	if e, ok := errors.AsType[*llm.Error](got.Err); !ok || e.Class != llm.PrefixCheck {
		t.Fatalf("got %v", got.Err)
	}
	r.DropThinking = true
	if got := llmtest.Collect(p.Stream(t.Context(), r)); got.Err != nil {
		t.Errorf("without thinking: %v", got.Err)
	}
}

func FuzzAnswer(f *testing.F) {
	f.Add(streamOf(whole...).body)
	f.Add("data: {\"type\":\"message_start\"}\n\ndata:{\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"x\"}}\n\ndata:{\"type\":\"message_stop\"}\n\n")
	f.Fuzz(func(t *testing.T, b string) {
		got := llmtest.Collect(over(fixed{200, "text/event-stream", b, nil}).Stream(context.Background(), hi()))
		if (got.Done == nil) == (got.Err == nil) {
			t.Fatalf("%v and %v", got.Done, got.Err)
		}
		if got.Done == nil {
			return
		}
		m := got.Done.Message
		if !json.Valid(m.Raw) {
			t.Fatalf("raw is no JSON: %s", m.Raw)
		}
		for _, c := range m.ToolUses() {
			if !llm.ValidInput(c.Input) || !llm.ValidToolCallID(c.ID) || !llm.ValidToolName(c.Name) {
				t.Errorf("call %+v", c)
			}
		}
		r := hi()
		r.CacheTTL = "5m"
		r.Transcript.Append(m, llm.UserText("x"))
		body(t, r)
	})
}
