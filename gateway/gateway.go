package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"

	"hermesd/agent"
	"hermesd/agent/llm"
	"hermesd/agent/llm/pricing"
	"hermesd/agent/prompt"
	"hermesd/gateway/access"
	"hermesd/gateway/access/pairing"
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
	"hermesd/gateway/i18n"
	"hermesd/gateway/inbox"
	"hermesd/gateway/input"
	"hermesd/gateway/lane"
	"hermesd/gateway/observe"
	"hermesd/gateway/outbox"
	"hermesd/gateway/overlay"
	"hermesd/gateway/reply"
	"hermesd/gateway/session"
	"hermesd/gateway/target"
	"hermesd/gateway/turn"
	"hermesd/gateway/usage"
	"hermesd/hygiene"
	"hermesd/internal/secret"
)

// Options configures a Gateway. Store, Agent, Accounts, Access, Active, Usage, Overlay
// and Host are required.
type Options struct {
	Store            Store
	Agent            *agent.Agent
	Accounts         *accounts.Set
	Access           Access
	Active           *active.Turns                                                    // who speaks in the running turns
	Usage            *usage.Meter                                                     // what model calls have used
	Overlay          *overlay.Builder                                                 // tells the model of the source, the targets and the time
	Moves            *chatmigration.Registry                                          // chats that got a new ID; nil: they are not remembered
	Pairing          *pairing.Manager                                                 // issues pairing codes to unknown users; nil: they get no answer
	Prefix           func(session.Record) (prompt.Prefix, []string)                   // the prompt of a new session, and notices about it for the user
	CheckTool        func(rec session.Record, by access.Principal, tool string) error // nil: everyone may use every tool
	Skill            func(id session.ID, name, args string) (text string, ok bool)    // the input that /name stands for, if it is a skill
	Discover         func(window int) conversation.Discovery                          // finds context files in directories that tools touch
	Models           control.Models                                                   // nil: only Model
	Host             control.Host
	Control          control.Options // Version, Prices and Caching; the gateway sets the others
	Fetch            func(context.Context, chat.Account, chat.File) (chat.File, error)
	Observe          observe.Func                                                  // receives the events of the pipeline; must not block
	OnSessionChanged func(session.ID)                                              // called after messages of a session were committed; must not block
	Attach           func(path string, scope reply.AttachScope) (chat.File, error) // stores a file that an answer attaches
	OnSessionDeleted func(session.Deleted)                                         // receives what else must be deleted with a conversation
	Media            input.Media
	Title            func(ctx context.Context, asked, answer string) (string, agent.Call, error) // generates titles
	Cron             cron.Options                                                                // scheduled prompts; the gateway sets Profile, Policy, Printer, Observe and Log
	Scripts          cron.Scripts                                                                // of scheduled prompts; nil: none can be run
	Outputs          cron.Outputs                                                                // of scheduled prompts; nil: they are not stored
	Approvals        approval.Options                                                            // the gateway sets Printer and Log
	AllowedCommands  func(chat.Address) []string                                                 // commands that users below owner may run; nil: those of their level
	RateLimits       map[chat.Account]outbox.RateLimit

	// OnlyPlatform is the only platform whose turns may start; scheduled prompts do
	// not run then. "" is all platforms.
	OnlyPlatform chat.Platform

	Profile      string
	Model        string
	Effort       string
	CacheTTL     string
	Vision       bool
	Window       int              // context length of Model in tokens
	Placement    prompt.Placement // of overlays
	Prefill      []llm.Message    // between the prompt and the transcript of every call
	Compression  compaction.Options
	Reset        func(chat.Address) session.ResetPolicy // when sessions of an address reset automatically; nil: never
	Progress     string                                 // display.tool_progress
	Acknowledge  bool                                   // notify senders whose message waits for a running turn
	Mode         inbox.Mode
	Policy       session.KeyPolicy
	Uncertain    outbox.UncertainPolicy
	Streaming    bool
	EditInterval time.Duration
	EditFirst    bool
	Backlog      time.Duration
	Location     *time.Location // of the times of announcements; nil: time.Local
	Printer      i18n.Printer   // renders the daemon's own messages

	Limits Config
	Masker *secret.Masker
	Log    *zap.Logger // nil: no log
}

