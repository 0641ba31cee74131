package llm_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	sim "hermesd/internal/sim/llm"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// post sends a request over the server's own transport and returns status, body
// and header.
func post(t testing.TB, s *sim.Server, path, body string) (int, string, http.Header) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-Api-Key", "good")
	req.Header.Set("Authorization", "Bearer good")
	req.Header.Set("Anthropic-Version", "2023-06-01")
	return do(t, s, req)
}

func do(t testing.TB, s *sim.Server, req *http.Request) (int, string, http.Header) {
	t.Helper()
	resp, err := s.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		b = append(b, " !"+err.Error()...)
	}
	return resp.StatusCode, string(b), resp.Header
}

const (
	messages = "/v1/messages"
	chat     = "/v1/chat/completions"
)

// TestMessagesAreJudged sends requests that the Messages API refuses, and
// expects a part of its error message.
func TestMessagesAreJudged(t *testing.T) {
	s := sim.New(sim.Options{Keys: []string{"good"}, Models: []string{"m"}})
	defer s.Close()
	in := func(messages string) string { return `{"model":"m","max_tokens":10,"messages":` + messages + `}` }
	use := `{"role":"user","content":"a"},{"role":"assistant","content":[{"type":"tool_use","id":"t1","name":"n","input":{}}]}`
	for _, c := range []struct {
		body   string
		status int
		says   string
	}{
		{in(`[{"role":"user","content":"a"}]`), 200, "echo: a"},
		{in(`[` + use + `,{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":"r"}]}]`), 200, "results: r"},
		{`{`, 400, "not valid JSON"},
		{`{"model":"m","max_tokens":1,"messages":[{"role":"user","content":"a"}],"foo":1}`, 400, "foo: Extra inputs are not permitted"},
		{`{"max_tokens":1}`, 400, "model: Field required"},
		{`{"model":"m","messages":[{"role":"user","content":"a"}]}`, 400, "max_tokens: Field required"},
		{`{"model":"m","max_tokens":0,"messages":[]}`, 400, "greater than or equal to 1"},
		{`{"model":"x","max_tokens":1,"messages":[{"role":"user","content":"a"}]}`, 404, "not_found_error"},
		{in(`[]`), 400, "at least one message is required"},
		{in(`[{"role":"assistant","content":"a"}]`), 400, `first message must use the \"user\" role`},
		{in(`[{"role":"system","content":"a"}]`), 400, "Input should be 'user' or 'assistant'"},
		{in(`[{"role":"user","content":"a"},{"role":"user","content":"b"}]`), 400, "roles must alternate"},
		{in(`[{"role":"user","content":"a"},{"role":"assistant","content":"b"}]`), 400, "must end with a user message"},
		{in(`[{"role":"user","content":""}]`), 400, "must have non-empty content"},
		{in(`[{"role":"user","content":[]}]`), 400, "must have non-empty content"},
		{in(`[{"role":"user","content":7}]`), 400, "Input should be a valid list"},
		{in(`[{"role":"user","content":[{"type":"text","text":""}]}]`), 400, "text content blocks must be non-empty"},
		{in(`[{"role":"user","content":[{"type":"text","text":" \n"}]}]`), 400, "non-whitespace"},
		{in(`[{"role":"user","content":[{"type":"text"}]}]`), 400, "text.text: Field required"},
		{in(`[{"role":"user","content":[{"type":"video"}]}]`), 400, "Input tag 'video'"},
		{in(`[{"role":"user","content":[{"type":"tool_use","id":"a","name":"n","input":{}}]}]`), 400, "can only be in `assistant` messages"},
		{in(`[` + use + `,{"role":"user","content":"b"}]`), 400, "ids were found without `tool_result` blocks immediately after: t1"},
		{in(`[` + use + `,{"role":"user","content":[{"type":"text","text":"x"},{"type":"tool_result","tool_use_id":"t1"}]}]`), 400, "unexpected `tool_use_id`"},
		{in(`[` + use + `,{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1"},{"type":"tool_result","tool_use_id":"t1"}]}]`), 400, "single result"},
		{in(`[{"role":"user","content":[{"type":"tool_result","tool_use_id":"t9"}]}]`), 400, "unexpected `tool_use_id`"},
		{in(`[{"role":"user","content":[{"type":"tool_result"}]}]`), 400, "tool_use_id: Field required"},
		{in(`[{"role":"user","content":"a"},{"role":"assistant","content":[{"type":"tool_use","id":"a b","name":"n","input":{}}]},{"role":"user","content":"b"}]`), 400, "tool_use.id: String should match"},
		{in(`[{"role":"user","content":"a"},{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"n o","input":{}}]},{"role":"user","content":"b"}]`), 400, "tool_use.name: String should match"},
		{in(`[{"role":"user","content":"a"},{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"n","input":[]}]},{"role":"user","content":"b"}]`), 400, "valid dictionary"},
		{in(`[{"role":"user","content":"a"},{"role":"assistant","content":[{"type":"thinking","thinking":"x"}]},{"role":"user","content":"b"}]`), 400, "signature: Field required"},
		{in(`[{"role":"user","content":"a"},{"role":"assistant","content":[{"type":"thinking","thinking":"x","signature":"y","cache_control":{"type":"ephemeral"}}]},{"role":"user","content":"b"}]`), 400, "Extra inputs"},
		{in(`[{"role":"user","content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"!"}}]}]`), 400, "Invalid base64"},
		{in(`[{"role":"user","content":[{"type":"image","source":{"type":"base64","media_type":"text/plain","data":"AAAA"}}]}]`), 400, "media_type"},
		{in(`[{"role":"user","content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"` + strings.Repeat("AAAA", 1_400_000) + `"}}]}]`), 400, "image exceeds 5 MB maximum"},
		{`{"model":"m","max_tokens":9,"system":[{"type":"text","text":""}],"messages":[{"role":"user","content":"a"}]}`, 400, "system.0: text content blocks must be non-empty"},
		{`{"model":"m","max_tokens":9,"tools":[{"name":"a b","input_schema":{"type":"object"}}],"messages":[{"role":"user","content":"a"}]}`, 400, "tools.0.custom.name"},
		{`{"model":"m","max_tokens":9,"tools":[{"name":"a","input_schema":{"type":"string"}}],"messages":[{"role":"user","content":"a"}]}`, 400, "input_schema.type"},
		{`{"model":"m","max_tokens":9,"tools":[{"name":"a"}],"messages":[{"role":"user","content":"a"}]}`, 400, "input_schema: Field required"},
		{`{"model":"m","max_tokens":9,"tools":[{"name":"a","input_schema":{"type":"object"}},{"name":"a","input_schema":{"type":"object"}}],"messages":[{"role":"user","content":"a"}]}`, 400, "must be unique"},
		{`{"model":"m","max_tokens":9,"tool_choice":{"type":"none"},"messages":[{"role":"user","content":"a"}]}`, 400, "while providing tools"},
		{`{"model":"m","max_tokens":9,"thinking":{"type":"enabled","budget_tokens":1024},"messages":[{"role":"user","content":"a"}]}`, 400, "must be greater than `thinking.budget_tokens`"},
		{`{"model":"m","max_tokens":9,"thinking":{"type":"loud"},"messages":[{"role":"user","content":"a"}]}`, 400, "Input tag 'loud'"},
		{in(`[{"role":"user","content":[{"type":"text","text":"a","cache_control":{"type":"ephemeral","ttl":"2h"}}]}]`), 400, "'5m' or '1h'"},
		{in(`[{"role":"user","content":[` + strings.TrimSuffix(strings.Repeat(`{"type":"text","text":"a","cache_control":{"type":"ephemeral"}},`, 5), ",") + `]}]`), 400, "A maximum of 4 blocks"},
	} {
		status, got, _ := post(t, s, messages, c.body)
		if status != c.status || !strings.Contains(got, c.says) || !json.Valid([]byte(got)) {
			t.Errorf("%.120s: got %d %s, want %d %q", c.body, status, got, c.status, c.says)
		}
	}
}

