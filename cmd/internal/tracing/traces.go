// Package tracing draws each turn as an OpenTelemetry trace and sends it to a
// collector:
//
//	message        ├──────────────────────────┤        from acceptance to commit
//	  wait         ├────┤                              until its turn begins
//	  turn              ├─────────────────────┤        one for each run of it
//	    chat MODEL       ├──────┤   ├────────┤
//	    execute_tool …           ├─┤
//	  deliver                                  ├───┤   one for each attempt
//
// Spans hold no texts, and no ids of people, chats and conversations. The id of a
// trace follows from that of its turn, so that what is delivered after a restart
// stands in the same trace.
//
// Tracing is decoration: nothing waits for it. Spans that the collector does not
// take in time are dropped.
package tracing

import (
	"context"
	"errors"
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

// A Tracer draws turns. A nil one draws nothing. Observe may be called from any
// goroutine.
type Tracer struct {
	client   *client
	log      *zap.Logger
	provider *sdk.TracerProvider
	spans    trace.Tracer

	mu    sync.Mutex            // guards what follows
	turns map[string]trace.Span // those under way
}

// New returns a Tracer that sends to where s says. The sampler, the attributes of
// the resource and the sizes of queues follow the OTEL_ variables of the process.
func New(s Settings, version string, log *zap.Logger) (*Tracer, error) {
	c, err := newClient(s)
	if err != nil {
		return nil, err
	}
	r, err := resource.New(context.Background(), resource.WithTelemetrySDK(),
		resource.WithAttributes(attribute.String("service.name", "hermesd"), attribute.String("service.version", version)), resource.WithFromEnv())
	if err != nil {
		log.Warn("attributes of the traces", zap.Error(err)) // those that could be read count
	}
	out := &exporter{SpanExporter: otlptrace.NewUnstarted(c), to: s.Shown(), log: log}
	p := sdk.NewTracerProvider(sdk.WithBatcher(out), sdk.WithResource(r), sdk.WithIDGenerator(ids{}))
	return &Tracer{client: c, log: log, provider: p, spans: p.Tracer("hermesd", trace.WithInstrumentationVersion(version)), turns: make(map[string]trace.Span)}, nil
}

// closing is how long the last spans may take.
const closing = 2 * time.Second

// Close sends what there is, for a moment. What the collector does not take by
// then is lost, and the log says so.
func (t *Tracer) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closing)
	defer cancel()
	err := t.provider.ForceFlush(ctx)
	t.client.end()
	if err = errors.Join(err, t.provider.Shutdown(context.Background())); err != nil {
		t.log.Warn("the last traces are lost", zap.Error(err))
	}
	return nil
}

// Observe draws what happens on the road.
func (t *Tracer) Observe(e observe.Event) {
	if t == nil {
		return
	}
	switch e := e.(type) {
	case observe.TurnStarted:
		t.began(e)
	case observe.ModelCalled:
		t.called(e)
	case observe.ToolCalled:
		s := t.within(e.Turn, "execute_tool "+clean(e.Tool), trace.SpanKindInternal, e.Took)
		s.SetAttributes(attribute.String("gen_ai.operation.name", "execute_tool"), attribute.String("gen_ai.tool.name", clean(e.Tool)))
		if e.Failed {
			s.SetStatus(codes.Error, "the tool failed")
		}
		s.End()
	case observe.ModelRetried:
		t.noted(e.Turn, "model call failed", attribute.String("error.type", string(e.Class)), attribute.String("hermesd.fallback", clean(e.Fallback)))
	case observe.Compacted:
		t.noted(e.Turn, "compaction", attribute.String("hermesd.engine", clean(e.Engine)), attribute.String("hermesd.why", e.Reason), attribute.Bool("hermesd.failed", e.Failed),
			attribute.Int("hermesd.tokens.before", e.Before), attribute.Int("hermesd.tokens.after", e.After))
	case observe.DeliveryAttempted:
		t.attempted(e)
	case observe.TurnEnded:
		t.ended(e)
	}
}

// root is the context of the span that stands for the whole message. Only ended
// sends that span; before, it is a name to refer to.
func (t *Tracer) root(turn string) context.Context {
	_, s := t.spans.Start(named(turn), "message", trace.WithNewRoot())
	return trace.ContextWithSpanContext(context.Background(), s.SpanContext())
}

