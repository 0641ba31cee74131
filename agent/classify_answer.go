package agent

import (
	"fmt"
	"strings"

	"hermesd/agent/llm"
	"hermesd/agent/prompt"
	"hermesd/internal/shorten"
)

// Notes that replace an empty assistant message in the transcript, and the
// requests that follow an answer that is incomplete or empty.
const (
	noteCut     = "[Cut off before anything was said.]"
	noteEmpty   = "[No answer.]"
	noteDone    = "[Nothing to add.]"
	askContinue = "Your answer was cut off at its length limit. Go on exactly where it stops, without repeating anything."
	askCutCall  = "Your answer was cut off before a tool call was complete, so no tool was run. Go on, and make the call again with less in it, in several steps if need be."
	askGoOn     = "You have ended your turn without an answer. Go on: use a tool, or say what you have found."
)

// visibleText returns the part of a model's output that users see; "" if nothing of it is
// visible.
func visibleText(raw string) string {
	text := strings.TrimSpace(prompt.Scrub(raw))
	if shorten.IsBlank(text) {
		return ""
	}
	return text
}

// isCutOff reports whether a model that stopped for reason s has more to say.
func isCutOff(s llm.StopReason) bool { return s == llm.Length || s == llm.Paused }

// classifyAnswer turns a complete answer into a step. last reports whether the
// call budget is used up.
func (r *run) classifyAnswer(done llm.Done, last bool) (*Step, error) {
	text := strings.ToValidUTF8(done.Message.Text(), "\uFFFD")
	calls := done.Message.ToolUses()
	s := &Step{Kind: StepAnswer, Text: text, Stop: done.Stop, Usage: done.Usage}
	switch {
	case done.Stop == llm.Refusal:
		return nil, r.retractAndFail(&RefusedError{Text: visibleText(text), Provider: done.Provider})
	case last:
		return r.classifyLast(s, done)
	case len(calls) > 0 && done.Stop != llm.Length:
		s.Text = ""
		var m llm.Message
		m, s.Bad = r.sanitizeCalls(done.Message)
		s.Messages = []llm.Message{m}
		return s, r.syncShown(prompt.Scrub(r.answerText + text))
	case isCutOff(done.Stop):
		return r.classifyCutOff(s, done)
	case visibleText(r.answerText+text) == "":
		return r.classifyEmpty(s)
	}
	s.Final, s.Stop = true, llm.EndTurn
	s.Messages = []llm.Message{sanitizePart(done.Message, text, noteDone)}
	return s, nil
}

// retractAndFail retracts the shown text and returns err.
func (r *run) retractAndFail(err error) error {
	if e := r.retract(); e != nil {
		return e
	}
	return err
}

// classifyLast classifies the answer to the final call, made without tools
// after the call budget was used up.
func (r *run) classifyLast(s *Step, done llm.Done) (*Step, error) {
	if visibleText(r.answerText+s.Text) == "" {
		return nil, r.retractAndFail(ErrBudget)
	}
	s.Final, s.OverBudget = true, true
	if s.Stop != llm.Length {
		s.Stop = llm.EndTurn
	}
	s.Messages = []llm.Message{sanitizePart(done.Message, s.Text, noteDone)}
	return s, nil
}

// classifyCutOff classifies an answer that was cut off. The model is asked to
// continue at most maxContinuations times.
func (r *run) classifyCutOff(s *Step, done llm.Done) (*Step, error) {
	s.Messages = []llm.Message{sanitizePart(done.Message, s.Text, noteCut)}
	if r.continuations < maxContinuations {
		ask := askContinue
		if len(done.Message.ToolUses()) > 0 {
			ask = askCutCall
		}
		s.Messages = append(s.Messages, llm.UserText(ask))
		return s, r.emit(Notice{Kind: Continue})
	}
	if visibleText(r.answerText+s.Text) == "" {
		return nil, r.retractAndFail(ErrEmpty)
	}
	s.Final, s.Stop = true, llm.Length
	return s, nil
}

