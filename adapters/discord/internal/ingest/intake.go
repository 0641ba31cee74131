// Package ingest passes gateway events to the sink, in order, and backfills gaps
// from the history of the channels. The entry point is Run.
//
// An event waits in an EventQueue until the sink has stored it on disk. A
// checkpoint is the ID of the newest message of a channel up to which everything
// is stored; checkpoints are kept across restarts. A new gateway session, a full
// queue and a start cause gaps: for each channel with a checkpoint, the messages
// after it are fetched and offered before newer ones.
package ingest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"hermesd/adapters/discord/internal/apiclient"
	"hermesd/adapters/discord/internal/apierror"
	"hermesd/adapters/discord/internal/inbound"
	"hermesd/gateway/chat"
	"hermesd/internal/backoff"
)

const (
	// batchMost is the maximum number of events per batch.
	batchMost = 64
	// stopLimit is the time limit for saving the checkpoints at the end.
	stopLimit = 500 * time.Millisecond
)

// Options are the dependencies of Run. All of them are set.
type Options struct {
	Sink   chat.Sink
	Wire   *apiclient.Client
	Dir    *inbound.Directory
	Memory chat.Memory
	Log    *zap.Logger
	// Converter returns the current converter: the account's identity becomes
	// known with the first READY.
	Converter func() inbound.Converter
	// Expect is called with an event before it is offered. Taken is called with
	// an interaction that is on disk, in a goroutine of its own.
	Expect func(Event)
	Taken  func(context.Context, Event)
	// Dismissed reports whether a rule ended an event that the sink has accepted.
	Dismissed func(chat.Inbound) bool
	// Own is called for messages of the account itself, with their nonce and ID.
	Own func(nonce, id string)
	// Storing is called with the reason why events cannot be stored; "" when they
	// can.
	Storing func(why string)
}

// An Event is an event for the sink.
type Event struct {
	In    chat.Inbound
	Place inbound.ChannelInfo
	// Interaction has an ID if the event is an interaction, and then tells how to
	// answer it.
	Interaction inbound.Interaction

	own bool // a message of the account itself, which is not stored
}

// An intake is the state of Run. It is owned by Run's goroutine.
type intake struct {
	o     Options
	marks *checkpoints
	calls sync.WaitGroup // background calls

	healing map[string]*backfill // by channel
	pages   chan page
	slots   chan struct{} // limits concurrent history calls
}

// Run processes the events of f until ctx ends, and waits for its background
// calls.
func Run(ctx context.Context, f *EventQueue, o Options) {
	t := &intake{
		o: o, marks: &checkpoints{memory: o.Memory, all: map[string]checkpoint{}, gaps: map[string]bool{}}, healing: map[string]*backfill{},
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
				o.Log.Error("event queue is full; dropped events are backfilled")
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
		t.o.Log.Warn("cannot save checkpoints", zap.Error(err))
	}
}

// digest processes events in order.
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
			flush() // so that the checkpoints are current
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

// hold retains an event while the gap before it is being backfilled, otherwise
// converts it.
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

// accept offers a batch until the sink accepts it or ctx ends.
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
	opened := t.open(ctx, batch)
	var b backoff.Backoff
	for len(events) > 0 {
		err := accept(ctx, t.o.Sink, events)
		if err == nil {
			break
		}
		t.o.Log.Error("cannot store events", zap.Error(err))
		t.o.Storing("messages cannot be stored: " + err.Error())
		if backoff.Sleep(ctx, b.Next()) != nil {
			return
		}
	}
	if len(events) > 0 {
		t.o.Storing("")
	}
	for _, e := range batch {
		switch {
		case e.own:
		case t.o.Dismissed(e.In):
			e.In.IgnoreRule = ruleDismissed
		case e.In.IgnoreRule == "":
			delete(opened, e.Place.ID)
		}
		if e.Interaction.ID != "" {
			t.calls.Go(func() { t.o.Taken(ctx, e) })
		}
		t.mark(e)
	}
	for id := range opened { // nobody who is answered has written there
		t.marks.drop(id)
	}
	if t.marks.fresh {
		t.save(ctx)
	}
}

// ruleDismissed marks an event that starts no conversation.
const ruleDismissed = "dismissed"

// open creates and saves the checkpoints of conversations that start with batch,
// before their first event is accepted: after a crash they are backfilled. It returns
// the channels for which it has created one.
func (t *intake) open(ctx context.Context, batch []Event) (opened map[string]bool) {
	opened = map[string]bool{}
	for _, e := range batch {
		id := e.In.ID
		switch {
		case e.own || e.In.IgnoreRule != "":
			continue
		case e.Interaction.ID != "":
			id = e.Interaction.ID
		case e.In.Kind != chat.Message:
			continue
		}
		if _, ok := t.marks.all[e.Place.ID]; !ok {
			opened[e.Place.ID] = true
		}
		t.marks.reach(e.Place, inbound.IDBefore(id), true)
	}
	if t.marks.fresh {
		t.save(ctx)
	}
	return opened
}

// accept passes a batch to the sink; a panic of the sink counts as a rejection.
func accept(ctx context.Context, sink chat.Sink, batch []chat.Inbound) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("accept: panic: %v", p)
		}
	}()
	return sink.Accept(ctx, batch)
}

// mark records that an event is on disk.
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
	if in.IgnoreRule == "" && in.Address.Thread != "" && in.Address.Thread != e.Place.ID { // it starts a thread
		t.marks.reach(inbound.ChannelInfo{ID: in.Address.Thread, Guild: e.Place.Guild, Parent: e.Place.ID, Type: inbound.PublicThread}, in.ID, true)
	}
}

