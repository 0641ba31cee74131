package openai_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"hermesd/agent/llm"
	"hermesd/agent/llm/llmtest"
	"hermesd/agent/llm/openai"
	sim "hermesd/internal/sim/llm"
)

// fixed answers every request with the same bytes.
type fixed struct {
	status     int
	kind, body string
}

func (f fixed) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{
		StatusCode: f.status, Header: http.Header{"Content-Type": {f.kind}}, Body: io.NopCloser(strings.NewReader(f.body)), Request: r,
	}, nil
}

func streamOf(chunks ...string) fixed {
	return fixed{200, "text/event-stream", ": OPENROUTER PROCESSING\n\ndata: " + strings.Join(chunks, "\n\ndata: ") + "\n\n"}
}

func hi() *llm.Request {
	return &llm.Request{Model: "m", Transcript: llm.NewTranscript(llm.UserText("hush, a secret"))}
}

func delta(d string) string {
	return `{"id":"1","model":"real","choices":[{"index":0,"delta":` + d + `,"finish_reason":null}]}`
}

func finish(why string) string {
	return `{"id":"1","choices":[{"index":0,"delta":{},"finish_reason":"` + why + `"}]}`
}

const (
	usage = `{"id":"1","choices":[],"usage":{"prompt_tokens":1000,"completion_tokens":12,"prompt_tokens_details":{"cached_tokens":700}}}`
	done  = `[DONE]`
)

var whole = []string{
	delta(`{"role":"assistant","content":""}`),
	delta(`{"reasoning_content":"let me "}`), delta(`{"reasoning":"see"}`), delta(`{"reasoning":"!","reasoning_content":"!"}`),
	delta(`{"content":"I "}`), delta(`{"content":"look 世"}`), delta(`{"content":null}`),
	delta(`{"tool_calls":[{"index":0,"id":"c1","type":"function","function":{"name":"read","arguments":""}}]}`),
	delta(`{"tool_calls":[{"index":0,"function":{"arguments":"{\"z\": 1.0,"}},{"index":1,"id":"c2","function":{"name":"todo","arguments":"{"}}]}`),
	delta(`{"tool_calls":[{"index":1,"function":{"arguments":"}"}},{"index":0,"function":{"arguments":"\"a\":\"<\"}"}}]}`),
	finish("tool_calls"), usage, done,
}

func TestAnswerComplete(t *testing.T) {
	got := llmtest.Collect(over(streamOf(whole...)).Stream(t.Context(), hi()))
	want := &llm.Done{
		Message: llm.Message{Role: llm.Assistant, Dialect: "openai", Blocks: []llm.Block{
			{Type: llm.Thinking, Text: "let me see!"},
			{Type: llm.Text, Text: "I look 世"},
			{Type: llm.ToolUse, ID: "c1", Name: "read", Input: json.RawMessage(`{"z": 1.0,"a":"<"}`)},
			{Type: llm.ToolUse, ID: "c2", Name: "todo", Input: json.RawMessage(`{}`)},
		}},
		Stop: llm.CallTools, Usage: llm.Usage{Input: 300, CacheRead: 700, Output: 12}, Model: "real", Provider: "openai",
	}
	if d := cmp.Diff(want, got.Done, cmp.Transformer("text", func(r json.RawMessage) string { return string(r) })); d != "" || got.Err != nil {
		t.Errorf("%v\n%s", got.Err, d)
	}
	if got.Text != "I look 世" || got.Thinking != "let me see!" {
		t.Errorf("streamed %q and %q", got.Text, got.Thinking)
	}
}

// TestAnswerTruncatedStreamFails truncates an answer at every byte: the result is an error until
// the stop reason has arrived, and the whole answer from there on.
func TestAnswerTruncatedStreamFails(t *testing.T) {
	full := streamOf(whole...)
	enough := strings.Index(full.body, usage) - len("data: ") - 1
	for n := range full.body {
		cut := full
		cut.body = full.body[:n]
		got := llmtest.Collect(over(cut).Stream(t.Context(), hi()))
		e, ok := errors.AsType[*llm.Error](got.Err)
		switch {
		case n < enough && (got.Done != nil || !ok || e.Class != llm.Network):
			t.Fatalf("cut at %d of %d: got %v, %v", n, len(full.body), got.Done, got.Err)
		case n > enough && (got.Done == nil || len(got.Done.Message.ToolUses()) != 2):
			t.Fatalf("cut at %d, after the whole answer: got %v", n, got.Err)
		}
	}
}

