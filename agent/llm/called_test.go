package llm_test

import (
	"testing"

	"hermesd/agent/llm"
)

func TestTheTranscriptKnowsItsCalls(t *testing.T) {
	call := func(id string) llm.Message {
		return llm.Message{Role: llm.Assistant, Blocks: []llm.Block{{Type: llm.ToolUse, ID: id}}}
	}
	tr := llm.NewTranscript(call("a"))
	if !tr.Called("a") || tr.Called("b") || tr.Calls() != 1 {
		t.Error("before")
	}
	tr.Append(call("b"), llm.UserText("x"), call("a"))
	if !tr.Called("b") || tr.Calls() != 2 {
		t.Error("after more")
	}
	tr.Truncate(1)
	if !tr.Called("a") || tr.Called("b") {
		t.Error("after a cut")
	}
	tr.Append(llm.UserText("x"), call("c"))
	if !tr.Called("c") || tr.Called("b") {
		t.Error("a cut and as many more")
	}
	tr.Replace([]llm.Message{call("d")})
	if !tr.Called("d") || tr.Called("a") || tr.Calls() != 1 {
		t.Error("after a compaction")
	}
}
