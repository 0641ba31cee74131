package openai_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"hermesd/agent/llm"
	"hermesd/agent/llm/openai"
)

var provider = openai.New(openai.Options{Key: "k"})

func body(t testing.TB, p *openai.Provider, r *llm.Request) string {
	t.Helper()
	b, err := p.Encode(nil, r)
	if err != nil {
		t.Fatal(err)
	}
	if !json.Valid(b) {
		t.Fatalf("no JSON: %s", b)
	}
	return string(b)
}

const golden = `{"model":"gpt-5","messages":[{"role":"system","content":"You are <Hermes>."},` +
	`{"role":"user","content":"example"},{"role":"assistant","content":"reply"},` +
	`{"role":"user","content":"one\n\ntwo"},` +
	`{"role":"assistant","content":null,"tool_calls":[{"id":"t1","type":"function","function":{"name":"read","arguments":"{\"b\":1.0, \"a\":\"<\"}"}},` +
	`{"id":"t2","type":"function","function":{"name":"read","arguments":"{}"}}]},` +
	`{"role":"tool","tool_call_id":"t1","content":"r"},{"role":"tool","tool_call_id":"t2","content":"(no output)\n\n<gateway-context>now</gateway-context>"}],` +
	`"tools":[{"type":"function","function":{"name":"read","description":"Reads.","parameters":{"type":"object"}}}],` +
	`"stream":true,"stream_options":{"include_usage":true}}`

func TestEncodeGolden(t *testing.T) {
	r := &llm.Request{
		Model: "gpt-5", System: "You are <Hermes>.", CacheTTL: "1h",
		Tools:   []llm.Tool{{Name: "read", Description: "Reads.", Schema: json.RawMessage(`{"type":"object"}`)}},
		Prefill: []llm.Message{llm.UserText("example"), llm.AssistantText("reply")},
		Overlay: "<gateway-context>now</gateway-context>",
		Transcript: llm.NewTranscript(
			llm.Message{Role: llm.User, Blocks: []llm.Block{{Type: llm.Text, Text: "one"}, {Type: llm.Text, Text: "two"}}},
			llm.Message{
				Role: llm.Assistant, Dialect: "anthropic", Raw: json.RawMessage(`[{"type":"thinking"}]`),
				Blocks: []llm.Block{
					{Type: llm.Thinking, Text: "hm"},
					{Type: llm.ToolUse, ID: "t1", Name: "read", Input: json.RawMessage(`{"b":1.0, "a":"<"}`)},
					{Type: llm.ToolUse, ID: "t2", Name: "read", Input: json.RawMessage(`{}`), Text: "{broken"},
				},
			},
			llm.Message{Role: llm.User, Blocks: []llm.Block{{Type: llm.ToolResult, ID: "t1", Text: "r"}, {Type: llm.ToolResult, ID: "t2"}}},
		),
	}
	for range 3 {
		if got := body(t, provider, r); got != golden {
			t.Fatalf("got\n%s\nwant\n%s", got, golden)
		}
	}
}

func TestEncodeRouting(t *testing.T) {
	r := &llm.Request{Model: "a/b", Transcript: llm.NewTranscript(llm.UserText("hi"))}
	for _, c := range []struct {
		routing openai.Routing
		want    string
	}{
		{openai.Routing{}, `"include_usage":true}}`},
		{openai.Routing{DataCollection: "deny"}, `,"provider":{"data_collection":"deny"}}`},
		{
			openai.Routing{Only: []string{"a"}, Ignore: []string{"b", "c"}, Order: []string{"d"}, RequireParameters: true, Sort: "price"},
			`,"provider":{"only":["a"],"ignore":["b","c"],"order":["d"],"require_parameters":true,"sort":"price"}}`,
		},
	} {
		if got := body(t, openai.New(openai.Options{Routing: c.routing}), r); !strings.HasSuffix(got, c.want) {
			t.Errorf("got %s, want it to end with %s", got, c.want)
		}
	}
}

func TestEncodeShapes(t *testing.T) {
	picture := filepath.Join(t.TempDir(), "p.png")
	if err := os.WriteFile(picture, []byte("PNG"), 0o600); err != nil {
		t.Fatal(err)
	}
	user := func(bs ...llm.Block) *llm.Request {
		return &llm.Request{Overlay: "over", Transcript: llm.NewTranscript(llm.Message{Role: llm.User, Blocks: bs})}
	}
	for name, c := range map[string]struct {
		r    *llm.Request
		want string
	}{
		"text":              {user(llm.Block{Type: llm.Text, Text: "a"}), `{"role":"user","content":"a\n\nover"}]`},
		"nothing":           {user(), `{"role":"user","content":"(empty message)\n\nover"}]`},
		"picture":           {user(llm.Block{Type: llm.Text, Text: "a"}, llm.Block{Type: llm.Image, MIME: "image/png", Path: picture}), `"content":[{"type":"text","text":"a"},{"type":"image_url","image_url":{"url":"data:image/png;base64,UE5H"}},{"type":"text","text":"over"}]}]`},
		"odd type":          {user(llm.Block{Type: llm.Image, MIME: `a"b`, Path: picture}), `"url":"data:application/octet-stream;base64,UE5H"`},
		"lost picture":      {user(llm.Block{Type: llm.Image, MIME: "image/png", Path: "/nowhere"}), `"content":[{"type":"text","text":"[a picture that is no longer available]"},`},
		"results then text": {user(llm.Block{Type: llm.Text, Text: "b"}, llm.Block{Type: llm.ToolResult, ID: "1", Text: "r"}), `[{"role":"tool","tool_call_id":"1","content":"r"},{"role":"user","content":"b\n\nover"}]`},
		"a long id":         {user(llm.Block{Type: llm.ToolResult, ID: strings.Repeat("i", 60), Text: "r"}), `"tool_call_id":"call_`},
		"an empty answer": {
			&llm.Request{Transcript: llm.NewTranscript(llm.UserText("a"), llm.Message{Role: llm.Assistant}, llm.UserText("b"))},
			`{"role":"assistant","content":"(empty message)"}`,
		},
		"only prefill": {&llm.Request{Prefill: []llm.Message{llm.UserText("a")}, Overlay: "o"}, `"messages":[{"role":"user","content":"a\n\no"}]`},
	} {
		t.Run(name, func(t *testing.T) {
			if got := body(t, provider, c.r); !strings.Contains(got, c.want) {
				t.Errorf("got\n%s\nwant in it\n%s", got, c.want)
			}
		})
	}
}

