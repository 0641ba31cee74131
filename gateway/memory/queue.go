package memory

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"time"
	"unicode/utf8"

	"go.uber.org/zap"

	"hermesd/agent/memory/provider"
	"hermesd/gateway/i18n"
	"hermesd/gateway/store"
	"hermesd/internal/shorten"
)

// Pauses of the queue.
var (
	backoffs = []time.Duration{5 * time.Second, 15 * time.Second, time.Minute, 5 * time.Minute, 15 * time.Minute}
	asks     = []time.Duration{2 * time.Second, 10 * time.Second, time.Minute, 5 * time.Minute}
)

const (
	authPause  = 15 * time.Minute
	storePause = 10 * time.Second // after an error of the store
	maxRefused = 3
	maxAsked   = 24
	minHalved  = 200 // characters; a shorter message that is too large is set aside
)

// run tells the events of the queue until the Service is closed. While nothing waits it
// does nothing.
func (s *Service) run() {
	timer := time.NewTimer(time.Hour)
	timer.Stop()
	defer timer.Stop()
	if s.parts.Store.EventCounts(Queue).Waiting > 0 {
		s.retry(hasFailed)
	}
	for s.ctx.Err() == nil {
		if at := s.dispatch(); at.IsZero() {
			timer.Stop()
		} else {
			timer.Reset(time.Until(at))
		}
		s.mu.Lock()
		if s.sending == 0 {
			s.settleTold()
		}
		s.mu.Unlock()
		select {
		case <-s.ctx.Done():
		case <-s.wake:
		case <-timer.C:
		}
	}
}

// dispatch begins to tell events that are due. It returns when to call it again; zero if
// not before Wake.
func (s *Service) dispatch() time.Time {
	s.mu.Lock()
	free, held, flying := maxInFlight-s.sending, s.heldUntil(), maps.Clone(s.flying)
	s.mu.Unlock()
	if free <= 0 {
		return time.Time{} // the end of one of them wakes
	}
	if held.After(time.Now()) {
		return held
	}
	err := s.countEarlier()
	var due []store.QueuedEvent
	var next time.Time
	if err == nil {
		due, next, err = s.parts.Store.NextEvents(s.ctx, Queue, free, slices.Collect(maps.Values(flying))...)
	}
	if err != nil {
		if s.ctx.Err() != nil {
			return time.Time{}
		}
		s.parts.Log.Error("cannot read the queue of the memory provider", zap.Error(err))
		return time.Now().Add(storePause)
	}
	for _, q := range due {
		if flying[q.Group] != 0 { // another event of the group is being told
			continue
		}
		if !s.launch(q) {
			return s.held()
		}
		flying[q.Group] = q.ID
	}
	switch {
	case next.IsZero() || next.After(time.Now()):
		return next
	case len(flying) > 0:
		return time.Time{}
	}
	return time.Now().Add(time.Second)
}

// countEarlier notes once which events there are. Their times do not tell whether they are
// older than the process: the clock may have been set back.
func (s *Service) countEarlier() error {
	s.mu.Lock()
	known := s.counted
	s.mu.Unlock()
	if known {
		return nil
	}
	last, err := s.parts.Store.LastEvent(s.ctx, Queue)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counted, s.earlier = true, last
	return nil
}

// launch tells an event in a goroutine. It reports false if no event can be told now.
func (s *Service) launch(q store.QueuedEvent) bool {
	s.mu.Lock()
	var c *client
	if !s.closed && s.sending < maxInFlight {
		c = s.begin(&s.breaker)
	}
	if c == nil {
		s.mu.Unlock()
		return false
	}
	s.sends.Add(1)
	s.sending++
	s.flying[q.Group] = q.ID
	unsure := s.doubt[q.Group] || q.ID <= s.earlier && !s.asked[q.Group]
	if delete(s.doubt, q.Group); unsure {
		s.asked[q.Group] = true
	}
	s.mu.Unlock()
	ok := s.spawn(func() { s.handle(c, q, unsure) })
	if !ok {
		s.finish(c)
		s.sends.Done()
	}
	return ok
}

