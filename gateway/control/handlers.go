package control

import (
	"context"
	"encoding/json"
	"strings"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"hermesd/gateway/chat"
	"hermesd/gateway/command"
	"hermesd/gateway/delivery"
	"hermesd/gateway/inbox"
	"hermesd/gateway/outbox"
	"hermesd/gateway/session"
	"hermesd/gateway/store"
)

// Handlers returns the handlers of the chat commands that ask for the state of the daemon
// or change it.
func (ctl *Control) Handlers() map[string]command.Handler {
	reply := command.ReplyWith
	return map[string]command.Handler{
		"new": ctl.newSession, "stop": ctl.stop, "title": ctl.title, "sessions": ctl.sessions, "resume": ctl.resume,
		"model": ctl.model, "personality": ctl.personality, "busy": ctl.busyMode, "verbose": ctl.verbose, "voice": ctl.voice,
		"status": reply(ctl.describeStatus), "context": reply(ctl.describeContext), "usage": reply(ctl.describeUsage),
		"memory": reply(ctl.describeMemory), "skills": reply(ctl.describeSkills), "why": reply(ctl.why), "version": reply(ctl.version),
		"pause": reply(ctl.pause), "restart": ctl.restartCommand, "sethome": reply(ctl.setHome),
	}
}

// noSessionYet is the reply of commands that need a session if there is none.
const noSessionYet = "There is no conversation yet. Write something first."

func (ctl *Control) version(context.Context, command.Call) (string, error) {
	return "hermesd " + ctl.parts.Options.Version, nil
}

// setHome makes the chat the home channel of its platform.
func (ctl *Control) setHome(ctx context.Context, c command.Call) (string, error) {
	at := c.Inbound.Address
	if err := ctl.parts.Targets.SetHome(ctx, at); err != nil {
		return c.T("That cannot be: %v.", err), nil
	}
	return c.T("This chat (%s) is now the home channel of %s: what goes to `%s` comes here.", command.Quote(at.String()), at.Platform, at.Platform), nil
}

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

// IsRestricted reports whether only the turns of one platform may start.
func (p *Pause) IsRestricted() bool { return p.only != "" }

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

// restartKey is the store key of the chat that requested the current restart.
const restartKey = "restart"

// Restart restarts the process and stores the chat that is notified afterwards. The
// /restart command is already done, so it cannot run twice.
func (ctl *Control) Restart(from chat.Address) {
	log := ctl.parts.Options.Log
	if err := store.Save(context.Background(), ctl.parts.Store, restartKey, from); err != nil {
		log.Error("cannot store restart request", zap.Error(err))
	}
	log.Info("restart requested", zap.Stringer("chat", from))
	ctl.parts.Host.Restart()
}

// AnnounceRestart notifies the chat that requested a restart that it is done.
func (ctl *Control) AnnounceRestart(ctx context.Context) error {
	s, o := ctl.parts.Store, ctl.parts.Options
	raw, err := s.Value(ctx, restartKey)
	if err != nil || raw == nil {
		return err
	}
	if err := s.SetValue(ctx, restartKey, nil); err != nil { // before sending: a lost notice is better than one at each start
		return err
	}
	var to chat.Address
	if err := json.Unmarshal(raw, &to); err != nil {
		o.Log.Error("cannot decode restart request", zap.Error(err))
		return nil
	}
	return ctl.parts.Runtime.Delivery.SendNotice(ctx, o.Printer.T("I am back: hermesd %s.", o.Version), delivery.Draft{To: to, Role: outbox.Notice})
}

// restartCommand asks for confirmation, and restarts the daemon on `/restart now` or on the
// button, which carries the time of the question.
func (ctl *Control) restartCommand(_ context.Context, c command.Call) (command.Result, error) {
	if !ctl.parts.Host.CanRestart() {
		return command.Result{Text: c.T("This daemon cannot restart itself: it ends with its terminal.")}, nil
	}
	word, asked, _ := strings.Cut(c.Args, " ")
	switch {
	case word == "":
		now := command.QuestionTime()
		return command.Result{
			Text: c.T("Restart the daemon? What runs is finished first, or goes on afterwards; no message is lost. Press the button, or say `/restart now`."),
			Buttons: [][]chat.Button{{
				{Label: c.T("Restart"), Data: "/restart now " + now},
				{Label: c.T("Cancel"), Data: "/restart cancel"},
			}},
		}, nil
	case word == "cancel":
		return command.Result{Text: c.T("The daemon goes on.")}, nil
	case word != "now":
		return command.Result{Text: c.T("I know `/restart` and `/restart now`.")}, nil
	case asked != "" && !command.IsQuestionValid(asked):
		return command.Result{Text: c.T("That question is too old. Say `/restart` again.")}, nil
	}
	return command.Result{Text: c.T("Restarting."), AfterCommit: func() { ctl.Restart(c.Inbound.Address) }}, nil
}
