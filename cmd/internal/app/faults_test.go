package app_test

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap/zapcore"

	"hermesd/gateway/chat"
	"hermesd/gateway/inbox"
	"hermesd/gateway/outbox"
	"hermesd/internal/sim/discord"
	"hermesd/internal/sim/slack"
	"hermesd/internal/sim/telegram"
	"hermesd/storage/bolt"
)

// A fault is something that goes wrong, and what people and the operator have
// seen of it in the end.
type fault struct {
	sandboxed bool // commands run in the sandbox of the machine
	sentence  string
	config    string           // added to the config file
	on        []chat.Platform  // that are connected; the last message is said on the first. Empty: Telegram
	telegram  string           // added to the section of the first platform; "none": there are no sections
	server    telegram.Options // of the simulated Telegram
	discord   discord.Options  // of the simulated Discord
	slack     slack.Options    // of the simulated Slack
	app       slack.AppOptions // of the app in it
	restarts  bool             // whoever runs the daemon starts it again
	cold      bool             // play starts the daemon itself
	console   bool             // the last message is said at the console
	play      func(w *world)

	shows []string // what ann sees of the bot in the end, in order
	loose bool     // but in whatever order
	ends  []string // how each message ended, in order of acceptance
	dead  []string // why rows were given up
	logs  []string // words of a line that the operator has; no other line is an error
}

// last is what is said after every fault.
const last = "still there?"

func faults() []fault {
	return slices.Concat(slowFaults(), startFaults(), platformFaults(), updateFaults(), modelFaults(), answerFaults(), telegramFaults(), networkFaults(), fileFaults(), homeFaults(),
		discordLinkFaults(), discordSendFaults(), discordPeopleFaults(), slackLinkFaults(), slackSendFaults(), slackPeopleFaults(), webFaults(), manyFaults())
}

// TestEveryFaultEndsInAnOutcomeThatSomebodySees plays each fault against a
// daemon of its own. After it the daemon answers the next message as if
// nothing had been; then the store tells of no message without an outcome and
// of no row that is still to be sent.
func TestEveryFaultEndsInAnOutcomeThatSomebodySees(t *testing.T) {
	for _, f := range faults() {
		t.Run(f.sentence, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, f)
			if !f.cold {
				w.start()
				w.online()
			}
			f.play(w)
			if f.console {
				w.terminal(last)
			} else {
				w.ask(last)
			}
			w.stop()
			w.judge()
		})
	}
}

// judge compares what is left with what the fault says.
func (w *world) judge() {
	w.Helper()
	shows := scrub(w.sites[0].visible())
	if !w.f.console {
		if n := len(shows) - 1; n < 0 || shows[n] != "echo: "+last {
			w.Errorf("the last message is not answered at last: %q", shows)
		} else {
			shows = shows[:n]
		}
	}
	if w.f.loose {
		slices.Sort(shows)
		slices.Sort(w.f.shows)
	}
	same(w.T, "ann sees", w.f.shows, shows)
	w.judgeStore()
	w.judgeLog()
	if w.Failed() {
		w.fatal("that was:")
	}
}

var ref = regexp.MustCompile(` \(ref t[0-9a-zA-Z-]+\)`)

// visible is what the bot has said in a chat and what is still there, without
// what chance decides.
func (w *world) visible(c *telegram.Chat) []string {
	var out []string
	for _, m := range c.FromBots() {
		out = append(out, m.Text)
	}
	return scrub(out)
}

// scrub takes away what chance decides.
func scrub(texts []string) []string {
	for i, s := range texts {
		texts[i] = ref.ReplaceAllString(s, "")
	}
	return texts
}

func (w *world) judgeStore() {
	w.Helper()
	ends, dead := w.left()
	if n := len(ends); n == 0 || ends[n-1] != "replied" {
		w.Errorf("the last message did not end as replied: %q", ends)
	} else {
		same(w.T, "messages ended as", w.f.ends, ends[:n-1])
	}
	same(w.T, "rows died of", w.f.dead, dead)
}

// left is how each message has ended, in order of acceptance, and why rows were
// given up. No row is still to be sent.
func (w *world) left() (ends, dead []string) {
	w.Helper()
	s, err := bolt.Open(w.Context(), filepath.Join(w.home, "hermesd.db"), bolt.Options{})
	if err != nil {
		w.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			w.Error(err)
		}
	}()
	for id := inbox.ID(1); ; id++ {
		chains, err := s.MessageHistory(w.Context(), id.String())
		if err != nil {
			w.Fatal(err)
		}
		if len(chains) == 0 {
			break
		}
		ends = append(ends, ending(chains[0].Entry))
	}
	rows, err := s.Outbox(w.Context(), true)
	if err != nil {
		w.Fatal(err)
	}
	for _, r := range rows {
		switch {
		case !r.Terminal():
			w.Errorf("row %s is left %s: %s", r.ID, r.State, r.Reason)
		case r.State == outbox.Dead && r.Role != outbox.Preview:
			dead = append(dead, r.Reason)
		}
	}
	slices.Sort(dead)
	return ends, dead
}

// ending says how an entry ended: the reason too, where it is a rule.
func ending(e inbox.Entry) string {
	switch {
	case e.Outcome == nil:
		return string(e.State)
	case e.Outcome.Result == inbox.Silent:
		return fmt.Sprintf("silent: %s", e.Outcome.Reason)
	}
	return string(e.Outcome.Result)
}

func (w *world) judgeLog() {
	w.Helper()
	lines := w.book.lines()
	for _, words := range w.f.logs {
		if !slices.ContainsFunc(lines, func(l line) bool { return l.has(words) }) {
			w.Errorf("the operator has no line with %q", words)
		}
	}
	for _, l := range lines {
		expected := slices.ContainsFunc(w.f.logs, func(words string) bool { return l.has(words) })
		if l.level >= zapcore.ErrorLevel && !expected {
			w.Errorf("the operator has an error that nobody expects: %s", l.text)
		}
		for _, s := range w.secrets() {
			if strings.Contains(l.text, s) {
				w.Errorf("a secret is in the log: %s", l.text)
			}
		}
	}
}

func same(t *testing.T, what string, want, got []string) {
	t.Helper()
	if len(want)+len(got) == 0 {
		return
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}
