// Package turn runs turns: it claims waiting inbox entries, runs the agent or the
// command for them, and commits the result in one transaction.
//
// A Runner runs one turn per call of Run. Several lanes run concurrently, with at
// most one turn per session. What is claimed is a claim; with its conversation it becomes a
// turn, and only a turn commits to a session. The package also handles turns that fail, are
// interrupted or have crashed the process. It does not check access, and it does not
// send messages: replies are rows of the outbox, which package delivery sends.
package turn

import (
	"context"
	"time"

	"go.uber.org/zap"

	"hermesd/agent"
	"hermesd/agent/llm"
	"hermesd/agent/prompt"
	"hermesd/gateway/access"
	"hermesd/gateway/active"
	"hermesd/gateway/approval"
	"hermesd/gateway/chat"
	"hermesd/gateway/command"
	"hermesd/gateway/compaction"
	"hermesd/gateway/conversation"
	"hermesd/gateway/i18n"
	"hermesd/gateway/inbox"
	"hermesd/gateway/input"
	"hermesd/gateway/memory"
	"hermesd/gateway/observe"
	"hermesd/gateway/reply"
	"hermesd/gateway/session"
	"hermesd/gateway/store"
	"hermesd/gateway/usage"
)

// A Store stores the data of turns.
type Store interface {
	store.Turns
	store.Sessions
	store.Editor
	// Waiting is the one method of store.Inbox: turns accept nothing.
	Waiting(lane inbox.Lane) int
}

// Parts are the collaborators of a Runner. Everything in them is set.
type Parts struct {
	Store     Store
	Sessions  *conversation.Book // Close closes its passes
	Agent     Agent
	Compactor *compaction.Compactor
	Chat      Chat
	Work      Work
	Settings  Settings
}

// An Agent is what a run of the agent and its tools need.
type Agent struct {
	Agent *agent.Agent
	// Choose returns the model of a session; see control.Models.
	Choose func(session.Settings) (conversation.ModelChoice, error)
	// Overlay returns the overlay of a turn.
	Overlay func(session.Record, inbox.Entry) prompt.OverlayParts
	// CheckTool returns an error if a principal may not use a tool in a session.
	CheckTool func(rec session.Record, principal access.Principal, tool string) error
	// Discover returns a new Discovery for a session with a context window of so many
	// tokens.
	Discover func(window int) conversation.Discovery
	Active   *active.Turns // the Runner registers its turns
	Usage    *usage.Meter  // counts the model calls
	Memory   Memory
}

// Memory is what is remembered across conversations.
type Memory struct {
	External *memory.Service
	// Entries returns the entries of the built-in memory of a session by target; nil if it
	// has none.
	Entries func(session.Record) (map[string][]string, error)
	// Notices returns what the people of a turn are to be told about the external memory,
	// once.
	Notices func(memory.Turn) []error
}

// A Chat is the side of the people.
type Chat struct {
	Input    *input.Composer
	Reply    *reply.Writer
	Approval *approval.Service
}

// Work is what can be claimed in addition to messages, and the lanes in which it waits.
type Work struct {
	Commands *command.Table
	// Allowed returns command.Call.Allowed at an address.
	Allowed   func(chat.Address) []string
	Scheduled Scheduled
	Lanes     Lanes
}

// Lanes decide when the work of a lane runs.
type Lanes interface {
	// Wake wakes a lane in which work waits.
	Wake(inbox.Lane)
	// MayRun reports whether something may start in a lane now. If not, the lane is woken
	// when that ends.
	MayRun(inbox.Lane) bool
}

// Settings are the values that configure turns, and the functions that hear of them.
type Settings struct {
	Printer   i18n.Printer // translates the daemon's own texts
	Placement prompt.Placement
	Prefill   []llm.Message // between the prompt and the transcript of every call
	// Title returns a title for a conversation that started with question and answer, "" if
	// there is none; see NoTitles.
	Title         func(ctx context.Context, id session.ID, question, answer string) (string, error)
	RestartNotice bool
	EditFirst     bool
	Freshness     time.Duration // maximum age of an interrupted turn that is resumed
	Backlog       time.Duration // maximum age of a message that is answered; 0 means no limit
	Inactivity    time.Duration // time without progress after which a turn is canceled; 0 means no limit
	Log           *zap.Logger
	Observe       observe.Func // receives the events of turns; must not block
	// OnReload is called when an owner says /reload, before the prompt is built again. It
	// returns why the configuration cannot be read; "" if it can.
	OnReload func(context.Context) (problem string)
	// OnSessionDeleted is called after a session was deleted.
	OnSessionDeleted func(session.Deleted)
	// OnSessionChanged is called after messages of a session were committed. It must not
	// block.
	OnSessionChanged func(session.ID)
}

// NoTitles is the Settings.Title that returns none.
func NoTitles(context.Context, session.ID, string, string) (string, error) { return "", nil }
