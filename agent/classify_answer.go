package agent

import (
	"fmt"
	"slices"
	"strings"

	"hermesd/agent/llm"
	"hermesd/agent/prompt"
)

// What stands in the transcript where a message must stand and the model said
// nothing, and what the model is asked then.
const (
	noteCut     = "[Cut off before anything was said.]"
	noteEmpty   = "[No answer.]"
	noteDone    = "[Nothing to add.]"
	askContinue = "Your answer was cut off at its length limit. Go on exactly where it stops, without repeating anything."
	askCutCall  = "Your answer was cut off before a tool call was complete, so no tool was run. Go on, and make the call again with less in it, in several steps if need be."
	askGoOn     = "You have ended your turn without an answer. Go on: use a tool, or say what you have found."
)

// visible returns what people see of what a model said.
func visible(raw string) string { return strings.TrimSpace(prompt.Scrub(raw)) }

// cutOff reports whether a model that stopped for this reason has more to say.
func cutOff(s llm.StopReason) bool { return s == llm.Length || s == llm.Paused }

// classifyAnswer makes a step of a whole answer. last says that no call is left after it.
func (r *run) classifyAnswer(done llm.Done, last bool) (*Step, error) {
	text := strings.ToValidUTF8(done.Message.Text(), "\uFFFD")
	calls := done.Message.ToolUses()
	s := &Step{Kind: StepAnswer, Text: text, Stop: done.Stop, Usage: done.Usage}
	switch {
	case done.Stop == llm.Refusal:
		return nil, r.retractAndFail(&RefusedError{Text: visible(text), Provider: done.Provider})
	case last:
		return r.judgeLast(s, done)
	case len(calls) > 0 && done.Stop != llm.Length:
		s.Text = ""
		var m llm.Message
		m, s.Bad = r.calling(done.Message)
		s.Messages = []llm.Message{m}
		return s, r.settle(prompt.Scrub(r.said + text))
	case cutOff(done.Stop):
		return r.judgeCut(s, done)
	case visible(r.said+text) == "":
		return r.judgeEmpty(s)
	}
	s.Final, s.Stop = true, llm.EndTurn
	s.Messages = []llm.Message{part(done.Message, text, noteDone)}
	return s, nil
}

// retractAndFail takes back what was shown, and returns err.
func (r *run) retractAndFail(err error) error {
	if e := r.retract(); e != nil {
		return e
	}
	return err
}

// judgeLast judges the answer that was asked for when no call was left.
func (r *run) judgeLast(s *Step, done llm.Done) (*Step, error) {
	if visible(r.said+s.Text) == "" {
		return nil, r.retractAndFail(ErrBudget)
	}
	s.Final, s.OverBudget = true, true
	if s.Stop != llm.Length {
		s.Stop = llm.EndTurn
	}
	s.Messages = []llm.Message{part(done.Message, s.Text, noteDone)}
	return s, nil
}

// judgeCut judges an answer that was cut off: the model is asked to go on, but
// not for ever.
func (r *run) judgeCut(s *Step, done llm.Done) (*Step, error) {
	s.Messages = []llm.Message{part(done.Message, s.Text, noteCut)}
	if r.continued < maxContinued {
		ask := askContinue
		if len(done.Message.ToolUses()) > 0 {
			ask = askCutCall
		}
		s.Messages = append(s.Messages, llm.UserText(ask))
		return s, r.emit(Notice{Kind: Continue})
	}
	if visible(r.said+s.Text) == "" {
		return nil, r.retractAndFail(ErrEmpty)
	}
	s.Final, s.Stop = true, llm.Length
	return s, nil
}

// judgeEmpty judges an answer that says nothing. It is asked for once more
// without the overlay, and then the model is asked to go on.
func (r *run) judgeEmpty(s *Step) (*Step, error) {
	if err := r.retract(); err != nil {
		return nil, err
	}
	switch r.empties {
	case 0:
		return &Step{Kind: StepEmpty, Usage: s.Usage}, r.emit(Notice{Kind: Empty})
	case 1:
		s.Empty, s.Text = true, ""
		s.Messages = []llm.Message{llm.AssistantText(noteEmpty), llm.UserText(askGoOn)}
		return s, r.emit(Notice{Kind: Empty})
	}
	return nil, ErrEmpty
}

