package gateway

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"hermesd/agent"
	"hermesd/agent/llm"
	"hermesd/agent/prompt"
	"hermesd/gateway/access"
	"hermesd/gateway/access/pairing"
	"hermesd/gateway/chat"
	"hermesd/gateway/chatmigration"
	"hermesd/gateway/command"
	"hermesd/gateway/delivery"
	"hermesd/gateway/i18n"
	"hermesd/gateway/inbox"
	"hermesd/gateway/lane"
	"hermesd/gateway/observe"
	"hermesd/gateway/outbox"
	"hermesd/gateway/session"
	"hermesd/gateway/turn"
	"hermesd/internal/secret"
)

// Options are what a Gateway is made of.
type Options struct {
	Store              Store
	Agent              *agent.Agent
	Adapters           map[chat.Account]chat.Adapter
	Access             Access
	Moves              *chatmigration.Registry                                          // chats that have a new id; nil: they are not remembered
	Pairing            *pairing.Manager                                                 // offers strangers a code; nil: they get no answer
	Prefix             func(session.Record) (prompt.Prefix, []string)                   // and what the person should know of it
	CheckTool          func(rec session.Record, by access.Principal, tool string) error // nil: everybody may use every tool
	Skill              func(id session.ID, name, args string) (text string, ok bool)    // what /name says, if it is a skill
	Discover           func() turn.Discovery                                            // finds project files of folders that tools touch
	Models             Models                                                           // nil: Model alone
	HomeInfo           HomeInfo                                                         // what commands tell of the home and of prices
	Fetch              func(context.Context, chat.Account, chat.File) (chat.File, error)
	Observe            observe.Func                         // told what happens on the road; it must not wait
	OnCommit           func()                               // called after each commit of a turn; it must not wait
	Attach             func(path string) (chat.File, error) // takes up a file that an answer attaches
	OnSessionDeleted   func(session.Deleted)                // told what a deleted conversation leaves to be deleted
	BackgroundCommands func(session.ID) (n int, end func()) // commands in the background of a session, and what ends them; nil: none
	Media              turn.Media
	Title              func(ctx context.Context, asked, answer string) (string, agent.Call, error) // names conversations
	Cron               CronOptions                                                                 // scheduled prompts
	Approvals          turn.Approvals                                                              // Always and Remember are the gateway's
	Restart            func()                                                                      // has the process stop in good order and start again; nil: it cannot
	HomeChannels       map[chat.Platform]chat.Address                                              // home channels
	ReplyToMode        map[chat.Account]string                                                     // reply_to_mode
	RateLimits         map[chat.Account]outbox.RateLimit

	// OnlyPlatform is the one platform whose turns may begin, and no scheduled prompt does;
	// "": all.
	OnlyPlatform chat.Platform

	Profile      string
	Model        string
	Effort       string
	CacheTTL     string
	Vision       bool
	Window       int                         // tokens of the context of Model
	Ephemeral    string                      // the operator's own overlay
	Note         func(session.Record) string // for the overlay of a turn
	Placement    prompt.Placement            // of overlays
	Prefill      []llm.Message               // between the prompt and the transcript of every call
	Compression  turn.CompactionOptions
	Personality  map[string]string                      // texts by name, for /personality
	Reset        func(chat.Address) session.ResetPolicy // when sessions of a place start over by themselves; nil: never
	Progress     string                                 // display.tool_progress
	Acknowledge  bool                                   // tell who speaks to a busy agent that it was heard
	RedactPII    bool                                   // ids of people and chats are hashed where the model needs none
	Mode         inbox.Mode
	Policy       session.KeyPolicy
	Uncertain    outbox.UncertainPolicy
	Streaming    bool
	EditInterval time.Duration
	EditFirst    bool
	Backlog      time.Duration
	Location     *time.Location
	Version      string
	Printer      i18n.Printer // says what people read from the daemon itself

	Limits Config
	Masker *secret.Masker
	Log    *zap.Logger
}

