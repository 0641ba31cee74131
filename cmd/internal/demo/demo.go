// Package demo runs the daemon in a child process between a simulated Telegram, Discord
// and Slack, with the built-in demo model, so that no account and no key is needed. Each
// platform has an outage. At the end, the records of the simulators show whether
// messages were lost, duplicated or reordered. The entry point is [Run].
package demo

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"hermesd/cmd/internal/admin"
	"hermesd/gateway/chat"
	"hermesd/gateway/store"
)

// Options configure Run.
type Options struct {
	Binary  string // the program to start as daemon
	Command string // how the user starts it, for the hint at the end
	// Stay keeps the daemon running after the demo until ctx ends. Lines from In are
	// sent in the direct chat.
	Stay bool
	In   io.Reader
	Out  io.Writer
}

// A demoRun is one run of the demo.
type demoRun struct {
	*simulators
	*screen
	o          Options
	lastNumber atomic.Int64 // the last message number
	partStart  time.Time    // start of the current part
	// shown contains the bot's texts that were printed, by conversation and message. The inner
	// map belongs to the goroutine that prints the conversation.
	shown  map[conversation]map[string]string
	breaks map[string]int // prefix breaks by reason, of all runs of the daemon so far
}

// Run runs the demo. It returns an error if a part of it did not happen as intended,
// or if a message was lost, duplicated or reordered.
func Run(ctx context.Context, o Options) error {
	dir, err := os.MkdirTemp("", "hermesd-demo-")
	if err != nil {
		return fmt.Errorf("create demo home directory: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }() // in the directory for temporary files anyway
	w, err := newSimulators(o.Binary, dir)
	if err != nil {
		return err
	}
	defer w.close()
	t := &demoRun{simulators: w, screen: newScreen(o.Out, columns(o.Out), os.Environ()), o: o, shown: map[conversation]map[string]string{}, breaks: map[string]int{}}
	for _, r := range append([]conversation{w.dm}, w.conversations...) {
		t.shown[r] = map[string]string{}
	}
	if err := t.script(ctx); err != nil {
		return err
	}
	if o.Stay {
		t.serveInput(ctx)
	}
	return w.Stop(70 * time.Second)
}

func (t *demoRun) script(ctx context.Context) error {
	t.print(bold.Render("hermesd, a tour"))
	t.paragraph("The daemon is the real one, in a process of its own. Telegram, Discord and Slack are simulated on this machine, " +
		"and the model is the built-in demo model, which follows simple rules and is not intelligent. " +
		"Each message carries a number, by which the records of the simulators are checked at the end.")
	t.print("")
	begin := time.Now()
	if err := t.startDaemon(ctx); err != nil {
		return err
	}
	t.print(fmt.Sprintf("%s the daemon is connected to all three after %d ms", good.Render("●"), time.Since(begin).Milliseconds()))
	for _, part := range []func(context.Context) error{t.showConversations, t.showCrash, t.showOutages, t.showSchedule, t.showHistory, t.showResults} {
		t.partStart = time.Now()
		if err := part(ctx); err != nil {
			return err
		}
	}
	return nil
}

// startDaemon starts the daemon and waits until it is connected to all platforms.
func (t *demoRun) startDaemon(ctx context.Context) error {
	if err := t.Start(ctx); err != nil {
		return err
	}
	return t.retry(ctx, "the connection to all platforms", func(ctx context.Context) error {
		s, err := t.status(ctx)
		if err != nil {
			return err
		}
		for _, a := range s.Accounts {
			if a.State != chat.Connected {
				return fmt.Errorf("%s is %s %s", a.Platform, a.State, a.Error)
			}
		}
		return nil
	})
}

// forEach runs do for all conversations concurrently.
func (t *demoRun) forEach(do func(i int, r conversation) error) error {
	errs := make([]error, len(t.conversations))
	var wg sync.WaitGroup
	for i, r := range t.conversations {
		wg.Go(func() { errs[i] = do(i, r) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// waitTimeout limits the time that an answer may take.
const waitTimeout = 60 * time.Second

// retry calls ask repeatedly until it returns nil.
func (t *demoRun) retry(ctx context.Context, what string, ask func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, waitTimeout)
	defer cancel()
	for {
		err := ask(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: nothing within %v: %w", what, waitTimeout, errors.Join(err, context.Cause(ctx)))
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// number appends a number to a text. The demo model repeats it, which identifies the
// answer.
func (t *demoRun) number(text string) string { return fmt.Sprintf("%s #%d", text, t.lastNumber.Add(1)) }

// ask sends a message from Ann and returns it with the answers of the bot.
func (t *demoRun) ask(ctx context.Context, r conversation, text string) ([]printedMessage, error) {
	m := r.say(text)
	if err := t.waitAnswered(ctx, m); err != nil {
		return nil, err
	}
	return append([]printedMessage{{text: m.text}}, t.newAnswers(r)...), nil
}

// waitAnswered waits until a message has an outcome and its answers are delivered.
func (t *demoRun) waitAnswered(ctx context.Context, m message) error {
	return t.retry(ctx, fmt.Sprintf("the answer to %q", m.text), func(ctx context.Context) error {
		c, err := t.messageHistory(ctx, m)
		if err == nil && !hasEnded(c) {
			err = errors.New("turn is still running")
		}
		return err
	})
}

func hasEnded(c store.MessageHistory) bool {
	for _, r := range c.Rows {
		if !r.Terminal() {
			return false
		}
	}
	return c.Entry.Outcome != nil
}

// newAnswers returns the bot's messages in a conversation that are new or changed since the last
// call.
func (t *demoRun) newAnswers(r conversation) (out []printedMessage) {
	shown := t.shown[r]
	for _, m := range r.answers() {
		if shown[m.id] != m.text {
			shown[m.id] = m.text
			out = append(out, printedMessage{bot: true, text: m.text})
		}
	}
	return out
}

// daemon calls ask with a client of the daemon.
func (t *demoRun) daemon(ctx context.Context, ask func(*admin.Client) error) (err error) {
	c, err := admin.Dial(ctx, t.home)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close(ctx)) }()
	return ask(c)
}

// status returns what `hermesd status` shows.
func (t *demoRun) status(ctx context.Context) (s admin.Status, err error) {
	err = t.daemon(ctx, func(c *admin.Client) (err error) { s, err = c.Status(ctx); return err })
	return s, err
}

// messageHistory returns the history of a message.
func (t *demoRun) messageHistory(ctx context.Context, m message) (chain store.MessageHistory, err error) {
	err = t.daemon(ctx, func(c *admin.Client) error {
		chains, err := c.Why(ctx, m.id)
		switch {
		case err != nil:
			return err
		case len(chains) == 0:
			return errors.New("message is not in the store yet")
		}
		chain = chains[0]
		return nil
	})
	return chain, err
}

// serveInput lets the user continue in the direct chat.
func (t *demoRun) serveInput(ctx context.Context) {
	t.paragraph("\nThe daemon still runs. Type a line to say it as Ann on Telegram; Ctrl-C ends the demo.")
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
			said, err := t.ask(ctx, t.conversation(chat.Telegram), text)
			if err != nil {
				t.paragraph("  %v", err)
				continue
			}
			for _, one := range said[1:] {
				t.print(one.render(t.width))
			}
		}
	}
}
