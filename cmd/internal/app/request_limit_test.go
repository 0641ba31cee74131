package app_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"hermesd/agent/llm/tokens"
	"hermesd/internal/sim/llm"
)

// A truncatingModel drops what does not fit into its context, without an error.
type truncatingModel struct {
	window int

	mu      sync.Mutex // guards what follows
	largest int        // request, in tokens
}

func (m *truncatingModel) reply(r llm.Request) llm.Reply {
	n := tokens.Text(r.System)
	for _, t := range r.Tools {
		n += tokens.Text(t.Name + t.Description + string(t.Schema))
	}
	for _, msg := range r.Messages {
		for _, b := range msg.Blocks {
			n += tokens.Text(b.Text)
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.largest = max(m.largest, n)
	rep := workingModel(r)
	if rep.Text == "" || strings.HasPrefix(rep.Text, "done: ") {
		rep = llm.Reply{Text: "read " + strings.Fields(r.Newest())[0]}
	}
	rep.Usage = &llm.Usage{Input: min(n, m.window)} // what it was given is not what it counts
	return rep
}

// TestNoRequestIsAboveTheLimit sends messages of 13 % of the context each to a model
// that drops what does not fit.
func TestNoRequestIsAboveTheLimit(t *testing.T) {
	t.Parallel()
	for _, window := range []int{8_000, 16_000, 24_000, 40_000, 64_000} {
		t.Run(fmt.Sprint(window), func(t *testing.T) {
			t.Parallel()
			m := &truncatingModel{window: window}
			w := newFormatHarness(t, "", ownServer("small-1"), llm.Options{Models: []string{"small-1"}, Windows: map[string]int{"small-1": window}, Reply: m.reply})
			w.start()
			w.pollLog("provider reported a context length")
			for i := range 14 {
				w.askConsole(fmt.Sprintf("message-%d ", i)+strings.Repeat("word ", window*13/100*4/5), fmt.Sprintf("read message-%d", i))
				w.waitEnded()
			}
			w.stop()
			if limit := window * 85 / 100; m.largest > limit || m.largest < limit/2 {
				t.Errorf("the largest request has %d tokens, %d %% of the context", m.largest, m.largest*100/window)
			}
		})
	}
}