// Config are the gateway's own limits.
type Config struct {
	MaxConcurrentTurns    int           `yaml:"max_concurrent_turns" default:"64" range:"1..1024" doc:"Turns that run at once, over all sessions."`
	MaxWaiting            int           `yaml:"max_waiting" default:"100" range:"1..10000" doc:"Messages that may wait in one session; over it the sender is told."`
	CacheBytes            int64         `yaml:"cache_bytes" default:"8388608" range:"0..17179869184" doc:"Bytes of memory for the transcripts of idle sessions; others are read from the store when they are needed."`
	DrainTimeout          time.Duration `yaml:"drain_timeout" default:"60s" doc:"How long running turns may finish when the daemon stops; then they are kept and resumed at the next start."`
	AutoContinueFreshness time.Duration `yaml:"auto_continue_freshness" default:"1h" doc:"A turn that was cut short is resumed at start if it is younger than this."`
	RestartNotice         bool          `yaml:"restart_notice" default:"true" doc:"Say in the chat that a turn was cut short by a restart and goes on."`
	TurnTimeout           time.Duration `yaml:"turn_timeout" default:"30m" doc:"A turn that shows no progress for this long is given up; half of it warns."`
}

// A Gateway accepts messages and leads each through its turn. Accept may be
// called from the moment it is made; turns run between Start and Stop.
type Gateway struct {
	opts       Options
	commands   *command.Table
	runner     *turn.Runner
	lanes      *lane.Set[inbox.Lane]
	delivery   *delivery.Delivery
	marks      *bestEffortQueue // reactions
	presses    *bestEffortQueue // what is shown to those who pressed a button
	outages    *bestEffortQueue // what people are told who cannot be answered
	outage     storeOutage
	crons      *cronRunner
	acks       ackLimiter
	paused     atomic.Bool // no turn begins
	setHomes   atomic.Pointer[map[chat.Platform]chat.Address]
	announceMu sync.Mutex               // held while announcements are changed
	allowed    atomic.Pointer[[]string] // for ever, by owners
	started    time.Time
	live       atomic.Pointer[ReloadableSettings]

	stop  sync.Once
	chore context.CancelFunc
	idle  sync.WaitGroup // the goroutine that prunes
}

var _ chat.Sink = (*Gateway)(nil)

// New puts a gateway together.
func New(o Options) *Gateway {
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	if o.Location == nil {
		o.Location = time.Local
	}
	g := &Gateway{opts: o, commands: command.NewTable(command.Localized(o.Printer, command.Builtin()...)...), acks: ackLimiter{last: make(map[inbox.Lane]time.Time)}, outage: storeOutage{notified: make(map[chat.Address]time.Time)}, started: time.Now()}
	g.ApplySettings(ReloadableSettings{Ephemeral: o.Ephemeral, Personality: o.Personality, HomeChannels: o.HomeChannels})
	g.delivery = delivery.New(delivery.Options{
		Store: o.Store, Adapters: o.Adapters, Uncertain: o.Uncertain, RepeatNotice: o.Printer.Translate(outbox.RepeatNotice), Preview: o.Streaming,
		EditInterval: o.EditInterval, Ceilings: o.RateLimits, Settled: func(r outbox.Row, s outbox.Settlement) { g.runner.QuestionsDelivered(r, s) }, Observe: o.Observe, Masker: o.Masker, Log: o.Log.Named("delivery"),
	})
	g.marks = newBestEffortQueue(o.Adapters, reacts, o.Log.Named("reactions"))
	g.presses = newBestEffortQueue(o.Adapters, answers, o.Log.Named("presses"))
	g.outages = newBestEffortQueue(o.Adapters, speaks(o.Adapters), o.Log.Named("outage"))
	g.lanes = lane.New(o.Limits.MaxConcurrentTurns, func(ctx context.Context, l inbox.Lane) { g.runner.Run(ctx, l) })
	g.crons = newCronRunner(g, o.Cron)
	g.runner = turn.New(turn.Options{
		Store: o.Store, Agent: o.Agent, Delivery: g.delivery, Commands: g.commands, Env: env{g},
		Wake: g.lanes.Wake, Stop: g.lanes.Interrupt, Prefix: o.Prefix, Overlay: g.overlay, Placement: o.Placement, Prefill: o.Prefill, Compression: o.Compression, Fetch: o.Fetch, ReplyToMode: o.ReplyToMode,
		Attach: o.Attach, BackgroundCommands: o.BackgroundCommands, Commanded: g.commanded, Paused: g.turnsBlocked, OnSessionDeleted: o.OnSessionDeleted, Approvals: g.approvals(), Media: o.Media, Title: o.Title, Scheduled: g.crons, Send: g.sendFor, OnCommit: o.OnCommit, Observe: o.Observe, CheckTool: o.CheckTool, Skill: o.Skill, Discover: o.Discover, React: g.react, ThreadHistory: g.threadHistory, Restart: g.restart,
		Model:   turn.ModelChoice{Model: o.Model, Effort: o.Effort, CacheTTL: o.CacheTTL, Vision: o.Vision, Window: o.Window},
		Printer: o.Printer, Choose: g.choose, Policy: o.Policy, Reset: o.Reset, Progress: o.Progress,
		RestartNotice: o.Limits.RestartNotice, EditFirst: o.EditFirst, Freshness: o.Limits.AutoContinueFreshness,
		Backlog: o.Backlog, Ahead: g.ahead, Inactivity: o.Limits.TurnTimeout, CacheBytes: o.Limits.CacheBytes, Log: o.Log.Named("turn"),
	})
	return g
}

