package metrics

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"time"

	"hermesd/agent/llm"
	"hermesd/gateway/observe"
)

// Provider returns p wrapped so that its calls are counted. A nil Metrics returns p.
func (m *Metrics) Provider(p llm.Provider) llm.Provider {
	if m == nil {
		return p
	}
	return &provider{p, m}
}

// A provider counts the calls of the provider that it wraps.
type provider struct {
	llm.Provider
	m *Metrics
}

// trouble lists the outcomes that are zero from the first call of a model on.
var trouble = []llm.Class{llm.Auth, llm.Billing, llm.RateLimit, llm.Overloaded, llm.Server, llm.Timeout, llm.Network}

// A call is the state of one request.
type call struct {
	m         *Metrics
	on, model string
	began     time.Time
	heard     bool
}

func (p *provider) Stream(ctx context.Context, r *llm.Request) iter.Seq2[llm.Event, error] {
	return func(yield func(llm.Event, error) bool) {
		c := call{m: p.m, on: p.Name(), model: p.m.models.name(cmp.Or(r.Model, p.Name())), began: time.Now()}
		for _, class := range trouble {
			p.m.calls.WithLabelValues(c.on, c.model, observe.ErrorClass(class))
		}
		outcome := string(llm.Network) // if the stream ends without Done
		defer func() { p.m.calls.WithLabelValues(c.on, c.model, outcome).Inc() }()
		for e, err := range p.Provider.Stream(ctx, r) {
			switch done, ok := e.(llm.Done); {
			case err != nil:
				outcome = class(ctx, err)
			case ok:
				outcome = "ok"
				c.done(done)
			default:
				c.event(e)
			}
			if !yield(e, err) {
				if outcome == string(llm.Network) {
					outcome = "cancelled"
				}
				return
			}
		}
	}
}

func class(ctx context.Context, err error) string {
	if e, ok := errors.AsType[*llm.Error](err); ok {
		return observe.ErrorClass(e.Class)
	}
	if ctx.Err() != nil {
		return "cancelled"
	}
	return string(llm.Unknown)
}

func (c *call) event(e llm.Event) {
	if _, ok := e.(llm.Notice); ok || c.heard {
		return
	}
	c.heard = true
	c.m.firstToken.WithLabelValues(c.on, c.model).Observe(time.Since(c.began).Seconds())
}

func (c *call) done(d llm.Done) {
	m, u := c.m, d.Usage
	m.callTime.WithLabelValues(c.on, c.model).Observe(time.Since(c.began).Seconds())
	for kind, n := range map[string]int{"input": u.Input, "cache_read": u.CacheRead, "cache_write": u.CacheWrite, "output": u.Output} {
		m.tokens.WithLabelValues(c.on, c.model, kind).Add(float64(max(n, 0)))
	}
	if p, ok := m.prices.Price(cmp.Or(d.Model, c.model)); ok {
		m.cost.WithLabelValues(c.on, c.model).Add(max(float64(p.Cost(u)), 0))
	}
}
