package app

import (
	"slices"
	"strconv"

	"hermesd/agent/cmdpolicy"
	"hermesd/internal/spawn"
)

// addressesToApprove returns the addresses that a command of a session must not reach
// unasked: all but the ports of this machine on which background processes of the session
// listen. If commands have no network, no address needs an approval.
func (a *App) addressesToApprove(v cmdpolicy.Result, session string) []cmdpolicy.Address {
	if len(v.Addresses) == 0 || a.commandsHaveNoNetwork() {
		return nil
	}
	var ports []uint16
	if slices.ContainsFunc(v.Addresses, func(x cmdpolicy.Address) bool { return x.Loopback }) {
		ports = a.commands.ListeningPorts(session)
	}
	return slices.DeleteFunc(slices.Clone(v.Addresses), func(x cmdpolicy.Address) bool {
		port, err := strconv.ParseUint(x.Port, 10, 16)
		return x.Loopback && x.Exact && err == nil && slices.Contains(ports, uint16(port))
	})
}

// commandsHaveNoNetwork reports whether the sandbox takes the network from commands.
func (a *App) commandsHaveNoNetwork() bool {
	if a.opts.Config.Terminal.Network {
		return false
	}
	box, err := a.sandbox() // if it fails, the command does not run
	return err == nil && box.Status().Mechanism != spawn.None
}