func (s *Service) held() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.heldUntil()
}

// heldUntil returns until when no event may be told; zero if there is no such time. The
// caller holds s.mu.
func (s *Service) heldUntil() time.Time {
	switch {
	case s.hold.After(s.breaker.until) && s.hold.After(time.Now()):
		return s.hold
	case s.breaker.probing:
		return time.Time{} // the end of the probe wakes
	}
	return s.breaker.until
}

// handle tells one event and stores what came of it.
func (s *Service) handle(c *client, q store.QueuedEvent, unsure bool) {
	r, settled, ok := s.tell(c, q, unsure)
	s.mu.Lock()
	s.sending--
	s.mu.Unlock()
	if ok {
		s.awaitSettling()
		settled.Queue, settled.ID = Queue, q.ID
		s.settleEvent(c, settled, q.Group)
	}
	s.mu.Lock()
	delete(s.flying, q.Group)
	s.mu.Unlock()
	s.sends.Done()
	s.Wake()
	if k := r.Event.Kind; settled.Done && (k == provider.End || k == provider.Added || k == provider.Removed) {
		ctx, cancel := context.WithTimeout(s.ctx, readTimeout)
		defer cancel()
		s.fetchStanding(ctx, r.Event.Scope)
	}
}

// settleEvent stores what came of telling an event to c. If c was replaced meanwhile, an
// event that it did not take is due for the next client now.
func (s *Service) settleEvent(c *client, settled store.EventSettlement, group string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.ctx), closeTimeout)
	defer cancel()
	err := s.parts.Store.SettleEvent(ctx, settled)
	s.mu.Lock()
	if err != nil {
		s.hold = time.Now().Add(storePause)
		s.doubt[group] = true
	}
	replaced := c.replaced
	s.mu.Unlock()
	if err == nil && replaced && !settled.Done {
		_, err = s.parts.Store.RetryEvents(ctx, Queue, settled.ID)
	}
	if err != nil {
		s.parts.Log.Error("cannot store that the memory provider was told", zap.Error(err))
	}
}

// awaitSettling waits until an event that was told is to be settled. While others are being
// told it waits for them, so that one commit of the store has several settlements. If the
// process ends meanwhile, more events than otherwise may have been told that are not settled;
// so it waits only if the provider can tell whether it has an event.
func (s *Service) awaitSettling() {
	s.mu.Lock()
	if s.closed || !s.about().Exact {
		s.mu.Unlock()
		return
	}
	if s.told == 0 {
		s.settle = make(chan struct{})
	}
	s.told++
	settle := s.settle
	if s.told == maxTold {
		s.settleTold()
	}
	s.mu.Unlock()
	s.Wake() // another event can be told
	timer := time.NewTimer(settlePause)
	defer timer.Stop()
	select {
	case <-settle:
	case <-timer.C:
		s.mu.Lock()
		if settle == s.settle {
			s.settleTold()
		}
		s.mu.Unlock()
	}
}

// settleTold lets the events be settled that wait for it. The caller holds s.mu.
func (s *Service) settleTold() {
	if s.told > 0 {
		s.told = 0
		close(s.settle)
	}
}

