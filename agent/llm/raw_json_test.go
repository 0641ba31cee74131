package llm_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

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
