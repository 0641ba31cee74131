package memory

import (
	"reflect"
	"time"

	"go.uber.org/zap"

	"hermesd/agent/memory/provider"
)

// A client is the provider as it was configured at the start, or at a reload.
type client struct {
	provider provider.Provider // nil: there is none
	about    provider.About

	// Guarded by Service.mu.
	calls    int  // under way
	replaced bool // closed by the end of its last call
}

func newClient(p provider.Provider) *client { return &client{provider: p, about: p.About()} }

// about describes the provider.
func (s *Service) about() *provider.About { return &s.client.Load().about }

func (s *Service) settings() *Settings { return s.configured.Load() }

// Configure replaces the provider by p, which is the same one opened again, and the
// settings. Calls that are under way end with the provider that they began with, which is
// closed then. If there was no provider at the start, or one with another name or other
// tools, which the agent and its sessions have, it changes nothing, closes p and reports
// false. Reload follows.
func (s *Service) Configure(p provider.Provider, set Settings) (replaced bool) {
	if s.off() {
		_ = p.Close() // it was not used
		return false
	}
	next := newClient(p)
	s.mu.Lock()
	old := s.client.Load()
	if s.closed || !sameTools(old.about, next.about) {
		s.mu.Unlock()
		s.close(next)
		return false
	}
	s.client.Store(next)
	s.configured.Store(&set)
	clear(s.failing)
	s.health = provider.Health{}
	old.calls++ // this call
	old.replaced = true
	s.mu.Unlock()
	s.finish(old)
	return true
}

func sameTools(a, b provider.About) bool {
	return a.Name == b.Name && a.NoTools == b.NoTools && reflect.DeepEqual(a.Tools, b.Tools)
}

// begin returns the client for a call, which finish follows; nil if guard does not allow
// one. The caller holds s.mu.
func (s *Service) begin(guard *breaker) *client {
	if !guard.acquire(time.Now()) {
		return nil
	}
	c := s.client.Load()
	c.calls++
	return c
}

// finish counts that a call has ended. The last one closes a client that was replaced.
func (s *Service) finish(c *client) {
	s.mu.Lock()
	c.calls--
	last := c.replaced && c.calls == 0
	s.mu.Unlock()
	if last {
		s.close(c)
	}
}

func (s *Service) close(c *client) {
	if err := c.provider.Close(); err != nil {
		s.parts.Log.Warn("cannot close the memory provider", zap.String("provider", c.about.Name), zap.Error(err))
	}
}