// TestAnswerBrokenConnectionFails breaks the connection, which differs from a normal end of
// the stream, also after the stop reason.
func TestAnswerBrokenConnectionFails(t *testing.T) {
	s := sim.New(sim.Options{})
	defer s.Close()
	if got := llmtest.Collect(over(s.Transport()).Stream(t.Context(), hi())); got.Done == nil {
		t.Fatal(got.Err)
	}
	size := s.Requests()[0].Written
	for at := 0; at < size-len("data: [DONE]\n\n"); at += 7 {
		s.Inject(sim.Fault{Kind: sim.Cut, At: at})
		got := llmtest.Collect(over(s.Transport()).Stream(t.Context(), hi()))
		if e, ok := errors.AsType[*llm.Error](got.Err); got.Done != nil || !ok || e.Class != llm.Network {
			t.Fatalf("broken at %d of %d: got %v, %v", at, size, got.Done, got.Err)
		}
	}
}

// TestToolCallVariants checks the ways in which services stream tool calls.
func TestToolCallVariants(t *testing.T) {
	for name, c := range map[string]struct {
		deltas []string
		want   string
	}{
		"all with index 0": {[]string{`{"tool_calls":[{"index":0,"id":"a","function":{"name":"x","arguments":"{}"}}]}`, `{"tool_calls":[{"index":0,"id":"b","function":{"name":"y","arguments":"{\"k\":1}"}}]}`}, "a x {} | b y {\"k\":1}"},
		"no index":         {[]string{`{"tool_calls":[{"id":"a","function":{"name":"x","arguments":"{\"k\""}}]}`, `{"tool_calls":[{"function":{"arguments":":1}"}}]}`, `{"tool_calls":[{"id":"b","function":{"name":"y","arguments":"{}"}}]}`}, "a x {\"k\":1} | b y {}"},
		"an id each time":  {[]string{`{"tool_calls":[{"index":0,"id":"a","function":{"name":"x","arguments":"{"}}]}`, `{"tool_calls":[{"index":0,"id":"a","function":{"name":"","arguments":"}"}}]}`}, "a x {}"},
		"an object":        {[]string{`{"tool_calls":[{"index":0,"id":"a","function":{"name":"x","arguments":{"k": 1}}}]}`}, "a x {\"k\": 1}"},
		"null":             {[]string{`{"tool_calls":[{"index":0,"id":"a","function":{"name":"x","arguments":null}}]}`}, "a x {}"},
		"no arguments":     {[]string{`{"tool_calls":[{"index":0,"id":"a","function":{"name":"x"}}]}`}, "a x {}"},
		"no JSON":          {[]string{`{"tool_calls":[{"index":0,"id":"a","function":{"name":"x","arguments":"{oh"}}]}`}, "a x {} wrote {oh"},
		"an illegal name":  {[]string{`{"tool_calls":[{"index":0,"id":"a","function":{"name":"x y","arguments":"{}"}}]}`}, "a x_y {}"},
		"no id":            {[]string{`{"tool_calls":[{"index":0,"function":{"name":"x","arguments":"{}"}}]}`}, "call_ x {}"},
		"an illegal id":    {[]string{`{"tool_calls":[{"index":0,"id":"functions.x:0","function":{"name":"x","arguments":"{}"}}]}`}, "call_ x {}"},
		"one id for two":   {[]string{`{"tool_calls":[{"index":0,"id":"a","function":{"name":"x","arguments":"{}"}},{"index":1,"id":"a","function":{"name":"x","arguments":"{}"}}]}`}, "a x {} | call_ x {}"},
	} {
		t.Run(name, func(t *testing.T) {
			var chunks []string
			for _, d := range c.deltas {
				chunks = append(chunks, delta(d))
			}
			got := llmtest.Collect(over(streamOf(append(chunks, finish("stop"), done)...)).Stream(t.Context(), hi()))
			if got.Done == nil || got.Done.Stop != llm.CallTools {
				t.Fatalf("got %+v, %v", got.Done, got.Err)
			}
			var calls []string
			for _, b := range got.Done.Message.ToolUses() {
				id := b.ID
				if strings.HasPrefix(id, "call_") && llm.ValidToolCallID(id) {
					id = "call_"
				}
				s := id + " " + b.Name + " " + string(b.Input)
				if b.Text != "" {
					s += " wrote " + b.Text
				}
				calls = append(calls, s)
			}
			if s := strings.Join(calls, " | "); s != c.want {
				t.Errorf("got %s, want %s", s, c.want)
			}
		})
	}
}

