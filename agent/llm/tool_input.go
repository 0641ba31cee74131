package llm

import (
	"bytes"
	"encoding/json"
)

// ValidInput reports whether b is valid as the input of a call: a JSON object with nothing
// after it.
//
// If a model wrote anything else, its provider puts {} into Block.Input, so that the
// message remains valid in later requests, and the model's text into Block.Text. The agent
// answers such a call with a failed result and runs nothing. A ToolUse block with a Text is
// therefore never executed.
func ValidInput(b []byte) bool {
	b = bytes.TrimLeft(b, " \t\r\n")
	return len(b) > 0 && b[0] == '{' && json.Valid(b)
}
