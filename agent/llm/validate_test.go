package llm_test

import (
	"encoding/json"
	"strings"
	"testing"

	"hermesd/agent/llm"
)

func TestValidateMessages(t *testing.T) {
	call := func(id, name, input string) llm.Block {
		return llm.Block{Type: llm.ToolUse, ID: id, Name: name, Input: json.RawMessage(input)}
	}
	result := func(id string) llm.Block { return llm.Block{Type: llm.ToolResult, ID: id} }
	text := llm.Block{Type: llm.Text, Text: "x"}
	user := func(bs ...llm.Block) llm.Message { return llm.Message{Role: llm.User, Blocks: bs} }
	asst := func(bs ...llm.Block) llm.Message { return llm.Message{Role: llm.Assistant, Blocks: bs} }
	ok := call("a", "look", "{}")
	for _, c := range []struct {
		name string
		ms   []llm.Message
		want string // part of the error; "" for none
	}{
		{"nothing", nil, ""},
		{"a question", []llm.Message{user(text)}, ""},
		{"a whole turn", []llm.Message{user(text), asst(text, ok), user(result("a"), text), asst(text)}, ""},
		{"the assistant begins", []llm.Message{asst(text)}, "message 0 has role assistant"},
		{"two users", []llm.Message{user(text), user(text)}, "message 1 has role user"},
		{"an empty message", []llm.Message{user()}, "empty"},
		{"a blank text", []llm.Message{user(llm.Block{Type: llm.Text, Text: " \n"})}, "blank text"},
		{"only thoughts", []llm.Message{user(text), asst(llm.Block{Type: llm.Thinking, Text: "x"})}, "neither"},
		{"an open call at the end", []llm.Message{user(text), asst(ok)}, "no result"},
		{"a call without a result", []llm.Message{user(text), asst(ok), user(text)}, "no result"},
		{"a result without a call", []llm.Message{user(result("a"))}, "not open"},
		{"two results", []llm.Message{user(text), asst(ok), user(result("a"), result("a"))}, "not open"},
		{"a late result", []llm.Message{user(text), asst(ok), user(text, result("a"))}, "follows other blocks"},
		{"one id twice", []llm.Message{user(text), asst(ok, ok), user(result("a"))}, "duplicate call id"},
		{"an id of old", []llm.Message{user(text), asst(ok), user(result("a")), asst(ok)}, "duplicate call id"},
		{"a bad id", []llm.Message{user(text), asst(call("a b", "look", "{}"))}, "invalid call id"},
		{"a bad name", []llm.Message{user(text), asst(call("a", "look!", "{}"))}, "invalid tool name"},
		{"a bad input", []llm.Message{user(text), asst(call("a", "look", "[]"))}, "not a JSON object"},
		{"a call by the user", []llm.Message{user(ok)}, "in a user message"},
	} {
		err := llm.ValidateMessages(c.ms)
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s: %v", c.name, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: got %v, want %q", c.name, err, c.want)
		}
	}
}
