package agent_test

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hermesd/agent"
	"hermesd/agent/llm"
	"hermesd/agent/llm/llmtest"
	"hermesd/agent/tool"
	"hermesd/internal/secret"
)

const (
	canary  = "top-secret-value"
	escaped = `{"a": "x top\u002dsecret\u002dvalue y", "b": 1}`
)

// newMaskingHarness returns a harness whose agent masks canary and the given secrets, and
// the inputs that the tool "run" has received.
func newMaskingHarness(t *testing.T, p llm.Provider, more ...secret.Value) (harness, *inputs) {
	t.Helper()
	got := &inputs{}
	run := fakeTool{toolSpec("run", tool.AtMostOnce, false), func(_ context.Context, c tool.Call) (string, error) {
		got.add(string(c.Input))
		return "ran, " + canary + " is the key", nil
	}}
	h := newHarness(t, agent.Config{}, p, run)
	set, err := tool.NewSet(run)
	if err != nil {
		t.Fatal(err)
	}
	m := &secret.Masker{}
	m.Add(append(more, canary)...)
	h.agent = agent.New(agent.Config{}, p, set, agent.MaskSecrets(m.Mask))
	return h, got
}

type inputs struct {
	mu  sync.Mutex
	all []string
}

func (i *inputs) add(s string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.all = append(i.all, s)
}

// wantNo fails if the JSON form of v contains a secret, escaped or not.
func wantNo(t *testing.T, what string, v any) {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	if s := string(raw); strings.Contains(s, canary) || strings.Contains(s, `secret\u002dvalue`) || strings.Contains(s, `secret\\u002dvalue`) {
		t.Errorf("%s: a secret is in %s", what, s)
	}
}

// A tool gets the input that the model sent; what is recorded, and what the model reads,
// is masked.
func TestRecordedStepsContainNoSecrets(t *testing.T) {
	p := scripted(llmtest.Answer{Text: "I use " + canary, Calls: []llmtest.Call{{ID: "a", Name: "run", Input: escaped}}}, llmtest.Say("It was "+canary+"."))
	h, got := newMaskingHarness(t, p)
	tr := llm.NewTranscript()
	turn := h.turn("go", tr)
	turn.Steer = func() []llm.Block { return []llm.Block{{Type: llm.Text, Text: "by the way: " + canary}} }
	l := collect(t.Context(), h, turn, nil)
	if d := cmp.Diff([]string{escaped}, got.all); d != "" {
		t.Errorf("the tool has received another input: %s", d)
	}
	wantNo(t, "steps", l.steps)
	wantNo(t, "transcript", tr.Since(0))
	wantNo(t, "final", l.final)
	wantContains(t, formatTranscript(tr), `a run {"a": "x <secret> y", "b": 1}`, "ran, <secret> is the key", "I use <secret>", "by the way: <secret>", "It was <secret>.")
	for _, e := range l.events {
		switch e := e.(type) {
		case agent.ToolCall:
			wantNo(t, "call", e)
		case agent.ToolFinished:
			wantNo(t, "result", e)
		}
	}
	if strings.Contains(l.String(), "retracted") {
		t.Errorf("the text was retracted because it is masked:\n%s", l)
	}
	wantLegal(t, tr)
}

// A masked input stays valid JSON, whatever the secret is.
func TestMaskedInputIsValid(t *testing.T) {
	for _, c := range []struct {
		secret      secret.Value
		input, want string
	}{
		{"12345678", `{"n":12345678}`, `{"n":"<secret>"}`},
		{`pass"word<`, `{"n":"a pass\"word\u003c b"}`, `{"n":"a <secret> b"}`},
		{`{"k":"v-1"}`, `{"n":{"k":"v-1"}}`, `{}`},
		{"kkkkkkkk", `{"kkkkkkkk":true}`, `{"<secret>":true}`},
		{"unrelated", `{ "n" : [1.5, "\u00e4\\"] }`, `{ "n" : [1.5, "\u00e4\\"] }`},
	} {
		h, got := newMaskingHarness(t, scripted(llmtest.Use("run", c.input), llmtest.Say("ok")), c.secret)
		tr := llm.NewTranscript()
		collect(t.Context(), h, h.turn("go", tr), nil)
		if in := string(tr.At(1).ToolUses()[0].Input); in != c.want {
			t.Errorf("the secret %s: %s is recorded as %s, want %s", c.secret.Reveal(), c.input, in, c.want)
		}
		if d := cmp.Diff([]string{c.input}, got.all); d != "" {
			t.Errorf("the secret %s: the tool has received %s", c.secret.Reveal(), d)
		}
	}
}

