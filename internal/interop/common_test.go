package interop_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	anthropicsdk "github.com/anthropics/anthropic-sdk-go"
	"github.com/google/go-cmp/cmp"
	openaisdk "github.com/openai/openai-go/v3"

	"hermesd/agent/llm"
	sim "hermesd/internal/sim/llm"
)

func ask(text string) *llm.Request {
	return &llm.Request{Model: "m", Transcript: llm.NewTranscript(llm.UserText(text))}
}

// requests are of every shape that the agent makes.
func requests(t *testing.T) map[string]*llm.Request {
	picture := filepath.Join(t.TempDir(), "p.png")
	if err := os.WriteFile(picture, []byte("PNG"), 0o600); err != nil {
		t.Fatal(err)
	}
	tools := []llm.Tool{
		{Name: "read", Description: "Reads <a> file.", Schema: json.RawMessage(`{"type":"object","properties":{"path":{"type":"string"}},"required":["path"]}`)},
		{Name: "bare", Schema: json.RawMessage(`{"type":"object","properties":{}}`)},
	}
	results := llm.Message{Role: llm.User, Blocks: []llm.Block{
		{Type: llm.ToolResult, ID: "toolu_1", Text: "one", Failed: true}, {Type: llm.ToolResult, ID: "toolu_2"}, {Type: llm.Text, Text: "and?"},
	}}
	calls := []llm.Block{
		{Type: llm.Text, Text: "I look.\n\"世\""},
		{Type: llm.ToolUse, ID: "toolu_1", Name: "read", Input: json.RawMessage(`{"path": "a", "n": 1.5}`)},
		{Type: llm.ToolUse, ID: "toolu_2", Name: "read", Input: json.RawMessage(`{}`)},
	}
	raw := json.RawMessage(`[{"type":"thinking","thinking":"hm","signature":"c2ln"},{"type":"redacted_thinking","data":"eHl6"},` +
		`{"type":"tool_use","id":"toolu_1","name":"read","input":{"path": "a"}},{"type":"tool_use","id":"toolu_2","name":"read","input":{}}]`)
	all := map[string]*llm.Request{
		"plain": ask("hi"),
		"with everything": {
			Model: "m", System: "You are <Hermes>.", Tools: tools, CacheTTL: "1h", Overlay: "<gateway-context>x</gateway-context>", MaxTokens: 77,
			Prefill:    []llm.Message{llm.UserText("p"), llm.AssistantText("q")},
			Transcript: llm.NewTranscript(llm.UserText("a"), llm.Message{Role: llm.Assistant, Blocks: calls}, results),
		},
		"replayed": {
			Model: "m", Tools: tools, CacheTTL: "5m", NoTools: true,
			Transcript: llm.NewTranscript(llm.UserText("a"), llm.Message{Role: llm.Assistant, Dialect: "anthropic", Raw: raw, Blocks: calls[1:]}, results),
		},
		"pictures": {Model: "m", CacheTTL: "5m", Overlay: "o", Transcript: llm.NewTranscript(llm.Message{Role: llm.User, Blocks: []llm.Block{
			{Type: llm.Text, Text: "see"}, {Type: llm.Image, MIME: "image/png", Path: picture},
		}})},
	}
	for model, efforts := range map[string][]string{
		"claude-opus-4-8": {"none", "minimal", "low", "medium", "high", "xhigh"}, "claude-sonnet-4-5": {"low", "xhigh"},
		"claude-opus-5": {"", "high"}, "claude-opus-5-5": {"", "none", "high"},
	} {
		for _, e := range efforts {
			r := ask("think")
			r.Model, r.Effort = model, e
			all[model+" "+e] = r
		}
	}
	return all
}

