package demo

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"hermesd/gateway/chat"
)

// pastes are how many long texts Ann pastes, each with pasted lines. They fill
// the context to between 85 and 95 %.
const (
	pastes = 3
	pasted = 280
)

// A filling is the summary of a conversation that fills the model's context. It
// is made while others talk, and told afterwards.
type filling struct {
	lines []string
	err   error
	done  chan struct{} // closed when the rest is set
}

// fill lets a conversation in a direct message on Slack fill the context, so
// that its older part is summarised before the next turn.
func (t *tour) fill(ctx context.Context) *filling {
	f := &filling{done: make(chan struct{})}
	go func() { // ends with ctx; told waits for it
		defer close(f.done)
		f.lines, f.err = t.paste(ctx)
	}()
	return f
}

func (t *tour) paste(ctx context.Context) (lines []string, err error) {
	tell := func(text string) { lines = append(lines, t.line(title(chat.Slack), text)) }
	summarised := false
	for i := range pastes + 1 {
		text := t.number("what is 5 * 5?")
		if i < pastes {
			text = t.number("Hi, here is the log of the oven:") + "\n" + oven()
		}
		m := t.dm.say(text)
		first, rest, _ := strings.Cut(text, "\n")
		if rest != "" {
			first += fmt.Sprintf(" [%d characters]", len(rest))
		}
		tell("› " + bold.Render(first))
		if err := t.answered(ctx, m); err != nil {
			return lines, err
		}
		for _, one := range t.news(t.dm) {
			told := strings.Contains(one.text, "summarised the older part")
			summarised = summarised || told
			if told || i == pastes { // the others say little
				tell("  " + one.short())
			}
		}
	}
	if !summarised {
		return lines, errors.New("a conversation has filled the context, and nothing was summarised")
	}
	return lines, nil
}

// told prints what has happened.
func (t *tour) told(f *filling) error {
	<-f.done
	t.head("Meanwhile, in a direct message on Slack: the model's context is full")
	t.say("It holds %d tokens here. At 85 %% the daemon summarises the older part before the next turn; the originals are "+
		"archived, and the prefix breaks once, with its reason.", window)
	for _, l := range f.lines {
		t.print(l)
	}
	return f.err
}

// oven is a long text.
func oven() string {
	var b strings.Builder
	for i := range pasted {
		fmt.Fprintf(&b, "12:%02d:%02d the oven has %d degrees, the door is closed\n", i/60, i%60, 150+i)
	}
	return b.String()
}
