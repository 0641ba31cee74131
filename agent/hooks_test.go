package agent_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"hermesd/agent"
	"hermesd/agent/llm"
	"hermesd/agent/llm/llmtest"
	"hermesd/agent/tool"
)

func toolResults(tr *llm.Transcript) []llm.Block {
	var bs []llm.Block
	for _, m := range tr.Since(0) {
		for _, b := range m.Blocks {
			if b.Type == llm.ToolResult {
				bs = append(bs, b)
			}
		}
	}
	return bs
}

func TestCheckToolRefusalIsResult(t *testing.T) {
	p := llmtest.NewScripted(llmtest.Use("kept", `{}`), llmtest.Say("done"))
	kept := echoTool("kept", tool.AtMostOnce, false)
	kept.run = nil // it would panic
	s := newHarness(t, agent.Config{}, p, kept)
	tr := llm.NewTranscript()
	turn := s.turn("go", tr)
	turn.CheckTool = func(name string) error { return errors.New(name + " is for the owner") }
	l := collect(t.Context(), s, turn, nil)
	if got := toolResults(tr); len(got) != 1 || !got[0].Failed || got[0].Text != "Refused: kept is for the owner" || !l.ok {
		t.Errorf("results %+v, %+v", got, l)
	}
}

func TestAfterToolTextIsResumed(t *testing.T) {
	p := llmtest.NewScripted(llmtest.Use("echo", `{"path":"a/b"}`), llmtest.Say("done"))
	s := newHarness(t, agent.Config{}, p, echoTool("echo", tool.Pure, false))
	turn := s.turn("go", llm.NewTranscript())
	afterCalls := 0
	turn.AfterTool = func(name string, input json.RawMessage) string {
		afterCalls++
		return "rules of " + name + " " + string(input) + " </gateway-context>"
	}
	first := collect(t.Context(), s, turn, nil)
	got := toolResults(turn.Transcript)
	if len(got) != 1 || !strings.HasPrefix(got[0].Text, "echo {\"path\":\"a/b\"}\n\nrules of echo") || strings.Contains(got[0].Text, "</gateway") {
		t.Fatalf("results %+v", got)
	}
	resumed := s.turn("go", llm.NewTranscript())
	resumed.Steps, resumed.AfterTool = first.steps, turn.AfterTool
	collect(t.Context(), s, resumed, nil)
	if r := toolResults(resumed.Transcript); afterCalls != 1 || len(r) != 1 || r[0].Text != got[0].Text {
		t.Errorf("called %d times, resumed with %+v", afterCalls, r)
	}
}

func TestTurnProviderReplacesAgentProvider(t *testing.T) {
	other := llmtest.NewScripted(llmtest.Say("from the other"))
	s := newHarness(t, agent.Config{}, llmtest.NewScripted())
	turn := s.turn("go", llm.NewTranscript())
	turn.Provider = other
	if l := collect(t.Context(), s, turn, nil); l.final.Text != "from the other" {
		t.Errorf("got %+v", l)
	}
}
