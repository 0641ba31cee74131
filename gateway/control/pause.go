package control

import (
	"context"
	"strings"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"hermesd/gateway/chat"
	"hermesd/gateway/command"
	"hermesd/gateway/inbox"
	"hermesd/gateway/session"
	"hermesd/gateway/store"
)

// pausedKey is the store key of the time at which the daemon was paused. A restart does
// not end a pause.
const pausedKey = "paused"

// A Pause says which turns may start. Its methods may be called from any goroutine.
type Pause struct {
	store   store.Values
	profile string
	only    chat.Platform
	paused  atomic.Bool
}

// NewPause returns a Pause that is off until Load. Only turns of the platform only may
// start, by the session keys of a profile; "" is all platforms.
func NewPause(values store.Values, profile string, only chat.Platform) *Pause {
	return &Pause{store: values, profile: profile, only: only}
}

// Load restores the pause of an earlier process and returns when it began; nil: there is
// none.
func (p *Pause) Load(ctx context.Context) (since []byte, err error) {
	since, err = p.store.Value(ctx, pausedKey)
	if err == nil && since != nil {
		p.paused.Store(true)
	}
	return since, err
}

// Paused reports whether the daemon is paused.
func (p *Pause) Paused() bool { return p.paused.Load() }

// Blocks reports whether no turn may start in a lane.
func (p *Pause) Blocks(l inbox.Lane) bool { return p.Paused() || p.Excludes(l) }

// Excludes reports whether a lane is of another platform than the only one.
func (p *Pause) Excludes(l inbox.Lane) bool {
	return p.only != "" && !session.Key(l).HasPlatform(p.profile, p.only)
}

// set stores and starts or ends the pause.
func (p *Pause) set(ctx context.Context, on bool) error {
	var raw []byte
	if on {
		raw = []byte(time.Now().UTC().Format(time.RFC3339))
	}
	if err := p.store.SetValue(ctx, pausedKey, raw); err != nil {
		return err
	}
	p.paused.Store(on)
	return nil
}

// Pause stops the start of new turns, or with on false lets them start again. Messages
// accepted during a pause wait.
func (ctl *Control) Pause(ctx context.Context, on bool) error {
	if err := ctl.parts.Runtime.Pause.set(ctx, on); err != nil || on {
		return err
	}
	return ctl.ResumeQueues(ctx)
}

// pause pauses the daemon, or resumes it with "off".
func (ctl *Control) pause(ctx context.Context, c command.Call) (string, error) {
	arg := strings.ToLower(c.Args)
	if arg != "" && arg != "off" {
		return c.T("I know `/pause` and `/pause off`."), nil
	}
	on, log := arg == "", ctl.parts.Options.Log
	switch err := ctl.Pause(ctx, on); {
	case err != nil:
		return c.T("That could not be kept: %v.", err), nil
	case on:
		log.Warn("daemon paused", zap.String("by", c.Principal.ID))
		return c.T("⏸ Paused: no turn begins anywhere until `/pause off`. What is written meanwhile is kept and answered then. Turns that run are finished; `/stop` ends one."), nil
	}
	log.Info("daemon resumed", zap.String("by", c.Principal.ID))
	return c.T("▶️ I go on."), nil
}
