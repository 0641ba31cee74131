package crashtest_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"hermesd/gateway/inbox"
	sim "hermesd/internal/sim/telegram"
)

// seen is what a person finds in a chat as answers to one message.
type seen struct{ plain, marked, parts int }

// trouble is a fault of a send, and what is seen of an answer that it hit.
type trouble struct {
	name  string
	fault sim.Fault
	// twice: the answer is there, and again as a possible repeat. once: it is
	// there only as a possible repeat. Neither: nobody notices.
	twice, once bool
}

func troubles() []trouble {
	return []trouble{
		{name: "none", fault: sim.Fault{Kind: sim.Pass}},
		{name: "a little late", fault: sim.Fault{Kind: sim.Pass, Late: 20 * time.Second}},
		{name: "refused for a while", fault: sim.Fault{Kind: sim.Fail, Status: 429, RetryAfter: 20 * time.Second}},
		{name: "an internal error", fault: sim.Fault{Kind: sim.Fail, Status: 500}},
		{name: "late", fault: sim.Fault{Kind: sim.Pass, Late: 2 * time.Minute}, twice: true},
		{name: "trickles", fault: sim.Fault{Kind: sim.Slow, Delay: 2 * time.Minute}, twice: true},
		{name: "handled and not answered", fault: sim.Fault{Kind: sim.HangAfter}, twice: true},
		{name: "handled and cut", fault: sim.Fault{Kind: sim.CutAfter}, twice: true},
		{name: "half an answer", fault: sim.Fault{Kind: sim.CutBody}, twice: true},
		{name: "no JSON", fault: sim.Fault{Kind: sim.GarbageAfter}, twice: true},
		{name: "handled and bad gateway", fault: sim.Fault{Kind: sim.FailAfter}, twice: true},
		{name: "not answered", fault: sim.Fault{Kind: sim.Hang}, once: true},
		{name: "cut", fault: sim.Fault{Kind: sim.Cut}, once: true},
		{name: "bad gateway", fault: sim.Fault{Kind: sim.Fail, Status: 502}, once: true},
	}
}

// redelivered is a script in which everything that two people say comes six
// times: before the daemon is there, while it works, and afterwards.
func (w *world) redelivered(text string) []act {
	w.direct(0).Say(w.people[0], text+" #m1#")
	w.direct(1).Say(w.people[1], "plain #m2#")
	fresh := w.platform.Ledger().Offers() // repeats of repeats are not wanted
	repeat := func(n int) func() {
		return func() {
			for range n {
				for _, o := range fresh {
					if o.Kind == "message" && o.Text != "" {
						w.bot.Repeat(o.Update)
					}
				}
			}
			w.bot.Shuffle()
		}
	}
	repeat(2)()
	return []act{{1500 * ms, repeat(1)}, {20 * time.Second, repeat(1)}, {5 * time.Minute, repeat(1)}}
}

// answersTo sorts what a chat shows. It fails for what is no answer at all.
func answersTo(t *testing.T, c *sim.Chat, tok string) (s seen) {
	t.Helper()
	for _, m := range c.FromBots() {
		text, again := strings.CutPrefix(m.Text, mark)
		switch {
		case strings.HasSuffix(text, tok) && again:
			s.marked++
		case strings.HasSuffix(text, tok):
			s.plain++
		case !again && strings.HasPrefix(text, "This "):
			s.parts++
		default:
			t.Errorf("nobody expected %.80q", m.Text)
		}
	}
	return s
}

// TestWhatComesTwiceIsAnsweredOnce has every message delivered six times and
// its answer hit by every fault of a send. There is one turn, and one message
// to be seen, or one more that says that it may be a repeat, where Telegram
// cannot tell. What happens in one chat holds nobody up in another.
func TestWhatComesTwiceIsAnsweredOnce(t *testing.T) {
	for _, tr := range troubles() {
		for _, streaming := range []bool{false, true} {
			for _, text := range []string{"plain", "slow"} {
				name := fmt.Sprintf("%s, %s, streaming %v", tr.name, text, streaming)
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					synctest.Test(t, func(t *testing.T) { comesTwice(t, tr, text, streaming) })
				})
			}
		}
	}
}

func comesTwice(t *testing.T, tr trouble, text string, streaming bool) {
	w := newWorld(t, options{mode: inbox.Queue, streaming: streaming, people: 2})
	defer w.close()
	ann, bob := w.direct(0), w.direct(1)
	script := w.redelivered(text)
	f := tr.fault
	f.Method, f.Chat = "sendMessage", ann.ID()
	hit := w.platform.Inject(f)
	w.play(script)

	want := seen{plain: 1}
	switch preview := text == "slow" && streaming; {
	case preview && (tr.twice):
		want.parts = 1 // the preview that arrived and of which nobody knows
	case preview:
	case tr.twice:
		want.marked = 1
	case tr.once:
		want = seen{marked: 1}
	}
	if got := answersTo(t, ann, "#m1#"); got != want {
		t.Errorf("the answer is seen %+v, want %+v", got, want)
	}
	if hit.Hits() != 1 {
		t.Errorf("the fault hit %d sends", hit.Hits())
	}
	if got := answersTo(t, bob, "#m2#"); got != (seen{plain: 1}) {
		t.Errorf("in the other chat the answer is seen %+v", got)
	}
	w.oneTurnEach(1, 2)
	if v := (sim.Judge{}).Judge(w.platform, bob); v.LongWait > 2*time.Second {
		t.Errorf("the other chat waited %v", v.LongWait)
	}
	if t.Failed() {
		t.Log(w.story())
	}
	w.stop()
}