// Config holds the limits of the gateway.
type Config struct {
	MaxConcurrentTurns    int           `yaml:"max_concurrent_turns" default:"64" range:"1..1024" doc:"Turns that run at once, over all sessions."`
	MaxQueuedMessages     int           `yaml:"max_queued_messages" deprecated:"max_waiting" default:"100" range:"1..10000" doc:"Messages that may wait in one session; over it the sender is told."`
	TranscriptCacheBytes  int64         `yaml:"transcript_cache_bytes" deprecated:"cache_bytes" default:"8388608" range:"0..17179869184" doc:"Bytes of memory for the transcripts of idle sessions; others are read from the store when they are needed."`
	DrainTimeout          time.Duration `yaml:"drain_timeout" default:"60s" doc:"How long running turns may finish when the daemon stops; then they are kept and resumed at the next start."`
	AutoContinueFreshness time.Duration `yaml:"auto_continue_freshness" default:"1h" doc:"A turn that was cut short is resumed at start if it is younger than this."`
	RestartNotice         bool          `yaml:"restart_notice" default:"true" doc:"Say in the chat that a turn was cut short by a restart and goes on."`
	TurnTimeout           time.Duration `yaml:"turn_timeout" default:"30m" doc:"A turn that shows no progress for this long is given up; half of it warns."`
}

// A Gateway accepts messages and runs their turns. Accept may be called as soon as the
// Gateway exists; turns run between Start and Stop.
type Gateway struct {
	opts        Options
	commands    *command.Table
	runner      *turn.Runner
	lanes       *lane.Set[inbox.Lane]
	delivery    *delivery.Delivery
	targets     *target.Directory
	storeOutage storeOutage
	cron        *cron.Runs
	resumption  *resumption
	acks        ackLimiter
	pause       *control.Pause
	control     *control.Control
	approval    *approval.Service
	passes      *hygiene.Passes

	stopOnce         sync.Once
	cancelBackground context.CancelFunc // stops background
	background       sync.WaitGroup     // the scheduler and the pruning loop
}

var _ chat.Sink = (*Gateway)(nil)

// withDefaults returns o with what is not set replaced by parts that do nothing.
func withDefaults(o Options) Options {
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	if o.Location == nil {
		o.Location = time.Local
	}
	if o.Models == nil {
		o.Models = control.OneModel{Model: o.Model, Effort: o.Effort, CacheTTL: o.CacheTTL, Vision: o.Vision, Window: o.Window}
	}
	if o.CheckTool == nil {
		o.CheckTool = func(session.Record, access.Principal, string) error { return nil }
	}
	if o.Discover == nil {
		o.Discover = func(int) conversation.Discovery { return nil }
	}
	if o.AllowedCommands == nil {
		o.AllowedCommands = func(chat.Address) []string { return nil }
	}
	if o.OnSessionChanged == nil {
		o.OnSessionChanged = func(session.ID) {}
	}
	if o.OnSessionDeleted == nil {
		o.OnSessionDeleted = func(session.Deleted) {}
	}
	if o.Attach == nil {
		o.Attach = func(string, reply.AttachScope) (chat.File, error) {
			return chat.File{}, i18n.Errorf("files cannot be sent here")
		}
	}
	if o.Fetch == nil {
		o.Fetch = func(_ context.Context, _ chat.Account, f chat.File) (chat.File, error) { return f, nil }
	}
	if o.Skill == nil {
		o.Skill = func(session.ID, string, string) (string, bool) { return "", false }
	}
	if o.Scripts == nil {
		o.Scripts = cron.NoScripts{}
	}
	if o.Outputs == nil {
		o.Outputs = cron.NoOutputs{}
	}
	if o.Reset == nil {
		o.Reset = func(chat.Address) session.ResetPolicy { return session.ResetPolicy{} }
	}
	return o
}

