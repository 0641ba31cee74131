package tracing

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"math/rand/v2"

	"go.opentelemetry.io/otel/trace"
)

// A turnKey is the key under which a context names the turn whose root begins.
type turnKey struct{}

func named(turn string) context.Context {
	return context.WithValue(context.Background(), turnKey{}, turn)
}

// ids makes the ids of spans: those of roots out of their turns, others by chance.
type ids struct{}

// NewIDs implements sdk.IDGenerator. The id of a trace is the beginning of the
// SHA-256 of the turn's.
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
