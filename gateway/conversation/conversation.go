// Package conversation holds sessions in memory: the record, the cached prompt, the
// transcript, the ledger of model calls, and what a turn has changed since the last
// commit. A Book loads them and keeps those that were used last. One turn at a time has a
// Conversation.
package conversation

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"hermesd/agent"
	"hermesd/agent/llm"
	"hermesd/agent/llm/ledger"
	"hermesd/agent/prompt"
	"hermesd/gateway/session"
	"hermesd/gateway/store"
	"hermesd/gateway/usage"
)

// A ModelChoice is the model of a session and its settings.
type ModelChoice struct {
	Provider llm.Provider // nil means the agent's default
	Model    string
	Effort   string
	CacheTTL string
	Vision   bool // the model accepts images
	Window   int  // context length in tokens
}

// Reasons reports whether reasoning is enabled.
func (c ModelChoice) Reasons() bool { return c.Effort != "" && c.Effort != "none" }

// A Discovery finds the project files of directories that tools access.
type Discovery interface {
	// After returns a text to append to the result of a call with that input, "" if
	// there is none.
	After(input json.RawMessage) string
	// MarkSeen is called with each tool result that the session already contains.
	MarkSeen(result string)
}

// NoDiscovery is the Discovery that finds nothing.
type NoDiscovery struct{}

// After returns "".
func (NoDiscovery) After(json.RawMessage) string { return "" }

// MarkSeen does nothing.
func (NoDiscovery) MarkSeen(string) {}

// A Conversation is a session in memory. What a turn changes is in memory only until
// Book.Delta is committed.
type Conversation struct {
	Record      session.Record
	Prefix      prompt.Prefix
	Transcript  *llm.Transcript
	Model       ModelChoice // of the current turn
	ResetNotice string      // text about the reset of the previous session; "" if there was none
	Notes       []string    // texts about the prompt that the user has not seen yet
	Discovery   Discovery   // nil until it is needed
	Engine      EngineState

	created   *store.Creation // set until the session is in the store
	bytes     int64           // of the stored prompt and rows
	ledger    *ledger.Ledger
	lastModel string // model of the last call, as provider/model

	stored        int // messages of the transcript that are in the store or in compactions
	compactions   []store.Compaction
	calls         []store.Doc[ledger.Record] // ledger records of model calls
	recordedCalls int                        // number of calls in recorded steps
	promptChanged bool
}

// An EngineState is the context engine of a conversation.
type EngineState struct {
	agent.Engine                 // nil until it is needed
	Limits       agent.Limits    // last set on it
	Saved        json.RawMessage // its state in the store
	Recorded     json.RawMessage // its state in recorded steps of the turn
}

// Drop forgets the engine, whose state includes messages that are archived.
func (e *EngineState) Drop() { e.Engine, e.Saved = nil, nil }

// Creation returns what a step or a commit must create; nil once the session is stored.
func (c *Conversation) Creation() *store.Creation { return c.created }

// IsNew reports whether the session is not stored yet.
func (c *Conversation) IsNew() bool { return c.created != nil }

// Configure sets the title and the settings of a new session.
func (c *Conversation) Configure(title string, s session.Settings) {
	if c.created != nil {
		c.Record.Title, c.Record.Settings = title, s
		c.created.Record.Title, c.created.Record.Settings = title, s
	}
}

// Stored returns the number of messages of the transcript that are in the store or in
// compactions of the turn.
func (c *Conversation) Stored() int { return c.stored }

// HasChanges reports whether the turn has made compactions or model calls, so that the
// conversation differs from the store even without its new messages.
func (c *Conversation) HasChanges() bool { return len(c.compactions)+len(c.calls) > 0 }

// DeclareBreak declares the reason for which the prefix of the next call may break.
func (c *Conversation) DeclareBreak(reason string) { c.ledger.Declare(ledger.Reason(reason)) }

// HasCalls reports whether a model was called in the conversation.
func (c *Conversation) HasCalls() bool { return c.lastModel != "" }

// RecordCall adds a model call to the ledger. The record says whether its prefix broke
// for an undeclared reason.
func (c *Conversation) RecordCall(call agent.Call) (ledger.Record, error) {
	if n := call.Usage.Prompt(); n > 0 {
		c.Record.PromptTokens, c.Record.PromptMessages = n, c.Transcript.Len()
	}
	model := usage.ModelName(call.Provider, call.Model)
	if c.lastModel != "" && c.lastModel != model && c.ledger.Declared() == "" {
		c.DeclareBreak(string(ledger.Fallback)) // back from a fallback, unless another reason is declared
	}
	c.lastModel = model
	rec := c.ledger.RecordCall(ledger.Call{Request: call.Request, Provider: call.Provider, Model: call.Model, Usage: call.Usage, At: time.Now().UTC()})
	c.Record.PendingBreak = ""
	raw, err := json.Marshal(rec)
	if err != nil {
		return rec, fmt.Errorf("encode ledger record: %w", err)
	}
	c.calls = append(c.calls, raw)
	return rec, nil
}

// UnrecordedCalls returns the ledger records of calls that are in no recorded step, and
// CallsRecorded says that they now are.
func (c *Conversation) UnrecordedCalls() []store.Doc[ledger.Record] { return c.calls[c.recordedCalls:] }

// CallsRecorded is called when a step with UnrecordedCalls is on disk.
func (c *Conversation) CallsRecorded() { c.recordedCalls = len(c.calls) }

