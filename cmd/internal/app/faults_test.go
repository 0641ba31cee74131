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

// A fault is something that goes wrong, with the outcome that users and the operator
// see.
type fault struct {
	sandboxed bool // commands run in the sandbox of the machine
	sentence  string
	config    string           // added to the config file
	on        []chat.Platform  // connected platforms; the last message is sent on the first. Empty: Telegram
	telegram  string           // added to the section of the first platform; "none": there are no sections
	server    telegram.Options // options of the simulated Telegram
	discord   discord.Options  // options of the simulated Discord
	slack     slack.Options    // options of the simulated Slack
	app       slack.AppOptions // options of the Slack app
	restarts  bool             // the daemon is started again after ErrRestart
	cold      bool             // play starts the daemon itself
	console   bool             // the last message is sent at the console
	play      func(w *harness)

	shows []string // the bot's messages that ann sees in the end, in order
	loose bool     // shows is in any order
	ends  []string // outcome of each message, in order of acceptance
	dead  []string // reasons of dead letters
	logs  []string // words of expected log lines; any other error line fails the test
}

// last is the message sent after every fault.
const last = "still there?"

func faults() []fault {
	return slices.Concat(slowFaults(), startFaults(), platformFaults(), updateFaults(), modelFaults(), answerFaults(), telegramFaults(), networkFaults(), fileFaults(), homeFaults(),
		discordLinkFaults(), discordSendFaults(), discordPeopleFaults(), slackLinkFaults(), slackSendFaults(), slackPeopleFaults(), webFaults(), manyFaults())
}

// TestFaultsEndInVisibleOutcome plays each fault against its own daemon. Afterwards
// the daemon must answer the next message as usual, and the store must contain no
// message without an outcome and no row that is still to be sent.
func TestFaultsEndInVisibleOutcome(t *testing.T) {
	t.Parallel()
	for _, f := range faults() {
		t.Run(f.sentence, func(t *testing.T) {
			t.Parallel()
			w := newHarness(t, f)
			if !f.cold {
				w.start()
				w.waitConnected()
			}
			f.play(w)
			if f.console {
				w.echoConsole(last)
			} else {
				w.askEcho(last)
			}
			w.stop()
			w.checkOutcome()
		})
	}
}

// checkOutcome compares the outcome with what the fault expects.
func (w *harness) checkOutcome() {
	w.Helper()
	shows := scrub(w.sites[0].visible())
	if !w.fault.console {
		if n := len(shows) - 1; n < 0 || shows[n] != "echo: "+last {
			w.Errorf("the last message is not answered at last: %q", shows)
		} else {
			shows = shows[:n]
		}
	}
	if w.fault.loose {
		slices.Sort(shows)
		slices.Sort(w.fault.shows)
	}
	same(w.T, "ann sees", w.fault.shows, shows)
	w.checkStore()
	w.checkLog()
	if w.Failed() {
		w.fatal("that was:")
	}
}

var ref = regexp.MustCompile(` \(ref t[0-9a-zA-Z-]+\)`)

// visibleTexts returns the bot's messages that exist in a chat, without random parts.
func (w *harness) visibleTexts(c *telegram.Chat) []string {
	var out []string
	for _, m := range c.FromBots() {
		out = append(out, m.Text)
	}
	return scrub(out)
}

// scrub removes random parts.
func scrub(texts []string) []string {
	for i, s := range texts {
		texts[i] = ref.ReplaceAllString(s, "")
	}
	return texts
}

func (w *harness) checkStore() {
	w.Helper()
	ends, dead := w.storedOutcomes()
	if n := len(ends); n == 0 || ends[n-1] != "replied" {
		w.Errorf("the last message did not end as replied: %q", ends)
	} else {
		same(w.T, "messages ended as", w.fault.ends, ends[:n-1])
	}
	same(w.T, "rows died of", w.fault.dead, dead)
}

// storedOutcomes returns the outcome of each message in order of acceptance, and the reasons
// of dead letters. It fails if a row is still to be sent.
func (w *harness) storedOutcomes() (ends, dead []string) {
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
		ends = append(ends, outcomeOf(chains[0].Entry))
	}
	rows, _, err := s.Outbox(w.Context(), outbox.Query{Sent: true})
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

// outcomeOf describes the outcome of an entry, with the reason if that is a constant.
func outcomeOf(e inbox.Entry) string {
	switch {
	case e.Outcome == nil:
		return string(e.State)
	case e.Outcome.Result == inbox.Silent:
		return fmt.Sprintf("silent: %s", e.Outcome.Reason)
	}
	return string(e.Outcome.Result)
}

func (w *harness) checkLog() {
	w.Helper()
	lines := w.log.lines()
	for _, words := range w.fault.logs {
		if !slices.ContainsFunc(lines, func(l logLine) bool { return l.has(words) }) {
			w.Errorf("the operator has no line with %q", words)
		}
	}
	for _, l := range lines {
		expected := slices.ContainsFunc(w.fault.logs, func(words string) bool { return l.has(words) })
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