// New returns a Gateway that accepts messages. Its turns do not run before Start.
func New(o Options) *Gateway {
	o = withDefaults(o)
	g := &Gateway{opts: o, acks: ackLimiter{lastSentAt: make(map[inbox.Lane]time.Time)}, storeOutage: storeOutage{notified: make(map[chat.Address]time.Time)}}
	g.pause = control.NewPause(o.Store, o.Profile, o.OnlyPlatform)
	questions := approval.NewQuestions()
	g.delivery = delivery.New(delivery.Options{
		Store: o.Store, Accounts: o.Accounts, Uncertain: o.Uncertain, RepeatNotice: o.Printer.Translate(outbox.RepeatNotice), Preview: o.Streaming,
		EditInterval: o.EditInterval, Ceilings: o.RateLimits, Settled: questions.Settled, Observe: o.Observe, Masker: o.Masker, Log: o.Log.Named("delivery"),
	})
	g.targets = target.New(
		target.Parts{Store: o.Store, Accounts: o.Accounts, Delivery: g.delivery, Moves: o.Moves},
		target.Options{Location: o.Location, Log: o.Log},
	)
	g.lanes = lane.New[inbox.Lane](o.Limits.MaxConcurrentTurns)
	g.resumption = &resumption{g: g}
	g.cron = newCron(g)
	o.Approvals.Printer, o.Approvals.Log = o.Printer, o.Log.Named("approval")
	g.approval = approval.New(approval.Parts{
		Questions: questions, Permanent: approval.NewManager(o.Store), Jobs: g.cron, Active: o.Active,
		Delivery: g.delivery, Mask: o.Agent.Mask, Options: o.Approvals,
	})
	locks := new(session.Locks)
	g.passes = hygiene.NewPasses(o.Agent, locks, o.Log.Named("hygiene"))
	sessions := conversation.NewBook(conversation.Parts{
		Store: o.Store, Locks: locks, Passes: g.passes, Prefix: o.Prefix, HasBackground: g.hasBackground,
		Options: conversation.Options{Policy: o.Policy, Reset: o.Reset, CacheBytes: o.Limits.TranscriptCacheBytes, Printer: o.Printer, Log: o.Log.Named("conversation")},
	})
	g.control = g.newControl()
	g.commands = command.NewTable(command.Localized(o.Printer, command.Specs()), g.control.Handlers(), g.approval.Handlers(), g.cron.Handlers())
	g.runner = turn.New(turn.Parts{
		Store: o.Store, Sessions: sessions,
		Compactor: compaction.New(compaction.Parts{Store: o.Store, Passes: g.passes, Prefill: o.Prefill, Printer: o.Printer, Observe: o.Observe, Options: o.Compression}),
		Agent: turn.Agent{
			Agent: o.Agent, Choose: o.Models.Choose, Overlay: g.overlay, CheckTool: o.CheckTool, Discover: o.Discover, Active: o.Active, Usage: o.Usage,
		},
		Chat:     turn.Chat{Input: g.newInput(), Reply: g.newReply(), Approval: g.approval},
		Work:     turn.Work{Commands: g.commands, Allowed: o.AllowedCommands, Scheduled: g.cron, Lanes: lanes{g}},
		Settings: turnSettings(o),
	})
	return g
}

// ApprovalManager returns the manager of permanent approvals.
func (g *Gateway) ApprovalManager() *approval.Manager { return g.approval.Permanent }