func TestChatIsJudged(t *testing.T) {
	s := sim.New(sim.Options{Keys: []string{"good"}, Models: []string{"m"}})
	defer s.Close()
	in := func(messages string) string { return `{"model":"m","messages":` + messages + `}` }
	use := `{"role":"user","content":"a"},{"role":"assistant","content":null,"tool_calls":[{"id":"t1","type":"function","function":{"name":"n","arguments":"{}"}}]}`
	for _, c := range []struct {
		body   string
		status int
		says   string
	}{
		{in(`[{"role":"system","content":"s"},{"role":"user","content":"a"}]`), 200, "echo: a"},
		{in(`[` + use + `,{"role":"tool","tool_call_id":"t1","content":"r"}]`), 200, "results: r"},
		{in(`[` + use + `,{"role":"tool","tool_call_id":"t1","content":"r"},{"role":"user","content":"and"}]`), 200, "results: r"},
		{in(`[{"role":"user","content":[{"type":"text","text":"a"},{"type":"image_url","image_url":{"url":"data:x"}}]}]`), 200, "echo: a"},
		{`{`, 400, "could not parse the JSON"},
		{`{"messages":[]}`, 400, "model parameter"},
		{`{"model":"x","messages":[{"role":"user","content":"a"}]}`, 404, "model_not_found"},
		{`{"model":"m","stream_options":{"include_usage":true},"messages":[{"role":"user","content":"a"}]}`, 400, "only allowed when 'stream'"},
		{in(`[]`), 400, "empty_array"},
		{in(`[{"role":"alien","content":"a"}]`), 400, "Invalid value: 'alien'"},
		{in(`[{"role":"user","content":null}]`), 400, "got null"},
		{in(`[{"role":"user","content":""}]`), 400, "must not be empty"},
		{in(`[{"role":"user","content":[]}]`), 400, "array of objects"},
		{in(`[{"role":"user","content":[{"type":"text","text":""}]}]`), 400, "Invalid content part"},
		{in(`[` + use + `]`), 400, "did not have response messages: t1"},
		{in(`[` + use + `,{"role":"user","content":"x"}]`), 400, "did not have response messages: t1"},
		{in(`[{"role":"tool","tool_call_id":"t1","content":"r"}]`), 400, "must be a response to a preceeding message"},
		{in(`[{"role":"assistant","content":null,"tool_calls":[{"id":"` + strings.Repeat("i", 41) + `","type":"function","function":{"name":"n","arguments":"{}"}}]}]`), 400, "maximum length 40"},
		{in(`[{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"thing","function":{"name":"n","arguments":"{}"}}]}]`), 400, "Supported values are: 'function'"},
		{in(`[{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"n o","arguments":"{}"}}]}]`), 400, "does not match pattern"},
		{in(`[{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"n"}}]}]`), 400, "Missing required parameter"},
		{`{"model":"m","tools":[{"type":"function","function":{"name":"a b"}}],"messages":[{"role":"user","content":"a"}]}`, 400, "tools[0].function.name"},
		{`{"model":"m","tools":[{"type":"function","function":{"name":"a","parameters":{}}}],"messages":[{"role":"user","content":"a"}]}`, 400, "invalid_function_parameters"},
		{`{"model":"m","tools":[{"type":"x","function":{"name":"a"}}],"messages":[{"role":"user","content":"a"}]}`, 400, "Invalid value: 'x'"},
		{`{"model":"m","tool_choice":"none","messages":[{"role":"user","content":"a"}]}`, 400, "tool_choice"},
	} {
		status, got, _ := post(t, s, chat, c.body)
		if status != c.status || !strings.Contains(got, c.says) || !json.Valid([]byte(got)) {
			t.Errorf("%.120s: got %d %s, want %d %q", c.body, status, got, c.status, c.says)
		}
	}
}