// part returns an answer without calls as it is kept. Where it has no words,
// note stands for them; where it had calls, they are left out.
func part(m llm.Message, text, note string) llm.Message {
	if strings.TrimSpace(text) == "" {
		return llm.AssistantText(note)
	}
	if len(m.ToolUses()) > 0 {
		return llm.AssistantText(text)
	}
	return answer(m)
}

// answer returns the model's message as it is kept: with blocks that an answer
// can hold and that say something. If others had to go, the provider's own form
// goes too.
func answer(m llm.Message) llm.Message {
	m.Role = llm.Assistant
	kept := make([]llm.Block, 0, len(m.Blocks))
	for _, b := range m.Blocks {
		switch b.Type {
		case llm.Text:
			b.Text = strings.ToValidUTF8(b.Text, "\uFFFD")
			if strings.TrimSpace(b.Text) == "" {
				continue
			}
		case llm.Thinking:
			b.Text = strings.ToValidUTF8(b.Text, "\uFFFD")
		case llm.ToolUse:
		default:
			m.Raw, m.Dialect = nil, ""
			continue
		}
		kept = append(kept, b)
	}
	m.Blocks = kept
	return m
}

// maxCalls is the most calls of one answer that are run.
const maxCalls = 64

// calling returns an answer with calls as it is kept, and why some of them
// cannot be run. Ids, names and inputs that some provider would refuse are
// replaced, and the provider's own form with them: one bad call must not make
// every later request fail.
func (r *run) calling(m llm.Message) (llm.Message, map[string]string) {
	m = answer(m)
	bad := map[string]string{}
	own := map[string]bool{}
	n := 0
	for i := range m.Blocks {
		b := &m.Blocks[i]
		if b.Type != llm.ToolUse {
			continue
		}
		n++
		if !llm.ValidToolCallID(b.ID) || own[b.ID] || r.t.Transcript.HasCall(b.ID) {
			b.ID = r.freshID(own)
			m.Raw, m.Dialect = nil, ""
		}
		own[b.ID] = true
		why := r.invalidReason(*b)
		if n > maxCalls {
			why = fmt.Sprintf("Not run: there are more than %d calls in one answer.", maxCalls)
		}
		if why != "" {
			bad[b.ID] = why
		}
		if repairCall(b) {
			m.Raw, m.Dialect = nil, ""
		}
	}
	if len(bad) == 0 {
		bad = nil
	}
	return m, bad
}

// freshID returns an id that no call has.
func (r *run) freshID(own map[string]bool) string {
	for n := r.t.Transcript.Calls() + len(own) + 1; ; n++ {
		if id := fmt.Sprintf("call_%d", n); !r.t.Transcript.HasCall(id) && !own[id] {
			return id
		}
	}
}

// invalidReason says why a call cannot be run, "" if it can.
func (r *run) invalidReason(b llm.Block) string {
	if _, ok := r.a.tools.Lookup(b.Name); !ok || !r.offered[b.Name] {
		return fmt.Sprintf("Not run: there is no tool called %s. There are: %s.", prompt.Quote(b.Name), strings.Join(r.names(), ", "))
	}
	if b.Text != "" || len(b.Input) > 0 && !llm.ValidInput(b.Input) {
		sent := b.Text
		if sent == "" {
			sent = string(b.Input)
		}
		return fmt.Sprintf("Not run: the arguments must be one JSON object. What was sent: %s", prompt.Quote(sent))
	}
	return ""
}

// names are those of the tools that can be used, in order.
func (r *run) names() []string {
	return slices.DeleteFunc(r.a.tools.Names(), func(n string) bool { return !r.offered[n] })
}

// repairCall makes a call one that every provider takes, and reports whether its
// sender's form is one that some would not.
func repairCall(b *llm.Block) bool {
	mended := false
	if !llm.ValidToolName(b.Name) {
		b.Name = legalName(b.Name)
		mended = true
	}
	if !llm.ValidInput(b.Input) {
		mended = mended || len(b.Input) > 0
		b.Input = []byte("{}")
	}
	return mended
}

func legalName(s string) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '-':
			return r
		}
		return '_'
	}, s)
	if s == "" {
		return "unnamed"
	}
	return s[:min(len(s), 64)]
}