func TestAnswerStopReasons(t *testing.T) {
	text := delta(`{"content":[{"type":"text","text":"he"},{"type":"thinking"},{"type":"text","text":"llo"}]}`)
	for name, c := range map[string]struct {
		from fixed
		want string
	}{
		"stop":                  {streamOf(text, finish("stop"), done), "end_turn hello"},
		"no DONE":               {streamOf(text, finish("stop")), "end_turn hello"},
		"length":                {streamOf(text, finish("length"), done), "length hello"},
		"filter":                {streamOf(text, finish("content_filter"), done), "refusal hello"},
		"refusal":               {streamOf(delta(`{"refusal":"no"}`), finish("stop"), done), "refusal no"},
		"new reason":            {streamOf(text, finish("eos"), done), "end_turn hello"},
		"calls that are none":   {streamOf(text, finish("tool_calls"), done), "end_turn hello"},
		"nothing said":          {streamOf(finish("stop"), done), "end_turn "},
		"another choice":        {streamOf(`{"choices":[{"index":1,"delta":{"content":"no"}}]}`, text, finish("stop"), done), "end_turn hello"},
		"DONE without a reason": {streamOf(text, done), "network"},
		"no end":                {streamOf(text), "network"},
		"nothing":               {fixed{200, "text/event-stream", ""}, "network"},
		"no JSON":               {streamOf(text, `{"choices":`), "garbage"},
		"content of a number":   {streamOf(delta(`{"content":7}`)), "garbage"},
		"arguments of a list":   {streamOf(delta(`{"tool_calls":[{"index":0,"id":"a","function":{"name":"x","arguments":"\q"}}]}`)), "garbage"},
		"a page":                {fixed{200, "text/html", "<html>hush</html>"}, "garbage"},
		"error object":          {streamOf(text, `{"error":{"code":503,"message":"No capacity"},"choices":[]}`), "overloaded"},
		"error in a choice":     {streamOf(text, `{"choices":[{"index":0,"delta":{},"error":{"code":429,"message":"slow"}}]}`), "rate_limit"},
		"error as a string":     {streamOf(text, `{"error":"model runner has crashed"}`), "unknown"},
		"error as an object":    {streamOf(`{"object":"error","message":"maximum context length is 4096 tokens","code":400}`), "context_overflow"},
		"error as fields":       {streamOf(`{"choices":null,"error_type":"x","error_message":"the prompt is too long"}`), "context_overflow"},
		"error event":           {fixed{200, "text/event-stream", "event: error\ndata: {\"message\":\"overloaded\",\"code\":529}\n\n"}, "overloaded"},
		"error as a reason":     {streamOf(text, finish("error"), done), "server_error"},
		"failure":               {fixed{500, "application/json", `{"error":{"message":"oh"}}`}, "server_error"},
	} {
		t.Run(name, func(t *testing.T) {
			res := llmtest.Collect(over(c.from).Stream(t.Context(), hi()))
			got := ""
			if res.Done != nil {
				got = string(res.Done.Stop) + " " + res.Done.Message.Text()
			}
			if e, ok := errors.AsType[*llm.Error](res.Err); ok {
				got += string(e.Class)
				if strings.Contains(e.Error(), "hush") {
					t.Errorf("%q tells too much", e.Error())
				}
			}
			if got != c.want {
				t.Errorf("got %q (%v), want %q", got, res.Err, c.want)
			}
		})
	}
}