func TestEncodeServiceVariants(t *testing.T) {
	r := &llm.Request{Model: "m", MaxTokens: 99, Effort: "low", NoTools: true, Tools: []llm.Tool{{Name: "x"}}, Transcript: llm.NewTranscript(llm.UserText("x"))}
	for base, want := range map[string][]string{
		"":                             {`"max_completion_tokens":99`, `"reasoning_effort":"low"`, `"tool_choice":"none"`},
		"https://openrouter.ai/api/v1": {`"max_tokens":99`, `"reasoning":{"effort":"low"}`},
		"http://localhost:11434/v1/":   {`"max_tokens":99`, `"reasoning_effort":"low"`},
		"https://notopenai.com/v1":     {`"max_tokens":99`},
	} {
		got := body(t, openai.New(openai.Options{BaseURL: base}), r)
		for _, w := range want {
			if !strings.Contains(got, w) {
				t.Errorf("%s: %s is not in %s", base, w, got)
			}
		}
	}
	r.MaxTokens, r.Effort = 0, ""
	if got := body(t, provider, r); strings.Contains(got, "max_") || strings.Contains(got, "reasoning") {
		t.Errorf("unasked for: %s", got)
	}
}

func message(role llm.Role) *rapid.Generator[llm.Message] {
	text := rapid.SampledFrom([]string{"", " ", "hello", "日本 <b>", `"q\`, strings.Repeat("x", 50)})
	return rapid.Custom(func(t *rapid.T) llm.Message {
		m := llm.Message{Role: role}
		kinds := []llm.BlockType{llm.Text, llm.ToolResult, llm.Image}
		if role == llm.Assistant {
			kinds = []llm.BlockType{llm.Text, llm.ToolUse, llm.Thinking}
		}
		for range rapid.IntRange(0, 3).Draw(t, "blocks") {
			m.Blocks = append(m.Blocks, llm.Block{
				Type: rapid.SampledFrom(kinds).Draw(t, "type"), Text: text.Draw(t, "text"), ID: "id", Name: "n", Input: json.RawMessage(`{"k": 1}`),
			})
		}
		return m
	})
}

var (
	router = openai.New(openai.Options{Name: "openrouter", Key: "k"})
	mark   = regexp.MustCompile(`,"cache_control":\{[^}]*\}`)
)

// history returns the messages of a body without cache breakpoints, the overlay, and the
// end of the message that contains it.
func history(body string) string {
	_, m, _ := strings.Cut(body, `"messages":`)
	m, _, _ = strings.Cut(m, `],"stream":true`)
	m = mark.ReplaceAllString(m, "")
	i := strings.LastIndex(m, `<gateway-context>`)
	m = m[:i]
	m = strings.TrimSuffix(m, `,{"type":"text","text":"`)
	return strings.TrimSuffix(m, `\n\n`)
}

// TestEncodeExtendsPreviousRequest grows a conversation of any shape, with changing
// overlays and restarts that lose the cached wire form.
func TestEncodeExtendsPreviousRequest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := &llm.Request{Model: "m", Transcript: llm.NewTranscript()}
		if rapid.Bool().Draw(t, "marks") {
			r.Model = "anthropic/claude-opus-4.8"
			r.CacheTTL = "5m"
		}
		r.System = rapid.SampledFrom([]string{"", "system"}).Draw(t, "system")
		if rapid.Bool().Draw(t, "prefill") {
			r.Prefill = []llm.Message{llm.UserText("p"), llm.AssistantText("q")}
		}
		before := "["
		for i := range rapid.IntRange(1, 12).Draw(t, "turns") {
			if i > 0 {
				r.Transcript.Append(message(llm.Assistant).Draw(t, "assistant"))
			}
			r.Transcript.Append(message(llm.User).Draw(t, "user"))
			r.Overlay = fmt.Sprintf("<gateway-context>%d", i)
			one := encode(t, r)
			if n := len(mark.FindAllString(one, -1)); n > 4 || r.CacheTTL == "" && n > 0 {
				t.Fatalf("%d marks in %s", n, one)
			}
			if rapid.Bool().Draw(t, "restart") {
				r.Transcript = llm.NewTranscript(r.Transcript.Since(0)...)
			}
			if two := encode(t, r); two != one {
				t.Fatalf("twice encoded:\n%s\n%s", one, two)
			}
			now := history(one)
			if !strings.HasPrefix(now, before) {
				t.Fatalf("turn %d:\n%s\ndoes not begin with\n%s", i, now, before)
			}
			before = now
		}
	})
}

func encode(t *rapid.T, r *llm.Request) string {
	b, err := router.Encode(nil, r)
	if err != nil {
		t.Fatal(err)
	}
	if !json.Valid(b) || bytes.Contains(b, []byte(`"content":[]`)) || bytes.Contains(b, []byte(`"content":""`)) || bytes.Contains(b, []byte(`[,`)) {
		t.Fatalf("bad body: %s", b)
	}
	return string(b)
}
