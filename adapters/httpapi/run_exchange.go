package httpapi

import (
	"context"
	"errors"
	"runtime/debug"
	"time"

	"go.uber.org/zap"

	"hermesd/adapters/httpapi/internal/openaiapi"
	"hermesd/gateway/chat"
)

// sender is the sender of every request: the holder of the key.
var sender = chat.Person{ID: "key", Name: "HTTP client"}

// A line is the order in which the requests of one session are accepted: each
// waits until the previous one has its answer, or no client waits for that any
// more. Therefore requests do not interrupt each other.
type line struct {
	place chan struct{} // holds one value while a request is at the head
	users int           // guarded by Adapter.mu
}

// enter waits for the head of a session's line. ok is false if ctx ended first.
func (a *Adapter) enter(ctx context.Context, session string) (release func(), ok bool) {
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

// runExchange submits the exchange's message and detects a turn that ends
// without a message. ctx ends when no client waits for the exchange any more.
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
			release, ok := a.enter(ctx, e.session)
			if !ok {
				return
			}
			defer release()
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

// submit has the exchange's message accepted, unless it already is.
func (a *Adapter) submit(ctx context.Context, e *exchange, ask *openaiapi.Request) *openaiapi.Failure {
	if e.keyed {
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
	if !a.offer(e) { // no client waits, and nothing has happened yet
		return stopping(false)
	}
	// Once the message is being stored, it no longer matters whether the client
	// disconnects.
	if err := a.sink.Accept(context.WithoutCancel(ctx), []chat.Inbound{in}); err != nil {
		return a.unavailable("accept", err)
	}
	a.took(e)
	return nil
}

// offer records that the exchange's message is about to be accepted, if a client
// still waits for it.
func (a *Adapter) offer(e *exchange) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	e.offered = e.offered || e.listeners > 0
	return e.offered
}

// refused ends an exchange whose message was not accepted. It can be sent again.
func (a *Adapter) refused(e *exchange, f *openaiapi.Failure) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if e.ask == nil { // another goroutine has had it accepted in the meantime
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
	e.offered, e.accepted, e.ask = true, true, nil // releases the images, which are large
}

// unavailable logs a failure of the store and returns the client's error.
func (a *Adapter) unavailable(what string, err error) *openaiapi.Failure {
	a.o.Log.Error("cannot submit request", zap.String("step", what), zap.Error(err))
	if errors.Is(err, chat.ErrOutcomeUnknown) {
		return maybeStored()
	}
	return notStored()
}

func (a *Adapter) inbound(ctx context.Context, e *exchange, r *openaiapi.Request) (chat.Inbound, *openaiapi.Failure) {
	in := chat.Inbound{
		IdempotencyKey: e.inboundKey(), ID: e.id, Kind: chat.Message, Address: Address(e.session), Sender: sender, SentAt: time.Now(),
		Text: r.Text, Prompt: r.Prompt, ChatName: e.session, Addressed: true,
	}
	var f *openaiapi.Failure
	if in.Files, f = a.files(ctx, r.Images); f != nil {
		return in, f
	}
	if len(r.History) == 0 || e.command {
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

// follow waits for the end of an accepted exchange. It polls Lookup, because a
// turn may end without a message, for example when it was stopped. A message of
// the gateway may still be on its way, so only the second such result counts.
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

// found returns the result for what the store knows.
func found(k StoredMessage) result {
	switch {
	case k.Text != "":
		return result{text: k.Text}
	case k.Reason == "":
		k.Reason = "it ended without one"
	}
	return result{err: ended(k.Reason)}
}