// An item is one event as received from the gateway.
type item struct {
	kind string
	raw  json.RawMessage
}

// An EventQueue holds events that wait to be processed. Events that do not fit
// are dropped and backfilled later. Its methods are safe for concurrent use.
type EventQueue struct {
	wake     chan struct{}
	maxItems int
	maxBytes int

	mu    sync.Mutex // guards the fields below
	items []item
	bytes int
	lost  bool
}

// NewEventQueue returns an empty queue that holds up to the given number of
// events and bytes of user events.
func NewEventQueue(items, bytes int) *EventQueue {
	return &EventQueue{wake: make(chan struct{}, 1), maxItems: items, maxBytes: bytes}
}

// Push appends an event. It never blocks. Events about guilds and channels are
// few and always fit.
func (f *EventQueue) Push(kind string, raw json.RawMessage) {
	said := strings.HasPrefix(kind, "MESSAGE_") || strings.HasPrefix(kind, "INTERACTION_")
	f.mu.Lock()
	if said && (len(f.items) >= f.maxItems || f.bytes+len(raw) > f.maxBytes) {
		f.lost = true
	} else {
		f.items = append(f.items, item{kind, raw})
		f.bytes += len(raw)
	}
	f.mu.Unlock()
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// take returns the queued events; lost is true if events were dropped after
// them.
func (f *EventQueue) take() (items []item, lost bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	items, lost = f.items, f.lost
	f.items, f.bytes, f.lost = nil, 0, false
	return items, lost
}

// The events that users cause by writing or pressing.
const (
	messageCreate     = "MESSAGE_CREATE"
	messageUpdate     = "MESSAGE_UPDATE"
	interactionCreate = "INTERACTION_CREATE"
)

// The number and duration of attempts to look up an unknown channel.
const (
	placeTries   = 3
	placeTimeout = 3 * time.Second
)

func (t *intake) place(ctx context.Context, guild, channel string, it item) inbound.ChannelInfo {
	if p, ok := t.o.Dir.Channel(channel); ok {
		return p
	}
	if m, ok := t.marks.all[channel]; ok && (guild == "") == (m.Guild == "") {
		return m.place(channel)
	}
	if guild == "" {
		return inbound.ChannelInfo{ID: channel, Type: inbound.Direct}
	}
	if it.kind == interactionCreate { // an interaction must be handled quickly and contains enough
		if p, ok := inbound.InteractionPlace(it.raw); ok {
			return p
		}
	}
	return t.lookUp(ctx, guild, channel)
}

// lookUp fetches a channel that the gateway has not reported. If that fails, it
// is treated as an ordinary channel of the guild.
func (t *intake) lookUp(ctx context.Context, guild, channel string) inbound.ChannelInfo {
	for try := range placeTries {
		var raw json.RawMessage
		cctx, cancel := context.WithTimeout(ctx, placeTimeout)
		err := t.o.Wire.Do(cctx, apiclient.Call{Method: "GET", Path: "channels/" + channel, Bucket: "channel/" + channel}, &raw)
		cancel()
		if err == nil {
			if p, ok := t.o.Dir.Learn(raw); ok {
				return p
			}
			break
		}
		t.o.Log.Warn("cannot look up channel", zap.String("channel", channel), zap.Error(err))
		s := apierror.Status(err)
		if s == http.StatusForbidden || s == http.StatusNotFound || backoff.Sleep(ctx, time.Duration(try)*time.Second) != nil {
			break
		}
	}
	return inbound.ChannelInfo{ID: channel, Guild: guild, Type: inbound.Unknown}
}

// convert converts one event. It always settles the event: one that cannot be
// converted is recorded if it says where it happened.
func (t *intake) convert(it item, p inbound.ChannelInfo, joined bool) (e Event, ok bool) {
	c := t.o.Converter()
	quarantine := func(err error) (Event, bool) {
		t.o.Log.Error("cannot convert event", zap.String("kind", it.kind), zap.String("rule", inbound.RuleUnreadable), zap.Error(err))
		in, ok := c.Quarantined(it.raw, p, time.Now())
		return Event{In: in, Place: p}, ok && it.kind == messageCreate
	}
	defer func() {
		if r := recover(); r != nil {
			t.o.Log.Error("cannot convert event: panic", zap.Any("panic", r), zap.ByteString("stack", debug.Stack()))
			e, ok = quarantine(fmt.Errorf("panic: %v", r))
		}
	}()
	e.Place = p
	var v inbound.ConvertResult
	var err error
	if it.kind == interactionCreate {
		e.In, e.Interaction, v, err = c.Interaction(it.raw, p, time.Now())
	} else {
		e.In, v, err = c.Message(it.raw, p, it.kind == messageUpdate, joined)
		t.own(it.raw, e.In, c)
	}
	if err != nil {
		return quarantine(err)
	}
	e.own = v == inbound.OwnMessage
	return e, v != inbound.Skipped
}

// own learns from the gateway which message resulted from which send.
func (t *intake) own(raw json.RawMessage, in chat.Inbound, c inbound.Converter) {
	if in.Sender.ID == "" || in.Sender.ID != c.Me.ID {
		return
	}
	var m struct {
		Nonce string `json:"nonce"`
	}
	var wrong *json.UnmarshalTypeError
	if err := json.Unmarshal(raw, &m); (err == nil || errors.As(err, &wrong)) && m.Nonce != "" {
		t.o.Own(m.Nonce, in.ID)
	}
}
