package inbox

import (
	"encoding/json"

	"hermesd/gateway/outbox"
)

// A MessageHistory is everything stored about one message. `why` prints it.
type MessageHistory struct {
	Entry Entry           `json:"entry"`
	Trace json.RawMessage `json:"trace,omitempty"` // of the turn; see turn.Trace
	Rows  []outbox.Row    `json:"rows,omitempty"`
}

// Stats are counters and sizes of the store, as of one moment.
type Stats struct {
	Epoch    uint64 `json:"epoch"`
	Accepted uint64 `json:"accepted"`   // entries since the process started
	Commits  uint64 `json:"commits"`    // transactions since the process started
	Writes   uint64 `json:"operations"` // operations in these transactions
	Waiting  int    `json:"waiting"`
	Claimed  int    `json:"claimed"`
	Outbox   int    `json:"outbox"` // rows that are not terminal
	Dead     int    `json:"dead_letters"`
	Bytes    int64  `json:"bytes"`           // size of the file
	Error    string `json:"error,omitempty"` // of the last failed write, until a write succeeds
}
