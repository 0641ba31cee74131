package ledger_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"hermesd/agent/llm"
	"hermesd/agent/llm/anthropic"
	"hermesd/agent/llm/ledger"
	"hermesd/agent/llm/llmtest"
	"hermesd/agent/llm/openai"
	"hermesd/agent/llm/tokens"
	sim "hermesd/internal/sim/llm"
)

// A talk is a conversation with tools whose overlay changes every turn, through one of the
// providers, against a simulator with a prompt cache.
type talk struct {
	turns    int
	steps    int    // tool steps before the answer of a turn; 0: one
	parallel int    // calls of a step; every tenth turn has 25 if it is 25
	model    string // "" for claude-opus-4-8
	router   bool   // through Chat Completions, as with OpenRouter
	ttl      string
	where    string // the overlay: "tail", "turn", "system", "prompt" (the wrong place)
	pause    time.Duration
	thinks   bool
}

// A bill holds the costs of a talk, in tokens at the plain input price.
type bill struct {
	sim.Bill
	calls   int
	floor   float64
	records []ledger.Record
	l       *ledger.Ledger
}

func (b bill) ofFloor() float64    { return b.Cost() / b.floor }
func (b bill) ofUncached() float64 { return b.Cost() / float64(b.Prompt()) }

var overlayText = strings.Repeat("what stands here changes with every turn; ", 6)

func (k talk) run(t testing.TB) bill {
	t.Helper()
	s := sim.New(sim.Options{Reply: k.reply, PrefixCheck: k.thinks, NoBodies: true})
	defer s.Close()
	web := &http.Client{Transport: s.Transport()}
	var p llm.Provider = anthropic.New(anthropic.Options{BaseURL: s.URL, Key: "k", HTTP: web})
	if k.router {
		p = openai.New(openai.Options{Name: "openrouter", BaseURL: s.URL + "/v1", Key: "k", HTTP: web})
	}
	b := bill{l: ledger.New()}
	const prompt = "You are Hermes, and you know what you do. "
	r := &llm.Request{Model: "claude-opus-4-8", System: strings.Repeat(prompt, 120), CacheTTL: k.ttl, Transcript: llm.NewTranscript()}
	if k.model != "" {
		r.Model = k.model
	}
	if k.thinks {
		r.Effort = "low"
	}
	for i := range 12 {
		r.Tools = append(r.Tools, llm.Tool{Name: fmt.Sprintf("tool_%d", i), Description: strings.Repeat("what it does ", 10), Schema: json.RawMessage(`{"type":"object","properties":{"path":{"type":"string"}}}`)})
	}
	base, before := r.System, 0
	for n := range k.turns {
		<-time.After(k.pause)
		if n == k.turns/2 { // a restart
			r.Transcript = llm.NewTranscript(slices.Clone(r.Transcript.Since(0))...)
			r.Tools = slices.Clone(r.Tools)
			b.l = ledger.Restore(b.records)
		}
		k.place(r, base, n)
		blocks := []llm.Block{{Type: llm.Text, Text: fmt.Sprintf("turn %d: %s", n, strings.Repeat("please do this ", 5))}}
		if n%7 == 0 { // two merged messages
			blocks = append(blocks, llm.Block{Type: llm.Text, Text: "and that"})
		}
		r.Transcript.Append(llm.Message{Role: llm.User, Blocks: blocks})
		if k.where == "turn" && n > 0 {
			b.l.Declare(ledger.Overlay)
		}
		for {
			got := llmtest.Collect(p.Stream(t.Context(), r))
			if got.Err != nil {
				t.Fatalf("turn %d: %v", n, got.Err)
			}
			before = b.take(t, r, *got.Done, before)
			r.Transcript.Append(got.Done.Message)
			results := resultsOf(got.Done.Message)
			if results == nil {
				break
			}
			if n%5 == 0 { // the user steers
				results = append(results, llm.Block{Type: llm.Text, Text: "not that one"})
			}
			r.Transcript.Append(llm.Message{Role: llm.User, Blocks: results})
		}
	}
	b.Bill = s.Billed()
	b.calls = s.Count()
	return b
}

