package tui

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"hermesd/adapters/console"
	"hermesd/cmd/internal/admin"
	"hermesd/cmd/internal/tui/text"
	"hermesd/gateway/chat"
	"hermesd/gateway/inbox"
)

// ErrUnanswered says that a question got no answer. Why was printed.
var ErrUnanswered = errors.New("the question was not answered")

// Once asks one question and prints its answer on Out, and nothing else there.
// Other messages that are shown on the way go to Errs. If there is no answer
// the error is ErrUnanswered.
func Once(ctx context.Context, o Options, question string) error {
	a, end, err := newAsker(ctx, o)
	if err != nil {
		return err
	}
	defer end()
	return a.ask(question)
}

// Lines asks each line of In in turn, each after the one before is answered.
// The answers go to Out, each followed by an empty line. If one of them fails,
// so does Lines, after the last.
func Lines(ctx context.Context, o Options) error {
	a, end, err := newAsker(ctx, o)
	if err != nil {
		return err
	}
	defer end()
	in := bufio.NewScanner(o.In)
	in.Buffer(nil, 1<<20)
	var failed error
	for in.Scan() {
		if strings.TrimSpace(in.Text()) == "" {
			continue
		}
		err := a.ask(strings.ToValidUTF8(in.Text(), "\uFFFD"))
		switch {
		case errors.Is(err, ErrUnanswered):
			failed = err
		case err != nil:
			return err
		}
		if _, err := fmt.Fprintln(o.Out); err != nil {
			return fmt.Errorf("print: %w", err)
		}
	}
	if err := in.Err(); err != nil {
		return fmt.Errorf("read: %w", err)
	}
	return failed
}

// An asker asks one question after the other.
type asker struct {
	ctx         context.Context // of the conversation
	l           *link
	o           Options
	look        text.ColorMode
	said        chan error // how the line that is under way was taken
	strange     []message  // messages that may not belong to the question
	waitTimeout *time.Timer
	gone        bool // the link is broken; patience runs
}

type message struct {
	id   string
	text chat.RichText
}

func newAsker(ctx context.Context, o Options) (*asker, func(), error) {
	if o.Patience <= 0 {
		o.Patience = 15 * time.Second
	}
	ctx, cancel := context.WithCancel(ctx)
	l, err := open(ctx, o.Attach)
	if err != nil {
		cancel()
		return nil, nil, err
	}
	a := &asker{ctx: ctx, l: l, o: o, look: o.look(), said: make(chan error, 1), waitTimeout: time.NewTimer(o.Patience)}
	a.waitTimeout.Stop()
	if o.Notice != "" {
		a.aside(chat.PlainText(o.Notice))
	}
	return a, func() { cancel(); l.wait() }, nil
}

// ask says question and waits for its outcome.
func (a *asker) ask(question string) error {
	id := console.NewID()
	ctx, cancel := context.WithCancel(a.ctx)
	defer cancel()
	go func() { a.said <- a.l.say(ctx, line{id, question}) }() // the channel has room; it ends with ctx
	for taken := false; ; {
		select {
		case <-a.ctx.Done():
			return context.Cause(a.ctx)
		case <-a.waitTimeout.C:
			if !taken {
				return errors.New("the daemon has gone before it took the question")
			}
			return fmt.Errorf("the daemon has gone; the question is kept and answered when it is back: `hermesd why %s`", id)
		case err := <-a.said:
			if err != nil {
				return err
			}
			taken = true
		case msg := <-a.l.out:
			if o := a.hear(msg, id); o != nil {
				if !taken {
					if err := <-a.said; err != nil {
						return err
					}
				}
				return a.end(o)
			}
		}
	}
}

// hear takes what the link tells, and returns the outcome of line id.
func (a *asker) hear(msg any, id string) *admin.Outcome {
	switch msg := msg.(type) {
	case disconnected:
		if !a.gone {
			a.waitTimeout.Reset(a.o.Patience)
		}
		a.gone = true
	case connected:
		a.gone = false
		a.waitTimeout.Stop()
	case fromDaemon:
		if msg.Outcome != nil && msg.Outcome.ID == id {
			return msg.Outcome
		}
		if msg.Event != nil {
			a.keep(*msg.Event)
		}
	}
	return nil
}

// keep follows the messages of the conversation.
func (a *asker) keep(ev console.Event) {
	i := slices.IndexFunc(a.strange, func(m message) bool { return m.id == ev.ID })
	switch ev.Kind {
	case console.Message, console.Edit:
		if i < 0 {
			a.strange = append(a.strange, message{ev.ID, ev.Text})
			return
		}
		a.strange[i].text = ev.Text
	case console.Delete:
		if i >= 0 {
			a.strange = slices.Delete(a.strange, i, i+1)
		}
	case console.Typing, console.OtherTerminal:
	}
}

// end prints how a question ended.
func (a *asker) end(o *admin.Outcome) error {
	for _, m := range a.strange {
		if !slices.Contains(o.Messages, m.id) {
			a.aside(m.text)
		}
	}
	a.strange = nil
	if o.Result != inbox.Replied && o.Result != inbox.Silent {
		for _, t := range o.Text {
			a.aside(t)
		}
		if len(o.Text) == 0 {
			a.aside(chat.PlainText(fmt.Sprintf("%s: %s", o.Result, o.Reason)))
		}
		return ErrUnanswered
	}
	for _, t := range o.Text {
		if err := a.print(a.o.Out, t, a.look); err != nil {
			return err
		}
	}
	return nil
}

// aside tells what is no answer.
func (a *asker) aside(t chat.RichText) {
	_ = a.print(a.o.Errs, t, text.Source) // nobody is left to hear of an error here
}

const pageWidth = 100

func (a *asker) print(w io.Writer, t chat.RichText, look text.ColorMode) error {
	s := strings.TrimRight(text.Render(t, look, pageWidth), "\n")
	if s == "" {
		return nil
	}
	if _, err := fmt.Fprintln(w, s); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	return nil
}
