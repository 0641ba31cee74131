package admin

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"sync"

	"hermesd/adapters/console"
	"hermesd/gateway/chat"
	"hermesd/gateway/inbox"
	"hermesd/gateway/turn"
)

// upgrade is the protocol to which an attach switches: lines of JSON, up from
// the terminal, Down from the daemon.
const upgrade = "hermesd-chat"

const (
	maxUp   = 2 << 20  // a line of 256 KiB with every byte escaped
	maxDown = 64 << 20 // an answer of many pieces
)

// up is what a terminal tells the daemon.
type up struct {
	Say  *line  `json:"line,omitempty"`
	Seen uint64 `json:"seen,omitempty"`
}

type line struct {
	ID   string `json:"id"`
	Text string `json:"text"`
}

// Down is what the daemon tells a terminal. One of its fields is set.
type Down struct {
	Hello    *Hello         `json:"hello,omitempty"` // first of all
	Event    *console.Event `json:"event,omitempty"`
	Outcome  *Outcome       `json:"outcome,omitempty"`
	Accepted *LineAccepted  `json:"accepted,omitempty"`
	Bye      string         `json:"bye,omitempty"` // last of all: why it ends
}

// Hello says with whom a terminal speaks.
type Hello struct {
	Version      string    `json:"version"`
	Model        string    `json:"model,omitempty"`
	Conversation string    `json:"conversation"`
	Commands     []Command `json:"commands"`
}

// A Command is one that can be used in the conversation.
type Command struct {
	Name    string   `json:"name"`
	Aliases []string `json:"aliases,omitempty"`
	Args    string   `json:"args,omitempty"`
	Help    string   `json:"help"`
}

// LineAccepted says that a line is on disk, or why it is not.
type LineAccepted struct {
	ID    string `json:"id"`
	Error string `json:"error,omitempty"`
}

// An Outcome says how a line ended. It comes after the messages that answer it.
type Outcome struct {
	ID     string       `json:"id"` // of the line
	Result inbox.Result `json:"result"`
	Reason string       `json:"reason,omitempty"`
	// Text is the answer: what was said in reply, piece by piece.
	Text []chat.RichText `json:"text,omitempty"`
	// Messages are the ids of all messages that the turn has sent, previews and
	// notices too.
	Messages []string   `json:"messages,omitempty"`
	Trace    turn.Trace `json:"trace,omitzero"`
}

// lines writes values as lines of JSON, one at a time.
type lines struct {
	mu sync.Mutex // guards w
	w  io.Writer
	// mask, if set, hides secrets in what is written.
	mask func(string) string
}

func (l *lines) write(v any) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode: %w", err)
	}
	raw = append(raw, '\n')
	if l.mask != nil {
		raw = []byte(l.mask(string(raw)))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	_, err = l.w.Write(raw)
	return err
}

// scan calls take for each line of r, until it ends or take fails. A line over
// most bytes is an error.
func scan(r io.Reader, most int, take func([]byte) error) error {
	s := bufio.NewScanner(r)
	s.Buffer(make([]byte, 0, 4096), most)
	for s.Scan() {
		if err := take(s.Bytes()); err != nil {
			return err
		}
	}
	return s.Err()
}
