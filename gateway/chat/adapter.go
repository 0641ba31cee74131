package chat

import (
	"context"
	"errors"
	"io"
	"time"
)

// A Sink accepts the events that adapters receive.
type Sink interface {
	// Accept returns nil when all events of batch are on disk, in order. Only then
	// may the adapter acknowledge them to its platform. After an error none of them
	// counts as accepted, and the platform must deliver them again; an event that was
	// accepted before is recognized by its IdempotencyKey and ignored. Accept never
	// waits for a turn.
	Accept(ctx context.Context, batch []Inbound) error
}

// ErrOutcomeUnknown is in the error of Accept if it is not known whether the events are
// on disk. The daemon then restarts, and events that are offered again are accepted once.
var ErrOutcomeUnknown = errors.New("it is not known whether this is stored")

// A Memory stores small values of an adapter across restarts.
type Memory interface {
	// Value returns the value stored under key, nil if there is none.
	Value(ctx context.Context, key string) ([]byte, error)
	SetValue(ctx context.Context, key string, v []byte) error
}

// An Adapter connects one account of one platform. Run and Send may be called
// concurrently, and Send concurrently for different chats.
type Adapter interface {
	// Run connects and stays connected until ctx ends, reconnecting with backoff and
	// jitter. It returns early only with a *ConfigError.
	Run(ctx context.Context, sink Sink) error
	// Send makes one delivery attempt for m. If the error is nil the Receipt is valid;
	// a *SendError says what is known about the failure; after any other error it is
	// unknown whether m arrived. Send never sleeps to respect a rate limit.
	Send(ctx context.Context, m Outbound) (Receipt, error)
	// Capabilities returns the properties of the platform, which do not change.
	Capabilities() Capabilities
	// Health returns the state of the connection. It never blocks.
	Health() Health
}

// Capabilities are the properties of a platform that delivery depends on.
type Capabilities struct {
	// MaxTextSize is the maximum TextSize of one message's text.
	MaxTextSize int
	// TextSize returns the size of a text, as it will be sent, in the platform's unit.
	TextSize func(RichText) int
	// EditInterval is the minimum time between two preview edits in one chat.
	EditInterval time.Duration
	// RawMarkdown: the platform's clients render the agent's Markdown themselves.
	// Outbound.Text is then the Markdown of the model, without spans and in one piece,
	// each preview is a prefix of the final text, text before tool calls included, and
	// Outbound.ReplyContext is set.
	RawMarkdown bool
	// CanFind: the adapter is a Finder, which can tell whether an uncertain send
	// arrived.
	CanFind bool
}

// Health describes the state of an adapter's connection.
type Health struct {
	State State     `json:"state"`
	Since time.Time `json:"since"`
	// LastContact is when the platform last answered: a poll that returned, or a
	// heartbeat that was acknowledged.
	LastContact time.Time `json:"last_contact"`
	Name        string    `json:"name,omitempty"` // the account's own name on the platform
	Error       string    `json:"error,omitempty"`
	// Note is information for the operator that is not an error.
	Note string `json:"note,omitempty"`
	// ClockAhead is how far the local clock is ahead of the platform's; 0 if unknown or
	// small.
	ClockAhead time.Duration `json:"clock_ahead,omitempty"`
}

// A State is the state of a connection.
type State string

// The connection states.
const (
	Connecting State = "connecting"
	Connected  State = "connected"
	Retrying   State = "retrying" // lost; Health.Error says why
	Failed     State = "failed"   // needs the operator; Health.Error says what to do
)

// The interfaces below are capabilities: an adapter implements those that its
// platform has.

// An Editor can edit a sent message. Edit to the text that the message has already
// succeeds. It returns an error that wraps ErrGone if the message cannot be edited any
// more.
type Editor interface {
	Edit(ctx context.Context, id string, m Outbound) error
}

// A Deleter can delete a sent message. Deleting a message that does not exist
// succeeds.
type Deleter interface {
	Delete(ctx context.Context, to Address, id string) error
}

// A Typer can show a typing indicator for a few seconds.
type Typer interface {
	Typing(ctx context.Context, to Address) error
}

// A FileFetcher can download an incoming file. It writes at most limit bytes to w. If
// the file is larger it returns an error whose text is for the user.
type FileFetcher interface {
	Fetch(ctx context.Context, f File, w io.Writer, limit int64) error
}

// A Finder can tell whether a message with a given Outbound.ID arrived.
type Finder interface {
	// Find returns the receipt of the message; ok is false if the platform certainly
	// does not have it. After an error this is unknown.
	Find(ctx context.Context, m Outbound) (r Receipt, ok bool, err error)
}

// A CallbackAnswerer can acknowledge a button press to the platform and show a short
// text for it. AnswerCallback is not called before the press is on disk, and may wait
// for the Accept call that stored it to return.
type CallbackAnswerer interface {
	AnswerCallback(ctx context.Context, callback Inbound, text string) error
}

// A Dismisser shows users that their message is being processed, and stops showing it
// for a message that gets no answer.
type Dismisser interface {
	// Dismiss reports that a rule ends in, which gets no answer. It is called before
	// the Accept call with in returns, and never blocks.
	Dismiss(in Inbound)
}

// A ThreadReader can read the messages of a thread before an event with
// HasEarlierMessages.
type ThreadReader interface {
	// MessagesBefore returns the messages between since and in, oldest first, without
	// the bot's own. An error says, for the agent, what could not be read; messages
	// may be returned along with it.
	MessagesBefore(ctx context.Context, in Inbound, since time.Time) ([]Quote, error)
}

// A Reaction is the meaning of an emoji on a user's message.
type Reaction string

// The reactions. ReactionAnswered and ReactionFailed replace ReactionSeen.
const (
	ReactionSeen     Reaction = "seen"
	ReactionAnswered Reaction = "answered"
	ReactionFailed   Reaction = "lost"
)

// A Reactor can put a reaction on a user's message. Setting the same reaction again
// succeeds.
type Reactor interface {
	React(ctx context.Context, to Address, id string, r Reaction) error
}

// A CommandPublisher can publish the list of chat commands to the platform's clients.
type CommandPublisher interface {
	PublishCommands(ctx context.Context, commands []CommandInfo) error
}

// A CommandInfo describes one chat command for a platform's menu.
type CommandInfo struct {
	Name string // without the slash
	Help string
}
