package app_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"hermesd/internal/sim/llm"
)

// longConfig is the configuration of a long conversation: nothing is compacted
// automatically.
const longConfig = `memory:
  nudge_interval: 1
display:
  tool_progress: 'off'
compression:
  target_ratio: 0.1
  protect_last_n: 10
  threshold: 0.3
  min_threshold_tokens: 64000
`

// workingModel is a model in a long conversation: it reads a file each turn, sometimes
// stores a memory, and writes summaries when asked.
func workingModel(r llm.Request) llm.Reply {
	if len(r.Tools) == 0 {
		return llm.Reply{Text: "## Goal\nRead the notes.\n\n## Progress\n### Done\nThey were read, turn after turn.\n\n## Key Decisions\n(none)\n\n## Next Steps\nRead on."}
	}
	if len(r.Results()) > 0 {
		return llm.Reply{Text: "done: " + r.Newest()}
	}
	calls := []llm.Call{{Name: "read_file", Args: `{"path": "notes.txt"}`}, {Name: "todo", Args: `{"todos":[{"id":"1","content":"a thing","status":"pending"}]}`}}
	var n int
	if _, err := fmt.Sscanf(r.Newest(), "turn %d", &n); err == nil && n%20 == 7 {
		calls = append(calls, llm.Call{Name: "memory", Args: fmt.Sprintf(`{"action":"add","target":"memory","content":"fact %d"}`, n)})
	}
	return llm.Reply{Calls: calls}
}

// TestPrefixBreaksAreDeclared runs a conversation of 200 turns through the daemon:
// tools, an overlay that changes every turn, memories, two compactions and a
// restart.
func TestPrefixBreaksAreDeclared(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		model   string // over OpenRouter; "" for the Messages API
		marks   bool
		ofFloor float64 // maximum cost relative to the minimum; 0 for no limit
		turns   int
	}{
		{"Messages API", "", true, 1.10, longTurns},
		{"Claude through OpenRouter", "anthropic/claude-sonnet-4.5", true, 1.3, 50},
		{"another model through OpenRouter", "some/model", false, 0, 50},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			over := strings.NewReplacer()
			if c.model != "" {
				over = openRouter(c.model)
			}
			w := newFormatHarness(t, longConfig, over, llm.Options{Reply: workingModel})
			w.fillHome()
			w.writeFile("workspace/notes.txt", strings.Repeat("what was noted\n", 8000/c.turns))
			w.start()
			breaks := map[string]int{}
			for n := range c.turns {
				switch n {
				case c.turns / 4, c.turns * 3 / 4:
					w.say("/compress")
					w.waitText("messages are archived")
				case c.turns / 2:
					maps.Copy(breaks, w.prefixBreaks())
					w.stop()
					w.start()
				}
				text := fmt.Sprintf("turn %d: please do it", n)
				w.say(text)
				w.waitText("done: " + text)
			}
			for why, n := range w.prefixBreaks() {
				breaks[why] += n
			}
			w.stop()
			if len(breaks) != 1 || breaks["compression"] != 2 {
				t.Errorf("breaks: %v", breaks)
			}
			checkLongConversation(t, w, c.turns, c.marks, c.ofFloor)
		})
	}
}

// checkLongConversation checks every request of a long conversation: the positions of cache
// breakpoints, that each turn has a new overlay, and the total cost.
func checkLongConversation(t *testing.T, w *harness, turns int, marks bool, most float64) {
	t.Helper()
	overlays := map[string]bool{}
	var f minimumCost
	for n, r := range w.model.Requests() {
		if r.Done && r.Status != 200 {
			t.Fatalf("request %d: status %d", n, r.Status)
		}
		if len(r.Tools) == 0 {
			continue // a request for a summary
		}
		if at := overlayBlocks(r.Request); len(at) != 1 {
			t.Errorf("request %d has overlays at %v", n, at)
		}
		bs := r.Last().Blocks
		overlays[bs[len(bs)-1].Text] = true
		checkBreakpoints(t, n, r.Request, marks)
		f.add(r)
	}
	if len(overlays) < turns {
		t.Errorf("%d overlays in %d turns", len(overlays), turns)
	}
	t.Logf("%d calls, prompts %d tokens: cost %.0f = %.3f × floor, %.3f × uncached", f.calls, f.prompts, f.cost, f.cost/f.least, f.cost/float64(f.prompts))
	if most > 0 && (f.cost > most*f.least || f.cost > 0.30*float64(f.prompts)) {
		t.Errorf("it cost %.3f × the floor, and %.3f × what it had cost without a cache", f.cost/f.least, f.cost/float64(f.prompts))
	}
}

// checkBreakpoints reports a request whose cache breakpoints are not exactly one on the
// prompt and one on each of the last three messages that can have one, on the last
// block before the overlay. In Chat Completions, tool results are separate messages
// but count as one, and tool calls have no breakpoint.
func checkBreakpoints(t *testing.T, n int, r llm.Request, marks bool) {
	t.Helper()
	var want, got []string
	if marks {
		want = append(want, "system")
	}
	for i, m := range slices.Backward(r.Messages) {
		last := -1
		for k, b := range m.Blocks {
			if b.Marked {
				got = append(got, fmt.Sprint(i, ":", k))
			}
			if !strings.Contains(b.Text, "<gateway-context>") && (r.Dialect == "messages" || b.Text != "") {
				last = k
			}
		}
		more := m.Role == "tool" && i+1 < len(r.Messages) && r.Messages[i+1].Role == "tool"
		if marks && last >= 0 && !more && len(want) < 4 {
			want = append(want, fmt.Sprint(i, ":", last))
		}
	}
	if marks && r.Marks == len(got)+1 {
		got = append([]string{"system"}, got...)
	}
	if r.Marks != len(want) || !slices.Equal(want, got) {
		t.Errorf("request %d has %d marks, at %v; they belong at %v", n, r.Marks, got, want)
	}
}

// A minimumCost is the minimum cost of requests: the prefix shared with the previous
// request is read from the cache, new text is written once, overlays are paid in
// full. The unit is tokens at the uncached price, by the usage that the service
// reports.
type minimumCost struct {
	calls, prompts int
	cost, least    float64
	before         []string // blocks of the last request, without its overlay
}

func (f *minimumCost) add(e llm.Entry) {
	u := e.Usage
	prompt := u.Input + u.CacheRead + u.CacheWrite
	f.calls++
	f.prompts += prompt
	f.cost += float64(u.Input) + 0.1*float64(u.CacheRead) + 1.25*float64(u.CacheWrite)
	now, tail := blocks(e.Request)
	size, common, same := 0, 0, true
	for i, b := range now {
		size += len(b)
		if same = same && i < len(f.before) && f.before[i] == b; same {
			common += len(b)
		}
	}
	scale := float64(prompt) / float64(size+tail) // tokens per byte of this request
	f.least += scale * (0.1*float64(common) + 1.25*float64(size-common) + float64(tail))
	f.before = now
}

// blocks returns the parts of a request in order, and the length of its overlay.
func blocks(r llm.Request) (all []string, tail int) {
	for _, t := range r.Tools {
		all = append(all, t.Name+t.Description+string(t.Schema))
	}
	all = append(all, r.System)
	for _, m := range r.Messages {
		for _, b := range m.Blocks {
			text, over, found := strings.Cut(b.Text, "<gateway-context>")
			if found {
				tail = len(over)
			}
			all = append(all, strings.TrimSpace(text)+b.ID+b.Name+string(b.Input))
		}
	}
	return all, tail
}
