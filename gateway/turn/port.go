// Package turn runs turns: it claims waiting inbox entries, runs the agent or the
// command for them, and commits the result in one transaction.
//
// A Runner runs one turn per call of Run. Several lanes run concurrently, with at
// most one turn per session. What is claimed is a claim; with its conversation it becomes a
// turn, and only a turn commits to a session. The package also handles turns that fail, are
// interrupted or have crashed the process. It does not check access, and it does not
// send messages: replies are rows of the outbox, which package delivery sends.
package turn

import (
	"hermesd/gateway/inbox"
	"hermesd/gateway/store"
)

// A Store stores the data of turns.
type Store interface {
	store.Turns
	store.Sessions
	store.Editor
	// Waiting is the one method of store.Inbox: turns accept nothing.
	Waiting(lane inbox.Lane) int
}
