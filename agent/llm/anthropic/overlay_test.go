package anthropic_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"hermesd/agent/llm"
	"hermesd/agent/llm/anthropic"
	"hermesd/agent/llm/llmtest"
	sim "hermesd/internal/sim/llm"
)

// TestOverlayIsLastContent prints the last message in each of its shapes, with # for
// a cache breakpoint.
func TestOverlayIsLastContent(t *testing.T) {
	picture := filepath.Join(t.TempDir(), "p.png")
	if err := os.WriteFile(picture, []byte("PNG"), 0o600); err != nil {
		t.Fatal(err)
	}
	text := func(s string) llm.Block { return llm.Block{Type: llm.Text, Text: s} }
	result := func(id string) llm.Block { return llm.Block{Type: llm.ToolResult, ID: id, Text: "r" + id} }
	image := llm.Block{Type: llm.Image, MIME: "image/png", Path: picture}
	sent := func(id string) string {
		return `{"type":"tool_result","tool_use_id":"` + id + `","content":[{"type":"text","text":"r` + id + `"}]`
	}
	const png = `{"type":"image","source":{"type":"base64","media_type":"image/png","data":"UE5H"}`
	for name, c := range map[string]struct {
		blocks []llm.Block
		want   string
	}{
		"text":              {[]llm.Block{text("a")}, `{"type":"text","text":"a"#}`},
		"two texts":         {[]llm.Block{text("a"), text("b")}, `{"type":"text","text":"a"},{"type":"text","text":"b"#}`},
		"picture":           {[]llm.Block{text("a"), image}, `{"type":"text","text":"a"},` + png + `#}`},
		"result":            {[]llm.Block{result("1")}, sent("1") + `#}`},
		"parallel results":  {[]llm.Block{result("1"), result("2"), result("3")}, sent("1") + `},` + sent("2") + `},` + sent("3") + `#}`},
		"results and words": {[]llm.Block{text("also"), result("1")}, sent("1") + `},{"type":"text","text":"also"#}`},
		"nothing":           {nil, `{"type":"text","text":"(empty message)"}`},
	} {
		t.Run(name, func(t *testing.T) {
			got := body(t, &llm.Request{Model: "claude-opus-4-8", System: "s", CacheTTL: "5m", Overlay: "over", Transcript: llm.NewTranscript(llm.Message{Role: llm.User, Blocks: c.blocks})})
			got = strings.ReplaceAll(got, `,"cache_control":{"type":"ephemeral"}`, "#")
			if want := `[{"role":"user","content":[` + c.want + `,{"type":"text","text":"over"}]}]`; !strings.Contains(got, want) {
				t.Errorf("got\n%s\nwant in it\n%s", got, want)
			}
		})
	}
}

func TestOverlayInSystemBlock(t *testing.T) {
	for _, c := range []struct{ system, extra, want string }{
		{"s", "e", `"system":[{"type":"text","text":"s","cache_control":{"type":"ephemeral"}},{"type":"text","text":"e"}],`},
		{" ", "e", `"system":[{"type":"text","text":"e"}],`},
		{"", " ", `"max_tokens":16384,"messages":`},
	} {
		got := body(t, &llm.Request{System: c.system, SystemOverlay: c.extra, CacheTTL: "5m", Transcript: llm.NewTranscript(llm.UserText("a"))})
		if !strings.Contains(got, c.want) {
			t.Errorf("got %s, want in it %s", got, c.want)
		}
	}
}

func TestBreakpointsOnlyIfSupported(t *testing.T) {
	proxy := anthropic.New(anthropic.Options{BaseURL: "https://proxy.test", Key: "k"})
	for model, marks := range map[string]int{"claude-opus-4-8": 2, "minimax-m3": 0} {
		b, err := proxy.Encode(nil, &llm.Request{Model: model, System: "s", CacheTTL: "5m", Transcript: llm.NewTranscript(llm.UserText("a"))})
		if n := strings.Count(string(b), "cache_control"); err != nil || n != marks {
			t.Errorf("%s: %d marks, %v", model, n, err)
		}
	}
	if _, err := provider.Encode(nil, &llm.Request{CacheTTL: "2h", Transcript: llm.NewTranscript(llm.UserText("a"))}); err == nil {
		t.Error("a ttl of 2h was taken")
	}
}

