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

// ErrUnanswered is returned if a question got no answer. The reason was printed to
// Options.Errs.
var ErrUnanswered = errors.New("the question was not answered")

// Once asks one question and prints only its answer to Out. Other messages go to
// Errs. It returns ErrUnanswered if there is no answer.
func Once(ctx context.Context, o Options, question string) error {
	a, end, err := newAsker(ctx, o)
	if err != nil {
		return err
	}
	defer end()
	return a.ask(question)
}

// Lines asks each line of In after the previous one is answered. The answers go to
// Out, each followed by an empty line. If a question gets no answer, Lines continues
// and finally returns ErrUnanswered.
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

// An asker asks questions one at a time.
type asker struct {
	ctx            context.Context // of the conversation
	l              *link
	o              Options
	colorMode      text.ColorMode
	sent           chan error // result of sending the current line
	others         []message  // messages that may not belong to the current question
	waitTimeout    *time.Timer
	isDisconnected bool // the link is broken and waitTimeout runs
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
	l, err := openLink(ctx, o.Attach)
	if err != nil {
		cancel()
		return nil, nil, err
	}
	a := &asker{ctx: ctx, l: l, o: o, colorMode: o.colorMode(), sent: make(chan error, 1), waitTimeout: time.NewTimer(o.Patience)}
	a.waitTimeout.Stop()
	if o.Notice != "" {
		a.printToErrs(chat.PlainText(o.Notice))
	}
	return a, func() { cancel(); l.wait() }, nil
}

func (a *asker) ask(question string) error {
	id := console.NewID()
	ctx, cancel := context.WithCancel(a.ctx)
	defer cancel()
	go func() { a.sent <- a.l.send(ctx, line{id, question}) }() // the channel is buffered; it ends with ctx
	for taken := false; ; {
		select {
		case <-a.ctx.Done():
			return context.Cause(a.ctx)
		case <-a.waitTimeout.C:
			a.printOthers(nil) // the daemon does not show them again
			if !taken {
				return errors.New("the daemon has gone before it took the question")
			}
			return fmt.Errorf("the daemon has gone; the question is kept and answered when it is back: `hermesd why %s`", id)
		case err := <-a.sent:
			if err != nil {
				return err
			}
			taken = true
		case msg := <-a.l.out:
			if o := a.handleLinkMessage(msg, id); o != nil {
				if !taken {
					if err := <-a.sent; err != nil {
						return err
					}
				}
				return a.printOutcome(o)
			}
		}
	}
}

// handleLinkMessage handles a message of the link and returns the outcome of line id, or nil.
func (a *asker) handleLinkMessage(msg any, id string) *admin.Outcome {
	switch msg := msg.(type) {
	case disconnected:
		if !a.isDisconnected {
			a.waitTimeout.Reset(a.o.Patience)
		}
		a.isDisconnected = true
	case connected:
		a.isDisconnected = false
		a.waitTimeout.Stop()
	case fromDaemon:
		if msg.Outcome != nil && msg.Outcome.ID == id {
			return msg.Outcome
		}
		if msg.Event != nil {
			a.recordEvent(*msg.Event)
		}
	}
	return nil
}

// recordEvent records the messages of the conversation.
func (a *asker) recordEvent(ev console.Event) {
	i := slices.IndexFunc(a.others, func(m message) bool { return m.id == ev.ID })
	switch ev.Kind {
	case console.Message, console.Edit:
		if i < 0 {
			a.others = append(a.others, message{ev.ID, ev.Text})
			return
		}
		a.others[i].text = ev.Text
	case console.Delete:
		if i >= 0 {
			a.others = slices.Delete(a.others, i, i+1)
		}
	case console.Typing, console.OtherTerminal:
	}
}

// printOthers prints the recorded messages, except those of the answer, to Errs.
func (a *asker) printOthers(answer []string) {
	for _, m := range a.others {
		if !slices.Contains(answer, m.id) {
			a.printToErrs(m.text)
		}
	}
	a.others = nil
}

func (a *asker) printOutcome(o *admin.Outcome) error {
	a.printOthers(o.Messages)
	if o.Result != inbox.Replied && o.Result != inbox.Silent {
		for _, t := range o.Text {
			a.printToErrs(t)
		}
		if len(o.Text) == 0 {
			a.printToErrs(chat.PlainText(fmt.Sprintf("%s: %s", o.Result, o.Reason)))
		}
		return ErrUnanswered
	}
	for _, t := range o.Text {
		if err := a.print(a.o.Out, t, a.colorMode); err != nil {
			return err
		}
	}
	return nil
}

// printToErrs prints a message that is not an answer.
func (a *asker) printToErrs(t chat.RichText) {
	_ = a.print(a.o.Errs, t, text.Source) // there is nowhere to report an error
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
