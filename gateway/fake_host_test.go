package gateway_test

import (
	"sync/atomic"

	"hermesd/agent/memory"
	"hermesd/agent/skills"
	"hermesd/gateway/gatewaytest"
	"hermesd/gateway/session"
)

// A fakeHost has what is set.
type fakeHost struct {
	gatewaytest.NoHost
	restart    func()
	background *atomic.Int64 // number of background commands
	memories   *memory.Store
	library    *skills.Library
}

func (h *fakeHost) CanRestart() bool { return h.restart != nil }

func (h *fakeHost) Restart() { h.restart() }

func (h *fakeHost) Background(id session.ID) (int, func()) {
	if h.background == nil {
		return h.NoHost.Background(id)
	}
	return int(h.background.Load()), func() {}
}

func (h *fakeHost) Memories(r session.Record) (*memory.Store, []memory.Target) {
	if h.memories == nil {
		return h.NoHost.Memories(r)
	}
	return h.memories, []memory.Target{memory.Notes, memory.User}
}

func (h *fakeHost) Skills() (*skills.Catalog, []string) {
	if h.library == nil {
		return h.NoHost.Skills()
	}
	return h.library.Catalog(), []string{"off"}
}
