// Package demo shows the real daemon at work, without an account or a key: a
// child process between a simulated Telegram, Discord and Slack, with the
// built-in demo model. Each platform has an outage in the middle, and the
// simulators' ledgers say at the end what was lost and what was doubled.
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
	"hermesd/gateway/inbox"
)

// Options say how the tour goes.
type Options struct {
	Binary string // the daemon to start, usually this program
	// Stay keeps everything running after the tour, until ctx ends: lines from
	// In are said in the direct chat.
	Stay bool
	In   io.Reader
	Out  io.Writer
	// Width is that of the terminal; 0 if there is none.
	Width int
	// Environ is the environment, for what the terminal can show.
	Environ []string
}

// A tour is one under way.
type tour struct {
	*world
	*screen
	o     Options
	n     atomic.Int64 // messages that carry a number
	begun time.Time    // of the present part
	// shown are the texts of the bot that were printed, by message. That of a room
	// belongs to the goroutine that tells of it.
	shown  map[room]map[string]string
	breaks map[string]int // of prefixes, by reason, in the lives of the daemon so far
}

// Run gives the tour. Its error says that something of it did not happen, or
// that a ledger shows a message lost, doubled or out of order.
func Run(ctx context.Context, o Options) error {
	dir, err := os.MkdirTemp("", "hermesd-demo-")
	if err != nil {
		return fmt.Errorf("a home for the demo: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }() // it is in the folder for temporary files all the same
	w, err := newWorld(o.Binary, dir)
	if err != nil {
		return err
	}
	defer w.close()
	t := &tour{world: w, screen: newScreen(o.Out, o.Width, o.Environ), o: o, shown: map[room]map[string]string{}, breaks: map[string]int{}}
	for _, r := range append([]room{w.dm}, w.rooms...) {
		t.shown[r] = map[string]string{}
	}
	if err := t.script(ctx); err != nil {
		return err
	}
	if o.Stay {
		t.stay(ctx)
	}
	return w.Stop(70 * time.Second)
}

func (t *tour) script(ctx context.Context) error {
	t.print(bold.Render("hermesd, a tour"))
	t.say("The daemon is the real one, in a process of its own. Telegram, Discord and Slack are simulated on this machine, " +
		"and the model is the built-in demo model, which follows simple rules and is not intelligent. " +
		"Each message carries a number, by which the simulators' ledgers are judged at the end.")
	t.print("")
	begin := time.Now()
	if err := t.up(ctx); err != nil {
		return err
	}
	t.print(fmt.Sprintf("%s the daemon is connected to all three after %d ms", good.Render("●"), time.Since(begin).Milliseconds()))
	for _, part := range []func(context.Context) error{t.talk, t.killed, t.outages, t.scheduled, t.asked, t.figures} {
		t.begun = time.Now()
		if err := part(ctx); err != nil {
			return err
		}
	}
	return nil
}

// up starts the daemon and waits until it is connected to all platforms.
func (t *tour) up(ctx context.Context) error {
	if err := t.Start(ctx); err != nil {
		return err
	}
	return t.until(ctx, "the connection to all platforms", func(ctx context.Context) error {
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

// together runs one function for each room, side by side.
func (t *tour) together(do func(i int, r room) error) error {
	errs := make([]error, len(t.rooms))
	var wg sync.WaitGroup
	for i, r := range t.rooms {
		wg.Go(func() { errs[i] = do(i, r) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// waitTimeout is how long an answer may take.
const waitTimeout = 60 * time.Second

// until asks again and again until ask has no error.
func (t *tour) until(ctx context.Context, what string, ask func(context.Context) error) error {
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

// number gives a text the number by which its answer is known: the demo model
// repeats it.
func (t *tour) number(text string) string { return fmt.Sprintf("%s #%d", text, t.n.Add(1)) }

// ask lets Ann say something and returns it with what the bot has answered.
func (t *tour) ask(ctx context.Context, r room, text string) ([]saying, error) {
	m := r.say(text)
	if err := t.answered(ctx, m); err != nil {
		return nil, err
	}
	return append([]saying{{text: m.text}}, t.news(r)...), nil
}

// answered waits until the daemon has accounted for a message, and everything
// that it says of it has arrived.
func (t *tour) answered(ctx context.Context, m message) error {
	return t.until(ctx, fmt.Sprintf("the answer to %q", m.text), func(ctx context.Context) error {
		c, err := t.why(ctx, m)
		if err == nil && !ended(c) {
			err = errors.New("it is being answered")
		}
		return err
	})
}

func ended(c inbox.MessageHistory) bool {
	for _, r := range c.Rows {
		if !r.Terminal() {
			return false
		}
	}
	return c.Entry.Outcome != nil
}

// news are the bot's messages in a room that are new since the last time.
func (t *tour) news(r room) (out []saying) {
	shown := t.shown[r]
	for _, m := range r.answers() {
		if shown[m.id] != m.text {
			shown[m.id] = m.text
			out = append(out, saying{bot: true, text: m.text})
		}
	}
	return out
}

// daemon asks the daemon something.
func (t *tour) daemon(ctx context.Context, ask func(*admin.Client) error) (err error) {
	c, err := admin.Dial(ctx, t.home)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close(ctx)) }()
	return ask(c)
}

// status is what `hermesd status` says.
func (t *tour) status(ctx context.Context) (s admin.Status, err error) {
	err = t.daemon(ctx, func(c *admin.Client) (err error) { s, err = c.Status(ctx); return err })
	return s, err
}

// why is what the daemon knows of a message.
func (t *tour) why(ctx context.Context, m message) (chain inbox.MessageHistory, err error) {
	err = t.daemon(ctx, func(c *admin.Client) error {
		chains, err := c.Why(ctx, m.id)
		switch {
		case err != nil:
			return err
		case len(chains) == 0:
			return errors.New("the daemon does not know the message yet")
		}
		chain = chains[0]
		return nil
	})
	return chain, err
}

// stay lets a person go on in the direct chat.
func (t *tour) stay(ctx context.Context) {
	t.say("\nThe daemon still runs. Type a line to say it as Ann on Telegram; Ctrl-C ends the demo.")
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
			said, err := t.ask(ctx, t.room(chat.Telegram), text)
			if err != nil {
				t.say("  %v", err)
				continue
			}
			for _, one := range said[1:] {
				t.print(one.render(t.width))
			}
		}
	}
}
