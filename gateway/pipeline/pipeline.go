// Package pipeline puts the message pipeline together and runs it: the parts between
// the adapters, the store and the model, from the acceptance of an event to the sending
// of its answer. The daemon and the tests build it by the same function, so that tests
// run what users run. The main type is Pipeline.
package pipeline

import (
	"context"
	"sync"
	"time"

	"go.uber.org/zap"

	"hermesd/agent"
	"hermesd/agent/prompt"
	"hermesd/gateway"
	"hermesd/gateway/access"
	"hermesd/gateway/accounts"
	"hermesd/gateway/active"
	"hermesd/gateway/approval"
	"hermesd/gateway/chat"
	"hermesd/gateway/chatmigration"
	"hermesd/gateway/command"
	"hermesd/gateway/compaction"
	"hermesd/gateway/control"
	"hermesd/gateway/conversation"
	"hermesd/gateway/cron"
	"hermesd/gateway/delivery"
	"hermesd/gateway/failure"
	"hermesd/gateway/inbox"
	"hermesd/gateway/input"
	"hermesd/gateway/lane"
	"hermesd/gateway/overlay"
	"hermesd/gateway/reply"
	"hermesd/gateway/session"
	"hermesd/gateway/store"
	"hermesd/gateway/target"
	"hermesd/gateway/turn"
	"hermesd/gateway/usage"
	"hermesd/hygiene"
)

// Parts are what a Pipeline is built from. All are set.
type Parts struct {
	Store    store.Store
	People   gateway.People
	Chat     Chat
	Agent    Agent
	Work     Work
	Host     control.Host
	Settings Settings
}

// Chat is the side of the platforms.
type Chat struct {
	Outgoing
	Files Files
}

// An Outgoing sends messages and starts scheduled runs. Tools use it, so it is built before
// the agent and the Pipeline.
type Outgoing struct {
	Accounts  *accounts.Set
	Moves     *chatmigration.Registry
	Delivery  *delivery.Delivery
	Targets   *target.Directory
	Questions *approval.Questions   // which Delivery tells of the rows that it has sent
	Lanes     *lane.Set[inbox.Lane] // Pipeline.Start starts them
	Cron      *cron.Runs
}

// OutgoingParts are what an Outgoing is built from. All are set.
type OutgoingParts struct {
	Store    store.Store
	Accounts *accounts.Set
	Moves    *chatmigration.Registry // chats that got a new ID
	Access   cron.Access
	Skill    func(id session.ID, name, args string) (text string, ok bool) // see cron.Parts
	Scripts  cron.Scripts
	Outputs  cron.Outputs
}

// OutgoingOptions configure an Outgoing.
type OutgoingOptions struct {
	MaxTurns int              // that run at once
	Delivery delivery.Options // NewOutgoing sets Store, Accounts, Settled and RefusalText
	Targets  target.Options
	Cron     cron.Options
}

// NewOutgoing returns an Outgoing whose runs begin with Pipeline.Start.
func NewOutgoing(p OutgoingParts, o OutgoingOptions) Outgoing {
	out := Outgoing{Accounts: p.Accounts, Moves: p.Moves, Questions: approval.NewQuestions(), Lanes: lane.New[inbox.Lane](o.MaxTurns)}
	o.Delivery.Store, o.Delivery.Accounts, o.Delivery.Settled = p.Store, p.Accounts, out.Questions.Settled
	o.Delivery.RefusalText = func(file, reason string) string { return failure.Refused(o.Cron.Printer, file, reason) }
	out.Delivery = delivery.New(o.Delivery)
	out.Targets = target.New(target.Parts{Store: p.Store, Accounts: p.Accounts, Delivery: out.Delivery, Moves: p.Moves}, o.Targets)
	out.Cron = cron.New(cron.Parts{
		Store: p.Store, Access: p.Access, Targets: out.Targets, Lanes: out.Lanes, Skill: p.Skill, Scripts: p.Scripts, Outputs: p.Outputs,
	}, o.Cron)
	return out
}