// turnSettings returns the values that configure turns.
func turnSettings(o Options) turn.Settings {
	return turn.Settings{
		Printer: o.Printer, Placement: o.Placement, Prefill: o.Prefill, Title: o.Title,
		Model:         conversation.ModelChoice{Model: o.Model, Effort: o.Effort, CacheTTL: o.CacheTTL, Vision: o.Vision, Window: o.Window},
		RestartNotice: o.Limits.RestartNotice, EditFirst: o.EditFirst, Freshness: o.Limits.AutoContinueFreshness,
		Backlog: o.Backlog, Inactivity: o.Limits.TurnTimeout,
		Log: o.Log.Named("turn"), Observe: o.Observe, OnSessionDeleted: o.OnSessionDeleted, OnSessionChanged: o.OnSessionChanged,
	}
}

// lanes implements turn.Lanes.
type lanes struct{ g *Gateway }

func (l lanes) Wake(key inbox.Lane) { l.g.lanes.Wake(key) }

// MayRun is false for a turn that is not resumed yet after crashes, a message after a
// command that waits or runs, and a message during a pause.
func (l lanes) MayRun(key inbox.Lane) bool {
	return !l.g.resumption.isHeld(key) && !l.g.waitsForCommands(key) && (key.Immediate() || !l.g.pause.Blocks(key))
}

// hasBackground reports whether a background command of a session runs.
func (g *Gateway) hasBackground(id session.ID) bool {
	n, _ := g.opts.Host.Background(id)
	return n > 0
}

// Commands returns the table of chat commands.
func (g *Gateway) Commands() *command.Table { return g.commands }

// Control returns what users and operators ask and change.
func (g *Gateway) Control() *control.Control { return g.control }

// newInput returns what makes the input of models.
func (g *Gateway) newInput() *input.Composer {
	o := g.opts
	return input.New(input.Parts{
		Accounts: o.Accounts, Usage: o.Usage, Fetch: o.Fetch, Skill: o.Skill, Media: o.Media, Printer: o.Printer,
		Options: input.Options{Observe: o.Observe, Log: o.Log.Named("input")},
	})
}

// newReply returns what makes the rows of turns.
func (g *Gateway) newReply() *reply.Writer {
	o := g.opts
	return reply.New(reply.Parts{
		Delivery: g.delivery, Accounts: o.Accounts, Directory: g.targets, Targets: g.cron.Targets, Mask: o.Agent.Mask,
		Files:   reply.Files{Attach: o.Attach, CheckTool: o.CheckTool, Synthesize: o.Media.Synthesize},
		Options: reply.Options{Printer: o.Printer, Progress: o.Progress, Observe: o.Observe},
	})
}

// newControl returns the control of the parts of g.
func (g *Gateway) newControl() *control.Control {
	o := g.opts.Control
	o.Model, o.Mode, o.Progress, o.Voice = g.opts.Model, g.opts.Mode, g.opts.Progress, g.opts.Media.Synthesize != nil
	o.Engine, o.Printer, o.Log = g.opts.Compression.Engine, g.opts.Printer, g.opts.Log
	o.Prices = cmp.Or(o.Prices, pricing.Builtin())
	return control.New(control.Parts{
		Store: g.opts.Store, Host: g.opts.Host, Models: g.opts.Models, Overlay: g.opts.Overlay, Targets: g.targets, Options: o,
		Runtime: control.Runtime{
			Lanes: g.lanes, Turns: turns{g}, Accounts: g.opts.Accounts, Pause: g.pause, Usage: g.opts.Usage,
			Cron: g.cron, Delivery: g.delivery,
		},
	})
}

// turns are the turns of a gateway. Its runner is created after the commands that ask for
// them.
type turns struct{ g *Gateway }

func (t turns) OfferedClaim(l inbox.Lane) (inbox.Claim, bool) {
	return t.g.opts.Active.OfferedClaim(l)
}

func (t turns) IsSoleAuthor(l inbox.Lane, by access.Principal) bool {
	return t.g.opts.Active.IsSoleAuthor(l, by)
}

func (t turns) Compactions() hygiene.Stats { return t.g.passes.Stats() }

// Delivery returns the delivery of outbox rows.
func (g *Gateway) Delivery() *delivery.Delivery { return g.delivery }