// TestTurnOverlayKeepsThinkingValid runs three turns of twenty calls each against a
// simulator that checks the prefix to which thinking is bound. The overlay changes with
// each turn.
func TestTurnOverlayKeepsThinkingValid(t *testing.T) {
	const calls = 20
	for _, placement := range []string{"turn", "tail"} {
		s := sim.New(sim.Options{PrefixCheck: true, Reply: func(r sim.Request) sim.Reply {
			rep := sim.Reply{Thinking: fmt.Sprintf("step %d", r.N), Redacted: "sealed"}
			if r.N%calls == 0 {
				rep.Text = "done"
				return rep
			}
			rep.Calls = []sim.Call{{Name: "read", Args: `{"b": 1.0, "a": 2}`}}
			return rep
		}})
		p := over(s.Transport())
		r := &llm.Request{
			Model: "claude-opus-5-5", System: "s", CacheTTL: "5m", Effort: "high", Transcript: llm.NewTranscript(),
			Tools: []llm.Tool{{Name: "read", Schema: json.RawMessage(`{"type":"object"}`)}},
		}
		var err error
		for n := range 3 * calls {
			if n%calls == 0 {
				r.Transcript.Append(llm.UserText("go"))
			}
			over := fmt.Sprintf("<gateway-context>%d</gateway-context>", n/calls)
			if placement == "turn" {
				r.Turn = &llm.TurnOverlay{At: n / calls * calls * 2, Text: over}
			} else {
				r.Overlay = over
			}
			done := llmtest.Collect(p.Stream(t.Context(), r))
			if err = done.Err; err != nil {
				break
			}
			r.Transcript.Append(done.Done.Message)
			if use := done.Done.Message.ToolUses(); len(use) > 0 {
				r.Transcript.Append(llm.Message{Role: llm.User, Blocks: []llm.Block{{Type: llm.ToolResult, ID: use[0].ID, Text: "r"}}})
			}
		}
		e, _ := err.(*llm.Error) //nolint:errorlint // this provider's own
		switch placement {
		case "turn":
			if err != nil {
				t.Errorf("turn: %v", err)
			}
			last := string(s.Requests()[s.Count()-1].Body)
			if n := strings.Count(last, `"thinking":"step`); n != calls-1 || strings.Count(last, "gateway-context") != 2 {
				t.Errorf("%d thoughts of this turn in %s", n, last)
			}
		case "tail":
			if e == nil || e.Class != llm.PrefixCheck {
				t.Errorf("tail: the check does not refuse: %v", err)
			}
			r.DropThinking = true
			if done := llmtest.Collect(p.Stream(t.Context(), r)); done.Err != nil {
				t.Errorf("without thinking: %v", done.Err)
			}
		}
		s.Close()
	}
}

// TestTurnOverlayInAnyConversation checks the messages of requests with a TurnOverlay.
func TestTurnOverlayInAnyConversation(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := &llm.Request{Model: "claude-opus-4-8", System: "s", Transcript: llm.NewTranscript()}
		r.CacheTTL = rapid.SampledFrom([]string{"", "5m"}).Draw(t, "ttl")
		if rapid.Bool().Draw(t, "prefill") {
			r.Prefill = []llm.Message{llm.UserText("p"), llm.AssistantText("q")}
		}
		turns := rapid.IntRange(1, 8).Draw(t, "turns")
		for i := range turns {
			if i > 0 {
				r.Transcript.Append(message(llm.Assistant).Draw(t, "assistant"))
			}
			r.Transcript.Append(message(llm.User).Draw(t, "user"))
		}
		if rapid.Bool().Draw(t, "tail") {
			r.Overlay = "tail words"
		}
		encode(t, r) // fills the wire form with thinking
		r.Turn = &llm.TurnOverlay{At: 2 * rapid.IntRange(0, turns-1).Draw(t, "at"), Text: "turn words"}
		one := encode(t, r)
		r.Transcript = llm.NewTranscript(r.Transcript.Since(0)...)
		if two := encode(t, r); two != one {
			t.Fatalf("twice encoded:\n%s\n%s", one, two)
		}
		var body struct {
			Messages []struct {
				Content []struct{ Type, Text string }
			}
		}
		if err := json.Unmarshal([]byte(one), &body); err != nil {
			t.Fatal(err)
		}
		at, last := len(r.Prefill)+r.Turn.At, len(body.Messages)-1
		for i, m := range body.Messages {
			var ends []string
			for _, b := range m.Content {
				if b.Type == "thinking" && i < at {
					t.Fatalf("message %d thinks, before the turn at %d: %s", i, at, one)
				}
				if strings.HasSuffix(b.Text, " words") {
					ends = append(ends, b.Text)
				}
			}
			var want []string
			if i == at {
				want = append(want, "turn words")
			}
			if i == last && r.Overlay != "" {
				want = append(want, "tail words")
			}
			if !slices.Equal(ends, want) || len(want) > 0 && m.Content[len(m.Content)-1].Text != want[len(want)-1] {
				t.Fatalf("message %d ends with %q, want %q: %s", i, ends, want, one)
			}
		}
	})
}
