package console

import (
	"context"
	"errors"
	"slices"
	"time"

	"hermesd/gateway/chat"
)

// NoTerminal is the reason of a failed send while no terminal is attached. A row
// that was given up with this reason can be shown as soon as a terminal
// attaches.
const NoTerminal = "no terminal is attached"

// Send shows m to the clients of its conversation. The receipt means that at
// least one of them has shown it.
func (a *Adapter) Send(ctx context.Context, m chat.Outbound) (chat.Receipt, error) {
	id := m.ID
	if id == "" {
		id = NewID()
	}
	ev := Event{Kind: Message, ID: id, Text: m.Text, ReplyTo: m.ReplyTo, File: m.File, Quiet: m.Quiet, At: time.Now()}
	if err := a.carry(ctx, m.To, ev); err != nil {
		return chat.Receipt{}, err
	}
	return chat.Receipt{ID: id}, nil
}

// Edit gives a message a new text. If clients are attached but none of them has
// the message, the error is chat.ErrGone.
func (a *Adapter) Edit(ctx context.Context, id string, m chat.Outbound) error {
	a.mu.Lock()
	cs := a.clients[m.To.Chat]
	gone := len(cs) > 0
	for c := range cs {
		if c.knowsLocked(id) {
			gone = false
		}
	}
	a.mu.Unlock()
	if gone {
		return &chat.SendError{Outcome: chat.Transient, Reason: "no attached terminal has the message", Err: chat.ErrGone}
	}
	return a.carry(ctx, m.To, Event{Kind: Edit, ID: id, Text: m.Text, ReplyTo: m.ReplyTo, File: m.File, Quiet: m.Quiet, At: time.Now()})
}

// Delete deletes a message. If no client is attached, there is nothing to
// delete.
func (a *Adapter) Delete(ctx context.Context, to chat.Address, id string) error {
	err := a.carry(ctx, to, Event{Kind: Delete, ID: id})
	if errors.Is(err, errNobody) {
		return nil
	}
	return err
}

// Typing shows for some seconds that an answer is being written.
func (a *Adapter) Typing(_ context.Context, to chat.Address) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	for c := range a.clients[to.Chat] {
		if !slices.ContainsFunc(c.queue, func(it item) bool { return it.ev.Kind == Typing }) {
			a.pushLocked(c, item{ev: Event{Kind: Typing}})
		}
	}
	return nil
}

// Find asks the attached clients whether they have shown m. While no client is
// attached the result is unknown.
func (a *Adapter) Find(_ context.Context, m chat.Outbound) (chat.Receipt, bool, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	cs := a.clients[m.To.Chat]
	if len(cs) == 0 {
		return chat.Receipt{}, false, errNobody
	}
	for c := range cs {
		if c.knowsLocked(m.ID) {
			return chat.Receipt{ID: m.ID}, true, nil
		}
	}
	return chat.Receipt{}, false, nil
}

var errNobody = errors.New(NoTerminal)

// knowsLocked reports whether c has message id, or will be shown it.
func (c *Client) knowsLocked(id string) bool {
	_, ok := c.has[id]
	mine := func(it item) bool { return it.ev.ID == id && it.ev.Kind != Delete && it.ev.Kind != OtherTerminal }
	return ok || slices.ContainsFunc(c.queue, mine) || slices.ContainsFunc(c.handed, mine)
}

// carry sends ev to the clients at to, and waits until one has shown it.
func (a *Adapter) carry(ctx context.Context, to chat.Address, ev Event) error {
	a.mu.Lock()
	cs := a.clients[to.Chat]
	if len(cs) == 0 {
		a.missed[to.Chat] = time.Now()
		a.mu.Unlock()
		return &chat.SendError{Outcome: chat.Transient, Reason: NoTerminal, Err: errNobody}
	}
	a.seq++
	ev.Seq = a.seq
	p := &pendingEvent{open: len(cs), done: make(chan struct{})}
	for c := range cs {
		a.pushLocked(c, item{ev, p})
	}
	a.mu.Unlock()

	timer := time.NewTimer(a.o.Patience)
	defer timer.Stop()
	select {
	case <-p.done:
	case <-timer.C:
		a.giveUp(to, p, true)
	case <-ctx.Done():
		a.giveUp(to, p, false)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case p.seen:
		return nil
	case p.handed:
		return &chat.SendError{Outcome: chat.Uncertain, Reason: "the terminal did not say that it has shown the message"}
	case len(a.clients[to.Chat]) == 0:
		a.missed[to.Chat] = time.Now()
	}
	return &chat.SendError{Outcome: chat.Transient, Reason: "the terminal was closed or did not take the message", Err: errNobody}
}

// giveUp stops waiting for p: clients that have not been handed it never will
// be. If slow is true, all clients that still have it are detached.
func (a *Adapter) giveUp(to chat.Address, p *pendingEvent, slow bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	mine := func(it item) bool { return it.parcel == p }
	for c := range a.clients[to.Chat] {
		switch queued, handed := slices.ContainsFunc(c.queue, mine), slices.ContainsFunc(c.handed, mine); {
		case slow && (queued || handed):
			a.detachLocked(c, ErrSlow)
		case queued:
			c.queue = slices.DeleteFunc(c.queue, mine)
			p.release()
		}
	}
}

// pushLocked appends it to the queue of c. A client whose queue is full is
// detached.
func (a *Adapter) pushLocked(c *Client, it item) {
	if len(c.queue)+len(c.handed) >= maxQueue {
		it.parcel.release()
		a.detachLocked(c, ErrSlow)
		return
	}
	c.queue = append(c.queue, it)
	select {
	case c.poke <- struct{}{}:
	default:
	}
}
