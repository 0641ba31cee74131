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

// seen counts the answers to one message that are visible in a chat.
type seen struct{ plain, marked, parts int }

// trouble is a fault of a send with the expected visible result of an affected answer.
type trouble struct {
	name  string
	fault sim.Fault
	// twice: the answer is shown, and again as a possible repeat. once: it is shown
	// only as a possible repeat. Neither: the fault is not visible.
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

// redelivered returns a script in which every message of two users is delivered six times:
// before the daemon starts, while it runs, and afterwards.
func (w *world) redelivered(text string) []act {
	w.direct(0).Say(w.people[0], text+" #m1#")
	w.direct(1).Say(w.people[1], "plain #m2#")
	fresh := w.platform.Recorder().Offers() // without repeats of repeats
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

// answersTo counts the answers in a chat. Any other message of the bot is an error.
func answersTo(t *testing.T, c *sim.Chat, tok string) (s seen) {
	t.Helper()
	for _, m := range c.FromBots() {
		text, again := strings.CutPrefix(m.Text, mark)
		switch {
		case strings.HasPrefix(text, tok) && strings.HasSuffix(text, whole) && again:
			s.marked++
		case strings.HasPrefix(text, tok) && strings.HasSuffix(text, whole):
			s.plain++
		case !again && strings.HasPrefix(text, tok):
			s.parts++
		default:
			t.Errorf("nobody expected %.80q", m.Text)
		}
	}
	return s
}

// TestWhatComesTwiceIsAnsweredOnce delivers every message six times and applies every send
// fault to its answer. There must be one turn and one visible answer, or a second one
// marked as possible repeat if Telegram cannot tell whether the first arrived. A fault in
// one chat must not delay another.
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
	case preview && tr.twice:
		want = seen{marked: 1, parts: 1} // the preview that arrived without a receipt
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

// oneTurnEach checks that there was one model request and is one stored entry for each
// message.
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

// TestAnEditIsRepeatedUntilItArrives applies every fault to the edits of a preview,
// including the final one. Repeating an edit has no further effect.
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

// TestPollsThatBreakLoseAndDoubleNothing applies every fault to polls, after which the
// platform delivers the same events again.
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

// TestTheSecondPieceWaitsForTheFirst applies every fault to either piece of an answer in
// two pieces: the pieces stay in order, and only the affected one may be repeated.
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

// pieces returns the names of the pieces of the long answer in a chat.
func pieces(c *sim.Chat) (out []string) {
	for _, m := range c.FromBots() {
		text, again := strings.CutPrefix(m.Text, mark)
		name := "nobody expected " + text[:min(len(text), 40)]
		switch {
		case strings.HasPrefix(text, "#m1# is long: word"):
			name = "first"
		case strings.HasSuffix(text, "word"+whole):
			name = "last"
		}
		if again {
			name = "maybe " + name
		}
		out = append(out, name)
	}
	return out
}

// TestAPreviewThatStaysIsFollowedByAMark interrupts an answer whose preview arrived
// without a receipt, so that it can neither be edited nor deleted. The answer to both
// messages is marked.
func TestAPreviewThatStaysIsFollowedByAMark(t *testing.T) {
	for _, interrupt := range []bool{false, true} {
		t.Run(fmt.Sprint("interrupt ", interrupt), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, options{mode: inbox.Interrupt, streaming: true, people: 1})
				defer w.close()
				ann := w.direct(0)
				w.platform.Inject(sim.Fault{Kind: sim.GarbageAfter, Method: "sendMessage", Times: 1})
				script := []act{{0, w.say(ann, 0, 0, "slow #m1#")}}
				if interrupt {
					script = append(script, act{2 * time.Second, w.say(ann, 0, 0, "plain #m2#")})
				}
				w.play(script)
				if got := answersTo(t, ann, "#m1#"); got != (seen{marked: 1, parts: 1}) {
					t.Errorf("the answer is seen %+v\n%s", got, w.story())
				}
				w.stop()
			})
		})
	}
}

// TestAnEditReachesATurnThatIsResumedLater kills the daemon twice while two turns run. An
// edit of the message whose turn is resumed after the other one is applied, although a
// model was asked with the text before.
func TestAnEditReachesATurnThatIsResumedLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, options{mode: inbox.Queue, people: 2})
		defer w.close()
		m := sim.Message{}
		w.play([]act{
			{0, w.say(w.direct(1), 1, 0, "plain #m1#")}, // the session exists
			{2 * time.Second, w.say(w.direct(0), 0, 0, "slow #m2#")},
			{100 * ms, func() { m = w.direct(1).Post(sim.Post{From: w.people[1], Text: "slow #m3#"}) }},
			{time.Second, w.kill},
			{3 * time.Second, func() {
				w.kill()
				if err := w.direct(1).Edit(m.ID, "edited: "+m.Text); err != nil {
					t.Error(err)
				}
			}},
		})
		w.judge(nil)
		if o := w.outcomes()[post{m.Chat, m.ID}]; o == nil || o.Result != inbox.Replied {
			t.Errorf("the message ended %+v", o)
		}
		asked := w.model.Requests()
		if last := asked[len(asked)-1].Newest(); last != "edited: slow #m3#" || len(asked) != 7 {
			t.Errorf("the model was asked %d times, in the end for %q", len(asked), last)
		}
		if t.Failed() {
			t.Log(w.story())
		}
		w.stop()
	})
}
