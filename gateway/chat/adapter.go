package chat

import (
	"context"
	"io"
	"time"
)

// A Sink takes what adapters receive.
type Sink interface {
	// Accept returns nil once all of batch is on disk, in order, and only then
	// may the adapter tell its platform that it has them. On an error none of
	// them counts as taken, and the platform must deliver them again; an event
	// that was taken before is recognised by its key and costs nothing.
	// Accept never waits for a turn.
	Accept(ctx context.Context, batch []Inbound) error
}

// An Adapter connects one account of one platform. Run and Send may be called
// side by side; Send may be called for different rooms side by side.
type Adapter interface {
	// Run connects and stays connected, reconnecting by itself with backoff and
	// jitter, until ctx ends. It returns early only with a *ConfigError.
	Run(ctx context.Context, sink Sink) error
	// Send tries once to deliver m. A nil error is a receipt; a *SendError says
	// what is known; any other error leaves it unknown whether m arrived. Send
	// never sleeps to respect a rate limit.
	Send(ctx context.Context, m Outbound) (Receipt, error)
	// Capabilities tells what the platform can carry. It does not change.
	Capabilities() Capabilities
	// Health tells how the connection is. It never blocks.
	Health() Health
}

// Capabilities are the properties of a platform that matter to delivery.
type Capabilities struct {
	// MaxTextSize is the greatest Size of one message's text.
	MaxTextSize int
	// TextSize measures text in the platform's own unit, as it will be sent.
	TextSize func(RichText) int
	// CaptionLimit is the greatest Size of a file's caption; 0: no captions.
	CaptionLimit int
	// EditInterval is the least time between two preview edits in one room.
	EditInterval time.Duration
	// RawMarkdown says that the platform's clients read the agent's Markdown themselves:
	// Outbound.Text is then that Markdown as the model wrote it, without spans,
	// in one piece, and each preview is a beginning of the final text. What the
	// model says ahead of its tool calls is part of that. Outbound.About is set.
	RawMarkdown bool
	// CanFind says that an uncertain send can be cleared up by asking the
	// platform (the adapter is then a Finder).
	CanFind bool
}

// Health is the state of an adapter's connection.
type Health struct {
	State State     `json:"state"`
	Since time.Time `json:"since"`
	// LastContact is when the platform last showed that it reaches us: a poll that
	// returned, a heartbeat that was acknowledged.
	LastContact time.Time `json:"proof"`
	Name        string    `json:"name,omitempty"` // the account's own name on the platform
	Error       string    `json:"error,omitempty"`
	// Note is what the operator should know of the account although nothing is
	// wrong.
	Note string `json:"note,omitempty"`
	// ClockAhead is by how much our clock is ahead of the platform's: 0 if that is not
	// known, or little.
	ClockAhead time.Duration `json:"ahead,omitempty"`
}

// A State is a stage in the life of a connection.
type State string

// The states of a connection.
const (
	Connecting State = "connecting"
	Connected  State = "connected"
	Retrying   State = "retrying" // lost; Health.Error says why
	Failed     State = "failed"   // needs the operator; Health.Error says what to do
)

// The interfaces below are capabilities: an adapter implements those that its
// platform has.

// An Editor can change a message that was sent. Changing it to the text that
// it has already is a success.
type Editor interface {
	Edit(ctx context.Context, id string, m Outbound) error
}

// A Deleter can take a sent message back. Deleting one that is gone is a
// success.
type Deleter interface {
	Delete(ctx context.Context, to Address, id string) error
}

// A Typer can show for a few seconds that an answer is being written.
type Typer interface {
	Typing(ctx context.Context, to Address) error
}

// A FileFetcher can download an incoming file. It writes at most limit bytes to w
// and returns an error in words a person understands when there are more.
type FileFetcher interface {
	Fetch(ctx context.Context, f File, w io.Writer, limit int64) error
}

// A Finder can tell whether a message with one of our ids arrived.
type Finder interface {
	// Find returns the receipt of the message, or ok false if the platform
	// certainly does not have it. An error leaves it unknown.
	Find(ctx context.Context, m Outbound) (r Receipt, ok bool, err error)
}

// An CallbackAnswerer can tell the platform that a button press was taken, and show a
// short text for it. Answer is not called before the Accept that took the press
// has it on disk, and may wait for that Accept to return.
type CallbackAnswerer interface {
	AnswerCallback(ctx context.Context, callback Inbound, text string) error
}

// A Dismisser shows people that what they gave is being answered, and stops
// where it will not be.
type Dismisser interface {
	// Dismiss says that the message in ends by a rule and gets no answer. It is
	// called before the Accept that took in returns, and never waits.
	Dismiss(in Inbound)
}

// A ThreadReader can tell what others have said in a thread before a message that
// has Earlier set.
type ThreadReader interface {
	// MessagesBefore returns the messages after since, the oldest first; ours are not
	// among them. An error says in words for the agent what could not be seen; it
	// may come with messages.
	MessagesBefore(ctx context.Context, in Inbound, since time.Time) ([]Quote, error)
}

// A Reaction is what a mark on a person's message says about it.
type Reaction string

// The reactions. Seen takes the place of nothing, Answered and Lost that of Seen.
const (
	ReactionSeen     Reaction = "seen"
	ReactionAnswered Reaction = "answered"
	ReactionFailed   Reaction = "lost"
)

// A Reactor can mark a person's message with what has become of it. Marking it
// twice is a success.
type Reactor interface {
	React(ctx context.Context, to Address, id string, r Reaction) error
}

// A CommandPublisher can publish the list of commands to people's clients.
type CommandPublisher interface {
	PublishCommands(ctx context.Context, commands []CommandInfo) error
}

// A CommandInfo is one command in a platform's menu.
type CommandInfo struct {
	Name string // without the slash
	Help string
}
