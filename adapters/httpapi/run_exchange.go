package httpapi

import (
	"context"
	"runtime/debug"
	"time"

	"go.uber.org/zap"

	"hermesd/adapters/httpapi/internal/openaiapi"
	"hermesd/gateway/chat"
)

// sender is who speaks in every request: whoever has the key.
var sender = chat.Person{ID: "key", Name: "HTTP client"}

// A line is the order in which the requests of one session are accepted: each
// waits until the one before has its answer, or nobody waits for that any more.
// So requests do not interrupt each other.
type line struct {
	place chan struct{} // holds one value while somebody is at its head
	users int           // guarded by Adapter.mu
}

// enter waits for the head of a session's line. ok is false if ctx ended first.
func (a *Adapter) enter(ctx context.Context, session string) (leave func(), ok bool) {
	a.mu.Lock()
	l := a.lines[session]
	if l == nil {
		l = &line{place: make(chan struct{}, 1)}
		a.lines[session] = l
	}
	l.users++
	a.mu.Unlock()
	gone := func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		if l.users--; l.users == 0 {
			delete(a.lines, session)
		}
	}
	select {
	case l.place <- struct{}{}:
		return func() { <-l.place; gone() }, true
	case <-ctx.Done():
		gone()
		return nil, false
	}
}

// runExchange leads an exchange to its acceptance and finds out when it ends without a
// word. ctx ends when nobody waits for the exchange any more.
func (a *Adapter) runExchange(ctx context.Context, e *exchange) {
	defer func() {
		if p := recover(); p != nil {
			a.o.Log.Error("cannot run exchange: panic", zap.Any("panic", p), zap.ByteString("stack", debug.Stack()))
			a.refused(e, notStored())
		}
	}()
	a.mu.Lock()
	ask := e.ask
	a.mu.Unlock()
	if ask != nil {
		if !e.command {
			leave, ok := a.enter(ctx, e.session)
			if !ok {
				return
			}
			defer leave()
		}
		if f := a.submit(ctx, e, ask); f != nil {
			a.refused(e, f)
			return
		}
	}
	a.follow(ctx, e)
}

func (a *Adapter) end(e *exchange, v result) {
	a.mu.Lock()
	defer a.mu.Unlock()
	e.endLocked(v)
}

// submit makes the exchange's message an accepted one, unless it is that
// already.
func (a *Adapter) submit(ctx context.Context, e *exchange, ask *openaiapi.Request) *openaiapi.Failure {
	if e.keyed && a.o.Lookup != nil {
		k, err := a.o.Lookup(ctx, e.inboundKey())
		if err != nil {
			return a.unavailable("look for the key", err)
		}
		if k.Accepted {
			a.took(e)
			if k.Ended {
				a.end(e, found(k))
			}
			return nil
		}
	}
	in, f := a.inbound(ctx, e, ask)
	if f != nil {
		return f
	}
	if !a.offer(e) { // nobody waits, and nothing has happened yet
		return stopping(false)
	}
	// Once it is on its way to the disk, a client that leaves changes nothing.
	if err := a.sink.Accept(context.WithoutCancel(ctx), []chat.Inbound{in}); err != nil {
		return a.unavailable("accept", err)
	}
	a.took(e)
	return nil
}

// offer notes that the exchange's message is about to be accepted, if somebody
// still waits for it.
func (a *Adapter) offer(e *exchange) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	e.offered = e.offered || e.listeners > 0
	return e.offered
}

// refused ends an exchange whose message was not taken. It can be sent again.
func (a *Adapter) refused(e *exchange, f *openaiapi.Failure) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if e.ask == nil { // another tending has had it taken meanwhile
		return
	}
	e.offered = false
	e.endLocked(result{err: f})
	if e.listeners == 0 {
		a.dropLocked(e)
	}
}

func (a *Adapter) took(e *exchange) {
	a.mu.Lock()
	defer a.mu.Unlock()
	e.offered, e.accepted, e.ask = true, true, nil // images are large
}

// unavailable is what a client is told when the store does not work.
func (a *Adapter) unavailable(what string, err error) *openaiapi.Failure {
	a.o.Log.Error("cannot submit request", zap.String("step", what), zap.Error(err))
	return notStored()
}

// inbound makes the exchange's event.
func (a *Adapter) inbound(ctx context.Context, e *exchange, r *openaiapi.Request) (chat.Inbound, *openaiapi.Failure) {
	in := chat.Inbound{
		IdempotencyKey: e.inboundKey(), ID: e.id, Kind: chat.Message, Address: Address(e.session), Sender: sender, SentAt: time.Now(),
		Text: r.Text, Prompt: r.Prompt, ChatName: e.session, Addressed: true,
	}
	var f *openaiapi.Failure
	if in.Files, f = a.files(ctx, r.Images); f != nil {
		return in, f
	}
	if len(r.History) == 0 || e.command || a.o.IsNewSession == nil {
		return in, nil
	}
	fresh, err := a.o.IsNewSession(ctx, in.Address)
	if err != nil {
		return in, a.unavailable("look for the session", err)
	}
	if fresh {
		in.Text = openaiapi.Quoted(r.History) + in.Text
	}
	return in, nil
}

// follow waits for the end of an accepted exchange. It asks what became of it:
// a turn that was stopped, for one, ends without a word. What the gateway has
// said may still be on its way, so only the second answer counts.
func (a *Adapter) follow(ctx context.Context, e *exchange) {
	tick := time.NewTicker(askAgain)
	defer tick.Stop()
	for before := false; ; {
		s := a.look(e)
		if s.over != nil {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-s.change:
			continue
		case <-tick.C:
		}
		if a.o.Lookup == nil {
			continue
		}
		k, err := a.o.Lookup(ctx, e.inboundKey())
		switch {
		case err != nil:
			a.o.Log.Warn("cannot look up request", zap.Error(err))
		case k.Ended && before:
			a.end(e, found(k))
		}
		before = err == nil && k.Ended
	}
}

// found is the verdict of what the store knows.
func found(k StoredMessage) result {
	switch {
	case k.Text != "":
		return result{text: k.Text}
	case k.Reason == "":
		k.Reason = "it ended without one"
	}
	return result{err: ended(k.Reason)}
}
