package session

import "errors"

// ErrNotFound is returned for a session ID that does not exist.
var ErrNotFound = errors.New("there is no such conversation")

// ErrBusy is returned when a session cannot be deleted because a turn of its
// conversation is running.
var ErrBusy = errors.New("an answer is under way in this conversation; stop it with /stop, or wait until it is there")

// Deleted is the result of deleting a session.
type Deleted struct {
	ID       ID  `json:"id"`
	Messages int `json:"messages"` // including archived ones
	Entries  int `json:"entries"`  // inbox entries whose text was deleted
	Rows     int `json:"rows"`     // outbox rows whose text was deleted, or will be once they are settled
	// Files are the names of files in the media cache that nothing else refers to.
	// The store does not delete them.
	Files []string `json:"files,omitempty"`
}
