package slack

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

const (
	ackWithin  = 3 * time.Second
	holdFor    = 2 * time.Second
	maxRetries = 3
)

// retryAfter returns the delay from a failed delivery to the next one: one
// second, one minute, five minutes.
func retryAfter(attempt int) time.Duration {
	switch attempt {
	case 1:
		return time.Second
	case 2:
		return time.Minute
	}
	return 5 * time.Minute
}

// A Spoil is a fault of an envelope.
type Spoil int

// Faults of envelopes.
const (
	Sound   Spoil = iota
	Lose          // sent, but lost before it arrives
	LoseAck       // arrives; the acknowledgement is lost
	Garble        // arrives as a frame that is not JSON
	Strange       // arrives with a payload that does not match its type
	Twice         // arrives twice, with the same envelope_id
	CutLink       // arrives, then the socket is cut
	Hold          // arrives 2 s late, after events that were sent later
)

// A spoiled is an active Spoil.
type spoiled struct {
	kind  Spoil
	match func(Offer) bool
	left  int // remaining uses; negative: unlimited
}

// Spoil applies kind to the next envelopes of the app that match. times 0 means
// one, negative all; a nil match matches every envelope. Retries count as
// envelopes too.
func (a *App) Spoil(kind Spoil, times int, match func(Offer) bool) {
	a.s.mu.Lock()
	defer a.s.mu.Unlock()
	if times == 0 {
		times = 1
	}
	a.spoils = append(a.spoils, &spoiled{kind: kind, match: match, left: times})
}

// Heal removes all active spoils of the app.
func (a *App) Heal() {
	a.s.mu.Lock()
	defer a.s.mu.Unlock()
	a.spoils = nil
}

func (a *App) spoilLocked(o *Offer) Spoil {
	for i, sp := range a.spoils {
		if sp.match != nil && !sp.match(*o) {
			continue
		}
		if sp.left--; sp.left == 0 {
			a.spoils = slices.Delete(slices.Clone(a.spoils), i, i+1)
		}
		return sp.kind
	}
	return Sound
}

// An outstanding is an envelope that was sent and has not been acknowledged.
type outstanding struct {
	app      *App
	offer    *Offer
	kind     string // type of the envelope
	delivery int    // index in offer.Deliveries
	id       string
	socket   *socket
	deaf     bool // the acknowledgement is ignored
	timer    *timer
	answer   func(json.RawMessage) // interactions only: receives the payload of the acknowledgement
	failed   func(string)          // interactions only: called if it was not acknowledged
}

// offerEventLocked offers an event to a bot that is subscribed to it and has
// the scope. Every app has the empty subscription.
func (b *Bot) offerEventLocked(subscription, scope string, event obj, o Offer) {
	a := b.app
	if b.refused != "" || scope != "" && !b.hasLocked(scope) ||
		subscription != "" && a.opts.Events != nil && !slices.Contains(a.opts.Events, subscription) {
		return
	}
	a.s.nextID++
	o.Event = fmt.Sprintf("Ev0SIM%05d", a.s.nextID)
	payload := obj{
		"token": "sim", "team_id": b.team.id, "context_team_id": b.team.id, "context_enterprise_id": nil,
		"api_app_id": a.id, "event": event, "type": "event_callback", "event_id": o.Event,
		"event_time": time.Now().Unix(), "is_ext_shared_channel": false,
		"authorizations": []obj{{
			"enterprise_id": nil, "team_id": b.team.id, "user_id": b.user.ID(), "is_bot": true, "is_enterprise_install": false,
		}},
		"event_context": "4-" + o.Event,
	}
	a.offerLocked(&outstanding{kind: "events_api"}, payload, b.team, o)
}

// offerLocked records an event and sends it for the first time.
func (a *App) offerLocked(p *outstanding, payload obj, t *Team, o Offer) {
	o.App, o.Team, o.At, o.Payload = a.id, t.id, time.Now(), encode(payload)
	p.app, p.offer = a, &o
	a.s.recorder.offered(&o)
	a.sendLocked(p, 0, "")
}

// sendLocked sends an event in a new envelope.
func (a *App) sendLocked(p *outstanding, attempt int, reason string) {
	s := a.s
	s.nextID++
	p.id = fmt.Sprintf("%08x-0000-4000-8000-%012x", int64(s.nextID)*2654435761%(1<<32), s.nextID)
	p.socket = a.pickLocked()
	d := Delivery{Envelope: p.id, Attempt: attempt, Reason: reason, At: time.Now()}
	if p.socket != nil {
		d.Socket, d.Spoil = p.socket.n, a.spoilLocked(p.offer)
	}
	s.recorder.note(func(c *Counts) {
		p.delivery = len(p.offer.Deliveries)
		p.offer.Deliveries = append(p.offer.Deliveries, d)
		if d.Socket == 0 {
			return
		}
		p.socket.rec.Sent++
		c.Delivered++
		if attempt > 0 {
			c.Repeated++
		}
	})
	if p.socket == nil {
		a.failLocked(p, attempt, "connection_failed")
		return
	}
	a.waiting[p.id] = p
	p.deaf = d.Spoil == LoseAck
	p.timer = s.afterLocked(ackWithin, func() {
		p.socket.app.expiredLocked(p, attempt)
	})
	a.writeLocked(p, attempt, reason, d.Spoil)
}

