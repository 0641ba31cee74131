package llm_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"hermesd/agent/llm"
)

// Stores encode messages, and encode the result again inside rows of their own.
func TestRawJSONSurvivesStorage(t *testing.T) {
	for name, raw := range map[string]string{
		"none":         "",
		"plain":        `{"a":1}`,
		"spaced":       `{ "a": 1,` + "\n" + `"b": [ ] }`,
		"angles":       `{"a":"<b>&\u2028"}`,
		"literal line": "{\"a\":\"\u2028\"}",
		"cut off":      `{"path": "/tm`,
		"a string":     `"x"`,
		"a number":     `12`,
		"a list":       `[{"type":"text"}]`,
	} {
		want := llm.Message{
			Role: llm.Assistant, Dialect: "d",
			Blocks: []llm.Block{{Type: llm.ToolUse, ID: "1", Name: "x"}, {Type: llm.Text, Text: "a<b"}},
		}
		if raw != "" {
			want.Raw, want.Blocks[0].Input = json.RawMessage(raw), json.RawMessage(raw)
		}
		once, err := json.Marshal(want)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		twice, err := json.MarshalIndent(map[string]any{"row": json.RawMessage(once)}, "", "  ")
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var row struct{ Row llm.Message }
		if err := json.Unmarshal(twice, &row); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if name != "plain" && name != "a list" { // indented above; never so in a store
			if d := cmp.Diff(want, row.Row); d != "" {
				t.Errorf("%s: %s", name, d)
			}
		}
		var direct llm.Message
		if err := json.Unmarshal(once, &direct); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if d := cmp.Diff(want, direct); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
}

func TestRawJSONDecodesOlderForm(t *testing.T) {
	var m llm.Message
	if err := json.Unmarshal([]byte(`{"role":"assistant","blocks":[{"type":"tool_use","id":"1","input":{"a":1}}],"raw":[1]}`), &m); err != nil {
		t.Fatal(err)
	}
	if string(m.Raw) != "[1]" || string(m.Blocks[0].Input) != `{"a":1}` {
		t.Errorf("got %s and %s", m.Raw, m.Blocks[0].Input)
	}
}

// TestStoredMessagesRoundTrip encodes and decodes messages whose input has spaces,
// escapes and characters that encoding/json would rewrite.
func TestStoredMessagesRoundTrip(t *testing.T) {
	text := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"<a&b>", "\u2028", "", "日本"}))
	block := rapid.Custom(func(t *rapid.T) llm.Block {
		quoted, _ := json.Marshal(text.Draw(t, "value"))
		return llm.Block{
			Type: rapid.SampledFrom([]llm.BlockType{llm.Text, llm.Thinking, llm.ToolUse, llm.ToolResult, llm.Image}).Draw(t, "type"),
			Text: text.Draw(t, "text"), ID: text.Draw(t, "id"), Name: text.Draw(t, "name"),
			Input:  json.RawMessage(rapid.SampledFrom([]string{"", "{ \"a\" : 1.0,\n\"b\":\"<&>\" }", "{}", `{"k": ` + string(quoted) + ` }`}).Draw(t, "input")),
			Failed: rapid.Bool().Draw(t, "failed"), MIME: text.Draw(t, "mime"), Path: text.Draw(t, "path"),
		}
	})
	rapid.Check(t, func(t *rapid.T) {
		m := llm.Message{
			Role:    rapid.SampledFrom([]llm.Role{llm.User, llm.Assistant}).Draw(t, "role"),
			Blocks:  rapid.SliceOfN(block, 1, 4).Draw(t, "blocks"),
			Raw:     json.RawMessage(rapid.SampledFrom([]string{"", `[ {"x" : "<>"} ]`}).Draw(t, "raw")),
			Dialect: text.Draw(t, "dialect"),
		}
		data, err := json.Marshal(map[string]any{"m": m})
		if err != nil {
			t.Fatal(err)
		}
		var got struct{ M llm.Message }
		if err := json.Unmarshal(data, &got); err != nil {
			t.Fatal(err)
		}
		same := cmp.Transformer("bytes", func(r json.RawMessage) string { return string(r) })
		if d := cmp.Diff(m, got.M, same); d != "" {
			t.Fatalf("%s\n%s", data, d)
		}
	})
}

func TestStoredPlainInput(t *testing.T) {
	var m llm.Message
	in := `{"role":"assistant","blocks":[{"type":"tool_use","id":"1","name":"n","input":{"a": 1}}],"raw":[1, 2]}`
	if err := json.Unmarshal([]byte(in), &m); err != nil {
		t.Fatal(err)
	}
	if string(m.Blocks[0].Input) != `{"a": 1}` || string(m.Raw) != `[1, 2]` {
		t.Errorf("got %s and %s", m.Blocks[0].Input, m.Raw)
	}
	if err := json.Unmarshal([]byte(`{"role":7}`), &m); err == nil {
		t.Error("a role that is a number was read")
	}
}
