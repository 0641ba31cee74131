// Package lcm implements a lossless context engine: each part of the
// conversation that leaves the context becomes a leaf of a tree of summaries,
// and the model can read down from a summary to the original messages.
//
//	          3: messages 0 to 310            in the context, if necessary
//	         /       |        \
//	0: 0 to 99  1: 100 to 204  2: 205 to 310  in the context, while they fit
//	    |            |             |
//	 messages     messages      messages      in the archive, always
//
// The context has the top of the tree: the newest leaves, and instead of older
// ones their parent as soon as not all fit. The tools lcm_grep, lcm_describe
// and lcm_expand read the rest. The main type is Engine, for one session; see
// agent.Engine for its concurrency.
package lcm

import (
	"context"
	"fmt"

	"hermesd/agent/llm"
)

// An Archive reads the messages of one session by number, active or archived.
// Its methods may be called from any goroutine.
type Archive interface {
	// Rows returns the existing messages with numbers from (inclusive) to to
	// (exclusive).
	Rows(ctx context.Context, from, to int) ([]llm.Message, error)
}

// pageSize is the number of messages that are read at once.
const pageSize = 200

// forEachMessage calls f for the messages with numbers from (inclusive) to to
// (exclusive) until f returns false.
func forEachMessage(ctx context.Context, a Archive, from, to int, f func(n int, m llm.Message) bool) error {
	for from < to {
		ms, err := a.Rows(ctx, from, min(from+pageSize, to))
		if err != nil {
			return fmt.Errorf("the archived messages from %d on cannot be read: %w", from, err)
		}
		for i, m := range ms {
			if !f(from+i, m) {
				return nil
			}
		}
		if len(ms) == 0 {
			return nil
		}
		from += len(ms)
	}
	return nil
}