// expiredLocked ends the wait for an acknowledgement. The envelope stays known,
// so that a late acknowledgement differs from one for an unknown envelope.
func (a *App) expiredLocked(p *outstanding, attempt int) {
	late := *p
	late.offer, late.socket = p.offer, p.socket
	a.waiting[p.id] = &late
	late.timer = a.s.afterLocked(time.Minute, func() { delete(a.waiting, late.id) })
	late.answer, late.failed, late.kind = nil, nil, lateKind
	a.failLocked(p, attempt, "timeout")
}

const lateKind = "expired"

// writeLocked queues the envelope on the socket and applies a Spoil.
func (a *App) writeLocked(p *outstanding, attempt int, reason string, how Spoil) {
	envelope := obj{
		"envelope_id": p.id, "payload": p.offer.Payload, "type": p.kind,
		"accepts_response_payload": p.kind != "events_api",
	}
	if p.kind == "events_api" {
		envelope["retry_attempt"], envelope["retry_reason"] = attempt, reason
	}
	if how == Strange {
		envelope["payload"] = []string{"this is no " + p.kind}
	}
	frame := encode(envelope)
	switch how {
	case Lose:
		return
	case Garble:
		frame = frame[:len(frame)/2]
	case Twice:
		p.socket.queueLocked(frame)
	case Hold:
		k := p.socket
		a.s.afterLocked(holdFor, func() { k.queueLocked(frame) })
		return
	}
	p.socket.queueLocked(frame)
	if how == CutLink {
		p.socket.endLocked("cut")
	}
}

// failLocked schedules the next delivery, or marks the event as lost.
// Interactions are never sent again.
func (a *App) failLocked(p *outstanding, attempt int, reason string) {
	if p.kind == "events_api" && attempt < maxRetries {
		a.s.afterLocked(retryAfter(attempt+1), func() { a.sendLocked(p, attempt+1, reason) })
		return
	}
	a.s.recorder.note(func(c *Counts) {
		p.offer.Lost = true
		c.Lost++
	})
	if p.failed != nil {
		p.failed(map[string]string{"timeout": "operation_timeout", "connection_failed": "dispatch_failed"}[reason])
	}
}

// heardLocked handles a frame from an app.
func (a *App) heardLocked(k *socket, frame []byte) {
	var said struct {
		Envelope string          `json:"envelope_id"`
		Payload  json.RawMessage `json:"payload"`
	}
	var p *outstanding
	if len(frame) <= maxFrame && json.Unmarshal(frame, &said) == nil {
		p = a.waiting[said.Envelope]
	}
	switch {
	case p == nil || p.socket != k && !a.s.opts.AckAnySocket:
		a.s.recorder.note(func(c *Counts) { c.Strange++ })
		return
	case p.deaf:
		return
	}
	delete(a.waiting, p.id)
	p.timer.stopLocked()
	now, late := time.Now(), p.kind == lateKind
	a.s.recorder.note(func(c *Counts) {
		d := &p.offer.Deliveries[p.delivery]
		d.Acked, d.Late = now, late
		if late {
			c.Late++
			return
		}
		c.Acked++
		k.rec.Acked++
		took := now.Sub(d.At)
		c.AckDuration += took
		c.LongestAck = max(c.LongestAck, took)
		p.offer.Acked, p.offer.Answer = now, said.Payload
	})
	if p.answer != nil {
		p.answer(said.Payload)
	}
}

// Redeliver sends an earlier event again, with a new envelope_id and the same
// event_id, as if its acknowledgement had been lost. It reports whether there
// is such an event.
func (s *Server) Redeliver(event string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.recorder.find(event)
	if o == nil {
		return false
	}
	for _, a := range s.apps {
		if a.id == o.App {
			a.sendLocked(&outstanding{app: a, offer: o, kind: "events_api"}, 1, "timeout")
			return true
		}
	}
	return false
}

// Send offers any event to the bot, for example one that the server does not
// produce itself. It ignores subscriptions and scopes.
func (b *Bot) Send(event map[string]any) {
	b.app.s.mu.Lock()
	defer b.app.s.mu.Unlock()
	kind, _ := event["type"].(string)
	b.offerEventLocked("", "", event, Offer{Kind: kind})
}