// classifyEmpty classifies an empty answer. The first one is requested again
// without the overlay; after the second the model is asked to continue.
func (r *run) classifyEmpty(s *Step) (*Step, error) {
	if err := r.retract(); err != nil {
		return nil, err
	}
	switch r.emptyAnswers {
	case 0:
		return &Step{Kind: StepEmpty, Usage: s.Usage}, r.emit(Notice{Kind: Empty})
	case 1:
		s.Empty, s.Text = true, ""
		s.Messages = []llm.Message{llm.AssistantText(noteEmpty), llm.UserText(askGoOn)}
		return s, r.emit(Notice{Kind: Empty})
	}
	return nil, ErrEmpty
}

// sanitizePart returns an answer without calls in the form in which it is
// stored. If it has no text, note replaces it; tool calls are removed.
func sanitizePart(m llm.Message, text, note string) llm.Message {
	if strings.TrimSpace(text) == "" {
		return llm.AssistantText(note)
	}
	if len(m.ToolUses()) > 0 {
		return llm.AssistantText(text)
	}
	return sanitizeAnswer(m)
}

// sanitizeAnswer returns the model's message in the form in which it is stored:
// only with block types that an answer can hold, and without empty text. If
// other block types were removed, the provider's raw form is removed as well.
func sanitizeAnswer(m llm.Message) llm.Message {
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

// maxCalls is the number of tool calls of one answer that are run.
const maxCalls = 64

// sanitizeCalls returns an answer with calls in the form in which it is stored,
// and the reasons why some calls cannot be run, by call ID. IDs, names and
// inputs that some provider would reject are replaced, and the provider's raw
// form is removed with them, so that one bad call does not make every later
// request fail.
func (r *run) sanitizeCalls(m llm.Message) (llm.Message, map[string]string) {
	m = sanitizeAnswer(m)
	bad := map[string]string{}
	used := map[string]bool{}
	n := 0
	for i := range m.Blocks {
		b := &m.Blocks[i]
		if b.Type != llm.ToolUse {
			continue
		}
		n++
		if !llm.ValidToolCallID(b.ID) || used[b.ID] || r.t.Transcript.HasCall(b.ID) {
			b.ID = r.newCallID(used)
			m.Raw, m.Dialect = nil, ""
		}
		used[b.ID] = true
		reason := r.invalidReason(*b)
		if n > maxCalls {
			reason = fmt.Sprintf("Not run: there are more than %d calls in one answer.", maxCalls)
		}
		if reason != "" {
			bad[b.ID] = reason
		}
		if _, ok := r.tools.Lookup(b.Name); !ok {
			b.Name = r.a.mask(b.Name) // repaired below if it changes
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

// newCallID returns an ID that no other call has.
func (r *run) newCallID(used map[string]bool) string {
	for n := r.t.Transcript.Calls() + len(used) + 1; ; n++ {
		if id := fmt.Sprintf("call_%d", n); !r.t.Transcript.HasCall(id) && !used[id] {
			return id
		}
	}
}

// invalidReason returns the reason why a call cannot be run, for the model; ""
// if it can.
func (r *run) invalidReason(b llm.Block) string {
	if _, ok := r.tools.Lookup(b.Name); !ok {
		return fmt.Sprintf("Not run: there is no tool called %s. There are: %s.", prompt.Quote(r.a.mask(b.Name)), strings.Join(r.tools.Names(), ", "))
	}
	if b.Text != "" || len(b.Input) > 0 && !llm.ValidInput(b.Input) {
		sent := b.Text
		if sent == "" {
			sent = string(b.Input)
		}
		return fmt.Sprintf("Not run: the arguments must be one JSON object. What was sent: %s", prompt.Quote(r.a.mask(sent)))
	}
	return ""
}

// repairCall replaces a name or an input that some provider would reject, and
// reports whether the provider's raw form of the call must be removed.
func repairCall(b *llm.Block) bool {
	repaired := false
	if !llm.ValidToolName(b.Name) {
		b.Name = sanitizeToolName(b.Name)
		repaired = true
	}
	if !llm.ValidInput(b.Input) {
		repaired = repaired || len(b.Input) > 0
		b.Input = []byte("{}")
	}
	return repaired
}

func sanitizeToolName(s string) string {
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