// Files are the functions for files that people send and that answers attach.
type Files struct {
	Fetch  func(context.Context, chat.Account, chat.File) (chat.File, error) // see input.Parts
	Attach func(path string, scope reply.AttachScope) (chat.File, error)     // see reply.Files
	Media  input.Media
}

// An Agent is what runs of the agent need.
type Agent struct {
	Agent      *agent.Agent
	Models     control.Models
	Prefix     func(session.Record) (prompt.Prefix, []string) // see conversation.Parts
	Overlay    *overlay.Builder
	CheckTool  func(session.Record, access.Principal, string) error // see turn.Agent
	Discover   func(window int) conversation.Discovery              // see turn.Agent
	Compaction compaction.Options
	Memory     turn.Memory // Pipeline.Start starts the external one, and Stop closes it
}

// Work is what turns are made of, and what is known of them while they run.
type Work struct {
	Active  *active.Turns
	Usage   *usage.Meter
	Pause   *control.Pause
	Skill   func(id session.ID, name, args string) (text string, ok bool) // see gateway.Commands
	Allowed func(chat.Address) []string                                   // see turn.Work
}

// Settings are the values that configure the parts of a Pipeline.
type Settings struct {
	Admission    gateway.Settings
	Conversation conversation.Options
	Turn         turn.Settings
	Approval     approval.Options
	Control      control.Options
	DrainTimeout time.Duration // see Pipeline.Stop
	Log          *zap.Logger
}

// A Pipeline accepts messages and runs their turns. Accept may be called as soon as the
// Pipeline exists; turns run between Start and Stop. Its methods may be called from any
// goroutine.
type Pipeline struct {
	parts      Parts
	commands   *command.Table
	approval   *approval.Service
	control    *control.Control
	runner     *turn.Runner
	gateway    *gateway.Gateway
	resumption *resumption

	stopOnce         sync.Once
	cancelBackground context.CancelFunc // stops background
	background       sync.WaitGroup     // the scheduler and the pruning loop
}

var _ chat.Sink = (*Pipeline)(nil)

// New returns a Pipeline that accepts messages. Its turns do not run before Start.
func New(p Parts) *Pipeline {
	pl := &Pipeline{parts: p, resumption: &resumption{store: p.Store, lanes: p.Chat.Lanes, pause: p.Work.Pause, log: p.Settings.Log}}
	locks := new(session.Locks)
	passes := hygiene.NewPasses(p.Agent.Agent, locks, p.Settings.Log.Named("hygiene"))
	pl.approval = approval.New(approval.Parts{
		Questions: p.Chat.Questions, Permanent: approval.NewManager(p.Store), Jobs: p.Chat.Cron, Active: p.Work.Active,
		Delivery: p.Chat.Delivery, Mask: p.Agent.Agent.Mask, Options: p.Settings.Approval,
	})
	pl.control = control.New(control.Parts{
		Store: p.Store, Host: p.Host, Models: p.Agent.Models, Overlay: p.Agent.Overlay, Targets: p.Chat.Targets, Options: p.Settings.Control,
		Runtime: control.Runtime{
			Lanes: p.Chat.Lanes, Turns: turns{p.Work.Active, passes}, Accounts: p.Chat.Accounts, Pause: p.Work.Pause, Usage: p.Work.Usage,
			Cron: p.Chat.Cron, Delivery: p.Chat.Delivery, Memory: p.Agent.Memory.External,
		},
	})
	specs := command.Localized(p.Settings.Admission.Printer, command.Specs())
	pl.commands = command.NewTable(specs, pl.control.Handlers(), pl.approval.Handlers(), p.Chat.Cron.Handlers())
	pl.runner = turn.New(turn.Parts{
		Store: p.Store, Settings: p.Settings.Turn,
		Compactor: compaction.New(compaction.Parts{
			Store: p.Store, Passes: passes, Prefill: p.Settings.Turn.Prefill, Printer: p.Settings.Turn.Printer, Observe: p.Settings.Turn.Observe,
			Options: p.Agent.Compaction,
		}),
		Sessions: conversation.NewBook(conversation.Parts{
			Store: p.Store, Locks: locks, Passes: passes, Prefix: p.Agent.Prefix, Options: p.Settings.Conversation,
			HasBackground: func(id session.ID) bool { n, _ := p.Host.Background(id); return n > 0 },
		}),
		Agent: turn.Agent{
			Agent: p.Agent.Agent, Choose: p.Agent.Models.Choose, Overlay: p.overlay, CheckTool: p.Agent.CheckTool, Discover: p.Agent.Discover,
			Active: p.Work.Active, Usage: p.Work.Usage, Memory: p.Agent.Memory,
		},
		Chat: p.chat(pl.approval),
		Work: turn.Work{
			Commands: pl.commands, Allowed: p.Work.Allowed, Scheduled: p.Chat.Cron,
			Lanes: readiness{p.Store, p.Chat.Lanes, p.Work.Active, p.Work.Pause, pl.resumption},
		},
	})
	pl.gateway = gateway.New(gateway.Parts{
		Store: p.Store, People: p.People, Delivery: p.Chat.Delivery, Accounts: p.Chat.Accounts, Settings: p.Settings.Admission,
		Turns:    gateway.Turns{Runner: pl.runner, Active: p.Work.Active, Lanes: p.Chat.Lanes, Pause: p.Work.Pause, Questions: p.Chat.Questions},
		Commands: gateway.Commands{Table: pl.commands, Skill: p.Work.Skill},
	})
	return pl
}

