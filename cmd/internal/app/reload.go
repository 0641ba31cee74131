package app

import (
	"context"
	"errors"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"hermesd/cmd/internal/admin"
	"hermesd/cmd/internal/config"
	"hermesd/gateway"
	"hermesd/gateway/access"
	"hermesd/gateway/chat"
)

// A accessGate is who may speak, as the configuration says it now.
type accessGate struct {
	now atomic.Pointer[access.Checker]
}

// Check implements gateway.Access.
func (g *accessGate) Check(in chat.Inbound) (access.Grant, access.Denial) {
	return g.now.Load().Check(in)
}

// A reloader keeps what runs and what the configuration says together. The
// daemon began with Options.Config; what differs from it is in effect already or
// waits for the next start.
type reloader struct {
	turn chan struct{} // holds one while the configuration is read and taken, so that nobody else does

	mu    sync.Mutex // guards what follows
	state admin.Config
}

// configState says what became of the configuration since the start.
func (a *App) configState() admin.Config {
	a.reload.mu.Lock()
	defer a.reload.mu.Unlock()
	s := a.reload.state
	s.Applied, s.PendingRestart = slices.Clone(s.Applied), slices.Clone(s.PendingRestart)
	return s
}

// Reload reads the configuration again, takes what can be taken while the daemon
// runs, and says what waits for the next start. A configuration with errors
// changes nothing. Messages are accepted and answered all the while; each is
// judged by the old or by the new configuration, never by parts of both.
func (a *App) Reload(context.Context) admin.Config {
	if a.opts.Load == nil {
		return a.configState()
	}
	a.reload.turn <- struct{}{}
	defer func() { <-a.reload.turn }()
	a.notify(a.notifier.Reloading())
	defer func() { a.notify(a.notifier.Ready()) }()
	c, report, err := a.opts.Load()
	next := admin.Config{Read: time.Now()}
	if err == nil && report.Blank { // an editor or a script is about to write it; nobody is shut out meanwhile
		err = errors.New("the file is empty; remove it if the defaults are meant")
	}
	if err == nil {
		for _, key := range config.Changed(a.opts.Config, c, a.opts.Report, report) {
			if config.IsLive(key) {
				next.Applied = append(next.Applied, key)
			} else {
				next.PendingRestart = append(next.PendingRestart, key)
			}
		}
		prefill, wrong := a.readPrefill(c)
		if wrong == nil && !slices.Contains(next.PendingRestart, prefillKey) && !reflect.DeepEqual(prefill, a.prefill) {
			next.PendingRestart = append(next.PendingRestart, prefillKey) // the same file says something else
		}
		if err = wrong; err == nil {
			err = a.take(c)
		}
	}
	was := a.configState()
	if err != nil {
		was.Read, was.Problem = next.Read, a.opts.Report.Secrets.Mask(report.Secrets.Mask(err.Error()))
		next = was
	}
	a.reload.mu.Lock()
	a.reload.state = next
	a.reload.mu.Unlock()
	a.tellReload(was, next)
	return a.configState()
}

// take puts into effect what a running daemon can take.
func (a *App) take(c *config.Config) error {
	check, err := a.checker(c)
	if err != nil {
		return err
	}
	a.gate.now.Store(check)
	a.gateway.ApplySettings(gateway.ReloadableSettings{Ephemeral: c.Agent.EphemeralSystemPrompt, Personality: personalities(c), HomeChannels: homes(c)})
	if a.opts.Level != nil {
		a.opts.Level(c.Logging.Level)
	}
	return nil
}

// tellReload has the operator know what is new.
func (a *App) tellReload(was, now admin.Config) {
	switch {
	case now.Problem != "":
		a.opts.Log.Error("the configuration has errors; the one in effect stays", zap.String("err", now.Problem))
		return
	case slices.Equal(was.Applied, now.Applied) && slices.Equal(was.PendingRestart, now.PendingRestart) && was.Problem == "" && len(now.Applied) == 0:
		a.opts.Log.Debug("nothing in the configuration is new")
		return
	}
	a.opts.Log.Info("the configuration was read again", zap.Strings("in_effect", now.Applied), zap.Strings("at_next_start", now.PendingRestart))
	if len(now.PendingRestart) > 0 {
		a.opts.Log.Warn("changed settings wait for the next start: " + strings.Join(now.PendingRestart, ", "))
	}
}

// follow reads the configuration again whenever its files change, until ctx
// ends.
func (a *App) follow(ctx context.Context) {
	if a.opts.Load == nil {
		return
	}
	file := a.opts.Report.File
	if file == "" {
		file = a.opts.Report.Missing
	}
	files := []string{filepath.Clean(file), filepath.Join(a.opts.Home, ".env")}
	err := config.Watch(ctx, files, func() { a.Reload(ctx) })
	if err != nil && !errors.Is(err, context.Canceled) {
		a.opts.Log.Warn("changes of the configuration are not noticed; SIGHUP has it read again", zap.Error(err))
	}
}
