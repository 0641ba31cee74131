package llm_test

import (
	"testing"

	"hermesd/agent/llm"
)

func TestTranscriptCalls(t *testing.T) {
	call := func(id string) llm.Message {
		return llm.Message{Role: llm.Assistant, Blocks: []llm.Block{{Type: llm.ToolUse, ID: id}}}
	}
	tr := llm.NewTranscript(call("a"))
	if !tr.HasCall("a") || tr.HasCall("b") || tr.Calls() != 1 {
		t.Error("before")
	}
	tr.Append(call("b"), llm.UserText("x"), call("a"))
	if !tr.HasCall("b") || tr.Calls() != 2 {
		t.Error("after more")
	}
	tr.Truncate(1)
	if !tr.HasCall("a") || tr.HasCall("b") {
		t.Error("after a cut")
	}
	tr.Append(llm.UserText("x"), call("c"))
	if !tr.HasCall("c") || tr.HasCall("b") {
		t.Error("a cut and as many more")
	}
	tr.Replace([]llm.Message{call("d")})
	if !tr.HasCall("d") || tr.HasCall("a") || tr.Calls() != 1 {
		t.Error("after a compaction")
	}
}
