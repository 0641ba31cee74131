package terminal

import (
	"errors"

	"hermesd/internal/spawn"
)

// A network says how a command is connected.
type network struct {
	shared bool   // it shares the network of this machine
	note   string // for the result if the command fails; "": none
}

// networkOf returns the network of a command with this classification in box.
func networkOf(box *spawn.Sandbox, v PolicyResult) network {
	open := box.Status().Net == ""
	if open && v.NoNetwork {
		return network{note: `it ran without network; to ask a user for the network, set "network" to true`}
	}
	return network{shared: open}
}

// notes returns notes for the result of a command that has ended. A command that somebody
// has ended has not failed.
func (n network) notes(r spawn.Result) []string {
	ended := r.Cause != nil && !errors.Is(r.Cause, spawn.ErrTimeout)
	if r.Code == 0 || n.note == "" || ended {
		return nil
	}
	return []string{n.note}
}