// place puts the overlay of turn n at the position under test.
func (k talk) place(r *llm.Request, base string, n int) {
	over := fmt.Sprintf("<gateway-context>%d %s</gateway-context>", n, overlayText)
	switch k.where {
	case "turn":
		r.Turn = &llm.TurnOverlay{At: r.Transcript.Len(), Text: over}
	case "system":
		r.SystemOverlay = overlayText
		r.Overlay = fmt.Sprintf("<gateway-context>%d</gateway-context>", n)
	case "prompt":
		r.System = base + "\n\n" + over
	default:
		r.Overlay = over
	}
}

// take records a call and its lowest possible cost: everything before the overlay of the
// previous call is read from the cache, new text is written once, the overlay is plain
// input. It returns the length of the prefix.
func (b *bill) take(t testing.TB, r *llm.Request, d llm.Done, before int) int {
	tail := 0
	for _, text := range []string{r.Overlay, turnText(r)} {
		tail += tokens.Text(text)
	}
	if strings.Contains(r.System, "<gateway-context>") {
		tail += tokens.Text(overlayText)
	}
	write := 1.25
	if r.CacheTTL == "1h" {
		write = 2
	}
	now := d.Usage.Prompt() - tail
	b.floor += 0.1*float64(min(before, now)) + write*float64(max(0, now-before)) + float64(tail)
	rec := b.l.RecordCall(ledger.Call{Request: r, Provider: d.Provider, Model: d.Model, Usage: d.Usage, At: time.Now()})
	if b.records = append(b.records, rec); rec.Break == ledger.Undeclared && !strings.Contains(r.System, "<gateway-context>") {
		t.Errorf("call %d: an undeclared break at %s", rec.N, rec.BreakLayer)
	}
	return now
}

func turnText(r *llm.Request) string {
	if r.Turn == nil {
		return ""
	}
	return r.Turn.Text
}

// reply returns the tool steps of a turn, and then its answer.
func (k talk) reply(r sim.Request) sim.Reply {
	rep := sim.Reply{}
	if k.thinks {
		rep.Thinking = "I think about it for a while."
	}
	if done := stepsOf(r); done >= max(1, k.steps) {
		rep.Text = strings.Repeat("this is the answer ", 6)
		return rep
	}
	n := max(1, k.parallel)
	if n == 25 && !strings.Contains(r.Newest(), "0: ") { // not a tenth turn
		n = 1
	}
	for i := range n {
		rep.Calls = append(rep.Calls, sim.Call{Name: fmt.Sprintf("tool_%d", i%12), Args: fmt.Sprintf(`{"path": "notes/%d.md"}`, i)})
	}
	return rep
}

// stepsOf counts the answers since the beginning of the turn.
func stepsOf(r sim.Request) int {
	n := 0
	for _, m := range slices.Backward(r.Messages) {
		switch {
		case m.Role == "assistant":
			n++
		case slices.ContainsFunc(m.Blocks, func(b sim.Block) bool { return strings.HasPrefix(b.Text, "turn ") }):
			return n
		}
	}
	return n
}

func resultsOf(m llm.Message) []llm.Block {
	var results []llm.Block
	for i, use := range m.ToolUses() {
		results = append(results, llm.Block{Type: llm.ToolResult, ID: use.ID, Text: fmt.Sprintf("%d %s", i, strings.Repeat("what was found ", 8))})
	}
	return results
}

