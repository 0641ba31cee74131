package anthropic_test

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
	"hermesd/agent/llm/anthropic"
)

var provider = anthropic.New(anthropic.Options{Key: "k"})

func body(t testing.TB, r *llm.Request) string {
	t.Helper()
	b, err := provider.Encode(nil, r)
	if err != nil {
		t.Fatal(err)
	}
	if !json.Valid(b) {
		t.Fatalf("no JSON: %s", b)
	}
	return string(b)
}

const golden = `{"model":"claude-opus-4-8","max_tokens":16384,` +
	`"system":[{"type":"text","text":"You are <Hermes>.","cache_control":{"type":"ephemeral","ttl":"1h"}}],` +
	`"tools":[{"name":"read","description":"Reads.","input_schema":{"type":"object"}}],` +
	`"messages":[{"role":"user","content":[{"type":"text","text":"example"}]},` +
	`{"role":"assistant","content":[{"type":"text","text":"reply"}]},` +
	`{"role":"user","content":[{"type":"text","text":"one"}]},` +
	`{"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"s=="},{"type":"tool_use","id":"t1","name":"read","input":{"b":1.0, "a":"<"},"cache_control":{"type":"ephemeral","ttl":"1h"}}]},` +
	`{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":[{"type":"text","text":"r"}],"is_error":true},{"type":"text","text":"go on","cache_control":{"type":"ephemeral","ttl":"1h"}}]},` +
	`{"role":"assistant","content":[{"type":"thinking","thinking":"only","signature":"x=="}]},` +
	`{"role":"user","content":[{"type":"text","text":"last","cache_control":{"type":"ephemeral","ttl":"1h"}},{"type":"text","text":"<gateway-context>now</gateway-context>"}]}],` +
	`"stream":true}`

func TestEncodeGolden(t *testing.T) {
	r := &llm.Request{
		Model: "claude-opus-4-8", System: "You are <Hermes>.", CacheTTL: "1h",
		Tools:   []llm.Tool{{Name: "read", Description: "Reads.", Schema: json.RawMessage(`{"type":"object"}`)}},
		Prefill: []llm.Message{llm.UserText("example"), llm.AssistantText("reply")},
		Overlay: "<gateway-context>now</gateway-context>",
		Transcript: llm.NewTranscript(
			llm.UserText("one"),
			llm.Message{
				Role: llm.Assistant, Dialect: "anthropic",
				Blocks: []llm.Block{{Type: llm.ToolUse, ID: "t1", Name: "read", Input: json.RawMessage(`{"b":1.0, "a":"<"}`)}},
				Raw:    json.RawMessage(`[{"type":"thinking","thinking":"hm","signature":"s=="},{"type":"tool_use","id":"t1","name":"read","input":{"b":1.0, "a":"<"}}]`),
			},
			llm.Message{Role: llm.User, Blocks: []llm.Block{
				{Type: llm.Text, Text: "go on"}, {Type: llm.ToolResult, ID: "t1", Text: "r", Failed: true}, {Type: llm.Text, Text: " "},
			}},
			llm.Message{Role: llm.Assistant, Dialect: "anthropic", Raw: json.RawMessage(`[{"type":"thinking","thinking":"only","signature":"x=="}]`)},
			llm.UserText("last"),
		),
	}
	for range 3 {
		if got := body(t, r); got != golden {
			t.Fatalf("got\n%s\nwant\n%s", got, golden)
		}
	}
}

// TestEncodeShapes checks how the parts of requests are encoded.
func TestEncodeShapes(t *testing.T) {
	picture := filepath.Join(t.TempDir(), "p.png")
	if err := os.WriteFile(picture, []byte("PNG"), 0o600); err != nil {
		t.Fatal(err)
	}
	user := func(bs ...llm.Block) *llm.Request {
		return &llm.Request{Model: "claude-opus-4-8", Transcript: llm.NewTranscript(llm.Message{Role: llm.User, Blocks: bs})}
	}
	tools := []llm.Tool{{Name: "x"}}
	for name, c := range map[string]struct {
		r    *llm.Request
		want string
	}{
		"picture":           {user(llm.Block{Type: llm.Image, MIME: "image/png", Path: picture}), `"content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"UE5H"}}]`},
		"lost picture":      {user(llm.Block{Type: llm.Image, MIME: "image/png", Path: picture + "x"}), `"content":[{"type":"text","text":"[a picture that is no longer available]"}]`},
		"empty message":     {user(), `"content":[{"type":"text","text":"(empty message)"}]`},
		"result of nothing": {user(llm.Block{Type: llm.ToolResult, ID: "a.b:1"}), `"content":[{"type":"tool_result","tool_use_id":"a_b_1"}]`},
		"foreign call": {
			&llm.Request{Transcript: llm.NewTranscript(llm.Message{Role: llm.Assistant, Dialect: "openai", Blocks: []llm.Block{
				{Type: llm.Thinking, Text: "not ours"}, {Type: llm.ToolUse, ID: "c:1", Name: "a b", Input: json.RawMessage(`nope`)},
			}}, llm.UserText("x"))},
			`{"role":"assistant","content":[{"type":"tool_use","id":"c_1","name":"a_b","input":{}}]}`,
		},
		"tool without schema": {&llm.Request{Tools: tools, Transcript: llm.NewTranscript(llm.UserText("x"))}, `"tools":[{"name":"x","input_schema":{"type":"object"}}]`},
		"tools forbidden":     {&llm.Request{Tools: tools, NoTools: true, Transcript: llm.NewTranscript(llm.UserText("x"))}, `"stream":true,"tool_choice":{"type":"none"}}`},
		"control letters":     {user(llm.Block{Type: llm.Text, Text: "a\x00\"\\\n\xff\u2028"}), `"text":"a\u0000\"\\\n` + "\uFFFD\u2028" + `"`},
	} {
		t.Run(name, func(t *testing.T) {
			if got := body(t, c.r); !strings.Contains(got, c.want) {
				t.Errorf("got\n%s\nwant in it\n%s", got, c.want)
			}
		})
	}
}

