package app_test

import (
	"slices"
	"strings"
	"time"

	"hermesd/gateway/chat"
	"hermesd/internal/sim/llm"
	"hermesd/internal/sim/telegram"
)

// noPreview makes the answer the only message that is sent. On a busy machine the echo
// could take so long that a preview precedes it, and meets the fault.
const noPreview = "streaming:\n  enabled: false\n"

// sendWithFault injects f into sendMessage, sends text and waits for the answer.
func sendWithFault(f telegram.Fault, text, sees string) func(*harness) {
	return func(w *harness) {
		if f.Method == "" {
			f.Method = "sendMessage"
		}
		in := w.tg.Inject(f)
		w.say(text)
		w.waitText(sees)
		if in.Hits() != 1 {
			w.Errorf("the fault hit %d calls", in.Hits())
		}
	}
}

// retryGap returns how long after the failed call of a method the next one came.
func (w *harness) retryGap(method string) time.Duration {
	w.Helper()
	cs := w.tg.Recorder().Calls(method)
	i := slices.IndexFunc(cs, func(c telegram.Call) bool { return c.Status == 429 })
	if i < 0 || i+1 >= len(cs) {
		w.fatal("no " + method + " was refused and tried again")
	}
	return cs[i+1].At.Sub(cs[i].Done)
}