// tell tells one event. ok is false if the Service was closed meanwhile.
func (s *Service) tell(c *client, q store.QueuedEvent, unsure bool) (r row, settled store.EventSettlement, ok bool) {
	if err := json.Unmarshal(q.Doc, &r); err != nil {
		s.release(c, writes)
		return r, s.aside("it cannot be read: " + err.Error()), true
	}
	if r.Provider != s.about().Name {
		s.release(c, writes)
		return r, store.EventSettlement{Aside: "it is for the provider " + r.Provider}, true
	}
	ctx, cancel := context.WithTimeout(s.ctx, writeTimeout)
	defer cancel()
	if r.Event.Kind == provider.Removed && r.FactKey != "" && r.Event.Fact.ID == "" {
		id, err := store.Load[string](ctx, s.parts.Store, r.FactKey)
		if err != nil {
			s.release(c, writes)
			return r, again(r, storePause), true
		}
		r.Event.Fact.ID = id
	}
	if s.about().Batch.Turns > 0 && r.Event.Kind == provider.Turn && q.Tries == 0 {
		if !s.merge(ctx, q, &r) {
			s.release(c, writes)
			return r, settled, false
		}
		unsure = false // it is sent only after it was merged
	}
	r.Unsure = r.Unsure || unsure
	receipt, done, err := s.send(ctx, c, &r)
	if s.ctx.Err() != nil && err != nil {
		return r, settled, false
	}
	switch {
	case err != nil:
		return r, s.failed(c, r, err), true
	case !done:
		r.Receipt, r.Fails, r.Unsure = &receipt, 0, false
		if r.Asked++; r.Asked > maxAsked {
			return r, s.aside("the provider has accepted it and does not say that it has processed it"), true
		}
		settled = again(r, asks[min(r.Asked, len(asks))-1])
		settled.Accepted = s.about().Apart && r.Event.Kind == provider.Turn
		return r, settled, true
	}
	return r, s.done(r, receipt), true
}

// send calls the provider. done is false if the provider has not processed the event yet.
func (s *Service) send(ctx context.Context, c *client, r *row) (receipt provider.Receipt, done bool, err error) {
	if r.Receipt != nil {
		receipt = *r.Receipt
	}
	if r.Receipt != nil || r.Unsure {
		if known, done, err := s.ask(ctx, c, r, receipt); known || err != nil {
			return receipt, done, err
		}
		r.Unsure = false // it did not arrive, or may arrive again
	}
	began := time.Now()
	receipt, err = c.provider.Sync(ctx, r.Event)
	s.result(c, writes, "sync", began, err)
	return receipt, !receipt.Pending, err
}

// ask asks the provider whether it has an event. known is false if it is to be sent again.
func (s *Service) ask(ctx context.Context, c *client, r *row, receipt provider.Receipt) (known, done bool, err error) {
	began := time.Now()
	has, err := c.provider.Synced(ctx, r.Event, receipt)
	unknown, failed := errors.Is(err, provider.ErrUnknown), errors.Is(err, provider.ErrFailed)
	if failed {
		r.Receipt, r.Asked = nil, 0
		r.Refused++
	}
	switch {
	case err == nil && has:
		s.result(c, writes, "synced", began, nil)
		return true, true, nil
	case r.Receipt != nil && (err == nil || unknown): // it was accepted
		s.result(c, "", "synced", began, nil)
		return true, unknown, nil
	case err != nil && !unknown && (!failed || r.Refused >= maxRefused):
		s.result(c, "", "synced", began, err)
		return false, false, err
	}
	result := "ok"
	if unknown {
		result = MayRepeat
	}
	s.parts.Observe(Call{"synced", result, time.Since(began)}) // what follows shows whether the provider works
	return false, false, nil
}

// done returns the settlement of an event that was told.
func (s *Service) done(r row, receipt provider.Receipt) store.EventSettlement {
	if len(r.Rest) > 0 {
		for i := range r.Rest { // some providers find messages again by their times
			r.Rest[i].At = r.Rest[i].At.Add(time.Millisecond)
		}
		r.Event.Key, r.Event.Messages, r.Event.Tools = uuid(r.Event.Kind, r.Event.Key), r.Rest, nil
		return again(row{Provider: r.Provider, Event: r.Event}, 0)
	}
	settled := store.EventSettlement{Done: true}
	switch r.Event.Kind {
	case provider.Turn:
		if who := r.Event.Scope; who.Person != "" && who.UserID != "" { // neither the owner nor a room
			settled.Key, settled.Value = s.identityKey(who.Person), []byte("true")
		}
	case provider.Added:
		if receipt.ID != "" {
			settled.Key, settled.Value = r.FactKey, must(json.Marshal(receipt.ID))
		}
	case provider.Removed:
		settled.Key = r.FactKey
	case provider.Forget:
		settled.Key = s.standingKey(r.Event.Scope)
	}
	return settled
}