func TestKeysAndPaths(t *testing.T) {
	s := sim.New(sim.Options{Keys: []string{"good"}, Models: []string{"m1", "m2"}})
	defer s.Close()
	for _, c := range []struct {
		method, path string
		header       map[string]string
		status       int
		says         string
	}{
		{"POST", messages, nil, 401, "x-api-key header is required"},
		{"POST", messages, map[string]string{"X-Api-Key": "bad"}, 401, "invalid x-api-key"},
		{"POST", messages, map[string]string{"X-Api-Key": "good"}, 400, "anthropic-version: header is required"},
		{"POST", messages, map[string]string{"X-Api-Key": "good", "Anthropic-Version": "x"}, 400, "Content-Type"},
		{"POST", chat, nil, 401, "You didn't provide an API key"},
		{"POST", chat, map[string]string{"Authorization": "Bearer bad"}, 401, "invalid_api_key"},
		{"GET", "/v1/models", map[string]string{"Authorization": "Bearer good"}, 200, `"id":"m2","object":"model"`},
		{"GET", "/v1/models", nil, 401, "API key"},
		{"GET", "/v1/models", map[string]string{"X-Api-Key": "good", "Anthropic-Version": "x"}, 200, `"first_id":"m1"`},
		{"GET", "/v1/models", map[string]string{"Anthropic-Version": "x"}, 401, "invalid x-api-key"},
		{"GET", "/", nil, 404, "not_found_error"},
	} {
		req, err := http.NewRequestWithContext(t.Context(), c.method, s.URL+c.path, strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		for k, v := range c.header {
			req.Header.Set(k, v)
		}
		if status, got, _ := do(t, s, req); status != c.status || !strings.Contains(got, c.says) {
			t.Errorf("%s %s %v: got %d %s", c.method, c.path, c.header, status, got)
		}
	}
	for _, e := range s.Requests() {
		if strings.Contains(fmt.Sprint(e.Header), "good") {
			t.Errorf("the recorder holds a key: %v", e.Header)
		}
	}
}

const (
	askMessages = `{"model":"m","max_tokens":10,"stream":true,"messages":[{"role":"user","content":"[[x]] tell"}]}`
	askChat     = `{"model":"m","stream":true,"stream_options":{"include_usage":true},"messages":[{"role":"user","content":"[[x]] tell"}]}`
)

func TestFaults(t *testing.T) {
	for _, c := range []struct {
		fault          sim.Fault
		status         int
		messages, chat string // content of the answers
		not            string // text that they do not contain
	}{
		{sim.Fault{Kind: sim.Unauthorized}, 401, "authentication_error", "invalid_api_key", ""},
		{sim.Fault{Kind: sim.Unpaid}, 402, "billing_error", `"code":402`, ""},
		{sim.Fault{Kind: sim.Forbidden}, 403, "permission_error", `"code":403`, ""},
		{sim.Fault{Kind: sim.Missing}, 404, "not_found_error", "model_not_found", ""},
		{sim.Fault{Kind: sim.TooLarge}, 413, "request_too_large", `"code":413`, ""},
		{sim.Fault{Kind: sim.TooMany, After: 1500 * time.Millisecond}, 429, "rate_limit_error", "rate_limit_exceeded", ""},
		{sim.Fault{Kind: sim.ServerError}, 500, "api_error", `"code":500`, ""},
		{sim.Fault{Kind: sim.BadGateway}, 502, "<title>502", "<title>502", "{"},
		{sim.Fault{Kind: sim.Overloaded, Text: "busy"}, 529, `"busy"`, `"busy"`, ""},
		{sim.Fault{Kind: sim.Overflow, At: 5000}, 400, "> 5000 maximum", "context_length_exceeded", ""},
		{sim.Fault{Kind: sim.Prefix}, 400, "bound to a different conversation", "bound to a different conversation", ""},
		{sim.Fault{Kind: sim.Custom, Status: 418, Text: "teapot"}, 418, "teapot", "teapot", ""},
		{sim.Fault{Kind: sim.Cut, At: 50}, 200, "!unexpected EOF", "!unexpected EOF", "[[x]]"},
		{sim.Fault{Kind: sim.End, At: 4}, 200, "data:", "data:", "message_stop"},
		{sim.Fault{Kind: sim.Error, At: 3}, 200, "overloaded_error", `"error":{"code":529`, "[DONE]"},
		{sim.Fault{Kind: sim.BadJSON, At: 3}, 200, "data:", "data:", ""},
		{sim.Fault{Kind: sim.Garbage}, 200, "garbage", "garbage", ""},
		{sim.Fault{Kind: sim.BadToolName}, 200, "no such tool!", "no such tool!", "[[x]]"},
		{sim.Fault{Kind: sim.BadToolArgs}, 200, `{\"path\":`, `{\"path\":`, ""},
		{sim.Fault{Kind: sim.Empty}, 200, "end_turn", `"stop"`, "[[x]]"},
		{sim.Fault{Kind: sim.Refusal}, 200, `"refusal"`, "content_filter", ""},
		{sim.Fault{Kind: sim.Truncated}, 200, "max_tokens", `"length"`, ""},
	} {
		t.Run(string(c.fault.Kind), func(t *testing.T) {
			s := sim.New(sim.Options{})
			defer s.Close()
			c.fault.Times, c.fault.Skip = 2, 1
			s.Inject(c.fault)
			for i, body := range []string{askChat, askMessages, askChat, askMessages} {
				path, want := messages, c.messages
				if body == askChat {
					path, want = chat, c.chat
				}
				status, got, h := post(t, s, path, body)
				if hit := i == 1 || i == 2; !hit {
					if status != 200 || !strings.Contains(got, "[[x]]") {
						t.Errorf("request %d: got %d %s", i, status, got)
					}
					continue
				}
				if status != c.status || !strings.Contains(got, want) || c.not != "" && strings.Contains(got, c.not) {
					t.Errorf("request %d: got %d %s, want %d %s", i, status, got, c.status, want)
				}
				if c.fault.After > 0 && h.Get("Retry-After") != "1.5" {
					t.Errorf("hint %q", h.Get("Retry-After"))
				}
			}
			var hits int
			for _, e := range s.Requests() {
				if e.Fault == c.fault.Kind {
					hits++
				}
				if !e.Done {
					t.Errorf("request %d is not over", e.N)
				}
			}
			if hits != 2 {
				t.Errorf("the recorder has %d faults, want 2", hits)
			}
		})
	}
}

func TestSilentFaultsEndWithTheClientOrTheServer(t *testing.T) {
	for _, kind := range []sim.Kind{sim.NoAnswer, sim.Stall} {
		for _, byServer := range []bool{true, false} {
			synctest.Test(t, func(t *testing.T) {
				s := sim.New(sim.Options{})
				s.Inject(sim.Fault{Kind: kind, At: 2})
				ctx, cancel := context.WithCancel(t.Context())
				time.AfterFunc(time.Hour, func() {
					if byServer {
						s.Close()
					}
					cancel()
				})
				req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL+chat, strings.NewReader(askChat))
				if err != nil {
					t.Fatal(err)
				}
				req.Header.Set("Authorization", "Bearer x")
				start := time.Now()
				resp, err := s.Client().Do(req)
				if err == nil {
					_, err = io.ReadAll(resp.Body)
					_ = resp.Body.Close()
				}
				if err == nil || time.Since(start) != time.Hour {
					t.Errorf("%s: %v after %v", kind, err, time.Since(start))
				}
				cancel()
				s.Close()
			})
		}
	}
}

