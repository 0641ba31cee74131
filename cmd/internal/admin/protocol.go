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

// upgrade is the protocol to which an attach request switches: JSON lines, of type
// up from the terminal and Down from the daemon.
const upgrade = "hermesd-chat"

const (
	maxUp   = 2 << 20  // a line of 256 KiB with every byte escaped
	maxDown = 64 << 20 // an answer with many parts
)

// up is a message of a terminal to the daemon.
type up struct {
	Say  *line  `json:"line,omitempty"`
	Seen uint64 `json:"seen,omitempty"`
}

type line struct {
	ID   string `json:"id"`
	Text string `json:"text"`
}

// Down is a message of the daemon to a terminal. Exactly one field is set.
type Down struct {
	Hello    *Hello         `json:"hello,omitempty"` // always the first message
	Event    *console.Event `json:"event,omitempty"`
	Outcome  *Outcome       `json:"outcome,omitempty"`
	Accepted *LineAccepted  `json:"accepted,omitempty"`
	Bye      string         `json:"bye,omitempty"` // always the last message: the reason for disconnecting
}

// Hello describes the daemon and the conversation to a terminal.
type Hello struct {
	Version      string    `json:"version"`
	Model        string    `json:"model,omitempty"`
	Conversation string    `json:"conversation"`
	Commands     []Command `json:"commands"`
}

// A Command is a chat command that is available in the conversation.
type Command struct {
	Name    string   `json:"name"`
	Aliases []string `json:"aliases,omitempty"`
	Args    string   `json:"args,omitempty"`
	Help    string   `json:"help"`
}

// LineAccepted confirms that a line is stored, or has the reason why not.
type LineAccepted struct {
	ID    string `json:"id"`
	Error string `json:"error,omitempty"`
}

// An Outcome reports how a line ended. It is sent after the messages that answer
// it.
type Outcome struct {
	ID     string       `json:"id"` // of the line
	Result inbox.Result `json:"result"`
	Reason string       `json:"reason,omitempty"`
	// Text is the answer, one element per message.
	Text []chat.RichText `json:"text,omitempty"`
	// Messages are the IDs of the messages that show Text or showed it before, as a
	// preview. Other messages of the turn are notices.
	Messages []string   `json:"messages,omitempty"`
	Trace    turn.Trace `json:"trace,omitzero"`
}

// lines writes values as JSON lines. It is safe for concurrent use.
type lines struct {
	mu sync.Mutex // guards w
	w  io.Writer
	// mask, if set, masks secrets in the output.
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

// scan calls take for each line of r until r ends or take fails. A line of more
// than most bytes is an error.
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
