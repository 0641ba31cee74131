// Package control is what users and operators ask of a running daemon and change in it:
// the status, the history of a message, the context, usage and model of a conversation, the
// pause and the restart. Chat commands, the control socket and the metrics use one
// [Control], whose methods may be called from any goroutine.
package control

import (
	"context"
	"fmt"
	"time"

	"go.uber.org/zap"

	"hermesd/agent/llm/pricing"
	builtin "hermesd/agent/memory"
	"hermesd/agent/skills"
	"hermesd/gateway/access"
	"hermesd/gateway/accounts"
	"hermesd/gateway/chat"
	"hermesd/gateway/compaction"
	"hermesd/gateway/delivery"
	"hermesd/gateway/i18n"
	"hermesd/gateway/inbox"
	"hermesd/gateway/lane"
	"hermesd/gateway/memory"
	"hermesd/gateway/overlay"
	"hermesd/gateway/schedule"
	"hermesd/gateway/session"
	"hermesd/gateway/store"
	"hermesd/gateway/usage"
	"hermesd/hygiene"
)

// A Store holds what a Control reads and changes.
type Store interface {
	store.Sessions
	store.Editor
	store.Audit
	store.Values
	Lanes(ctx context.Context) ([]inbox.Lane, error) // of store.Inbox: a Control accepts nothing
	Waiting(lane inbox.Lane) int                     // of store.Inbox
}

// Turns are the turns that run or are about to.
type Turns interface {
	OfferedClaim(inbox.Lane) (store.Claim, bool)
	IsOnlyAuthor(inbox.Lane, access.Principal) bool
	Compactions() hygiene.Stats
}

// Cron is the scheduler of prompts.
type Cron interface {
	Status() schedule.Status
}

// Targets are the places to which messages can be sent.
type Targets interface {
	// SetHome makes a chat the home channel of its platform.
	SetHome(ctx context.Context, at chat.Address) error
}

// A Host is the process that runs the daemon, and what its home directory has.
type Host interface {
	// Memories returns the memory store of a session and the targets in use; without
	// targets the store may be nil.
	Memories(session.Record) (s *builtin.Store, in []builtin.Target)
	// Skills returns the current skill catalog, nil if there are no skills at all, and the
	// names of disabled skills.
	Skills() (c *skills.Catalog, disabled []string)
	// Background returns the number of background commands of a session, and a function
	// that ends them.
	Background(session.ID) (running int, end func())
	// CanRestart reports whether the process can start itself again; Restart does that.
	CanRestart() bool
	Restart()
}

// Parts are what a Control reads and changes. All are required.
type Parts struct {
	Store   Store
	Runtime Runtime
	Host    Host
	Models  Models
	Overlay *overlay.Builder // knows the personalities
	Targets Targets
	Options Options
}

// A Runtime is what runs in the daemon.
type Runtime struct {
	Lanes    *lane.Set[inbox.Lane]
	Turns    Turns
	Accounts *accounts.Set
	Pause    *Pause
	Usage    *usage.Meter
	Cron     Cron
	Delivery *delivery.Delivery
	Memory   *memory.Service // the external memory
}

// Options are the values that a Control reports.
type Options struct {
	Version     string
	Model       string     // the configured one
	Mode        inbox.Mode // the configured busy mode; "": interrupt
	Progress    string     // display.tool_progress; "": off
	Voice       bool       // answers can be spoken
	Prices      *pricing.Table
	Caching     string // says in one line whether prompts are cached
	Compression compaction.Options
	Printer     i18n.Printer
	Log         *zap.Logger
}

// A Control reads and changes the state of a daemon.
type Control struct {
	parts   Parts
	started time.Time
}

// New returns the Control of a daemon that starts now.
func New(p Parts) *Control { return &Control{parts: p, started: time.Now()} }

// ResumeQueues wakes all outbox queues and lanes with pending work.
func (ctl *Control) ResumeQueues(ctx context.Context) error {
	if err := ctl.parts.Runtime.Delivery.Start(ctx); err != nil {
		return fmt.Errorf("start delivery: %w", err)
	}
	lanes, err := ctl.parts.Store.Lanes(ctx)
	if err != nil {
		return fmt.Errorf("list lanes: %w", err)
	}
	for _, l := range lanes {
		ctl.parts.Runtime.Lanes.Wake(l)
	}
	return nil
}