// failed returns the settlement of an event after an error.
func (s *Service) failed(c *client, r row, err error) store.EventSettlement {
	if e, ok := errors.AsType[*provider.Error](err); !ok || e.Sent {
		r.Unsure = true
	}
	switch class := provider.ClassOf(err); {
	case errors.Is(err, provider.ErrFailed):
		return s.aside(err.Error())
	case class == provider.TooLarge:
		if !r.halve() {
			return s.aside(err.Error())
		}
		r.Unsure = false
		return again(r, 0)
	case class == provider.Refused:
		r.Unsure = false
		if r.Refused++; r.Refused >= maxRefused {
			return s.aside(err.Error())
		}
	case class == provider.Auth:
		s.mu.Lock()
		if !c.replaced {
			s.hold = time.Now().Add(authPause)
		}
		s.mu.Unlock()
		r.Fails++
		return again(r, authPause)
	}
	pause := time.Duration(float64(backoffs[min(r.Fails, len(backoffs)-1)]) * (0.8 + 0.4*rand.Float64()))
	r.Fails++
	if after := retryAfter(err); after > 0 {
		pause = after
	}
	return again(r, pause)
}

// aside returns the settlement of an event that is not told until somebody retries it, and
// says so once.
func (s *Service) aside(why string) store.EventSettlement {
	s.mu.Lock()
	first := !s.refused
	s.refused = true
	s.mu.Unlock()
	s.parts.Log.Error("an event is set aside: the memory provider does not take it", zap.String("provider", s.about().Name), zap.String("why", why))
	if first {
		s.parts.Notify(s.ctx, i18n.Errorf("Long-term memory (%s) does not take something: %s. It is set aside; `hermesd memory queue` shows it.", s.about().Label, why))
	}
	return store.EventSettlement{Aside: shorten.Line(why, 300)}
}

// again returns the settlement of an event that is told again after a pause.
func again(r row, pause time.Duration) store.EventSettlement {
	return store.EventSettlement{Due: time.Now().Add(pause), Doc: must(json.Marshal(r))}
}

// release gives back what begin allowed: the provider was not called.
func (s *Service) release(c *client, side string) {
	s.mu.Lock()
	if !c.replaced {
		s.guard(side).release()
	}
	s.mu.Unlock()
	s.finish(c)
	s.Wake()
}

// halve leaves the first half of the messages of an event in it, or of the text of its only
// one, and moves the other half to r.Rest; before that it cuts long texts of tools to half.
// It reports false if there is nothing to halve.
func (r *row) halve() bool {
	long := false
	for i := range r.Event.Tools {
		for _, text := range []*string{&r.Event.Tools[i].Input, &r.Event.Tools[i].Output} {
			if n := utf8.RuneCountInString(*text); n >= minHalved {
				*text, long = (*text)[:shorten.Offset(*text, n/2)], true
			}
		}
	}
	ms := r.Event.Messages
	switch {
	case long:
		return true
	case len(ms) > 1:
		n := len(ms) / 2
		r.Event.Messages, r.Rest = ms[:n:n], slices.Concat(ms[n:], r.Rest)
		return true
	case len(ms) == 1 && utf8.RuneCountInString(ms[0].Text) >= minHalved:
		first, second := ms[0], ms[0]
		at := shorten.Offset(first.Text, utf8.RuneCountInString(first.Text)/2)
		first.Text, second.Text = first.Text[:at], second.Text[at:]
		r.Event.Messages, r.Rest = []provider.Message{first}, slices.Concat([]provider.Message{second}, r.Rest)
		return true
	}
	return false
}

// must returns v; the encoding of what is passed to it cannot fail.
func must(v []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	return v
}