// replies are answers of every shape that services give.
func replies() map[string]sim.Reply {
	u := &sim.Usage{Input: 10, CacheRead: 300, Output: 7}
	return map[string]sim.Reply{
		"text":      {Text: "Grüße, \"世界\" <b>&\n\U0001F44B", Usage: u, Pieces: 1},
		"thinking":  {Thinking: "let me see <x>", Text: "so", Usage: u},
		"one call":  {Calls: []sim.Call{{ID: "id_1", Name: "read", Args: `{"path": "a<b>", "n": 1.0, "l": [ ]}`}}, Usage: u, Pieces: 3},
		"calls":     {Text: "both", Calls: []sim.Call{{ID: "id_1", Name: "read", Args: `{"a":1}`}, {ID: "id_2", Name: "read", Args: `{"b":{"c":[1,2]}}`}}, Usage: u},
		"truncated": {Text: "so f", Stop: "max_tokens", Usage: u},
		"refusal":   {Text: "no", Stop: "refusal", Usage: u},
		"long":      {Text: strings.Repeat("many words ", 3000), Usage: u},
	}
}

// An answer is what all sides must see in a reply.
type answer struct {
	Text, Thinking string
	Calls          []string
	Stop           string
	In, Read, Out  int
}

func ofOurs(d llm.Done) answer {
	a := answer{Text: d.Message.Text(), Stop: string(d.Stop), In: d.Usage.Input, Read: d.Usage.CacheRead, Out: d.Usage.Output}
	for _, b := range d.Message.Blocks {
		switch b.Type {
		case llm.Thinking:
			a.Thinking += b.Text
		case llm.ToolUse:
			a.Calls = append(a.Calls, b.ID+" "+b.Name+" "+compact(b.Input))
		}
	}
	return a
}

func ofAnthropic(m anthropicsdk.Message) answer {
	a := answer{In: int(m.Usage.InputTokens), Read: int(m.Usage.CacheReadInputTokens), Out: int(m.Usage.OutputTokens)}
	a.Stop = map[string]string{"max_tokens": "length"}[string(m.StopReason)]
	if a.Stop == "" {
		a.Stop = string(m.StopReason)
	}
	for _, b := range m.Content {
		switch b.Type {
		case "text":
			a.Text += b.Text
		case "thinking":
			a.Thinking += b.Thinking
		case "tool_use":
			a.Calls = append(a.Calls, b.ID+" "+b.Name+" "+compact(b.Input))
		}
	}
	return a
}

func ofOpenAI(c openaisdk.ChatCompletion) answer {
	read := int(c.Usage.PromptTokensDetails.CachedTokens)
	a := answer{In: int(c.Usage.PromptTokens) - read, Read: read, Out: int(c.Usage.CompletionTokens)}
	choice := c.Choices[0]
	a.Stop = map[string]string{"stop": "end_turn", "tool_calls": "tool_use", "content_filter": "refusal", "length": "length"}[choice.FinishReason]
	a.Text = choice.Message.Content
	for _, call := range choice.Message.ToolCalls {
		a.Calls = append(a.Calls, call.ID+" "+call.Function.Name+" "+compact([]byte(call.Function.Arguments)))
	}
	return a
}

// compact writes JSON the one way; spaces are compared elsewhere.
func compact(b []byte) string {
	var v any
	if json.Unmarshal(b, &v) != nil {
		return "no JSON: " + string(b)
	}
	out, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(out)
}

// meaning returns the object in body, without the named members and without
// those that are null, which mean the same as none.
func meaning(t *testing.T, body []byte, without ...string) map[string]any {
	t.Helper()
	var m map[string]any
	if err := json.Unmarshal(body, &m); err != nil {
		t.Fatal(err)
	}
	for _, w := range without {
		delete(m, w)
	}
	dropNulls(m)
	return m
}

func dropNulls(v any) {
	switch v := v.(type) {
	case map[string]any:
		for k, e := range v {
			if e == nil {
				delete(v, k)
			}
			dropNulls(e)
		}
	case []any:
		for _, e := range v {
			dropNulls(e)
		}
	}
}

func list(t *testing.T, body []byte) []any {
	t.Helper()
	var l []any
	if err := json.Unmarshal(body, &l); err != nil {
		t.Fatal(err)
	}
	return l
}

// idsAside leaves the signature, which the service makes for each answer,
// out of a comparison.
var idsAside = cmp.FilterPath(func(p cmp.Path) bool {
	i, ok := p.Index(-1).(cmp.MapIndex)
	return ok && i.Key().String() == "signature"
}, cmp.Ignore())