func TestUsage(t *testing.T) {
	for in, want := range map[string]llm.Usage{
		`{"prompt_tokens":10,"completion_tokens":2}`:                                                                    {Input: 10, Output: 2},
		`{"prompt_tokens":10,"completion_tokens":2,"prompt_tokens_details":null}`:                                       {Input: 10, Output: 2},
		`{"prompt_tokens":10,"completion_tokens":2,"prompt_cache_hit_tokens":6}`:                                        {Input: 4, CacheRead: 6, Output: 2},
		`{"prompt_tokens":10,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":3,"cache_write_tokens":4}}`: {Input: 3, CacheRead: 3, CacheWrite: 4, Output: 2},
		`{"prompt_tokens":10,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":30}}`:                       {Input: 0, CacheRead: 30, Output: 2},
	} {
		got := llmtest.Collect(over(streamOf(finish("stop"), `{"choices":[],"usage":`+in+`}`, done)).Stream(t.Context(), hi()))
		if got.Done == nil || got.Done.Usage != want {
			t.Errorf("%s: got %+v, %v", in, got.Done, got.Err)
		}
	}
}

func TestAnswerIdleTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := sim.New(sim.Options{})
		defer s.Close()
		s.Inject(sim.Fault{Kind: sim.NoAnswer})
		s.Inject(sim.Fault{Kind: sim.Stall, At: 3})
		p := over(s.Transport())
		for range 2 {
			from := time.Now()
			got := llmtest.Collect(p.Stream(t.Context(), hi()))
			if e, ok := errors.AsType[*llm.Error](got.Err); !ok || e.Class != llm.Timeout || time.Since(from) != 90*time.Second {
				t.Errorf("got %v after %v", got.Err, time.Since(from))
			}
		}
	})
}

// TestKeySentOnlyToOwnHost checks that no key is sent if none is set, and that redirects
// are not followed.
func TestKeySentOnlyToOwnHost(t *testing.T) {
	var seen []http.Header
	rt := roundTrip(func(r *http.Request) (*http.Response, error) {
		seen = append(seen, r.Header)
		return &http.Response{StatusCode: 308, Header: http.Header{"Location": {"http://thief.test/"}}, Body: http.NoBody, Request: r}, nil
	})
	for _, key := range []string{"", "key-of-the-test"} {
		p := openai.New(openai.Options{BaseURL: "http://home.test/v1", Key: "", HTTP: &http.Client{Transport: rt}})
		if key != "" {
			p = over(rt)
		}
		got := llmtest.Collect(p.Stream(t.Context(), hi()))
		if e, ok := errors.AsType[*llm.Error](got.Err); !ok || e.Class != llm.Format {
			t.Errorf("got %v", got.Err)
		}
	}
	if len(seen) != 2 || seen[0].Get("Authorization") != "" || seen[1].Get("Authorization") != "Bearer key-of-the-test" {
		t.Errorf("sent %v", seen)
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func FuzzAnswer(f *testing.F) {
	f.Add(streamOf(whole...).body)
	f.Add("data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"function\":{\"arguments\":[]}}]},\"finish_reason\":\"x\"}]}\n\n")
	f.Add(streamOf(delta(`{"reasoning_details":[{"type":"reasoning.text","text":"a","index":0},{"type":"reasoning.text","text":"b","index":0}]}`), delta(`{"content":"x"}`), finish("stop")).body)
	f.Fuzz(func(t *testing.T, b string) {
		got := llmtest.Collect(over(fixed{200, "text/event-stream", b}).Stream(context.Background(), hi()))
		if (got.Done == nil) == (got.Err == nil) {
			t.Fatalf("%v and %v", got.Done, got.Err)
		}
		if got.Done == nil {
			return
		}
		for _, c := range got.Done.Message.ToolUses() {
			if !llm.ValidInput(c.Input) || !llm.ValidToolCallID(c.ID) || !llm.ValidToolName(c.Name) {
				t.Errorf("call %+v", c)
			}
		}
		r := hi()
		r.Transcript.Append(got.Done.Message, llm.UserText("x"))
		body(t, provider, r)
	})
}
