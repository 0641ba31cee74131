package tracing

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"math/rand/v2"

	"go.opentelemetry.io/otel/trace"
)

// turnKey is the context key of the turn whose root span is started.
type turnKey struct{}

// contextFor returns a context that names a turn for NewIDs.
func contextFor(turn string) context.Context {
	return context.WithValue(context.Background(), turnKey{}, turn)
}

// ids generates span IDs. Those of root spans are derived from their turns; others
// are random.
type ids struct{}

// NewIDs implements sdk.IDGenerator. The trace ID consists of the first bytes of the
// SHA-256 sum of the turn ID, the span ID of the following ones.
func (ids) NewIDs(ctx context.Context) (id trace.TraceID, root trace.SpanID) {
	turn, _ := ctx.Value(turnKey{}).(string)
	sum := sha256.Sum256([]byte(turn))
	copy(id[:], sum[:16])
	copy(root[:], sum[16:24])
	return id, root
}

// NewSpanID implements sdk.IDGenerator.
func (ids) NewSpanID(context.Context, trace.TraceID) (id trace.SpanID) {
	for !id.IsValid() {
		binary.NativeEndian.PutUint64(id[:], rand.Uint64())
	}
	return id
}