func TestPacesAndRepliesAreScripted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := sim.New(sim.Options{FirstByte: time.Second, PerDelta: 10 * time.Millisecond, Reply: func(r sim.Request) sim.Reply {
			return sim.Reply{Text: "0123456789", Pieces: 2, Thinking: "t", Redacted: "r", Calls: []sim.Call{{ID: "c", Name: r.Tools[0].Name, Args: `{ }`}}}
		}})
		defer s.Close()
		start := time.Now()
		_, got, _ := post(t, s, messages, `{"model":"m","max_tokens":10,"stream":true,"tools":[{"name":"do","input_schema":{"type":"object"}}],"messages":[{"role":"user","content":"a"}]}`)
		// five deltas of text, two of thinking and its signature, two of
		// arguments
		if took := time.Since(start); took != time.Second+9*10*time.Millisecond {
			t.Errorf("took %v", took)
		}
		for _, want := range []string{`"thinking_delta","thinking":"t"`, `"signature_delta"`, `"redacted_thinking","data":"r"`, `"text_delta","text":"89"`, `"id":"c","name":"do"`, `"partial_json":"{ "`, `"stop_reason":"tool_use"`} {
			if !strings.Contains(got, want) {
				t.Errorf("%s is not in %s", want, got)
			}
		}
	})
}

