package recallbench_test

import (
	"context"
	"errors"

	"hermesd/agent"
	"hermesd/agent/engine/enginetest"
	"hermesd/agent/llm"
	"hermesd/agent/llm/pricing"
	"hermesd/agent/llm/tokens"
)

// Fixed is the number of tokens that each call sends for prompt and tools.
const Fixed = 6000

// A Bench is an engine under measurement. If Engine is nil, nothing is
// compacted.
type Bench struct {
	Engine  agent.Engine
	Session *enginetest.Session
	Reader  *Reader
	Price   pricing.Price
	// Search reports whether the archive of the session contains a text; nil
	// compares each archived message.
	Search func(ctx context.Context, text string) (bool, error)
}

// A Report is the result of a conversation.
type Report struct {
	Calls, Passes int
	Largest       int // tokens of the largest call
	Cost          pricing.USD
	// Context, Search and Lost count the facts in the context, the other facts
	// found in the archive, and those found nowhere.
	Context, Search, Lost int
}

// Play makes one call for each assistant message, after a compaction if one is
// due. The prefix shared with the previous call is read from the cache, and the
// rest is written to it.
func (b Bench) Play(ctx context.Context, c Conversation) (Report, error) {
	var rep Report
	size, known := Fixed, 0
	for _, m := range c.Messages {
		if m.Role == llm.Assistant {
			if b.Engine != nil && b.Engine.ShouldCompress(size) {
				same, err := b.compact(ctx, size)
				if err != nil {
					return rep, err
				}
				if same >= 0 {
					size, known = Fixed+sumTokens(b.Session.Active()), same
					rep.Passes++
				}
			}
			rep.Calls++
			rep.Largest = max(rep.Largest, size)
			rep.Cost += b.Price.Floor(llm.Usage{Input: size, Output: tokens.Message(m)}, known, 0)
			known = size
		}
		b.Session.Append(m)
		size += tokens.Message(m)
	}
	if b.Reader != nil {
		rep.Cost += b.Price.Uncached(b.Reader.Usage)
	}
	return rep, b.countFacts(ctx, c, &rep)
}

// compact makes a compaction and returns how many tokens of the next call were
// part of the last one; -1 if the engine is cooling down.
func (b Bench) compact(ctx context.Context, size int) (same int, err error) {
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
	return Fixed + sumTokens(before[:p.From]), nil
}

func sumTokens(ms []llm.Message) (n int) {
	for _, m := range ms {
		n += tokens.Message(m)
	}
	return n
}

// countFacts looks for each fact.
func (b Bench) countFacts(ctx context.Context, c Conversation, rep *Report) error {
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
