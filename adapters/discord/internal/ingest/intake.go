// Package ingest brings what the gateway tells into the sink, in order, and
// fills the gaps in it from the history of the channels.
//
// An event waits in a Feed until the sink has it on disk. A mark is the id of
// the newest message of a channel up to which everything is there; marks are
// kept over restarts. A new session of the gateway, a full feed and a start
// leave gaps: for each channel with a mark, the messages after it are read and
// offered before newer ones.
package ingest

import (
	"context"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"

	"hermesd/adapters/discord/internal/apiclient"
	"hermesd/adapters/discord/internal/inbound"
	"hermesd/adapters/internal/backoff"
	"hermesd/gateway/chat"
)

const (
	// batchMost is how many events are offered at once.
	batchMost = 64
	// stopLimit is how long the marks may take to be written at the end.
	stopLimit = 500 * time.Millisecond
)

// Options are what an intake works with. Only Memory may be nil.
type Options struct {
	Sink   chat.Sink
	Wire   *apiclient.Client
	Dir    *inbound.Directory
	Memory Memory
	Log    *zap.Logger
	// Converter returns the converter of the moment: the account's identity
	// comes with the first READY.
	Converter func() inbound.Converter
	// Expect hears of an event before it is offered; Taken of an interaction that
	// is on disk, side by side with everything else.
	Expect func(Event)
	Taken  func(context.Context, Event)
	// Own hears of messages of the account itself: their nonce and id.
	Own func(nonce, id string)
	// Storing hears why nothing can be stored; "": it can.
	Storing func(why string)
}

// An Event is one that goes to the sink.
type Event struct {
	In    chat.Inbound
	Place inbound.ChannelInfo
	// Interaction says how it can be answered, if it is one: it has an ID.
	Interaction inbound.Interaction

	own bool // a message of the account itself, which the sink need not have
}

// An intake is what Run works with. Its goroutine owns it.
type intake struct {
	o     Options
	marks *checkpoints
	calls sync.WaitGroup // what it has started

	healing map[string]*backfill // by channel
	pages   chan page
	slots   chan struct{} // of calls for history at the same time
}

// Run takes in what comes into f until ctx ends, and waits for what it has
// started.
func Run(ctx context.Context, f *EventQueue, o Options) {
	t := &intake{
		o: o, marks: newCheckpoints(o.Memory), healing: map[string]*backfill{},
		pages: make(chan page), slots: make(chan struct{}, healAtOnce),
	}
	save := time.NewTimer(markEvery)
	defer save.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-f.wake:
			items, lost := f.take()
			t.digest(ctx, items)
			if lost {
				o.Log.Error("more events than memory holds; the rest is read from the history")
				t.backfillWhere(ctx, func(string, checkpoint) bool { return true })
			}
		case p := <-t.pages:
			t.turn(ctx, p)
		case <-save.C:
			t.save(ctx)
			save.Reset(markEvery)
		}
	}
	t.calls.Wait()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopLimit)
	defer cancel()
	t.save(ctx)
}

func (t *intake) save(ctx context.Context) {
	err := t.marks.load(ctx, t.o.Converter().Me.ID)
	if err == nil {
		err = t.marks.save(ctx)
	}
	if err != nil && ctx.Err() == nil {
		t.o.Log.Warn("marks", zap.Error(err))
	}
}

// digest takes events in, in order.
func (t *intake) digest(ctx context.Context, items []item) {
	var batch []Event
	flush := func() {
		t.accept(ctx, batch)
		batch = nil
	}
	for _, it := range items {
		if ctx.Err() != nil {
			return
		}
		switch it.kind {
		case messageCreate, messageUpdate, interactionCreate:
			if e, ok := t.hold(ctx, it); ok {
				batch = append(batch, e)
			}
		case "READY":
			flush() // so that the marks are where they can be
			t.ready(ctx)
		default:
			if guild := t.o.Dir.Apply(it.kind, it.raw); guild != "" {
				flush()
				t.backfillGuild(ctx, guild)
			}
		}
		if len(batch) >= batchMost {
			flush()
		}
	}
	flush()
}

// hold puts an event aside while the gap before it is being filled, or converts
// it.
func (t *intake) hold(ctx context.Context, it item) (Event, bool) {
	guild, channel, _, err := inbound.Where(it.raw)
	if err != nil {
		t.o.Log.Warn("event skipped", zap.String("kind", it.kind), zap.Error(err))
		return Event{}, false
	}
	if h := t.healing[channel]; h != nil && !h.late && it.kind != interactionCreate {
		if len(h.held) < maxHeld {
			h.held = append(h.held, it)
		} else {
			h.again = true
		}
		return Event{}, false
	}
	p := t.place(ctx, guild, channel, it)
	return t.convert(it, p, t.marks.joined(p))
}

// accept offers a batch until the sink takes it, or ctx ends.
func (t *intake) accept(ctx context.Context, batch []Event) {
	if len(batch) == 0 {
		return
	}
	var events []chat.Inbound
	for _, e := range batch {
		if !e.own {
			events = append(events, e.In)
			t.o.Expect(e)
		}
	}
	var b backoff.Backoff
	for len(events) > 0 {
		err := accept(ctx, t.o.Sink, events)
		if err == nil {
			break
		}
		t.o.Log.Error("take in", zap.Error(err))
		t.o.Storing("messages cannot be stored: " + err.Error())
		if backoff.Sleep(ctx, b.Next()) != nil {
			return
		}
	}
	if len(events) > 0 {
		t.o.Storing("")
	}
	for _, e := range batch {
		if e.Interaction.ID != "" {
			t.calls.Go(func() { t.o.Taken(ctx, e) })
		}
		t.mark(e)
	}
	if t.marks.fresh {
		t.save(ctx)
	}
}

// accept hands a batch over; a panic of the sink is a refusal.
func accept(ctx context.Context, sink chat.Sink, batch []chat.Inbound) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("accept: panic: %v", p)
		}
	}()
	return sink.Accept(ctx, batch)
}

// mark notes that an event is on disk.
func (t *intake) mark(e Event) {
	in := e.In
	switch {
	case e.Interaction.ID != "":
		if in.IgnoreRule == "" {
			t.marks.reach(e.Place, e.Interaction.ID, true)
		}
		return
	case in.Kind != chat.Message:
		return
	}
	t.marks.reach(e.Place, in.ID, in.IgnoreRule == "")
	if in.IgnoreRule == "" && in.Address.Thread != "" && in.Address.Thread != e.Place.ID { // it opens a thread
		t.marks.reach(inbound.ChannelInfo{ID: in.Address.Thread, Guild: e.Place.Guild, Parent: e.Place.ID, Type: inbound.PublicThread}, in.ID, true)
	}
}