func TestThinkingByModel(t *testing.T) {
	for _, c := range []struct{ model, effort, want string }{
		{"claude-sonnet-4-5", "", `"max_tokens":1000`},
		{"claude-sonnet-4-5-20250929", "medium", `"thinking":{"type":"enabled","budget_tokens":8192}`},
		{"claude-sonnet-4-5", "medium", `"max_tokens":9192`},
		{"claude-3-7-sonnet-20250219", "low", `"budget_tokens":2048`},
		{"claude-sonnet-4-20250514", "low", `"budget_tokens":2048`},
		{"claude-opus-4-6", "xhigh", `"thinking":{"type":"adaptive","display":"summarized"},"output_config":{"effort":"high"}`},
		{"claude-opus-4-8", "xhigh", `"output_config":{"effort":"xhigh"}`},
		{"claude-opus-4-8", "minimal", `"output_config":{"effort":"low"}`},
		{"claude-opus-4-8", `odd"`, `"output_config":{"effort":"medium"}`},
		{"claude-opus-4-8", "none", `"stream":true}`},
		{"claude-opus-5", "", `"thinking":{"type":"disabled"}`},
		{"claude-sonnet-5", "none", `"thinking":{"type":"disabled"}`},
		{"claude-opus-5-5", "", `"stream":true}`},
		{"claude-opus-5-5", "none", `"stream":true,"output_config":{"effort":"low"}}`},
		{"claude-fable-5-1", "", `"stream":true}`},
		{"anthropic/claude-opus-4.8", "low", `"thinking":{"type":"adaptive"`},
		{"unheard-of", "", `"stream":true}`},
	} {
		got := body(t, &llm.Request{Model: c.model, Effort: c.effort, MaxTokens: 1000, Transcript: llm.NewTranscript(llm.UserText("x"))})
		if !strings.Contains(got, c.want) {
			t.Errorf("%s %q: got %s, want %s in it", c.model, c.effort, got, c.want)
		}
	}
	for _, c := range []struct {
		effort           string
		tokens, limit    int
		want, wantBudget int
	}{
		{"high", 0, 0, 32_768, 16_384},
		{"xhigh", 0, 0, 49_152, 32_768},
		{"high", 0, 32_000, 32_000, 16_384},
		{"xhigh", 0, 32_000, 32_000, 24_000},
		{"xhigh", 1000, 32_000, 32_000, 31_000},
		{"medium", 0, 32_000, 16_384, 8192},
		{"low", 0, 1500, 1500, 1125},
		{"low", 0, 1100, 1100, 0},
		{"", 0, 8192, 8192, 0},
		{"xhigh", 50_000, 64_000, 50_000, 32_768},
		{"xhigh", 33_000, 32_000, 32_000, 24_000},
	} {
		r := &llm.Request{Model: "claude-opus-4-1", Effort: c.effort, MaxTokens: c.tokens, OutputLimit: c.limit, Transcript: llm.NewTranscript(llm.UserText("x"))}
		var sent struct {
			MaxTokens int `json:"max_tokens"`
			Thinking  struct {
				Budget int `json:"budget_tokens"`
			} `json:"thinking"`
		}
		if err := json.Unmarshal([]byte(body(t, r)), &sent); err != nil || sent.MaxTokens != c.want || sent.Thinking.Budget != c.wantBudget {
			t.Errorf("%+v: got %+v, %v", c, sent, err)
		}
	}
}

