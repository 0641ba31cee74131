// Package lcm is a context engine that forgets nothing: what leaves the context
// becomes the leaf of a tree of summaries, and the model can go down from a
// summary to the messages it stands for, word for word.
//
//	          3: messages 0 to 310            in the context, when it must be
//	         /       |        \
//	0: 0 to 99  1: 100 to 204  2: 205 to 310  in the context, while they fit
//	    |            |             |
//	 messages     messages      messages      in the archive, always
//
// The context holds the top of the tree: the newest leaves on their own, and of
// older ones the node above them as soon as all do not fit. The tools lcm_grep,
// lcm_describe and lcm_expand read the rest.
package lcm

import (
	"context"
	"fmt"

	"hermesd/agent/llm"
)

// An Archive reads the messages of one session by their numbers, active or
// archived. Its methods may be called from any goroutine.
type Archive interface {
	// Rows returns the messages from from on, to not included, as far as there
	// are.
	Rows(ctx context.Context, from, to int) ([]llm.Message, error)
}

// page is how many messages are read at once.
const page = 200

// each calls f for the messages from from on, to to not included, until f
// returns false.
func each(ctx context.Context, a Archive, from, to int, f func(n int, m llm.Message) bool) error {
	for from < to {
		ms, err := a.Rows(ctx, from, min(from+page, to))
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