// oneTurnEach holds that the model was asked once for each message, and that
// the store knows one entry of each.
func (w *world) oneTurnEach(messages ...int) {
	w.t.Helper()
	asked := map[string]int{}
	for _, r := range w.model.Requests() {
		asked[r.Newest()]++
	}
	for text, n := range asked {
		if n != 1 {
			w.t.Errorf("the model was asked %d times for %q", n, text)
		}
	}
	if len(asked) != len(messages) {
		w.t.Errorf("the model was asked for %d messages, want %d: %v", len(asked), len(messages), asked)
	}
	w.outcomes()
}

// TestAnEditIsRepeatedUntilItArrives has the edits of a preview, the final one
// among them, hit by every fault: they are the same twice as once.
func TestAnEditIsRepeatedUntilItArrives(t *testing.T) {
	for _, tr := range troubles() {
		for _, times := range []int{1, 4, 9} {
			t.Run(fmt.Sprintf("%s, %d times", tr.name, times), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t, options{mode: inbox.Queue, streaming: true, people: 2})
					defer w.close()
					script := w.redelivered("slow")
					f := tr.fault
					f.Method, f.Times = "editMessageText", times
					w.platform.Inject(f)
					w.play(script)
					if got := answersTo(t, w.direct(0), "#m1#"); got != (seen{plain: 1}) {
						t.Errorf("the answer is seen %+v", got)
					}
					w.oneTurnEach(1, 2)
					if t.Failed() {
						t.Log(w.story())
					}
					w.stop()
				})
			})
		}
	}
}

// TestPollsThatBreakLoseAndDoubleNothing has polls hit by every fault, after
// which the platform delivers again what it had delivered.
func TestPollsThatBreakLoseAndDoubleNothing(t *testing.T) {
	for _, tr := range troubles() {
		t.Run(tr.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, options{mode: inbox.Queue, people: 2})
				defer w.close()
				f := tr.fault
				f.Method, f.Times = "getUpdates", 3
				w.platform.Inject(f)
				script := w.redelivered("plain")
				script = append(script, act{time.Second, w.say(w.direct(0), 0, 0, "plain #m3#")}, act{time.Second, w.say(w.direct(1), 1, 0, "plain #m4#")})
				w.play(script)
				w.oneTurnEach(1, 2, 3, 4)
				v := sim.Judge{}.Judge(w.platform)
				if !v.OK() || v.Answered != 4 || len(v.Repeats) > 0 {
					t.Errorf("%s", v)
				}
				w.stop()
			})
		})
	}
}

// TestTheSecondPieceWaitsForTheFirst has either piece of an answer in two hit
// by every fault: the pieces stay in order, and only the one that was hit may
// be there twice.
func TestTheSecondPieceWaitsForTheFirst(t *testing.T) {
	for _, tr := range troubles() {
		for piece := range 2 {
			t.Run(fmt.Sprintf("%s, piece %d", tr.name, piece+1), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t, options{mode: inbox.Queue, people: 2})
					defer w.close()
					f := tr.fault
					f.Method, f.Chat, f.Skip = "sendMessage", w.direct(0).ID(), piece
					w.platform.Inject(f)
					w.play(w.redelivered("long"))
					w.oneTurnEach(1, 2)
					want := [][]string{{"first"}, {"last"}}
					switch {
					case tr.twice:
						want[piece] = append(want[piece], "maybe "+want[piece][0])
					case tr.once:
						want[piece][0] = "maybe " + want[piece][0]
					}
					if got := pieces(w.direct(0)); !slices.Equal(got, slices.Concat(want...)) {
						t.Errorf("the pieces are %q, want %q\n%s", got, want, w.story())
					}
					w.stop()
				})
			})
		}
	}
}

// pieces names the pieces of the long answer that a chat shows.
func pieces(c *sim.Chat) (out []string) {
	for _, m := range c.FromBots() {
		text, again := strings.CutPrefix(m.Text, mark)
		name := "nobody expected " + text[:min(len(text), 40)]
		switch {
		case strings.HasPrefix(text, "This is long: word"):
			name = "first"
		case strings.HasSuffix(text, "word #m1#"):
			name = "last"
		}
		if again {
			name = "maybe " + name
		}
		out = append(out, name)
	}
	return out
}