func TestDropThinking(t *testing.T) {
	r := &llm.Request{CacheTTL: "5m", Transcript: llm.NewTranscript(
		llm.UserText("a"),
		llm.Message{Role: llm.Assistant, Dialect: "anthropic", Raw: json.RawMessage(`[{"type":"thinking","thinking":"h","signature":"s"},{"type":"redacted_thinking","data":"d"},{"type":"text","text":"b"}]`)},
		llm.UserText("c"), llm.AssistantText("d"), llm.UserText("e"), llm.AssistantText("f"), llm.UserText("g"),
	)}
	with := body(t, r)
	r.DropThinking = true
	without := body(t, r)
	if !strings.Contains(with, "redacted_thinking") || strings.Contains(without, "thinking") {
		t.Errorf("got\n%s\nand\n%s", with, without)
	}
	r.DropThinking = false
	if again := body(t, r); again != with {
		t.Error("the form without thinking stayed in the transcript")
	}
}

// message draws a message of one of the shapes that transcripts contain.
func message(role llm.Role) *rapid.Generator[llm.Message] {
	text := rapid.SampledFrom([]string{"", " ", "hello", "日本 <b>", `"q\`, "long " + strings.Repeat("x", 50)})
	return rapid.Custom(func(t *rapid.T) llm.Message {
		m := llm.Message{Role: role}
		kinds := []llm.BlockType{llm.Text, llm.ToolResult}
		if role == llm.Assistant {
			kinds = []llm.BlockType{llm.Text, llm.ToolUse, llm.Thinking}
			if rapid.Bool().Draw(t, "own") {
				m.Dialect = anthropic.Dialect
				m.Raw = json.RawMessage(rapid.SampledFrom([]string{
					`[]`, `[{"type":"text","text":"raw"}]`, `[{"type":"thinking","thinking":"","signature":"s"}]`,
					`[{"type":"thinking","thinking":"t","signature":"s"},{"type":"tool_use","id":"1","name":"n","input":{"z":1, "a":[ ]}}]`,
				}).Draw(t, "raw"))
				return m
			}
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
	mark    = regexp.MustCompile(`,"cache_control":\{[^}]*\}`)
	overlay = `,{"type":"text","text":"<gateway-context>`
)

// history returns the messages of a body without cache breakpoints and overlay, and without
// the closing bracket.
func history(body string) string {
	_, m, _ := strings.Cut(body, `"messages":`)
	m, _, _ = strings.Cut(m, `],"stream":true`)
	m = mark.ReplaceAllString(m, "")
	if i := strings.LastIndex(m, overlay); i >= 0 {
		m = m[:i] + "]}"
	}
	return m
}

// TestEncodeExtendsPreviousRequest grows a conversation of any shape, with changing
// overlays, restarts that lose the cached wire form, and requests without thinking in
// between.
func TestEncodeExtendsPreviousRequest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := &llm.Request{Model: "claude-opus-4-8", Transcript: llm.NewTranscript()}
		r.System = rapid.SampledFrom([]string{"", "system"}).Draw(t, "system")
		r.CacheTTL = rapid.SampledFrom([]string{"", "5m", "1h"}).Draw(t, "ttl")
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
			if rapid.Bool().Draw(t, "restart") {
				r.Transcript = llm.NewTranscript(r.Transcript.Since(0)...)
			}
			if two := encode(t, r); two != one {
				t.Fatalf("twice encoded:\n%s\n%s", one, two)
			}
			if n := len(mark.FindAllString(one, -1)); n > 4 || r.CacheTTL == "" && n > 0 {
				t.Fatalf("%d marks in %s", n, one)
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
	b, err := provider.Encode(nil, r)
	if err != nil {
		t.Fatal(err)
	}
	if !json.Valid(b) || bytes.Contains(b, []byte(`"content":[]`)) || bytes.Contains(b, []byte(`[,`)) {
		t.Fatalf("bad body: %s", b)
	}
	return string(b)
}

// TestBreakpointsOnLastMarkableMessages counts cache breakpoints from the end.
func TestBreakpointsOnLastMarkableMessages(t *testing.T) {
	think := llm.Message{Role: llm.Assistant, Dialect: "anthropic", Raw: json.RawMessage(`[{"type":"thinking","thinking":"h","signature":"s"}]`)}
	ms := []llm.Message{llm.UserText("a"), llm.AssistantText("b"), llm.UserText("c"), think, llm.UserText("d"), llm.AssistantText(" "), llm.UserText("e")}
	for _, c := range []struct{ system, want string }{{"s", "s c d e"}, {"", "b c d e"}} {
		got := body(t, &llm.Request{System: c.system, CacheTTL: "5m", Transcript: llm.NewTranscript(ms...), Overlay: "over"})
		var marked []string
		for _, m := range regexp.MustCompile(`"text":"(\w+)","cache_control":\{"type":"ephemeral"\}`).FindAllStringSubmatch(got, -1) {
			marked = append(marked, m[1])
		}
		if s := strings.Join(marked, " "); s != c.want {
			t.Errorf("marked %q, want %q in\n%s", s, c.want, got)
		}
	}
}