func telegramFaults() []fault {
	const (
		echoed = "echo: hello"
		maybe  = "(may be a repeat)\necho: hello"
	)
	replied := []string{"replied"}
	return []fault{
		{
			sentence: "styles that Telegram cannot parse (400) are left out, and the text arrives",
			config:   noPreview,
			play: func(w *harness) {
				sendWithFault(telegram.Fault{Kind: telegram.Fail, Status: 400, Description: "Bad Request: can't parse entities: byte offset 5"}, "bold please", "It is bold.")(w)
				if m := w.waitText("It is bold."); len(m.Entities) != 0 {
					w.Errorf("it has styles: %+v", m.Entities)
				}
			},
			shows: []string{"It is bold."}, ends: replied,
		},
		{
			sentence: "a person who has blocked the bot (403) costs one row, with the reason",
			play: func(w *harness) {
				w.holdModel("on")
				w.ann.Block(w.bot, true)
				w.waitConfirmed()
				w.releaseModel()
				w.waitLog("row became a dead letter", "this person has blocked the bot")
				w.ann.Block(w.bot, false)
				w.waitConfirmed()
			},
			ends: []string{"replied", "silent: membership_change", "silent: membership_change"},
			dead: []string{"this person has blocked the bot"},
			logs: []string{"row became a dead letter"},
		},
		{
			sentence: "a chat that Telegram does not find (400) costs one row, with the reason",
			play: func(w *harness) {
				w.tg.Inject(telegram.Fault{Method: "sendMessage", Kind: telegram.Fail, Status: 400})
				w.say("hello")
				w.waitLog("row became a dead letter")
			},
			ends: replied,
			dead: []string{"Telegram knows no such chat, or the bot is not in it"},
			logs: []string{"row became a dead letter"},
		},
		{
			sentence: "a 429 on sendMessage is waited for to the letter",
			config:   noPreview,
			play: func(w *harness) {
				sendWithFault(telegram.Fault{Kind: telegram.Fail, RetryAfter: time.Second}, "hello", echoed)(w)
				if d := w.retryGap("sendMessage"); d < time.Second {
					w.Errorf("sent again after %v, not after 1s", d)
				}
			},
			shows: []string{echoed}, ends: replied,
			logs: []string{"Telegram asks to wait 1s"},
		},
		{
			sentence: "a 429 on edits slows the preview down, and the whole answer arrives once",
			play: func(w *harness) {
				sendWithFault(telegram.Fault{Method: "editMessageText", Kind: telegram.Fail, RetryAfter: time.Second}, "long story", "word end")(w)
				if d := w.retryGap("editMessageText"); d < time.Second {
					w.Errorf("edited again after %v, not after 1s", d)
				}
			},
			shows: []string{"done: " + strings.Repeat("word ", 50) + "end"}, ends: replied,
		},
		{
			sentence: "a 500 of Telegram is tried again, and the answer arrives once",
			config:   noPreview,
			play:     sendWithFault(telegram.Fault{Kind: telegram.Fail, Status: 500}, "hello", echoed),
			shows:    []string{echoed}, ends: replied,
			logs: []string{"Telegram has an internal problem"},
		},
		{
			sentence: "a 502 leaves it open whether the answer arrived, so it comes again and says so",
			config:   noPreview,
			play:     sendWithFault(telegram.Fault{Kind: telegram.Fail, Status: 502}, "hello", maybe),
			shows:    []string{maybe}, ends: replied,
			logs: []string{"Telegram's own gateway gave no result"},
		},
		{
			sentence: "a page of HTML in place of Telegram leaves it open too",
			config:   noPreview,
			play:     sendWithFault(telegram.Fault{Kind: telegram.Fail, Status: 503, NoJSON: true}, "hello", maybe),
			shows:    []string{maybe}, ends: replied,
			logs: []string{"the answer did not come from Telegram"},
		},
		{
			sentence: "a page of HTML after the message was taken makes a repeat that says so",
			config:   noPreview,
			play:     sendWithFault(telegram.Fault{Kind: telegram.GarbageAfter}, "hello", maybe),
			shows:    []string{echoed, maybe}, ends: replied,
			logs: []string{"not sent"},
		},
		{
			sentence: "a connection cut before the message was taken makes it come again and say so",
			config:   noPreview,
			play:     sendWithFault(telegram.Fault{Kind: telegram.Cut}, "hello", maybe),
			shows:    []string{maybe}, ends: replied,
			logs: []string{"the connection broke before Telegram answered"},
		},
		{
			sentence: "a connection cut after the message was taken makes a repeat that says so",
			config:   noPreview,
			play:     sendWithFault(telegram.Fault{Kind: telegram.CutAfter}, "hello", maybe),
			shows:    []string{echoed, maybe}, ends: replied,
			logs: []string{"the connection broke before Telegram answered"},
		},
		{
			sentence: "an operator who wants no repeats finds the row instead",
			config:   "delivery:\n  uncertain: drop",
			play: func(w *harness) {
				w.tg.Inject(telegram.Fault{Method: "sendMessage", Kind: telegram.Cut})
				w.say("hello")
				w.waitLog("row became a dead letter", "dropped by delivery.uncertain")
			},
			ends: replied,
			dead: []string{"no answer: it may or may not have arrived; dropped by delivery.uncertain"},
			logs: []string{"row became a dead letter"},
		},
		{
			sentence: "an answer of Telegram that comes late is waited for, and the message is sent once",
			play:     sendWithFault(telegram.Fault{Late: 1500 * time.Millisecond}, "hello", echoed),
			shows:    []string{echoed}, ends: replied,
		},
		{
			sentence: "a poll whose answer comes late is waited for, and nothing is answered twice",
			play: func(w *harness) {
				w.tg.Inject(telegram.Fault{Method: "getUpdates", Late: 1500 * time.Millisecond, Times: 2})
				w.askEcho("hello")
				w.askEcho("again")
			},
			shows: []string{echoed, "echo: again"}, ends: []string{"replied", "replied"},
		},
		{
			sentence: "a poll that is refused, cut or answered with nonsense is made again, and nothing is lost or answered twice",
			play: func(w *harness) {
				for _, k := range []telegram.Kind{telegram.CutBody, telegram.GarbageAfter, telegram.Fail} {
					w.tg.Inject(telegram.Fault{Method: "getUpdates", Kind: k})
				}
				w.askEcho("hello")
			},
			shows: []string{echoed}, ends: replied,
			logs: []string{"warn cannot poll"},
		},
		{
			sentence: "a 429 on polls is waited for, and nothing is lost",
			play: func(w *harness) {
				w.tg.Inject(telegram.Fault{Method: "getUpdates", Kind: telegram.Fail, RetryAfter: time.Second})
				w.askEcho("hello")
				w.waitLog("connection", "Telegram asks to wait 1s", string(chat.Retrying))
				w.waitConnected()
			},
			shows: []string{echoed}, ends: replied,
		},
		{
			sentence: "a group that becomes a supergroup while the model thinks gets its answer there, and goes on with what was said",
			play: func(w *harness) {
				g := w.tg.AddChat(telegram.ChatOptions{Members: []*telegram.User{w.ann}, Bots: []*telegram.Bot{w.bot}})
				n := w.model.Count()
				g.Say(w.ann, "hold on")
				w.must(w.model.Await(w.ctx, n+1))
				next := g.Upgrade(w.ann)
				w.waitConfirmed()
				w.releaseModel()
				w.waitTextIn(next, "echo: hold on")
				next.Say(w.ann, "what did I say")
				w.waitTextIn(next, "echo: what did I say")
				same(w.T, "the supergroup sees", []string{"echo: hold on", "echo: what did I say"}, w.visibleTexts(next))
				rs := w.model.Requests()
				if ms := rs[len(rs)-1].Messages; len(ms) != 3 || !slices.ContainsFunc(ms[0].Blocks, func(b llm.Block) bool { return strings.Contains(b.Text, "hold on") }) {
					w.Errorf("the conversation did not follow: %+v", ms)
				}
			},
			ends: []string{"replied", "silent: moved", "silent: moved", "replied"},
			logs: []string{"chat migrated"},
		},
		{
			sentence: "what waits in a group that becomes a supergroup, and what is said there while the model still thinks, is answered there",
			config:   "display:\n  busy_input_mode: queue",
			play: func(w *harness) {
				g := w.tg.AddChat(telegram.ChatOptions{Members: []*telegram.User{w.ann}, Bots: []*telegram.Bot{w.bot}})
				g.Say(w.ann, "one")
				w.waitTextIn(g, "echo: one")
				n := w.model.Count()
				g.Say(w.ann, "hold on")
				w.must(w.model.Await(w.ctx, n+1))
				g.Say(w.ann, "two")
				w.waitConfirmed()
				next := g.Upgrade(w.ann)
				w.waitConfirmed()
				next.Say(w.ann, "three")
				w.waitConfirmed()
				w.releaseModel()
				for _, s := range []string{"hold on", "two", "three"} {
					w.waitTextIn(next, "echo: "+s)
				}
				if got := w.visibleTexts(next); len(got) != 3 {
					w.Errorf("the supergroup sees %q", got)
				}
			},
			ends: []string{"replied", "replied", "replied", "silent: moved", "silent: moved", "replied"},
			logs: []string{"chat migrated"},
		},
	}
}