// TestConversationCost checks the promise of the prompt cache: 200 turns with tools
// and overlays that change every turn cost at most a tenth more than the lowest possible
// cost.
func TestConversationCost(t *testing.T) {
	const router = "anthropic/claude-opus-4.8"
	for _, c := range []struct {
		name       string
		talk       talk
		ofFloor    float64 // upper limit; 0: printed only
		ofUncached float64
	}{
		{"Messages API, 5m", talk{where: "tail", ttl: "5m"}, 1.10, 0.30},
		{"  three calls at once", talk{where: "tail", ttl: "5m", parallel: 3, turns: 30}, 1.10, 0.30},
		{"  25 calls at once, each tenth turn", talk{where: "tail", ttl: "5m", parallel: 25, turns: 30}, 1.10, 0.30},
		{"  1h", talk{where: "tail", ttl: "1h", turns: 30, pause: 30 * time.Minute}, 1.10, 0.30},
		{"  ephemeral prompt behind the cached one", talk{where: "system", ttl: "5m", turns: 30}, 1.10, 0.30},
		{"OpenRouter", talk{where: "tail", ttl: "5m", router: true, model: router, turns: 30}, 1.3, 0.30},
		{"  25 calls at once, each tenth turn", talk{where: "tail", ttl: "5m", router: true, model: router, parallel: 25, turns: 30}, 1.3, 0.30},
		{"overlay stays with its turn, thinking on", talk{where: "turn", ttl: "5m", thinks: true, turns: 30}, 0, 0.30},
		{"  20 steps in each turn", talk{where: "turn", ttl: "5m", thinks: true, turns: 6, steps: 20}, 0, 0.30},
		{"  the same at the tail, no thinking", talk{where: "tail", ttl: "5m", turns: 6, steps: 20}, 1.10, 0.30},
		{"overlay in the system message", talk{where: "prompt", ttl: "5m", turns: 30}, 0, 0},
		{"without marks", talk{where: "tail", turns: 30}, 0, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			if c.talk.turns == 0 {
				c.talk.turns = manyTurns
			}
			if c.talk.pause == 0 {
				c.talk.pause = 2 * time.Minute
			}
			b := c.talk.run(t)
			t.Logf("%-42s %3d turns, %3d calls, prompts %8d: cost %8.0f = %4.2f × floor, %4.2f × uncached; read %2.0f %%",
				c.name, c.talk.turns, b.calls, b.Prompt(), b.Cost(), b.ofFloor(), b.ofUncached(), 100*float64(b.Read)/float64(b.Prompt()))
			if c.ofFloor > 0 && b.ofFloor() > c.ofFloor {
				t.Errorf("%s: %.3f × the floor", c.name, b.ofFloor())
			}
			if c.ofUncached > 0 && b.ofUncached() > c.ofUncached {
				t.Errorf("%s: %.3f × the cost without marks", c.name, b.ofUncached())
			}
			if sum := ledger.Summarize(b.records); c.ofFloor > 0 && (sum.Missed > 0 || sum.Undeclared() > 0 || sum.Calls != b.calls) {
				t.Errorf("%s: %+v", c.name, sum)
			}
			if c.talk.where == "prompt" && ledger.Summarize(b.records).Undeclared() == 0 {
				t.Error("an overlay in the system message is no break")
			}
		})
	}
}

// TestModelDataEqualsSimulator compares the minimum cacheable lengths.
func TestModelDataEqualsSimulator(t *testing.T) {
	for _, model := range []string{
		"claude-opus-4-5", "claude-opus-4-6", "claude-opus-4-7", "claude-opus-4-8", "claude-sonnet-4-5", "claude-sonnet-4.6", "claude-haiku-4-5-20251001",
		"claude-3-5-haiku-latest", "claude-3-haiku", "claude-fable-5", "claude-opus-5", "anthropic/claude-opus-4.6", "other",
	} {
		if a, b := tokens.Builtin().MinCache(model), sim.MinCache(model); a != b {
			t.Errorf("%s: %d and %d", model, a, b)
		}
	}
}

// BenchmarkConversation reports the cost of a conversation, as multiples of the lowest
// possible cost and of the cost without cache breakpoints.
func BenchmarkConversation(b *testing.B) {
	for _, router := range []bool{false, true} {
		b.Run(fmt.Sprintf("router=%v", router), func(b *testing.B) {
			k := talk{turns: manyTurns, where: "tail", ttl: "5m", router: router, model: "anthropic/claude-opus-4.8"}
			var last bill
			for b.Loop() {
				last = k.run(b)
			}
			b.ReportMetric(last.ofFloor(), "×floor")
			b.ReportMetric(last.ofUncached(), "×uncached")
		})
	}
}
