// Package tour shows the real daemon at work, without an account or a key: a
// child process under a simulated Telegram, with the built-in demo model. It is
// killed in the middle of a turn, and the simulator's ledger says at the end
// what was lost and what was doubled.
package tour

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"hermesd/agent/llm"
	"hermesd/cmd/internal/admin"
	"hermesd/gateway"
	"hermesd/gateway/inbox"
	"hermesd/internal/rig"
	"hermesd/internal/sim/telegram"
)

// Options say how the tour goes.
type Options struct {
	Binary string // the daemon to start, usually this program
	// Stay keeps everything running after the tour, until ctx ends: lines from
	// In are said in the direct chat.
	Stay bool
	In   io.Reader
	Out  io.Writer
}

// A tour is the simulated world with the daemon in it.
type tour struct {
	*rig.Rig
	o     Options
	home  string
	ann   *telegram.User
	bob   *telegram.User
	annAt *telegram.Chat // her direct chat with the bot
	group *telegram.Chat
	shown map[string]string // texts that were printed, by message
	n     int               // messages that carry a token
}

// Run gives the tour. Its error says that something of it did not happen, or
// that the ledger shows a message lost or doubled.
func Run(ctx context.Context, o Options) error {
	home, err := os.MkdirTemp("", "hermesd-demo-")
	if err != nil {
		return fmt.Errorf("a home for the demo: %w", err)
	}
	defer func() { _ = os.RemoveAll(home) }() // it is in the folder for temporary files all the same
	r, err := rig.New(rig.Options{Binary: o.Binary, Home: filepath.Join(home, "home"), People: 2, DemoModel: true, Config: settings})
	if err != nil {
		return err
	}
	defer r.Close()
	t := &tour{Rig: r, o: o, home: filepath.Join(home, "home"), shown: map[string]string{}}
	t.ann, t.bob, t.annAt = r.People[0], r.People[1], r.Direct[0]
	t.group = r.Telegram.AddChat(telegram.ChatOptions{
		Type: telegram.Supergroup, Title: "Kitchen", Members: []*telegram.User{t.ann, t.bob}, Bots: []*telegram.Bot{r.Bot},
	})
	if err := t.script(ctx); err != nil {
		return err
	}
	if o.Stay {
		t.stay(ctx)
	}
	return r.Stop(70 * time.Second)
}

const settings = `    require_mention: true
display:
  busy_input_mode: queue
  tool_progress: all
logging:
  level: error
`

func (t *tour) script(ctx context.Context) error {
	t.line("hermesd: a tour. The daemon is the real one, in a process of its own; Telegram is simulated on this machine;")
	t.line("the model is the built-in demo model, which follows simple rules and is not intelligent.")
	t.line("Each message carries a number, by which the simulator's ledger is judged at the end.\n")
	begin := time.Now()
	if err := t.Start(ctx); err != nil {
		return err
	}
	t.line("▸ the daemon is ready after %d ms", time.Since(begin).Milliseconds())
	for _, act := range []func(context.Context) error{t.direct, t.inGroup, t.killed, t.asked, t.figures} {
		if err := act(ctx); err != nil {
			return err
		}
	}
	return nil
}

// direct is a conversation in a direct chat, with a tool.
func (t *tour) direct(ctx context.Context) error {
	t.title("A direct chat, and a tool")
	if err := os.WriteFile(filepath.Join(t.home, "workspace", "shopping.txt"), []byte("milk\nbread\napples\n"), 0o600); err != nil {
		return fmt.Errorf("a file for the tool: %w", err)
	}
	for _, text := range []string{"Hello!", "What is 12 * 34?", "please read file shopping.txt"} {
		if err := t.ask(ctx, t.annAt, t.ann, text); err != nil {
			return err
		}
	}
	return nil
}

// inGroup is a group in which the bot answers when it is mentioned.
func (t *tour) inGroup(ctx context.Context) error {
	t.title("A group: only what mentions the bot is answered, each person has a conversation of their own")
	m := t.group.Say(t.bob, "I talk to Ann, not to a machine")
	t.said(t.group, "Bob", m.Text)
	if err := t.ask(ctx, t.group, t.bob, "@hermes_bot what is 7 * 6?"); err != nil {
		return err
	}
	return t.ask(ctx, t.group, t.ann, "@hermes_bot hello from me too")
}

// killed ends the daemon by SIGKILL while it works on a message.
func (t *tour) killed(ctx context.Context) error {
	t.title("kill -9 in the middle of a turn")
	m := t.say(t.annAt, t.ann, "please read file shopping.txt and think about it for a while")
	if err := t.typing(ctx); err != nil {
		return err
	}
	t.Kill()
	t.line("💥 kill -9: the daemon is gone in the middle of the turn")
	late := t.say(t.annAt, t.ann, "What is 2 + 2?")
	begin := time.Now()
	if err := t.Start(ctx); err != nil {
		return err
	}
	t.line("▸ started again, ready after %d ms; it takes up what was left", time.Since(begin).Milliseconds())
	for _, m := range []telegram.Message{m, late} {
		if err := t.answered(ctx, t.annAt, m); err != nil {
			return err
		}
	}
	return nil
}

// typing waits until the daemon shows that it works.
func (t *tour) typing(ctx context.Context) error {
	seen := t.Telegram.Ledger().Counts().ByMethod["sendchataction"]
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	return t.Telegram.Ledger().WaitFor(ctx, func(l *telegram.Ledger) bool { return l.Counts().ByMethod["sendchataction"] > seen })
}