func about(e observe.TurnStarted) []attribute.KeyValue {
	return []attribute.KeyValue{
		attribute.String("hermesd.turn", e.Turn), attribute.String("hermesd.kind", string(e.Kind)), attribute.Bool("hermesd.resumed", e.Resumed),
		attribute.String("messaging.system", string(e.Platform)), attribute.String("messaging.operation.type", "process"),
	}
}

func (t *Tracer) began(e observe.TurnStarted) {
	root := t.root(e.Turn)
	if !e.Resumed {
		_, s := t.spans.Start(root, "wait", trace.WithTimestamp(e.Accepted))
		s.End(trace.WithTimestamp(e.At))
	}
	_, s := t.spans.Start(root, "turn", trace.WithTimestamp(e.At), trace.WithAttributes(about(e)...))
	t.mu.Lock()
	defer t.mu.Unlock()
	t.turns[e.Turn] = s
}

func (t *Tracer) ended(e observe.TurnEnded) {
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
	if e.Result == observe.Released { // it begins again
		return
	}
	_, root := t.spans.Start(named(e.Turn), "message", trace.WithNewRoot(), trace.WithTimestamp(e.Accepted), trace.WithSpanKind(trace.SpanKindConsumer),
		trace.WithAttributes(about(e.TurnStarted)...))
	finish(root)
}

// under is the context of the turn that runs, or of its message.
func (t *Tracer) under(turn string) context.Context {
	t.mu.Lock()
	s := t.turns[turn]
	t.mu.Unlock()
	if s == nil {
		return t.root(turn)
	}
	return trace.ContextWithSpan(context.Background(), s)
}

// within begins a span of a turn that has taken so long.
func (t *Tracer) within(turn, name string, kind trace.SpanKind, took time.Duration) trace.Span {
	_, s := t.spans.Start(t.under(turn), name, trace.WithSpanKind(kind), trace.WithTimestamp(time.Now().Add(-took)))
	return s
}

// noted notes something that takes no time.
func (t *Tracer) noted(turn, what string, with ...attribute.KeyValue) {
	trace.SpanFromContext(t.under(turn)).AddEvent(what, trace.WithAttributes(with...))
}

func (t *Tracer) called(e observe.ModelCalled) {
	model := clean(e.Model)
	s := t.within(e.Turn, "chat "+model, trace.SpanKindClient, e.Took)
	s.SetAttributes(
		attribute.String("gen_ai.operation.name", "chat"), attribute.String("gen_ai.provider.name", e.Provider), attribute.String("gen_ai.request.model", model),
		attribute.Int("gen_ai.usage.input_tokens", e.Usage.Prompt()), attribute.Int("gen_ai.usage.output_tokens", e.Usage.Output),
		attribute.Int("gen_ai.usage.cache_read.input_tokens", e.Usage.CacheRead), attribute.Int("gen_ai.usage.cache_creation.input_tokens", e.Usage.CacheWrite),
		attribute.StringSlice("gen_ai.response.finish_reasons", []string{string(e.Stop)}))
	s.End()
}

func (t *Tracer) attempted(e observe.DeliveryAttempted) {
	if e.Turn == "" || e.RateLimited {
		return
	}
	_, s := t.spans.Start(t.root(e.Turn), "deliver", trace.WithSpanKind(trace.SpanKindProducer), trace.WithTimestamp(time.Now().Add(-e.Took)))
	s.SetAttributes(
		attribute.String("hermesd.turn", e.Turn), attribute.String("hermesd.row", e.Row), attribute.String("hermesd.role", e.Role),
		attribute.String("hermesd.state", e.State), attribute.Int("hermesd.attempt", e.Attempt),
		attribute.String("messaging.system", string(e.Platform)), attribute.String("messaging.operation.type", "send"))
	if e.State != "sent" {
		s.SetStatus(codes.Error, "not delivered; `hermesd outbox list` says why")
	}
	s.End()
}

// clean is a name that can be sent: one that is not UTF-8 would spoil all that is
// sent with it.
func clean(s string) string { return strings.ToValidUTF8(s, "?") }
