// Package gateway admits messages: it checks who sent an event, decides what it is and
// what it does to a running turn, stores it under its session key and wakes what works on
// it. The main type is Gateway. Turns, delivery, scheduling and storage are implemented in
// other packages; package pipeline connects them.
package gateway

import (
	"time"

	"go.uber.org/zap"

	"hermesd/gateway/access"
	"hermesd/gateway/access/pairing"
	"hermesd/gateway/accounts"
	"hermesd/gateway/active"
	"hermesd/gateway/admission"
	"hermesd/gateway/approval"
	"hermesd/gateway/chat"
	"hermesd/gateway/command"
	"hermesd/gateway/control"
	"hermesd/gateway/delivery"
	"hermesd/gateway/i18n"
	"hermesd/gateway/inbox"
	"hermesd/gateway/lane"
	"hermesd/gateway/observe"
	"hermesd/gateway/session"
	"hermesd/gateway/store"
	"hermesd/gateway/turn"
)

// Parts are the collaborators of a Gateway. All are set.
type Parts struct {
	Store    store.Store
	People   People
	Turns    Turns
	Delivery *delivery.Delivery
	Accounts *accounts.Set
	Commands Commands
	Settings Settings
}

// People decide who may speak.
type People struct {
	Access  Access
	Pairing Pairing
}

// A Pairing offers pairing codes to unknown users who may have one.
type Pairing interface {
	// Offer returns a code for p, or nil; rule ends the message of p.
	Offer(p pairing.Person) (o *pairing.Offer, rule string)
}

// Turns are the turns that run, and those that wait to.
type Turns struct {
	Runner    *turn.Runner
	Active    *active.Turns
	Lanes     *lane.Set[inbox.Lane]
	Pause     *control.Pause
	Questions *approval.Questions
}

// Commands are what a message may call.
type Commands struct {
	Table *command.Table
	// Skill returns the input that /name stands for, if it is a skill.
	Skill func(id session.ID, name, args string) (text string, ok bool)
}

// Settings are the values that configure a Gateway, and the functions that it reports to.
type Settings struct {
	Profile           string              // of the session keys
	Policy            session.KeyPolicy   // of the session keys
	Mode              inbox.Mode          // the configured busy mode
	Acknowledge       bool                // notify senders whose message waits for a running turn
	MaxQueuedMessages int                 // in one lane
	Printer           i18n.Printer        // translates the daemon's own texts
	Mask              func(string) string // masks secrets
	Observe           observe.Func        // receives the results of Accept; must not block
	Log               *zap.Logger
}

// Config holds the limits of the gateway.
type Config struct {
	MaxConcurrentTurns    int           `yaml:"max_concurrent_turns" default:"64" range:"1..1024" doc:"Turns that run at once, over all sessions."`
	MaxQueuedMessages     int           `yaml:"max_queued_messages" deprecated:"max_waiting" default:"100" range:"1..10000" doc:"Messages that may wait in one session; others are rejected with a notice."`
	TranscriptCacheBytes  int64         `yaml:"transcript_cache_bytes" deprecated:"cache_bytes" default:"8388608" range:"0..17179869184" doc:"Bytes of memory for the transcripts of idle sessions; others are read from the store when they are needed."`
	DrainTimeout          time.Duration `yaml:"drain_timeout" default:"60s" doc:"How long running turns may finish when the daemon stops; then they are kept and resumed at the next start."`
	AutoContinueFreshness time.Duration `yaml:"auto_continue_freshness" env:"HERMES_AUTO_CONTINUE_FRESHNESS" default:"1h" doc:"A turn that was cut short is resumed at start if it is younger than this."`
	RestartNotice         bool          `yaml:"restart_notice" default:"true" doc:"Say in the chat that a turn was cut short by a restart and goes on."`
	TurnTimeout           time.Duration `yaml:"turn_timeout" env:"HERMES_AGENT_TIMEOUT" default:"30m" doc:"A turn that shows no progress for this long is given up; half of it warns."`
}

// A Gateway admits messages: it decides what an event of a platform is, stores it and
// wakes what works on it. Its methods may be called from any goroutine.
type Gateway struct {
	parts       Parts
	rules       admission.Rules
	storeOutage storeOutage
	acks        ackLimiter
}

// New returns a Gateway.
func New(p Parts) *Gateway {
	s := p.Settings
	return &Gateway{
		parts: p,
		rules: admission.Rules{
			Profile: s.Profile, Policy: s.Policy, Mode: s.Mode, Acknowledge: s.Acknowledge, MaxWaiting: s.MaxQueuedMessages,
			Commands: p.Commands.Table, Printer: s.Printer,
		},
		acks:        ackLimiter{lastSentAt: make(map[inbox.Lane]time.Time)},
		storeOutage: storeOutage{notified: make(map[chat.Address]time.Time)},
	}
}

// Access decides whether the sender of an event is authorized. Its decisions may change
// at any time; each event is checked once, when it is accepted.
type Access interface {
	Check(in chat.Inbound) (access.Grant, access.Denial)
}
