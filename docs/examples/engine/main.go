// Command engine is an example of an external context engine: it keeps the
// first message and the last six, and puts a list of what was asked in between
// in the place of the others. docs/engines.md explains the protocol.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strings"
)

// A request is one line from the daemon. One without an id wants no answer.
type request struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		Limits struct {
			Window int `json:"window"`
		} `json:"limits"`
		State struct {
			Passes int `json:"passes"`
		} `json:"state"`
		View struct {
			Messages []message `json:"messages"`
		} `json:"view"`
	} `json:"params"`
}

type message struct {
	Role   string  `json:"role"`
	Blocks []block `json:"blocks"`
}

type block struct {
	Type string `json:"type"`
	Text string `json:"text,omitempty"`
}

// says returns what m says, if it is of the user and no result of a tool.
func (m message) says() string {
	var b strings.Builder
	for _, x := range m.Blocks {
		if x.Type == "tool_result" {
			return ""
		}
		b.WriteString(x.Text)
	}
	if m.Role != "user" {
		return ""
	}
	return strings.TrimSpace(b.String())
}

func main() {
	in := bufio.NewReader(os.Stdin)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return // the daemon has closed the pipe
		}
		var r request
		if err := json.Unmarshal(line, &r); err != nil || r.ID == nil {
			continue
		}
		answer(r)
	}
}

func answer(r request) {
	var result any
	switch r.Method {
	case "initialize":
		result = map[string]any{"protocol": 1}
	case "threshold":
		result = map[string]any{"tokens": r.Params.Limits.Window / 2}
	case "compress":
		result = compress(r)
	}
	out := map[string]any{"jsonrpc": "2.0", "id": r.ID}
	switch {
	case result == nil:
		out["error"] = map[string]any{"code": -32601, "message": "there is no method " + r.Method}
	case result == nothing:
		out["error"] = map[string]any{"code": 1, "message": "the conversation is too short"}
	default:
		out["result"] = result
	}
	if err := json.NewEncoder(os.Stdout).Encode(out); err != nil { // ends with a newline
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// nothing stands for a conversation in which there is nothing to do.
const nothing = "nothing"

// compress archives the messages from the second one to the sixth from the end,
// moved so that both cuts are in front of words of the user.
func compress(r request) any {
	ms := r.Params.View.Messages
	from := 1
	for from < len(ms) && ms[from].says() == "" {
		from++
	}
	to := len(ms) - 6
	for to > from && ms[to].says() == "" {
		to--
	}
	if to <= from {
		return nothing
	}
	var list strings.Builder
	fmt.Fprintf(&list, "[Summary %d of what was said before. The user asked, in order:", r.Params.State.Passes+1)
	for _, m := range ms[from:to] {
		if text := []rune(m.says()); len(text) > 0 {
			fmt.Fprintf(&list, "\n- %s", string(text[:min(len(text), 80)]))
		}
	}
	list.WriteString("]")
	return map[string]any{
		"from": from, "to": to,
		"replace": []message{
			{Role: "user", Blocks: []block{{Type: "text", Text: list.String()}}},
			{Role: "assistant", Blocks: []block{{Type: "text", Text: "Understood."}}},
		},
		"state": map[string]int{"passes": r.Params.State.Passes + 1},
	}
}
