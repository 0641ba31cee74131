package llmtest

import (
	"iter"

	"hermesd/agent/llm"
)

// A Result holds the events of a stream.
type Result struct {
	Events   []llm.Event
	Text     string // text deltas since the last Notice
	Thinking string // thinking deltas since the last Notice
	Notices  []llm.Notice
	Done     *llm.Done // nil if there was none
	Err      error     // the first error
}

// Collect reads a stream to its end.
func Collect(seq iter.Seq2[llm.Event, error]) Result {
	var r Result
	for e, err := range seq {
		if err != nil {
			if r.Err == nil {
				r.Err = err
			}
			continue
		}
		r.Events = append(r.Events, e)
		switch e := e.(type) {
		case llm.TextDelta:
			r.Text += string(e)
		case llm.ThinkingDelta:
			r.Thinking += string(e)
		case llm.Notice:
			r.Text, r.Thinking = "", ""
			r.Notices = append(r.Notices, e)
		case llm.Done:
			r.Done = &e
		}
	}
	return r
}
