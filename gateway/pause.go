package gateway

import (
	"context"
	"time"

	"go.uber.org/zap"

	"hermesd/gateway/command"
	"hermesd/gateway/i18n"
	"hermesd/gateway/inbox"
	"hermesd/gateway/session"
)

// pausedKey is the store key of the time at which the daemon was paused. A restart does
// not end a pause.
const pausedKey = "paused"

// Pause stops the start of new turns, or with on false lets them start again. Messages
// accepted during a pause wait.
func (g *Gateway) Pause(ctx context.Context, on bool) error {
	var raw []byte
	if on {
		raw = []byte(time.Now().UTC().Format(time.RFC3339))
	}
	if err := g.opts.Store.SetValue(ctx, pausedKey, raw); err != nil {
		return err
	}
	g.paused.Store(on)
	if on {
		return nil
	}
	return g.resumeQueues(ctx)
}

// Paused reports whether the daemon is paused.
func (g *Gateway) Paused() bool { return g.paused.Load() }

// turnsBlocked reports whether no turn may start in a lane.
func (g *Gateway) turnsBlocked(l inbox.Lane) bool {
	return g.paused.Load() || g.isOtherPlatform(l)
}

// isOtherPlatform reports whether Options.OnlyPlatform excludes a lane.
func (g *Gateway) isOtherPlatform(l inbox.Lane) bool {
	return g.opts.OnlyPlatform != "" && !session.Key(l).HasPlatform(g.opts.Profile, g.opts.OnlyPlatform)
}

// restorePause restores a pause from the store.
func (g *Gateway) restorePause(ctx context.Context) error {
	raw, err := g.opts.Store.Value(ctx, pausedKey)
	if err != nil || raw == nil {
		return err
	}
	g.paused.Store(true)
	g.opts.Log.Warn("daemon is paused until /pause off", zap.ByteString("since", raw))
	return nil
}

// Pause calls Gateway.Pause and returns the reply to the user.
func (e env) Pause(ctx context.Context, c command.Call, on bool) string {
	switch err := e.g.Pause(ctx, on); {
	case err != nil:
		return c.T("That could not be kept: %v.", err)
	case on:
		e.g.opts.Log.Warn("daemon paused", zap.String("by", c.Principal.ID))
		return c.T("⏸ Paused: no turn begins anywhere until `/pause off`. What is written meanwhile is kept and answered then. Turns that run are finished; `/stop` ends one.")
	}
	e.g.opts.Log.Info("daemon resumed", zap.String("by", c.Principal.ID))
	return c.T("▶️ I go on.")
}

// BusyMode returns the configured busy mode.
func (e env) BusyMode() string {
	if e.g.opts.Mode == "" {
		return "interrupt"
	}
	return string(e.g.opts.Mode)
}

// Progress returns the configured display of tool calls.
func (e env) Progress() string {
	if e.g.opts.Progress == "" {
		return "off"
	}
	return e.g.opts.Progress
}

// Background returns the number of background commands of a session and a function
// that ends them.
func (e env) Background(id session.ID) (running int, end func()) {
	if e.g.opts.BackgroundCommands == nil {
		return 0, nil
	}
	return e.g.opts.BackgroundCommands(id)
}

// NoVoice returns why answers cannot be spoken; "" if they can.
func (e env) NoVoice() string {
	if e.g.opts.Media.Synthesize == nil {
		return i18n.N("no service for speech is connected")
	}
	return ""
}
