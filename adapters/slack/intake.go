package slack

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"go.uber.org/zap"

	"hermesd/adapters/slack/internal/connection"
	"hermesd/adapters/slack/internal/inbound"
	"hermesd/gateway/chat"
	"hermesd/internal/backoff"
)

const (
	maxQueue = 2000 // maximum number of queued envelopes; Slack redelivers the rest
	maxBatch = 64
)

// An item is one received envelope, or a message from a history.
type item struct {
	env inbound.Envelope
	// ack acknowledges the envelope to Slack; nil for a message from a history,
	// which is in body.
	ack  func() error
	body inbound.Body
}

// An intake passes the events of sockets to the sink, in order. put never
// blocks, even while the sink does: the library stalls when its events are not
// received.
type intake struct {
	a    *Adapter
	sink chat.Sink
	wake chan struct{}
	fail context.CancelCauseFunc // ends the adapter with a ConfigError

	mu    sync.Mutex // guards the fields below
	queue []item
	gap   bool      // events may be missing before those in the queue
	since time.Time // when the gap began
	full  bool
	// todo holds the histories that are still to be fetched by the background
	// goroutine, which collects in missed what cannot be backfilled; missed is
	// nil while there is no such goroutine.
	todo   []historyRequest
	missed *missedNotes
}

func newIntake(a *Adapter, sink chat.Sink, fail context.CancelCauseFunc) *intake {
	return &intake{a: a, sink: sink, fail: fail, wake: make(chan struct{}, 1)}
}

type socketHandler struct {
	a  *Adapter
	in *intake
}

func (o *socketHandler) Take(e inbound.Envelope, ack func() error) { o.in.put(item{env: e, ack: ack}) }
func (o *socketHandler) Lost(since time.Time)                      { o.in.lost(since) }
func (o *socketHandler) Set(s chat.State, why string)              { o.a.health.Set(s, why) }
func (o *socketHandler) Shared(why string)                         { o.a.note(&o.a.shared, why) }
func (o *socketHandler) Alive()                                    { o.a.health.MarkAlive() }
func (o *socketHandler) Proof() time.Time                          { return o.a.health.State().LastContact }

// put queues an item. It never blocks.
func (n *intake) put(it item) {
	n.mu.Lock()
	full := len(n.queue) >= maxQueue
	if !full {
		n.queue = append(n.queue, it)
	}
	tell := full && !n.full
	n.full = full
	n.mu.Unlock()
	if tell {
		n.a.log.Error("event queue is full; Slack will redeliver the rest", zap.Int("waiting", maxQueue))
		n.a.miss("too many messages waited to be stored; what Slack did not send again is missing")
	}
	n.rouse()
}

// lost records that events since the given time may be missing before those put
// from now on.
func (n *intake) lost(since time.Time) {
	n.mu.Lock()
	if !n.gap {
		n.gap, n.since = true, since
	}
	n.mu.Unlock()
	n.rouse()
}

func (n *intake) rouse() {
	select {
	case n.wake <- struct{}{}:
	default:
	}
}

// next removes up to one batch from the queue.
func (n *intake) next() (batch []item, gap bool, since time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.gap {
		n.gap = false
		return nil, true, n.since
	}
	k := min(len(n.queue), maxBatch)
	batch = append(batch, n.queue[:k]...)
	n.queue = n.queue[k:]
	if len(n.queue) == 0 {
		n.queue = nil
	}
	return batch, false, time.Time{}
}

// work passes all items to the sink until ctx ends.
func (n *intake) work(ctx context.Context) {
	var rest sync.WaitGroup // background backfills
	defer rest.Wait()
	for ctx.Err() == nil {
		batch, gap, since := n.next()
		switch {
		case gap:
			n.backfill(ctx, since, &rest)
		case len(batch) > 0:
			n.take(ctx, batch)
		default:
			select {
			case <-ctx.Done():
			case <-n.wake:
			}
		}
	}
}

// take offers a batch until the sink accepts it, then acknowledges it. It does
// not give up, although only the order of later events requires that: Slack
// stops redelivering after some minutes, and then the events exist nowhere else.
func (n *intake) take(ctx context.Context, batch []item) {
	a := n.a
	events := make([]chat.Inbound, 0, len(batch))
	c := a.converter()
	lctx, cancel := context.WithTimeout(ctx, lookTimeout)
	for _, it := range batch {
		if in, ok := n.convert(lctx, c, it); ok {
			events = append(events, in)
		}
	}
	cancel()
	b := backoff.Backoff{First: connection.First}
	for len(events) > 0 {
		err := n.accept(ctx, events)
		if err == nil {
			a.note(&a.storing, "")
			break
		}
		a.log.Error("cannot store events", zap.Int("events", len(events)), zap.Error(err))
		a.note(&a.storing, "messages cannot be stored: "+err.Error())
		if backoff.Sleep(ctx, b.Next()) != nil {
			return
		}
	}
	for _, in := range events {
		if _, ok := a.dismissed.Load(in.IdempotencyKey); ok && in.Address.Kind != chat.DM { // direct chats are known, so that they are not looked for
			in.Addressed = false
		}
		a.places.MarkSeen(in)
	}
	for _, in := range events { // a message and its mention have the same key
		a.dismissed.Delete(in.IdempotencyKey)
	}
	for _, it := range batch {
		if it.ack == nil {
			continue
		}
		if err := it.ack(); err != nil {
			a.log.Debug("cannot acknowledge envelope; Slack will redeliver it", zap.String("envelope", it.env.ID), zap.Error(err))
		}
	}
}

// accept passes a batch to the sink; a panic of the sink counts as a rejection.
func (n *intake) accept(ctx context.Context, batch []chat.Inbound) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("accept: panic: %v", p)
		}
	}()
	return n.sink.Accept(ctx, batch) //nolint:wrapcheck // the caller adds the operation
}

func (a *Adapter) converter() inbound.Converter {
	return inbound.Converter{
		Account: a.o.Account, Me: a.identity(), Rules: a.rules,
		Joined: a.places.Joined, Name: a.people.Name, Room: a.people.Room,
	}
}

// convert converts one item. It always settles the item: one that cannot be
// converted is recorded if it says where it happened, and never fetched again.
func (n *intake) convert(ctx context.Context, c inbound.Converter, it item) (in chat.Inbound, ok bool) {
	a := n.a
	quarantine := func(err error) (chat.Inbound, bool) {
		a.log.Error("cannot convert event", zap.String("rule", inbound.RuleUnreadable), zap.String("type", it.env.Type), zap.Error(err))
		a.log.Debug("unconverted event", zap.ByteString("raw", it.env.Payload))
		return c.Quarantined(it.env, time.Now())
	}
	defer func() {
		if p := recover(); p != nil {
			a.log.Error("cannot convert event: panic", zap.Any("panic", p), zap.ByteString("stack", debug.Stack()))
			in, ok = quarantine(fmt.Errorf("panic: %v", p))
		}
	}()
	if it.ack == nil {
		a.people.Load(ctx, inbound.Subject{Channel: it.body.Channel, Kind: it.body.ChannelType, User: it.body.User})
		return c.Message(it.body)
	}
	about := inbound.Of(it.env)
	a.people.Load(ctx, about)
	in, ok, err := a.conv(c, it.env, time.Now())
	if err != nil {
		return quarantine(err)
	}
	if ok && about.ResponseURL != "" {
		a.urls.put(in, about.ResponseURL)
	}
	return in, ok
}
