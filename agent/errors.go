package agent

import "errors"

var (
	// ErrEmpty says that the model answered with nothing, also when it was asked
	// again and told to go on.
	ErrEmpty = errors.New("agent: the model answered with nothing")
	// ErrBudget says that a turn used all its model calls, and that the model did
	// not even give a summary.
	ErrBudget = errors.New("agent: the turn used all its model calls")
	// ErrInvalidCalls says that the model called tools wrongly again and again.
	ErrInvalidCalls = errors.New("agent: the model kept calling tools in a way that cannot be run")
	// ErrSteps says that recorded steps do not belong to the turn, are damaged, or
	// are of a version that is not known.
	ErrSteps = errors.New("agent: the recorded steps cannot be resumed")
	// ErrNothing says that a turn holds nothing to answer.
	ErrNothing = errors.New("agent: there is nothing to answer")
)

// A RefusedError says that the model declined to answer. Nothing of its answer
// is in the transcript.
type RefusedError struct {
	Text     string // what it said, as it may be shown; often ""
	Provider string
}

func (e *RefusedError) Error() string {
	s := "agent: " + e.Provider + " declined to answer"
	if e.Text != "" {
		s += ": " + e.Text
	}
	return s
}

// errStopped says that the consumer wants no more events. It never leaves the
// package.
var errStopped = errors.New("agent: the consumer stopped")
