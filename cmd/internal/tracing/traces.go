// Package tracing exports each turn as an OpenTelemetry trace to a collector:
//
//	message        ├──────────────────────────┤        from acceptance to commit
//	  wait         ├────┤                              until its turn begins
//	  turn              ├─────────────────────┤        one for each run of it
//	    chat MODEL       ├──────┤   ├────────┤
//	    execute_tool …           ├─┤
//	  deliver                                  ├───┤   one for each attempt
//
// A [Tracer] observes the events of package observe. Spans contain no text and no
// IDs of users, chats and conversations. The trace ID is derived from the turn ID, so
// that deliveries after a restart belong to the same trace.
//
// Nothing waits for tracing: spans that the collector does not accept in time are
// dropped.
package tracing

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"

	"hermesd/gateway/observe"
)

// A Tracer creates spans from events. A nil Tracer does nothing. Observe may be
// called from any goroutine.
type Tracer struct {
	client   *client
	log      *zap.Logger
	provider *sdk.TracerProvider
	spans    trace.Tracer

	mu    sync.Mutex            // guards turns
	turns map[string]trace.Span // running turns
}

// New returns a Tracer that exports spans as s says. The sampler, the attributes of
// the resource and the sizes of queues follow the OTEL_ variables of the process.
func New(s Settings, version string, log *zap.Logger) (*Tracer, error) {
	c, err := newClient(s)
	if err != nil {
		return nil, err
	}
	r, err := resource.New(context.Background(), resource.WithTelemetrySDK(),
		resource.WithAttributes(attribute.String("service.name", "hermesd"), attribute.String("service.version", version)), resource.WithFromEnv())
	if err != nil {
		log.Warn("cannot read trace resource attributes", zap.Error(err)) // the valid ones are used
	}
	out := &exporter{SpanExporter: otlptrace.NewUnstarted(c), to: s.Shown(), log: log}
	p := sdk.NewTracerProvider(sdk.WithBatcher(out), sdk.WithResource(r), sdk.WithIDGenerator(ids{}))
	return &Tracer{client: c, log: log, provider: p, spans: p.Tracer("hermesd", trace.WithInstrumentationVersion(version)), turns: make(map[string]trace.Span)}, nil
}

// closeTimeout limits the time that Close takes to export the remaining spans.
const closeTimeout = 2 * time.Second

// Close exports the remaining spans for at most closeTimeout. It logs if spans are
// lost and always returns nil.
func (t *Tracer) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	err := t.provider.ForceFlush(ctx)
	t.client.cancel()
	if err = errors.Join(err, t.provider.Shutdown(context.Background())); err != nil {
		t.log.Warn("cannot export the last traces", zap.Error(err))
	}
	return nil
}

// Observe creates or updates spans for an event of the gateway.
func (t *Tracer) Observe(e observe.Event) {
	if t == nil {
		return
	}
	switch e := e.(type) {
	case observe.TurnStarted:
		t.startTurn(e)
	case observe.ModelCalled:
		t.recordModelCall(e)
	case observe.ToolCalled:
		s := t.startSpan(e.Turn, "execute_tool "+clean(e.Tool), trace.SpanKindInternal, e.Took)
		s.SetAttributes(attribute.String("gen_ai.operation.name", "execute_tool"), attribute.String("gen_ai.tool.name", clean(e.Tool)))
		if e.Failed {
			s.SetStatus(codes.Error, "the tool failed")
		}
		s.End()
	case observe.ModelRetried:
		t.addEvent(e.Turn, "model call failed", attribute.String("error.type", observe.ErrorClass(e.Class)), attribute.String("hermesd.fallback", clean(e.Fallback)))
	case observe.Compacted:
		t.addEvent(e.Turn, "compaction", attribute.String("hermesd.engine", clean(e.Engine)), attribute.String("hermesd.reason", e.Reason), attribute.Bool("hermesd.failed", e.Failed),
			attribute.Int("hermesd.tokens.before", e.Before), attribute.Int("hermesd.tokens.after", e.After))
	case observe.DeliveryAttempted:
		t.recordDelivery(e)
	case observe.TurnEnded:
		t.endTurn(e)
	}
}

// messageContext returns the context of the span of the whole message. endTurn exports that
// span; before, it is only referred to as a parent.
func (t *Tracer) messageContext(turn string) context.Context {
	_, s := t.spans.Start(contextFor(turn), "message", trace.WithNewRoot())
	return trace.ContextWithSpanContext(context.Background(), s.SpanContext())
}

func turnAttributes(e observe.TurnStarted) []attribute.KeyValue {
	return []attribute.KeyValue{
		attribute.String("hermesd.turn", e.Turn), attribute.String("hermesd.kind", string(e.Kind)), attribute.Bool("hermesd.resumed", e.Resumed),
		attribute.String("messaging.system", string(e.Platform)), attribute.String("messaging.operation.type", "process"),
	}
}