func TestWholeAnswers(t *testing.T) {
	s := sim.New(sim.Options{Reply: func(sim.Request) sim.Reply {
		return sim.Reply{Text: "hi", Thinking: "t", Calls: []sim.Call{{Name: "n", Args: `{"a":1}`}}}
	}})
	defer s.Close()
	for path, want := range map[string]string{messages: `"input":{"a":1}`, chat: `"arguments":"{\"a\":1}"`} {
		_, got, h := post(t, s, path, `{"model":"m","max_tokens":10,"messages":[{"role":"user","content":"a"}]}`)
		if !json.Valid([]byte(got)) || !strings.Contains(got, want) || h.Get("Content-Type") != "application/json" {
			t.Errorf("got %s", got)
		}
	}
}

func TestRequestsThatAreTooLongAreRefused(t *testing.T) {
	s := sim.New(sim.Options{ContextTokens: 3000})
	defer s.Close()
	for _, path := range []string{messages, chat} {
		for words, want := range map[int]int{100: 200, 4000: 400} {
			status, got, _ := post(t, s, path, `{"model":"m","max_tokens":10,"messages":[{"role":"user","content":"`+strings.Repeat("word ", words)+`"}]}`)
			if status != want || want == 400 && !strings.Contains(got, "3000") {
				t.Errorf("%s, %d words: %d %s", path, words, status, got)
			}
		}
	}
}

func TestTheRecorderCanBeWaitedFor(t *testing.T) {
	s, err := sim.Start(sim.Options{NoBodies: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var all sync.WaitGroup
	all.Go(func() {
		if err := s.Await(t.Context(), 20); err != nil {
			t.Error(err)
		}
	})
	for range 20 {
		all.Go(func() { post(t, s, chat, askChat) })
	}
	all.Wait()
	if s.Count() != 20 || s.Requests()[0].Body != nil {
		t.Errorf("%d requests, body %s", s.Count(), s.Requests()[0].Body)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("enough")
	cancel(why)
	if err := s.Await(ctx, 21); !errors.Is(err, why) {
		t.Errorf("got %v", err)
	}
}

func BenchmarkRequest(b *testing.B) {
	s := sim.New(sim.Options{NoBodies: true})
	defer s.Close()
	b.RunParallel(func(p *testing.PB) {
		for p.Next() {
			post(b, s, messages, askMessages)
		}
	})
}
