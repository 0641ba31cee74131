package tool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
)

// New returns a tool whose input is decoded into an In. Fields that In does not have are
// ignored. For an input that cannot be decoded, the model gets an error text and run is not
// called. Constraints of the schema beyond types are checked by run itself.
func New[In any](s Spec, run func(ctx context.Context, c Call, in In) (string, error)) Tool {
	return typed[In]{s, run}
}

type typed[In any] struct {
	spec Spec
	run  func(context.Context, Call, In) (string, error)
}

func (t typed[In]) Spec() Spec { return t.spec }

func (t typed[In]) Run(ctx context.Context, c Call) (string, error) {
	var in In
	if err := json.Unmarshal(c.Input, &in); err != nil {
		var wrong *json.UnmarshalTypeError
		if errors.As(err, &wrong) && wrong.Field != "" {
			return "", fmt.Errorf("the argument %q does not take a %s", wrong.Field, wrong.Value)
		}
		return "", fmt.Errorf("the arguments do not fit: %w", err)
	}
	return t.run(ctx, c, in)
}
