package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"hermesd/adapters/console"
	"hermesd/agent"
	"hermesd/agent/llm"
	"hermesd/agent/llm/llmtest"
	"hermesd/agent/prompt"
	"hermesd/agent/tool"
)

// fakeTool is a tool that calls a function.
type fakeTool struct {
	spec tool.Spec
	run  func(ctx context.Context, c tool.Call) (string, error)
}

func (f fakeTool) Spec() tool.Spec { return f.spec }

func (f fakeTool) Run(ctx context.Context, c tool.Call) (string, error) { return f.run(ctx, c) }

func toolSpec(name string, effect tool.Effect, parallel bool) tool.Spec {
	return tool.Spec{
		Tool:   llm.Tool{Name: name, Description: name, Schema: json.RawMessage(`{"type":"object"}`)},
		Effect: effect, Parallel: parallel,
	}
}

// echoTool returns a tool whose result is its input.
func echoTool(name string, effect tool.Effect, parallel bool) fakeTool {
	return fakeTool{toolSpec(name, effect, parallel), func(_ context.Context, c tool.Call) (string, error) {
		return name + " " + string(c.Input), nil
	}}
}

type harness struct {
	agent    *agent.Agent
	provider llm.Provider
	prefix   prompt.Prefix
}

type fataler interface {
	Helper()
	Fatal(...any)
	Fatalf(string, ...any)
}

func newHarness(t fataler, cfg agent.Config, p llm.Provider, tools ...tool.Tool) harness {
	t.Helper()
	set, err := tool.NewSet(tools...)
	if err != nil {
		t.Fatal(err)
	}
	return harness{
		agent: agent.New(cfg, p, set), provider: p,
		prefix: prompt.Build(prompt.Inputs{Hint: console.Profile().Hint, Tools: set.Tools()}),
	}
}

func (s harness) turn(text string, tr *llm.Transcript) agent.Turn {
	t := agent.Turn{
		Prefix: s.prefix, Overlay: prompt.PlacedOverlay{Tail: prompt.NewOverlay("it is noon")}, Transcript: tr,
		Model: "m", Session: "s1",
	}
	if text != "" {
		t.Input = []llm.Message{llm.UserText(text)}
	}
	return t
}

// runLog holds everything that a run yielded.
type runLog struct {
	events []agent.Event
	steps  []agent.Step
	err    error
	final  agent.Final
	ok     bool // there was a Final
}

// collect runs a turn to its end. on, if not nil, is called with each event.
func collect(ctx context.Context, s harness, t agent.Turn, on func(agent.Event)) runLog {
	var l runLog
	for e, err := range s.agent.Run(ctx, t) {
		if err != nil {
			l.err = err
			continue
		}
		l.events = append(l.events, e)
		switch e := e.(type) {
		case agent.Record:
			l.steps = append(l.steps, e.Step)
		case agent.Final:
			l.final, l.ok = e, true
		}
		if on != nil {
			on(e)
		}
	}
	return l
}

// String returns one line per event, without deltas.
func (l runLog) String() string {
	var b strings.Builder
	for _, e := range l.events {
		switch e := e.(type) {
		case agent.Notice:
			fmt.Fprintln(&b, "notice", e)
		case agent.Retracted:
			fmt.Fprintln(&b, "retracted")
		case agent.ToolCall:
			fmt.Fprintln(&b, "tool", e.Name, string(e.Input), e.Effect)
		case agent.ToolFinished:
			fmt.Fprintln(&b, "done", e.Name, e.Failed)
		case agent.Record:
			fmt.Fprintln(&b, "record", e.Step.Kind)
		case agent.Call:
			fmt.Fprintln(&b, "call", e.Stop)
		case agent.Final:
			fmt.Fprintln(&b, "final", e.Stop)
		}
	}
	if l.err != nil {
		fmt.Fprintln(&b, "error", l.err)
	}
	return b.String()
}

// visibleText returns the text that remains visible at the end: what was
// emitted since the last tool call or retraction.
func (l runLog) visibleText() string {
	var s string
	for _, e := range l.events {
		switch e := e.(type) {
		case agent.Text:
			s += string(e)
		case agent.Retracted, agent.ToolCall:
			s = ""
		}
	}
	return s
}

// formatTranscript returns one line per block.
func formatTranscript(tr *llm.Transcript) string {
	var b strings.Builder
	for _, m := range tr.Since(0) {
		for _, bl := range m.Blocks {
			fmt.Fprintf(&b, "%s %s: ", m.Role, bl.Type)
			switch bl.Type {
			case llm.ToolUse:
				fmt.Fprintf(&b, "%s %s %s", bl.ID, bl.Name, bl.Input)
			case llm.ToolResult:
				fmt.Fprintf(&b, "%s failed=%v %s", bl.ID, bl.Failed, bl.Text)
			default:
				b.WriteString(bl.Text)
			}
			b.WriteString("\n")
		}
	}
	return b.String()
}

func wantLegal(t fataler, tr *llm.Transcript) {
	t.Helper()
	if err := llm.ValidateMessages(tr.Since(0)); err != nil {
		t.Fatalf("the transcript is not legal: %v\n%s", err, formatTranscript(tr))
	}
}

func wantContains(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if !strings.Contains(text, p) {
			t.Errorf("%q is not in\n%s", p, text)
		}
	}
}

// roundTrip returns steps after a JSON round trip, as if read from disk.
func roundTrip(t fataler, steps []agent.Step) []agent.Step {
	t.Helper()
	b, err := json.Marshal(steps)
	if err != nil {
		t.Fatal(err)
	}
	var out []agent.Step
	if err := json.Unmarshal(b, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// counter counts runs by call id.
type counter struct {
	mu   sync.Mutex
	runs map[string]int
}

func (c *counter) add(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.runs == nil {
		c.runs = map[string]int{}
	}
	c.runs[id]++
}

var errStop = errors.New("stopped by the user")

func scripted(as ...llmtest.Answer) *llmtest.Scripted { return llmtest.NewScripted(as...) }

func trimSpace(s string) string { return strings.TrimSpace(s) }

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