// Commands returns the table of commands.
func (g *Gateway) Commands() *command.Table { return g.commands }

// Delivery returns the way out.
func (g *Gateway) Delivery() *delivery.Delivery { return g.delivery }

// Start takes up what an earlier process left: queues first, then lanes.
func (g *Gateway) Start(ctx context.Context) error {
	if err := errors.Join(g.restorePause(ctx), g.readHomes(ctx), g.loadApprovals(ctx)); err != nil {
		return err
	}
	if err := g.resumeQueues(ctx); err != nil {
		return err
	}
	if err := g.announceRestartDone(ctx); err != nil {
		return fmt.Errorf("restart note: %w", err)
	}
	chores, cancel := context.WithCancel(context.WithoutCancel(ctx))
	g.chore = cancel
	g.marks.run(chores)
	g.presses.run(context.WithoutCancel(ctx)) // people press buttons while turns end
	g.outages.run(context.WithoutCancel(ctx))
	if g.opts.OnlyPlatform == "" {
		g.idle.Go(func() { g.crons.clock.Run(chores) })
	}
	g.idle.Go(func() { g.prune(chores) }) // Stop waits for it
	return nil
}

// resumeQueues wakes every queue and lane in which something waits.
func (g *Gateway) resumeQueues(ctx context.Context) error {
	if err := g.delivery.Start(ctx); err != nil {
		return fmt.Errorf("outbox: %w", err)
	}
	lanes, err := g.opts.Store.Lanes(ctx)
	if err != nil {
		return fmt.Errorf("inbox: %w", err)
	}
	for _, l := range lanes {
		g.lanes.Wake(l)
	}
	return nil
}

// pruneEvery is how often what is past its retention is forgotten.
const pruneEvery = time.Hour

func (g *Gateway) prune(ctx context.Context) {
	tick := time.NewTicker(pruneEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			if err := g.opts.Store.Prune(ctx, now); err != nil && ctx.Err() == nil {
				g.opts.Log.Error("prune", zap.Error(err))
			}
		}
	}
}

// Stop begins no new turn, lets those that run finish for the drain timeout,
// then interrupts them and keeps them for the next start. Messages are accepted
// all the while. It waits for sends that are under way, and reports what was
// left; all of it ends with ctx.
func (g *Gateway) Stop(ctx context.Context) error {
	g.stop.Do(func() {
		g.lanes.Stop()
		if g.chore != nil {
			g.chore()
		}
	})
	drain, cancel := context.WithTimeout(ctx, g.opts.Limits.DrainTimeout)
	defer cancel()
	err := g.lanes.Wait(drain)
	if err != nil {
		running, _ := g.lanes.Running()
		g.opts.Log.Warn("turns are interrupted and kept", zap.Int("turns", running))
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopGrace)
		defer cancel()
		g.runner.Close()
		err = g.lanes.Close(grace)
	}
	g.runner.Close()
	g.runner.Wait()
	g.runner.Release(context.WithoutCancel(ctx))
	sends, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopGrace)
	defer cancel()
	err = errors.Join(err, g.delivery.Close(sends))
	g.idle.Wait()
	g.marks.close()
	g.presses.close()
	g.outages.close()
	return err
}

// stopGrace bounds each step of a stop that cannot be cut short without doubt.
const stopGrace = 10 * time.Second
