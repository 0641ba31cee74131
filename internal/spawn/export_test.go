package spawn

import "context"

// OpenBackend is like Open but uses only one mechanism.
func OpenBackend(ctx context.Context, m Mechanism, p Policy) (*Sandbox, error) {
	return open(ctx, p, m)
}
