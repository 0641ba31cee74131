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

// pausedKey is where it is kept that the daemon is paused, so that a restart does
// not end a pause.
const pausedKey = "paused"

// Pause stops new turns everywhere, or lets them begin again. What is accepted
// meanwhile waits.
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

// turnsBlocked reports whether no turn may begin in a lane.
func (g *Gateway) turnsBlocked(l inbox.Lane) bool {
	return g.paused.Load() || g.opts.OnlyPlatform != "" && !session.Key(l).HasPlatform(g.opts.Profile, g.opts.OnlyPlatform)
}

// restorePause takes up a pause of an earlier process.
func (g *Gateway) restorePause(ctx context.Context) error {
	raw, err := g.opts.Store.Value(ctx, pausedKey)
	if err != nil || raw == nil {
		return err
	}
	g.paused.Store(true)
	g.opts.Log.Warn("paused: no turn begins until /pause off", zap.ByteString("since", raw))
	return nil
}

// Pause is Gateway.Pause in words.
func (e env) Pause(ctx context.Context, c command.Call, on bool) string {
	switch err := e.g.Pause(ctx, on); {
	case err != nil:
		return c.T("That could not be kept: %v.", err)
	case on:
		e.g.opts.Log.Warn("paused", zap.String("by", c.Principal.ID))
		return c.T("⏸ Paused: no turn begins anywhere until `/pause off`. What is written meanwhile is kept and answered then. Turns that run are finished; `/stop` ends one.")
	}
	e.g.opts.Log.Info("the pause is over", zap.String("by", c.Principal.ID))
	return c.T("▶️ I go on.")
}

// BusyMode is how it is configured what a message does while a turn runs.
func (e env) BusyMode() string {
	if e.g.opts.Mode == "" {
		return "interrupt"
	}
	return string(e.g.opts.Mode)
}

// Progress is how it is configured that tool calls are shown.
func (e env) Progress() string {
	if e.g.opts.Progress == "" {
		return "off"
	}
	return e.g.opts.Progress
}

// NoVoice says why answers cannot be spoken.
func (e env) Background(id session.ID) (running int, end func()) {
	if e.g.opts.BackgroundCommands == nil {
		return 0, nil
	}
	return e.g.opts.BackgroundCommands(id)
}

func (e env) NoVoice() string {
	if e.g.opts.Media.Synthesize == nil {
		return i18n.N("no service for speech is connected")
	}
	return ""
}