// chat returns the side of the people, as turns see it.
func (p Parts) chat(approvals *approval.Service) turn.Chat {
	s, files := p.Settings.Turn, p.Chat.Files
	return turn.Chat{
		Input: input.New(input.Parts{
			Accounts: p.Chat.Accounts, Usage: p.Work.Usage, Fetch: files.Fetch, Skill: p.Work.Skill, Media: files.Media, Printer: s.Printer,
			Options: input.Options{Observe: s.Observe, Log: p.Settings.Log.Named("input")},
		}),
		Reply: reply.New(reply.Parts{
			Delivery: p.Chat.Delivery, Accounts: p.Chat.Accounts, Directory: p.Chat.Targets, Targets: p.Chat.Cron.Targets, Mask: p.Agent.Agent.Mask,
			Files:   reply.Files{Attach: files.Attach, CheckTool: p.Agent.CheckTool, Synthesize: files.Media.Synthesize},
			Options: reply.Options{Printer: s.Printer, Progress: p.Settings.Control.Progress, Observe: s.Observe},
		}),
		Approval: approvals,
	}
}

// turns are the turns of a pipeline; they implement control.Turns.
type turns struct {
	*active.Turns
	passes *hygiene.Passes
}

func (t turns) Compactions() hygiene.Stats { return t.passes.Stats() }

// overlay returns the overlay of a turn.
func (p Parts) overlay(rec session.Record, e inbox.Entry) prompt.OverlayParts {
	places := overlay.Places{Platforms: p.Chat.Accounts.Platforms(), Homes: p.Chat.Targets.HomeChannels()}
	return p.Agent.Overlay.Build(rec, e.Inbound, places)
}

// Commands returns the table of chat commands.
func (pl *Pipeline) Commands() *command.Table { return pl.commands }

// Control returns what users and operators ask and change.
func (pl *Pipeline) Control() *control.Control { return pl.control }

// Cron returns the runs of scheduled prompts.
func (pl *Pipeline) Cron() *cron.Runs { return pl.parts.Chat.Cron }

// Targets returns the directory of the chats that messages can be sent to.
func (pl *Pipeline) Targets() *target.Directory { return pl.parts.Chat.Targets }

// ApprovalManager returns the manager of permanent approvals.
func (pl *Pipeline) ApprovalManager() *approval.Manager { return pl.approval.Permanent }