// newCron returns the runs of scheduled prompts.
func newCron(g *Gateway) *cron.Runs {
	o := g.opts.Cron
	o.Profile, o.Policy, o.Printer, o.Observe, o.Log = g.opts.Profile, g.opts.Policy, g.opts.Printer, g.opts.Observe, g.opts.Log
	return cron.New(cron.Parts{
		Store: g.opts.Store, Access: g.opts.Access, Targets: g.targets, Lanes: g.lanes,
		Skill: g.opts.Skill, Scripts: g.opts.Scripts, Outputs: g.opts.Outputs,
	}, o)
}

// Cron returns the runs of scheduled prompts.
func (g *Gateway) Cron() *cron.Runs { return g.cron }

// Targets returns the directory of the chats that messages can be sent to.
func (g *Gateway) Targets() *target.Directory { return g.targets }

// Start restores the state of the previous process and starts delivery, lanes, the
// scheduler and pruning. They run until Stop, not until ctx ends.
func (g *Gateway) Start(ctx context.Context) error {
	if err := errors.Join(g.loadPause(ctx), g.targets.Load(ctx)); err != nil {
		return err
	}
	if err := g.resumption.load(ctx); err != nil {
		return fmt.Errorf("list interrupted turns: %w", err)
	}
	g.lanes.Start(func(ctx context.Context, l inbox.Lane) { g.runner.Run(ctx, l); g.resumption.laneRan(l) })
	if err := g.control.ResumeQueues(ctx); err != nil {
		return err
	}
	if err := g.control.AnnounceRestart(ctx); err != nil {
		return fmt.Errorf("announce restart: %w", err)
	}
	background, cancel := context.WithCancel(context.WithoutCancel(ctx))
	g.cancelBackground = cancel
	g.opts.Accounts.Start(background)
	if g.opts.OnlyPlatform == "" {
		g.background.Go(func() { g.cron.Run(background) })
	}
	g.background.Go(func() { g.runPruning(background) })
	return nil
}

// loadPause restores a pause from the store.
func (g *Gateway) loadPause(ctx context.Context) error {
	since, err := g.pause.Load(ctx)
	if since != nil {
		g.opts.Log.Warn("daemon is paused until /pause off", zap.ByteString("since", since))
	}
	return err
}

// pruneInterval is the interval at which data past its retention is deleted.
const pruneInterval = time.Hour

func (g *Gateway) runPruning(ctx context.Context) {
	tick := time.NewTicker(pruneInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			if err := g.opts.Store.Prune(ctx, now); err != nil && ctx.Err() == nil {
				g.opts.Log.Error("cannot prune store", zap.Error(err))
			}
		}
	}
}

// Stop starts no new turn and lets running turns finish for the drain timeout; then it
// interrupts them and stores them for the next start. Messages are accepted during
// Stop. It waits for running sends. The drain ends early with ctx; each later step is
// limited by stopStepTimeout. The error says what did not end.
func (g *Gateway) Stop(ctx context.Context) error {
	g.stopOnce.Do(func() {
		g.resumption.stop()
		g.lanes.Stop()
		if g.cancelBackground != nil {
			g.cancelBackground()
		}
	})
	drain, cancel := context.WithTimeout(ctx, g.opts.Limits.DrainTimeout)
	defer cancel()
	err := g.lanes.Wait(drain)
	if err != nil {
		running, _ := g.lanes.Running()
		g.opts.Log.Warn("running turns interrupted and kept", zap.Int("turns", running))
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopStepTimeout)
		defer cancel()
		g.runner.Close()
		err = g.lanes.Close(grace)
	}
	g.runner.Close()
	g.runner.Wait()
	g.runner.Release(context.WithoutCancel(ctx))
	sends, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopStepTimeout)
	defer cancel()
	err = errors.Join(err, g.delivery.Close(sends))
	g.background.Wait()
	g.opts.Accounts.Close()
	return err
}

// stopStepTimeout limits each step of Stop that must not be cut short by the drain timeout.
const stopStepTimeout = 10 * time.Second
