package inbox

import (
	"encoding/json"

	"hermesd/gateway/outbox"
)

// A MessageHistory is the story of one message.
type MessageHistory struct {
	Entry Entry           `json:"entry"`
	Trace json.RawMessage `json:"trace,omitempty"` // of the turn; see turn.Trace
	Rows  []outbox.Row    `json:"rows,omitempty"`
}

// Stats are the store's own figures.
type Stats struct {
	Epoch    uint64 `json:"epoch"`
	Accepted uint64 `json:"accepted"` // entries since the process began
	Commits  uint64 `json:"commits"`  // transactions since the process began
	Writes   uint64 `json:"writes"`   // operations that these transactions carried
	Waiting  int    `json:"waiting"`
	Claimed  int    `json:"claimed"`
	Outbox   int    `json:"outbox"` // rows that are not terminal
	Dead     int    `json:"dead"`
	Bytes    int64  `json:"bytes"`           // size of the file
	Error    string `json:"error,omitempty"` // the last write that failed, until one succeeds
}
