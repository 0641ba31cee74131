package llm

import (
	"bytes"
	"encoding/json"
)

// ValidInput reports whether b can stand as the input of a call: a JSON object
// with nothing behind it.
//
// A provider whose model wrote anything else puts {} into Block.Input, so that
// the message can be replayed legally, and what the model wrote into
// Block.Text; the agent answers such a call with a failed result and runs
// nothing. A ToolUse block with a Text is therefore never executed.
func ValidInput(b []byte) bool {
	b = bytes.TrimLeft(b, " \t\r\n")
	return len(b) > 0 && b[0] == '{' && json.Valid(b)
}