// DeclareUnstored declares that the prefix breaks if the parts of requests that are not
// stored with the session, the prefill and the system part of the overlay, have changed
// since the last turn.
func (c *Conversation) DeclareUnstored(prefill []llm.Message, system string) {
	var d llm.Digest
	for _, m := range prefill {
		d = d.Message(m)
	}
	current := d.String() + " " + llm.Digest{}.Add(system).String()
	if old, _, ok := strings.Cut(c.Record.UnstoredDigest, " "); ok && c.Record.UnstoredDigest != current {
		if c.DeclareBreak(string(ledger.Overlay)); old != d.String() {
			c.DeclareBreak(string(ledger.Prefill))
		}
	}
	c.Record.UnstoredDigest = current
}

// Compacted adds a compaction by the agent to the changes of the turn.
func (c *Conversation) Compacted(ev agent.Compacted) error {
	added, err := encode(ev.Replaced[min(c.stored, len(ev.Replaced)):])
	if err != nil {
		return err
	}
	active, err := encode(ev.Messages)
	if err != nil {
		return err
	}
	c.compactions = append(c.compactions, store.Compaction{Length: c.stored, Append: added, From: ev.From, To: ev.To, Active: active})
	c.stored = len(active)
	c.bytes = 0
	for _, row := range active {
		c.bytes += int64(len(row))
	}
	c.Record.PromptTokens, c.Record.PromptMessages = 0, 0
	if ev.Prefix.Hash() != c.Prefix.Hash() {
		c.Prefix, c.promptChanged = ev.Prefix, true
	}
	c.DeclareBreak(ev.Reason)
	return nil
}

// ArchiveFrom archives the messages from index at on. It must be the first change of the
// turn.
func (c *Conversation) ArchiveFrom(at int) error {
	active, err := encode(c.Transcript.Since(0))
	if err != nil {
		return err
	}
	c.compactions = []store.Compaction{{Length: len(active), From: at, To: len(active), Active: active[:at:at]}}
	c.Transcript.Truncate(at)
	c.stored = at
	c.Engine.Drop()
	c.Record.PromptTokens, c.Record.PromptMessages = 0, 0
	c.Record.PendingBreak = string(ledger.Undo)
	return nil
}

// resume makes calls of an earlier run of the turn, which are only in its steps, and the
// engine's state of that run part of the conversation.
func (c *Conversation) resume(stored []ledger.Record, calls []store.Doc[ledger.Record], engine json.RawMessage) error {
	recorded, err := store.Decode(calls, len(stored)+1)
	if err != nil {
		return fmt.Errorf("decode recorded calls of %s: %w", c.Record.ID, err)
	}
	records := append(stored, recorded...)
	c.ledger = ledger.Restore(records)
	if n := len(records); n > 0 {
		c.lastModel = usage.ModelName(records[n-1].Provider, records[n-1].Model)
	}
	c.calls, c.recordedCalls = calls, len(calls)
	if engine != nil {
		c.Engine.Recorded = engine
	}
	return nil
}

// encode returns messages in their stored format.
func encode(ms []llm.Message) ([]store.Doc[llm.Message], error) {
	out := make([]store.Doc[llm.Message], len(ms))
	for i, m := range ms {
		raw, err := json.Marshal(m)
		if err != nil {
			return nil, fmt.Errorf("encode message %d: %w", i, err)
		}
		out[i] = raw
	}
	return out, nil
}

// clean marks the conversation as equal to the store.
func (c *Conversation) clean() {
	c.stored = c.Transcript.Len()
	c.compactions, c.calls, c.recordedCalls, c.promptChanged = nil, nil, 0, false
	c.Engine.Recorded = nil
}

// committed is called when the commit m, to which Book.Delta has added the changes, is in the
// store.
func (c *Conversation) committed(m store.Turn) {
	c.created, c.Record = nil, m.Session
	for _, row := range m.Messages {
		c.bytes += int64(len(row))
	}
	c.clean()
}

// bytesPerMessage is the fixed memory cost of a message. memoryPerByte is the number of
// copies of its bytes in memory: decoded, as received, and encoded with spare
// capacity.
const (
	bytesPerMessage = 400
	memoryPerByte   = 3
)

func (c *Conversation) memoryCost() int64 {
	return 1024 + int64(c.Transcript.Len())*bytesPerMessage + c.bytes*memoryPerByte
}

// Exchange returns the index of the n-th last user message, and the message; -1 if there
// are fewer.
func (c *Conversation) Exchange(n int) (at int, message llm.Message) {
	messages := c.Transcript.Since(0)
	for i := len(messages) - 1; i >= 0; i-- {
		m := messages[i]
		if m.Role != llm.User || !isUserMessage(m) {
			continue
		}
		if n--; n == 0 {
			return i, m
		}
	}
	return -1, llm.Message{}
}

// isUserMessage reports whether a message with the role llm.User was written by a
// user, and does not hold tool results.
func isUserMessage(m llm.Message) bool {
	for _, b := range m.Blocks {
		if b.Type == llm.ToolResult {
			return false
		}
	}
	return len(m.Blocks) > 0
}

// Quote returns the beginning of a user message for display, "" if it has no text.
func Quote(m llm.Message) string {
	for _, b := range m.Blocks {
		if b.Type != llm.Text {
			continue
		}
		text := strings.Join(strings.Fields(strings.ReplaceAll(b.Text, "`", "'")), " ")
		if r := []rune(text); len(r) > 80 {
			text = string(r[:80]) + "…"
		}
		return "`" + text + "`"
	}
	return ""
}
