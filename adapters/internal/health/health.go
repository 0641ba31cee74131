// Package health records the connection state of one account.
package health

import (
	"sync"
	"time"

	"go.uber.org/zap"

	"hermesd/gateway/chat"
)

// A Record is the state of one connection. Its methods are safe for concurrent
// use and do not block.
type Record struct {
	log *zap.Logger

	mu     sync.Mutex // guards the fields below
	health chat.Health
}

// New returns a record in state Connecting. State changes are logged to log.
func New(log *zap.Logger) *Record {
	return &Record{log: log, health: chat.Health{State: chat.Connecting, Since: time.Now()}}
}

// State returns the current health. Its Name is empty: the record does not know
// the account's name.
func (r *Record) State() chat.Health {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.health
}

// Set changes the state and its reason. Since is the time of the last change of
// the state; a change of only the reason does not reset it.
func (r *Record) Set(s chat.State, why string) {
	r.mu.Lock()
	changed := r.health.State != s
	if changed {
		r.health.State, r.health.Since = s, time.Now()
	}
	r.health.Error = why
	r.mu.Unlock()
	if changed {
		r.log.Info("connection state changed", zap.String("state", string(s)), zap.String("reason", why))
	}
}

// MarkAlive records that the platform has just shown that the connection works.
func (r *Record) MarkAlive() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.health.LastContact = time.Now()
}