// A message in the form of its provider is not sent again if it contains a secret.
func TestMaskMessageRemovesRawForm(t *testing.T) {
	h, _ := newMaskingHarness(t, scripted())
	raw := func(text string) llm.Message {
		return llm.Message{Role: llm.Assistant, Blocks: []llm.Block{{Type: llm.Text, Text: "x"}}, Raw: json.RawMessage(`[{"text":"` + text + `"}]`), Dialect: "d"}
	}
	if m := h.agent.MaskMessage(raw(`top\u002dsecret-value`)); m.Raw != nil || m.Dialect != "" {
		t.Errorf("got %s", m.Raw)
	}
	m := raw("reasoning")
	m.Blocks[0].Text = "top-secret-value"
	if m = h.agent.MaskMessage(m); m.Blocks[0].Text == "top-secret-value" || m.Raw == nil || m.Dialect != "d" {
		t.Errorf("got %+v", m)
	}
	if m := h.agent.MaskMessage(raw(`top-secret-`)); string(m.Raw) != `[{"text":"top-secret-"}]` || m.Dialect != "d" {
		t.Errorf("got %s", m.Raw)
	}
}

// A secret at the place where a result is truncated is masked as a whole.
func TestTruncatedResultContainsNoPartOfSecret(t *testing.T) {
	m := &secret.Masker{}
	m.Add(canary)
	long := fakeTool{toolSpec("long", tool.Pure, false), func(context.Context, tool.Call) (string, error) {
		return strings.Repeat(canary+" ", 100), nil
	}}
	for limit := range 60 {
		long.spec.MaxResult = 100 + limit
		set, err := tool.NewSet(long)
		if err != nil {
			t.Fatal(err)
		}
		p := scripted(llmtest.Use("long", "{}"), llmtest.Say("ok"))
		h := newHarness(t, agent.Config{}, p, long)
		h.agent = agent.New(agent.Config{}, p, set, agent.MaskSecrets(m.Mask))
		tr := llm.NewTranscript()
		collect(t.Context(), h, h.turn("go", tr), nil)
		if got := toolResults(tr); len(got) != 1 || strings.Contains(got[0].Text, "top-") || strings.Contains(got[0].Text, "value") {
			t.Fatalf("with at most %d characters the result is %+v", long.spec.MaxResult, got)
		}
	}
}

// A turn that is resumed with any number of its steps ends with the same transcript, and
// never runs the masked form of a call: it runs the call as it was sent, or refuses it.
func TestResumeNeverRunsMaskedInput(t *testing.T) {
	answers := func() []llmtest.Answer {
		return []llmtest.Answer{
			{Text: canary, Calls: []llmtest.Call{{ID: "a", Name: "run", Input: escaped}, {ID: "b", Name: "run", Input: `{"plain":1}`}}},
			llmtest.Say("done with " + canary),
		}
	}
	whole, _ := newMaskingHarness(t, scripted(answers()...))
	tr := llm.NewTranscript()
	ref := collect(t.Context(), whole, whole.turn("go", tr), nil)
	refused := 0
	for n := range len(ref.steps) + 1 {
		remaining := answers()
		if n > 0 {
			remaining = remaining[1:]
		}
		if n == len(ref.steps) {
			remaining = nil
		}
		h, got := newMaskingHarness(t, scripted(remaining...), "another secret that was configured later")
		tr2 := llm.NewTranscript()
		turn := h.turn("go", tr2)
		turn.Steps = roundTrip(t, ref.steps[:n])
		l := collect(t.Context(), h, turn, nil)
		if l.err != nil {
			t.Errorf("resumed after %d steps: %v", n, l.err)
		}
		for _, in := range got.all {
			if in != escaped && in != `{"plain":1}` {
				t.Errorf("resumed after %d steps: the tool has received %s", n, in)
			}
		}
		results := toolResults(tr2)
		if strings.HasPrefix(results[0].Text, "Not run: the daemon was restarted") {
			refused++
			continue
		}
		if d := cmp.Diff(formatTranscript(tr), formatTranscript(tr2)); d != "" && !strings.Contains(d, "The outcome of this call is unknown") {
			t.Errorf("resumed after %d steps: %s", n, d)
		}
	}
	if refused != 1 { // resumed between the answer and the start of the call
		t.Errorf("the call was refused %d times", refused)
	}
}
