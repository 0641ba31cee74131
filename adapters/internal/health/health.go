// Package health remembers how the connection of one account is.
package health

import (
	"sync"
	"time"

	"go.uber.org/zap"

	"hermesd/gateway/chat"
)

// A Record is the state of one connection. Its methods may be called side by
// side and never wait.
type Record struct {
	log *zap.Logger

	mu     sync.Mutex // guards what follows
	health chat.Health
}

// New returns the record of a connection that begins now, and tells log of its
// changes.
func New(log *zap.Logger) *Record {
	return &Record{log: log, health: chat.Health{State: chat.Connecting, Since: time.Now()}}
}

// State returns how the connection is. The account's name is not known here.
func (r *Record) State() chat.Health {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.health
}

// Set changes the state, and why it is so. Since tells how long it has lasted,
// whatever the reasons were.
func (r *Record) Set(s chat.State, why string) {
	r.mu.Lock()
	changed := r.health.State != s
	if changed {
		r.health.State, r.health.Since = s, time.Now()
	}
	r.health.Error = why
	r.mu.Unlock()
	if changed {
		r.log.Info("connection", zap.String("state", string(s)), zap.String("reason", why))
	}
}

// MarkAlive notes that the platform has just shown that it reaches us.
func (r *Record) MarkAlive() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.health.LastContact = time.Now()
}
