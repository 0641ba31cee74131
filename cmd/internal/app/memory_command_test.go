package app_test

import (
	"strings"
	"testing"

	"hermesd/internal/sim/memory"
)

// memoryCommand returns the answer of /memory about the external memory, to ann.
func (w honchoHarness) memoryCommand() string {
	w.Helper()
	answers := func() (texts []string) {
		for _, m := range w.chat.FromBots() {
			if _, text, ok := strings.Cut(m.Text, "External memory"); ok {
				texts = append(texts, text)
			}
		}
		return texts
	}
	before := len(answers())
	w.say("/memory")
	w.waitFor("/memory is answered", func() bool { return len(answers()) > before })
	return answers()[before]
}

// memoryDrained returns the answer of /memory once nothing fails, and only the end of the
// conversation waits, which it does for 30 minutes.
func (w honchoHarness) memoryDrained() string {
	w.Helper()
	text := ""
	for range 40 { // what is stored waits until its receipt is committed; the standing text is fetched in the background
		if text = w.memoryCommand(); strings.Contains(text, "events: 1 waiting") && !strings.Contains(text, "⚠") {
			break
		}
	}
	return text
}

// TestMemoryCommandSeesAnOutage: /memory says where the memory is and when it has answered,
// in an outage what is wrong and what waits, and nothing of it after the outage.
func TestMemoryCommandSeesAnOutage(t *testing.T) {
	t.Parallel()
	w := newHonchoHarness(t, `,"recallSync":true`, "  recall_wait: 5s\n")
	w.start()
	w.waitConnected()
	check := func(when string, text string, has, hasNot []string) {
		t.Helper()
		for _, words := range has {
			if !strings.Contains(text, words) {
				t.Errorf("%s: %q is missing in %q", when, words, text)
			}
		}
		for _, words := range hasNot {
			if strings.Contains(text, words) {
				t.Errorf("%s: %q is in %q", when, words, text)
			}
		}
	}
	w.turn("It works in the morning.")
	w.waitStored([]string{"It works in the morning."})
	check("before", w.memoryDrained(), []string{"(honcho)", "place: " + w.server.URL, "recalled: ", "sent: ", "events: 1 waiting, 0 set aside"}, []string{"⚠", "key-of-honcho"})

	w.server.Inject(memory.Fault{Kind: memory.Refuse, Status: 500, Times: -1})
	w.turn("It fails at noon.")
	check("in the outage", w.memoryCommand(), []string{"⚠️ recalled: ", "500", "events: 2 waiting, 0 set aside"}, []string{"key-of-honcho"})

	w.server.Heal()
	w.app.Reload(t.Context())
	w.waitStored([]string{"It fails at noon."})
	w.turn("It works at night.")
	w.waitStored([]string{"It works at night."})
	check("after", w.memoryDrained(), []string{"recalled: ", "sent: ", "events: 1 waiting, 0 set aside"}, []string{"⚠"})
	w.bobChat.Say(w.bob, "/memory")
	w.bobChat.Say(w.bob, "Is it answered?")
	w.waitTextIn(w.bobChat, "done: Is it answered?")
	for _, m := range w.bobChat.FromBots() {
		check("to a member", m.Text, nil, []string{"External memory", w.server.URL})
	}
	w.stop()
}
