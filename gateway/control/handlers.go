package control

import (
	"context"

	"hermesd/gateway/command"
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