// asked shows what the daemon knows of a message.
func (t *tour) asked(ctx context.Context) error {
	t.title("Nothing is silent: commands in the chat, and `hermesd why`")
	if err := t.ask(ctx, t.annAt, t.ann, "/status"); err != nil {
		return err
	}
	m := t.say(t.annAt, t.ann, "thank you")
	if err := t.answered(ctx, t.annAt, m); err != nil {
		return err
	}
	chain, err := t.why(ctx, t.annAt, m)
	if err != nil {
		return err
	}
	t.line("$ hermesd why %d:%d\n%s", m.Chat, m.ID, gateway.Story(chain))
	return nil
}

var tokens = regexp.MustCompile(`#[0-9]+\b`)

// figures says what the ledgers show.
func (t *tour) figures(ctx context.Context) error {
	t.title("The figures, from the simulator's ledger")
	v := telegram.Judge{Tokens: func(s string) []string { return tokens.FindAllString(s, -1) }, PerSender: true}.Judge(t.Telegram)
	usage, err := t.usage(ctx)
	if err != nil {
		return err
	}
	c := t.Telegram.Ledger().Counts()
	t.line("  messages that want an answer   %d", v.Offered)
	t.line("  answered                       %d", v.Answered)
	t.line("  lost                           %d", len(v.Lost))
	t.line("  doubled                        %d", len(v.Doubled))
	t.line("  shown twice and marked so      %d  (only if the kill hit a request under way)", len(v.Repeats))
	t.line("  out of order                   %d", len(v.Disorder))
	t.line("  updates offered / confirmed    %d / %d", c.Offered, c.Confirmed)
	t.line("  prefix reuse                   %d %% of %d prompt tokens came from the cache", 100*usage.CacheRead/max(1, usage.Prompt()), usage.Prompt())
	if !v.OK() {
		return fmt.Errorf("the ledger shows: %s", v)
	}
	t.line("\nEverything was answered exactly once. `go run ./cmd/hermesd chat` talks to it in this terminal.")
	return nil
}

// usage sums the tokens of all sessions.
func (t *tour) usage(ctx context.Context) (sum llm.Usage, err error) {
	c, err := admin.Dial(ctx, t.home)
	if err != nil {
		return sum, err
	}
	defer func() { err = errors.Join(err, c.Close(ctx)) }()
	recs, err := c.Sessions(ctx, 100)
	if err != nil {
		return sum, err
	}
	for _, r := range recs {
		var u llm.Usage
		if len(r.Usage) > 0 && json.Unmarshal(r.Usage, &u) == nil {
			sum = sum.Add(u)
		}
	}
	return sum, nil
}

// ask has somebody say something, and waits for the answer.
func (t *tour) ask(ctx context.Context, at *telegram.Chat, by *telegram.User, text string) error {
	return t.answered(ctx, at, t.say(at, by, text))
}

// say has somebody say something. What is no command gets a token, which the
// answer repeats, so that the ledger can be judged.
func (t *tour) say(at *telegram.Chat, by *telegram.User, text string) telegram.Message {
	if !strings.HasPrefix(text, "/") {
		t.n++
		text = fmt.Sprintf("%s #%d", text, t.n)
	}
	m := at.Say(by, text)
	t.said(at, map[*telegram.User]string{t.ann: "Ann", t.bob: "Bob"}[by], text)
	return m
}

// patience is how long an answer may take.
const patience = 60 * time.Second

// answered waits until the daemon has accounted for a message and everything it
// says of it has arrived, and prints what is new.
func (t *tour) answered(ctx context.Context, at *telegram.Chat, m telegram.Message) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		chain, err := t.why(ctx, at, m)
		if err == nil && ended(chain) {
			t.news(at)
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("no answer to %q within %v: %w", m.Text, patience, errors.Join(err, context.Cause(ctx)))
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func ended(c inbox.Chain) bool {
	for _, r := range c.Rows {
		if !r.Terminal() {
			return false
		}
	}
	return c.Entry.Outcome != nil
}

// why asks the daemon what became of a message.
func (t *tour) why(ctx context.Context, at *telegram.Chat, m telegram.Message) (_ inbox.Chain, err error) {
	c, err := admin.Dial(ctx, t.home)
	if err != nil {
		return inbox.Chain{}, err
	}
	defer func() { err = errors.Join(err, c.Close(ctx)) }()
	chains, err := c.Why(ctx, fmt.Sprintf("%d:%d", at.ID(), m.ID))
	if err != nil {
		return inbox.Chain{}, err
	}
	if len(chains) == 0 {
		return inbox.Chain{}, errors.New("the daemon does not know the message yet")
	}
	return chains[0], nil
}

// stay lets a person go on in the direct chat.
func (t *tour) stay(ctx context.Context) {
	t.line("\nThe daemon still runs. Type a line to say it as Ann; Ctrl-C ends the demo.")
	lines := make(chan string)
	go func() { // ends with the process: nothing can interrupt a read of a terminal
		for s := bufio.NewScanner(t.o.In); s.Scan(); {
			lines <- s.Text()
		}
		close(lines)
	}()
	for {
		select {
		case <-ctx.Done():
			return
		case text, ok := <-lines:
			if !ok {
				return
			}
			if text = strings.TrimSpace(text); text == "" {
				continue
			}
			if err := t.ask(ctx, t.annAt, t.ann, text); err != nil {
				t.line("  %v", err)
			}
		}
	}
}
