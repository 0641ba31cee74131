package store

import (
	"encoding/json"
	"time"

	"hermesd/agent/llm"
	"hermesd/agent/llm/ledger"
	"hermesd/agent/prompt"
	"hermesd/gateway/inbox"
	"hermesd/gateway/outbox"
	"hermesd/gateway/session"
)

// An End is what ends a claim, with or without a conversation.
type End struct {
	// Outcomes holds the outcomes of single entries of the claim; all others get
	// Outcome.
	Outcome  inbox.Outcome
	Outcomes map[inbox.ID]inbox.Outcome
	// Rows are new outbox rows, in order. The first one of a queue that is
	// otherwise empty is registered as attempted in the same transaction.
	Rows []outbox.Row
	// Trace is stored with the turn for `why`.
	Trace Doc[Trace]
	// Events are added to their queues.
	Events []Event
}

// A Turn holds all changes of a claim with a conversation. They are applied in one
// transaction, or not at all.
type Turn struct {
	End
	// Create, if set, is a new session, which becomes the current one of its key.
	Create *Creation
	// Session replaces the session's record.
	Session session.Record
	// Compactions are compactions of the transcript of Session, in order. They are
	// applied before Messages.
	Compactions []Compaction
	// Messages are appended to the transcript of Session, which must have
	// Session.Messages - len(Messages) rows before.
	Messages []Doc[llm.Message]
	// Prompt, if set, replaces the cached prompt of Session; Session.Revision counts
	// the replacements.
	Prompt Doc[prompt.Prefix]
	// Engine, if set, is the new state of the context engine of Session.
	Engine json.RawMessage
	// Calls are appended to the ledger of Session, which must have
	// Session.Calls - len(Calls) before. The store keeps at
	// least the newest 5,000 of a session.
	Calls []Doc[ledger.Record]
	// Accept are new entries that are accepted with this commit.
	Accept []inbox.Entry
}

// A Creation is the initial state of a session: its record and its frozen prompt, which
// only a Turn or a Rebuild with a new prompt replaces.
type Creation struct {
	Record session.Record
	Prompt Doc[prompt.Prefix]
}

// A Compaction is one compaction of an active transcript. It archives rows and
// deletes nothing.
type Compaction struct {
	// Length is the number of rows that the transcript must have before.
	Length int
	// Append are rows that are appended first.
	Append []Doc[llm.Message]
	// From and To delimit the active rows that are archived.
	From, To int
	// Active replaces the whole active transcript.
	Active []Doc[llm.Message]
}

// A Finish holds all changes of a claim without a conversation: a command, or a turn that
// failed before it had one. They are applied in one transaction, or not at all.
type Finish struct {
	End
	// Create, if set, is a new session, which becomes the current one of its key.
	Create *Creation
	// SetCurrent changes the current session of keys.
	SetCurrent map[session.Key]session.ID
	// Settings replaces the settings of sessions. Nothing else changes settings, so
	// they can be set while a turn of the session runs.
	Settings map[session.ID]session.Settings
	Rebuild  *Rebuild // nil: no prompt was built again
	// Cancel ends the waiting entries of these lanes that are older than the newest
	// entry of the claim, with CancelReason. If that ends an interrupted turn, its
	// previews are deleted.
	Cancel       []inbox.Lane
	CancelReason string
}

// A Rebuild changes the cached prompt of a session. It is applied to the record as it is
// stored, so that a turn in between loses nothing.
type Rebuild struct {
	Session session.ID
	Prompt  Doc[prompt.Prefix] // nil: it is the same as before
	Break   string             // the pending break of the next call; "": that of the record stays
}

// A Trace describes the run of a turn. `why` prints it.
type Trace struct {
	Session string        `json:"session,omitempty"`
	Started time.Time     `json:"began"`
	Took    time.Duration `json:"took"`
	Resumed bool          `json:"resumed,omitempty"`
	Calls   []ModelCall   `json:"calls,omitempty"`
	Tools   []string      `json:"tools,omitempty"`
	Notices []string      `json:"notices,omitempty"`
	Error   string        `json:"error,omitempty"`
}

// A ModelCall is one model call of a turn.
type ModelCall struct {
	Provider string        `json:"provider"`
	Model    string        `json:"model"`
	Took     time.Duration `json:"took"`
	Usage    llm.Usage     `json:"usage"`
}
