package session

import "errors"

// ErrNotFound says that there is no session of that id.
var ErrNotFound = errors.New("there is no such conversation")

// ErrBusy says that a session cannot be deleted now: a turn of its conversation
// is under way.
var ErrBusy = errors.New("an answer is under way in this conversation; stop it with /stop, or wait until it is there")

// Deleted says what a session took with it when it was deleted.
type Deleted struct {
	ID       ID  `json:"id"`
	Messages int `json:"messages"` // archived ones included
	Entries  int `json:"entries"`  // accepted messages whose text is gone
	Rows     int `json:"rows"`     // sent messages whose text is gone, or goes once they have ended
	// Files are the names of files in the media cache that nothing else uses any
	// more. The store does not touch them.
	Files []string `json:"files,omitempty"`
}
