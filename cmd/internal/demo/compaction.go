package demo

import (
	"context"
	"fmt"
	"strings"

	"hermesd/gateway/chat"
)

// Ann pastes this many long texts, each with this many lines. They fill the context to
// between 85 and 95 %.
const (
	pastes = 6
	pasted = 370
)

// A contextFilling is the output of a conversation that fills the model's context. It runs
// concurrently with other conversations and is printed afterwards.
type contextFilling struct {
	lines []string
	err   error
	done  chan struct{} // closed when the other fields are set
}

// startFilling starts a conversation in a direct message on Slack that fills the context, so
// that its older part is summarized before the next turn.
func (t *demoRun) startFilling(ctx context.Context) *contextFilling {
	f := &contextFilling{done: make(chan struct{})}
	go func() { // ends with ctx; printFilling waits for it
		defer close(f.done)
		f.lines, f.err = t.paste(ctx)
	}()
	return f
}

func (t *demoRun) paste(ctx context.Context) (lines []string, err error) {
	add := func(text string) { lines = append(lines, t.line(title(chat.Slack), text)) }
	compactions := 0
	for i := range pastes + 1 {
		text := t.number("what is 5 * 5?")
		if i < pastes {
			text = t.number("Hi, here is the log of the oven:") + "\n" + longText()
		}
		m := t.dm.say(text)
		first, rest, _ := strings.Cut(text, "\n")
		if rest != "" {
			first += fmt.Sprintf(" [%d characters]", len(rest))
		}
		add("› " + bold.Render(first))
		if err := t.waitAnswered(ctx, m); err != nil {
			return lines, err
		}
		for _, one := range t.newAnswers(t.dm) {
			isNotice := strings.Contains(one.text, "summarised the older part")
			if isNotice {
				compactions++
			}
			if isNotice || i == pastes { // the other answers are not interesting
				add("  " + one.short())
			}
		}
	}
	if compactions != 1 {
		return lines, fmt.Errorf("context was filled once and compacted %d times", compactions)
	}
	return lines, nil
}

// printFilling waits for f and prints its output.
func (t *demoRun) printFilling(f *contextFilling) error {
	<-f.done
	t.heading("Meanwhile, in a direct message on Slack: the model's context is full")
	t.paragraph("It holds %d tokens here. At 85 %% the daemon summarises the older part before the next turn; the originals are "+
		"archived, and the prefix breaks once, with its reason.", window)
	for _, l := range f.lines {
		t.print(l)
	}
	return f.err
}

// longText returns a long text.
func longText() string {
	var b strings.Builder
	for i := range pasted {
		fmt.Fprintf(&b, "12:%02d:%02d the oven has %d degrees, the door is closed\n", i/60, i%60, 150+i)
	}
	return b.String()
}
