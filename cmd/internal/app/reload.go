package app

import (
	"context"
	"errors"
	"path/filepath"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"hermesd/cmd/internal/admin"
	"hermesd/cmd/internal/config"
	"hermesd/gateway/access"
	"hermesd/gateway/chat"
)

// An accessGate checks access by the configuration that is currently in effect.
type accessGate struct {
	checker atomic.Pointer[access.Checker]
}

// Check implements gateway.Access.
func (g *accessGate) Check(in chat.Inbound) (access.Grant, access.Denial) {
	return g.checker.Load().Check(in)
}

// Owners returns who are owners by that configuration.
func (g *accessGate) Owners() []access.Principal { return g.checker.Load().Owners() }

// A reloader tracks how the configuration differs from Options.Config, with which
// the daemon started: each changed key is either applied or waits for the next
// start.
type reloader struct {
	lock chan struct{} // capacity 1; full while a goroutine reads and applies the configuration

	memoryWarnings []string // of the external memory, as they were last logged; guarded by lock

	mu    sync.Mutex // guards state
	state admin.Config
}

// current returns how the configuration has changed since the start.
func (r *reloader) current() admin.Config {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.state
	s.Applied, s.PendingRestart = slices.Clone(s.Applied), slices.Clone(s.PendingRestart)
	return s
}

// Reload reads the configuration again, applies the keys that can change while the
// daemon runs, and returns which ones wait for the next start. A configuration with
// errors changes nothing. Messages are accepted and answered meanwhile; each is
// checked against the old or the new configuration, never against parts of both.
func (a *App) Reload(context.Context) admin.Config {
	if a.opts.ConsoleOnly {
		return a.reload.current()
	}
	a.reload.lock <- struct{}{}
	defer func() { <-a.reload.lock }()
	a.notify(a.notifier.Reloading())
	defer func() { a.notify(a.notifier.Ready()) }()
	c, report, err := a.opts.Load()
	next := admin.Config{Read: time.Now()}
	if err == nil && report.Blank { // an editor or a script may be about to write it; access must not be lost meanwhile
		err = errors.New("the file is empty; remove it if the defaults are meant")
	}
	if err == nil {
		given := c
		c, _ = Usable(c, report, a.opts.Home)
		if a.onlyPlatform != "" {
			c.Terminal.CWD = a.opts.Config.Terminal.CWD
		}
		if a.opts.Config.Agent.PrefillMessagesFile == "" { // the start does without one that cannot be read
			given = c
		}
		messages, prefillErr := a.readPrefill(given)
		var used memoryUse
		if err = prefillErr; err == nil {
			used, err = a.applyConfig(c, report)
		}
		for _, key := range config.Changed(a.opts.Config, c, a.opts.Report, report) {
			if config.IsLive(key) && (used.reopened || !config.IsOfExternalMemory(key)) {
				next.Applied = append(next.Applied, key)
			} else {
				next.PendingRestart = append(next.PendingRestart, key)
			}
		}
		for key, changed := range map[string]bool{prefillKey: !reflect.DeepEqual(messages, a.prefill), memoryKey: used.waits} {
			if changed && !slices.Contains(next.PendingRestart, key) { // not the value of the key, but what it names
				next.PendingRestart = append(next.PendingRestart, key)
			}
		}
		slices.Sort(next.PendingRestart)
	}
	prev := a.reload.current()
	if err != nil {
		prev.Read, prev.Problem = next.Read, a.opts.Report.Secrets.Mask(report.Secrets.Mask(err.Error()))
		next = prev
	}
	a.reload.mu.Lock()
	a.reload.state = next
	a.reload.mu.Unlock()
	a.logReload(prev, next)
	return a.reload.current()
}

// applyConfig applies what can change while the daemon runs.
func (a *App) applyConfig(c *config.Config, r config.Report) (used memoryUse, err error) {
	check, err := a.checker(c)
	if err != nil {
		return used, err
	}
	memory, err := a.reopenMemory(c, r)
	if err != nil {
		return used, err
	}
	a.access.checker.Store(check)
	a.overlay.Apply(a.overlaySettings(c))
	a.outgoing.Targets.SetConfigured(homeChannels(c))
	a.opts.Level(c.Logging.Level)
	if memory != nil {
		used.reopened = a.memory.Configure(memory, memorySettings(c, a.opts.Config.Memory.Scope, a.access.Owners))
		used.waits = !used.reopened
	}
	a.memory.Reload()
	return used, nil
}

// logReload logs the result of reading the configuration.
func (a *App) logReload(prev, now admin.Config) {
	switch {
	case now.Problem != "":
		a.opts.Log.Error("configuration has errors; keeping the previous one", zap.String("err", now.Problem))
		return
	case slices.Equal(prev.Applied, now.Applied) && slices.Equal(prev.PendingRestart, now.PendingRestart) && prev.Problem == "" && len(now.Applied) == 0:
		a.opts.Log.Debug("configuration is unchanged")
		return
	}
	a.opts.Log.Info("configuration reloaded", zap.Strings("in_effect", now.Applied), zap.Strings("at_next_start", now.PendingRestart))
	if len(now.PendingRestart) > 0 {
		a.opts.Log.Warn("settings wait for a restart", zap.Strings("keys", now.PendingRestart))
	}
}

// watchConfig reloads the configuration whenever its files change, until ctx ends.
func (a *App) watchConfig(ctx context.Context) {
	if a.opts.ConsoleOnly {
		return
	}
	file := a.opts.Report.File
	if file == "" {
		file = a.opts.Report.Missing
	}
	files := []string{filepath.Clean(file), filepath.Join(a.opts.Home, ".env")}
	err := config.Watch(ctx, files, func() { a.Reload(ctx) })
	if err != nil && !errors.Is(err, context.Canceled) {
		a.opts.Log.Warn("cannot watch configuration files; send SIGHUP to reload", zap.Error(err))
	}
}