func (t *Tracer) startTurn(e observe.TurnStarted) {
	message := t.messageContext(e.Turn)
	if !e.Resumed {
		_, s := t.spans.Start(message, "wait", trace.WithTimestamp(e.Accepted))
		s.End(trace.WithTimestamp(e.At))
	}
	_, s := t.spans.Start(message, "turn", trace.WithTimestamp(e.At), trace.WithAttributes(turnAttributes(e)...))
	t.mu.Lock()
	defer t.mu.Unlock()
	t.turns[e.Turn] = s
}

func (t *Tracer) endTurn(e observe.TurnEnded) {
	t.mu.Lock()
	s := t.turns[e.Turn]
	delete(t.turns, e.Turn)
	t.mu.Unlock()
	over := trace.WithTimestamp(e.At.Add(e.Took))
	finish := func(s trace.Span) {
		s.SetAttributes(attribute.String("hermesd.result", string(e.Result)))
		if e.Result == observe.Failed {
			s.SetStatus(codes.Error, "the turn failed; the log has its error")
		}
		s.End(over)
	}
	if s != nil {
		finish(s)
	}
	if e.Result == observe.Released { // the turn starts again later
		return
	}
	_, root := t.spans.Start(contextFor(e.Turn), "message", trace.WithNewRoot(), trace.WithTimestamp(e.Accepted), trace.WithSpanKind(trace.SpanKindConsumer),
		trace.WithAttributes(turnAttributes(e.TurnStarted)...))
	finish(root)
}

// turnContext returns the context of the running turn, or of its message if no turn
// runs.
func (t *Tracer) turnContext(turn string) context.Context {
	t.mu.Lock()
	s := t.turns[turn]
	t.mu.Unlock()
	if s == nil {
		return t.messageContext(turn)
	}
	return trace.ContextWithSpan(context.Background(), s)
}

// startSpan starts a span of a turn that ends now and lasted took.
func (t *Tracer) startSpan(turn, name string, kind trace.SpanKind, took time.Duration) trace.Span {
	_, s := t.spans.Start(t.turnContext(turn), name, trace.WithSpanKind(kind), trace.WithTimestamp(time.Now().Add(-took)))
	return s
}

// addEvent adds an event without a duration to the span of a turn.
func (t *Tracer) addEvent(turn, what string, with ...attribute.KeyValue) {
	trace.SpanFromContext(t.turnContext(turn)).AddEvent(what, trace.WithAttributes(with...))
}

func (t *Tracer) recordModelCall(e observe.ModelCalled) {
	model := clean(e.Model)
	s := t.startSpan(e.Turn, "chat "+model, trace.SpanKindClient, e.Took)
	s.SetAttributes(
		attribute.String("gen_ai.operation.name", "chat"), attribute.String("gen_ai.provider.name", e.Provider), attribute.String("gen_ai.request.model", model),
		attribute.Int("gen_ai.usage.input_tokens", e.Usage.Prompt()), attribute.Int("gen_ai.usage.output_tokens", e.Usage.Output),
		attribute.Int("gen_ai.usage.cache_read.input_tokens", e.Usage.CacheRead), attribute.Int("gen_ai.usage.cache_creation.input_tokens", e.Usage.CacheWrite),
		attribute.StringSlice("gen_ai.response.finish_reasons", []string{string(e.Stop)}))
	s.End()
}

func (t *Tracer) recordDelivery(e observe.DeliveryAttempted) {
	if e.Turn == "" || e.RateLimited {
		return
	}
	_, s := t.spans.Start(t.messageContext(e.Turn), "deliver", trace.WithSpanKind(trace.SpanKindProducer), trace.WithTimestamp(time.Now().Add(-e.Took)))
	s.SetAttributes(
		attribute.String("hermesd.turn", e.Turn), attribute.String("hermesd.row", e.Row), attribute.String("hermesd.role", e.Role),
		attribute.String("hermesd.state", e.State), attribute.Int("hermesd.attempt", e.Attempt),
		attribute.String("messaging.system", string(e.Platform)), attribute.String("messaging.operation.type", "send"))
	if e.State != "sent" {
		s.SetStatus(codes.Error, "not delivered; `hermesd outbox list` says why")
	}
	s.End()
}

// clean returns a name that can be exported: an invalid UTF-8 string would make the
// collector reject the whole batch.
func clean(s string) string { return strings.ToValidUTF8(s, "?") }

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

func (ids) NewSpanID(context.Context, trace.TraceID) (id trace.SpanID) {
	for !id.IsValid() {
		binary.NativeEndian.PutUint64(id[:], rand.Uint64())
	}
	return id
}
