package recallbench

import (
	"context"
	"errors"

	"hermesd/agent"
	"hermesd/agent/engine/enginetest"
	"hermesd/agent/llm"
	"hermesd/agent/llm/pricing"
	"hermesd/agent/llm/tokens"
)

// Fixed is how many tokens are sent beside the transcript: prompt and tools.
const Fixed = 6000

// A Bench is an engine under measurement. Without an engine nothing is made
// smaller.
type Bench struct {
	Engine  agent.Engine
	Session *enginetest.Session
	Reader  *Reader
	Price   pricing.Price
	// Search reports whether the archive of the session holds a text. nil: by
	// comparing each archived message.
	Search func(ctx context.Context, text string) (bool, error)
}

// A Report is what became of a conversation.
type Report struct {
	Calls, Passes int
	Largest       int // tokens of the largest call
	Sent          int // tokens of all calls
	Summary       int // tokens of all calls of the summary model, answers included
	Cost          pricing.USD
	// Context, Search and Lost count the facts that stand in the context, that do
	// not but are found in the archive, and that are nowhere.
	Context, Search, Lost int
}

// Play makes one call for each message of the assistant, with a pass before it
// where one is due. A prefix that was sent with the call before is read from
// the cache, and the rest is written to it.
func (b Bench) Play(ctx context.Context, c Conversation) (Report, error) {
	var rep Report
	size, known := Fixed, 0
	for _, m := range c.Messages {
		if m.Role == llm.Assistant {
			if b.Engine != nil && b.Engine.ShouldCompress(size) {
				same, err := b.pass(ctx, size)
				if err != nil {
					return rep, err
				}
				if same >= 0 {
					size, known = Fixed+sum(b.Session.Active()), same
					rep.Passes++
				}
			}
			rep.Calls++
			rep.Sent += size
			rep.Largest = max(rep.Largest, size)
			rep.Cost += b.Price.Floor(llm.Usage{Input: size, Output: tokens.Message(m)}, known, 0)
			known = size
		}
		b.Session.Append(m)
		size += tokens.Message(m)
	}
	if b.Reader != nil {
		rep.Summary = b.Reader.Usage.Prompt() + b.Reader.Usage.Output
		rep.Cost += b.Price.Uncached(b.Reader.Usage)
	}
	return rep, b.count(ctx, c, &rep)
}

// pass makes a pass, and returns how many tokens of the next call were sent with
// the last one; -1 if the engine rests.
func (b Bench) pass(ctx context.Context, size int) (same int, err error) {
	before := b.Session.Active()
	v := b.Session.View()
	v.FixedTokens, v.Tokens = Fixed, size
	p, err := b.Engine.Compress(ctx, v)
	if errors.Is(err, agent.ErrCoolingDown) {
		return -1, nil
	}
	if err != nil {
		return 0, err
	}
	b.Session.Adopt(p)
	if v.First == 0 && p.PromptNote != "" {
		return 0, nil // the note changes the system prompt, with which a call begins
	}
	return Fixed + sum(before[:p.From]), nil
}

func sum(ms []llm.Message) (n int) {
	for _, m := range ms {
		n += tokens.Message(m)
	}
	return n
}

// count looks for each fact.
func (b Bench) count(ctx context.Context, c Conversation, rep *Report) error {
	active, archived := b.Session.Active(), b.Session.Archived()
	for _, key := range c.Keys {
		found := enginetest.Holds(active, key)
		if found {
			rep.Context++
			continue
		}
		if b.Search == nil {
			found = enginetest.Holds(archived, key)
		} else {
			var err error
			if found, err = b.Search(ctx, key); err != nil {
				return err
			}
		}
		if found {
			rep.Search++
		} else {
			rep.Lost++
		}
	}
	return nil
}
