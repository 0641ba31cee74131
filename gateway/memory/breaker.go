package memory

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"

	"hermesd/agent/memory/provider"
	"hermesd/gateway/i18n"
)

// Limits of a breaker.
const (
	maxFailures = 5
	openFor     = 2 * time.Minute
	maxOpen     = time.Hour // whatever the provider asks for
	sameOutage  = time.Hour // between two outages with the same error
)

// A breaker keeps calls from a provider that fails: it is open after several failures in
// succession. When its time is over one call is let through.
type breaker struct {
	failures int
	until    time.Time // zero: it is closed
	probing  bool      // the one call is under way
	cause    error     // the last failure
}

// acquire reports whether a call may be made. Each call that may be ends with success,
// failure or release.
func (b *breaker) acquire(now time.Time) bool {
	if b.until.IsZero() {
		return true
	}
	if b.probing || now.Before(b.until) {
		return false
	}
	b.probing = true
	return true
}

func (b *breaker) release() { b.probing = false }

func (b *breaker) success() { *b = breaker{} }

func (b *breaker) failure(now time.Time, err error) {
	b.failures++
	b.cause, b.probing = err, false
	wait := time.Duration(0)
	if b.failures >= maxFailures || provider.ClassOf(err) == provider.Auth || !b.until.IsZero() {
		wait = openFor
	}
	if after := retryAfter(err); after > 0 {
		wait = after
	}
	if wait > 0 {
		b.until = now.Add(wait)
	}
}

func (b *breaker) state(now time.Time) string {
	switch {
	case b.until.IsZero():
		return "closed"
	case b.probing || !now.Before(b.until):
		return "half-open"
	}
	return "open"
}

// retryAfter returns for how long a provider does not want to be asked.
func retryAfter(err error) time.Duration {
	if e, ok := errors.AsType[*provider.Error](err); ok {
		return min(e.RetryAfter, maxOpen)
	}
	return 0
}

// Kinds of calls that fail and recover separately.
const (
	reads      = "recall"
	writes     = "sync"
	background = "standing"
	checks     = "check" // a success of any other kind ends their failure
)

// guard returns the breaker of a kind of calls. The caller holds s.mu.
func (s *Service) guard(side string) *breaker {
	if (side == reads || side == background) && s.about().RecallAlone {
		return &s.recalling
	}
	return &s.breaker
}

// acquire returns the client if the provider may be called now, else nil.
func (s *Service) acquire(side string) *client {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.begin(s.guard(side))
}

// result records the result of a call of c that begin allowed. side is one of these kinds;
// or "" if a success of the call does not show that either works. That of a client that
// was replaced says nothing of the present one.
func (s *Service) result(c *client, side, kind string, began time.Time, err error) {
	result := "ok"
	if err != nil {
		result = string(provider.ClassOf(err))
	}
	if s.ctx.Err() != nil && err != nil {
		s.release(c, side)
		return
	}
	defer s.finish(c)
	s.parts.Observe(Call{kind, result, time.Since(began)})
	if err != nil {
		s.parts.Log.Warn("a call of the memory provider failed", zap.String("provider", s.about().Name), zap.String("call", kind), zap.String("class", result), zap.Error(err))
	}
	s.mu.Lock()
	if c.replaced {
		s.mu.Unlock()
		return
	}
	held := !s.guard(side).until.IsZero()
	notice := s.note(side, kind, err)
	s.mu.Unlock()
	if held {
		s.Wake()
	}
	if notice != nil {
		s.parts.Notify(s.ctx, notice)
	}
}

// note notes the result of a call of the present client, and returns what an owner is told
// of it; nil for nothing. The caller holds s.mu.
func (s *Service) note(side, kind string, err error) (notice error) {
	guard, now := s.guard(side), time.Now()
	if lives(kind, err) {
		guard.success()
		delete(s.failing, side)
		if guard == &s.breaker {
			s.hold = time.Time{}
			delete(s.failing, checks)
		}
		s.noticed = s.noticed && len(s.failing) > 0
	} else {
		guard.failure(now, err)
		if side == "" {
			side = writes
		}
		s.failing[side] = true
		if !s.noticed {
			notice = s.outage(err, now)
		}
	}
	s.stats.note(side, now, err)
	return notice
}

// lives reports whether a provider whose call ended with err works. That it refuses an
// event or a call of the model says nothing of others; that it refuses a recall does.
func lives(kind string, err error) bool {
	if err == nil || errors.Is(err, provider.ErrUnknown) || errors.Is(err, provider.ErrFailed) {
		return true
	}
	class := provider.ClassOf(err)
	return class == provider.Refused && kind != "recall" && kind != "check" || class == provider.TooLarge
}

// outage returns the notice of an outage that begins with err; nil if the last notice said
// the same a short time ago: a provider that fails now and then has one long outage. The
// caller holds s.mu.
func (s *Service) outage(err error, now time.Time) error {
	s.noticed = true
	said := s.lastOutage.text == err.Error() && now.Sub(s.lastOutage.at) < sameOutage
	s.lastOutage.text, s.lastOutage.at = err.Error(), now
	switch {
	case said:
		return nil
	case !s.settings().Sync:
		return i18n.Errorf("Long-term memory (%s) does not answer: %v. I go on without it.", s.about().Label, err)
	}
	return i18n.Errorf("Long-term memory (%s) does not answer: %v. I go on without it; what you say is kept for later.", s.about().Label, err)
}

// check asks the provider once whether it works.
func (s *Service) check() {
	c := s.acquire(checks)
	if c == nil {
		return
	}
	ctx, cancel := context.WithTimeout(s.ctx, readTimeout)
	defer cancel()
	began := time.Now()
	health, err := c.provider.Check(ctx)
	s.mu.Lock()
	if err == nil && !c.replaced {
		s.health = health
	}
	s.mu.Unlock()
	s.result(c, checks, "check", began, err)
}
