// Package provider declares what an external memory provider is: a service or program
// that remembers facts about people across conversations. Each implementation is a
// package below this one, with a function Open. Package gateway/memory decides whose words
// are sent and when.
//
// What a provider returns is untrusted text. Providers do not scan it.
package provider

import (
	"context"
	"encoding/json"
	"io/fs"
	"net/http"
	"time"

	"hermesd/internal/secret"
)

// A Provider is a client of one memory provider. Its methods may be called from any
// goroutine. They return when ctx ends; a failed call returns an *Error.
type Provider interface {
	// About describes the provider. It is constant and accesses nothing.
	About() About
	// Check makes one cheap call that needs the key, and returns what the provider says of
	// itself.
	Check(ctx context.Context) (Health, error)
	// Standing returns what the provider knows about a person, whatever is asked; "" for
	// nothing, or if it has no such text.
	Standing(ctx context.Context, s Scope) (string, error)
	// Recall returns what fits a query, best first.
	Recall(ctx context.Context, s Scope, query string) ([]Item, error)
	// Sync stores an event. It may be called again with the same event.
	Sync(ctx context.Context, e Event) (Receipt, error)
	// Synced reports whether an event was stored. r is the receipt of Sync, the zero
	// Receipt if its answer was lost. The error is ErrUnknown if the provider cannot tell,
	// and ErrFailed if it has accepted the event and could not process it.
	Synced(ctx context.Context, e Event, r Receipt) (bool, error)
	// Call runs one of About().Tools. The result is JSON or text for the model.
	Call(ctx context.Context, s Scope, tool string, input json.RawMessage) (string, error)
	// Close releases what the provider holds. It is the last call.
	Close() error
}

// A Health is what a provider says of itself, for people; fields are "" if it does not.
type Health struct {
	Version string // of the server
	Detail  string // one line, such as the account of the key
}

// An About describes a provider.
type About struct {
	Name  string // in memory.provider
	Label string // for people, such as "OpenViking"
	Mode  string // of the provider's own configuration, for people; "" if it has none
	Place string // where the data is, for people: a URL or a path
	// Owner is the name that the owner's memory has there, for people; "" with PerID, and
	// if Place says it.
	Owner string
	// StandingEvery is the number of a person's recalls after which their standing text is
	// fetched again; 0 if the provider has no setting for it.
	StandingEvery int
	// Header is the constant text of the provider in the system prompt, at most 600
	// characters.
	Header string
	// Honcho: the standing text has a layer of its own in the system prompt.
	Honcho bool
	Tools  []Tool
	// NoRecall and NoTools: the provider's own mode turns off recall or tools. NoTools
	// implies that Tools is empty.
	NoRecall, NoTools bool
	// Wait: the first model call of every turn waits for the recall of that turn, within
	// the time limit. Otherwise only that of the first turn of a conversation does.
	Wait bool
	// RecallAlone: recalls need less than other calls, which need a model account, say. So
	// failures of the one do not hold back the other.
	RecallAlone bool
	// Exact: an event that is sent twice is stored once, or Synced can tell.
	Exact bool
	// PerID: each ID of an owner on a platform is a person of its own, as upstream has it.
	PerID bool
	// Checkpoints: events of kind Checkpoint are of use.
	Checkpoints bool
	// Apart: turns are stored independently of each other, so that one that is being
	// processed does not hold up the next.
	Apart bool
	// Batch says which turns of a conversation are stored as one event; zero: each is one.
	Batch Batch
	// ToolUses: Event.Tools is of use.
	ToolUses bool
	// Cannot says what the provider cannot delete; "" if it deletes everything.
	Cannot string
}

// A Batch is how many turns of a conversation are stored as one event, at most, and for how
// long after the last one they wait for more, unless the conversation ends.
type Batch struct {
	Turns int
	After time.Duration
}

// A Tool is a tool that a provider offers to the model, with upstream's name.
type Tool struct {
	Name, Description string
	Schema            json.RawMessage
	Writes            bool // it changes what is remembered
	Owners            bool // only owners may use it: it reads files or addresses
}

// A Scope says whose memory is used, and in which conversation.
type Scope struct {
	// Person is the identity of a person or room: at most 100 characters of
	// [A-Za-z0-9_-]. "" is the owner, whose identity the provider derives as upstream
	// does.
	Person string
	// UserID is the owner's ID on the platform of the conversation.
	UserID string
	// Session is the ID of the conversation, and Key the name of its chat, such as
	// "agent-main-telegram-dm-8439114563".
	Session, Key   string
	Platform, Chat string
}

// An Item is something that a provider remembers.
type Item struct {
	ID   string // "" if the provider has none
	Text string
}

// A Kind is the kind of an event.
type Kind string

// Kinds of events.
const (
	Turn       Kind = "turn"       // a finished turn, or those of a Batch: Messages
	Added      Kind = "added"      // a fact that the built-in memory has now: Fact
	Removed    Kind = "removed"    // a fact that it has no more: Fact with its ID
	Checkpoint Kind = "checkpoint" // messages leave the context: Messages
	End        Kind = "end"        // the conversation has ended
	Forget     Kind = "forget"     // delete what is known of Scope.Session, or of Scope.Person if that is ""
)

// An Event is something that a provider is to store.
type Event struct {
	Key      string    `json:"key"` // a UUID; the same in every repetition
	Kind     Kind      `json:"kind"`
	Scope    Scope     `json:"scope"`
	At       time.Time `json:"at"`
	Messages []Message `json:"messages,omitempty"`
	Tools    []ToolUse `json:"tools,omitempty"` // of a turn, in order
	Fact     Fact      `json:"fact,omitzero"`
}

// A Message is what one side has said, secrets masked.
type Message struct {
	Role string    `json:"role"` // user or assistant
	Text string    `json:"text"`
	At   time.Time `json:"at"`
}

// A ToolUse is a call of a tool with its result, secrets masked.
type ToolUse struct {
	ID     string `json:"id"`
	Name   string `json:"name"`
	Input  string `json:"input,omitempty"` // JSON, unless it is cut
	Output string `json:"output,omitempty"`
	Failed bool   `json:"failed,omitempty"`
}

// A Fact is an entry of the built-in memory.
type Fact struct {
	Target string `json:"target"` // memory (notes) or user (profile)
	Text   string `json:"text"`
	ID     string `json:"id,omitempty"` // Receipt.ID of its Added event; "" if unknown
}

// A Receipt is the answer to an event.
type Receipt struct {
	ID string `json:"id,omitempty"` // of what was stored, or of the operation
	// Pending: the provider has accepted the event and not yet processed it.
	Pending bool `json:"pending,omitempty"`
}

// A Source is what a provider is configured from.
type Source struct {
	Home    string              // the Hermes home
	Getenv  func(string) string // of the environment with .env
	Section json.RawMessage     // the provider's own section of config.yaml; nil if there is none
	Profile string              // name of the Hermes profile; "" for the default one
	HTTP    *http.Client        // nil: a new client, which reaches only the configured server
	// Planned has the contents of files, by path, that are used instead of what they
	// contain: a setup tries a provider before it writes them.
	Planned map[string][]byte
	// Open opens a file that the model has named, if an owner may send it.
	Open    func(path string) (fs.File, error)
	Secrets *secret.Masker // learns the keys
}

// Learn makes a key one that is masked everywhere.
func (s Source) Learn(key secret.Value) {
	if key != "" {
		s.Secrets.Add(key)
	}
}
