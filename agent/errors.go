package agent

import "errors"

var (
	// ErrEmpty means that the model answered with nothing, even when the
	// request was repeated and the model was asked to continue.
	ErrEmpty = errors.New("agent: empty model answer")
	// ErrBudget means that a turn used all its model calls or time and the model did
	// not even provide a summary.
	ErrBudget = errors.New("agent: budget of the turn is exhausted")
	// ErrInvalidCalls means that the model made invalid tool calls repeatedly.
	ErrInvalidCalls = errors.New("agent: repeated invalid tool calls")
	// ErrSteps means that recorded steps do not belong to the turn, are
	// corrupt, or have an unknown version.
	ErrSteps = errors.New("agent: cannot resume recorded steps")
	// ErrNothing means that a turn has no message to answer.
	ErrNothing = errors.New("agent: no message to answer")
)

// A RefusedError means that the model declined to answer. Nothing of its answer
// is in the transcript.
type RefusedError struct {
	Text     string // the model's answer, as it may be shown; often ""
	Provider string
}

func (e *RefusedError) Error() string {
	s := "agent: " + e.Provider + " declined to answer"
	if e.Text != "" {
		s += ": " + e.Text
	}
	return s
}

// errStopped means that the consumer wants no more events. It is not returned
// to callers of the package.
var errStopped = errors.New("agent: consumer stopped")
