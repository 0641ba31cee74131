// Package gatewaytest builds message pipelines for tests from one plain struct, in the
// order in which the daemon builds its own.
package gatewaytest

import (
	"context"
	"reflect"
	"time"

	"go.uber.org/zap"

	"hermesd/agent"
	"hermesd/agent/llm"
	"hermesd/agent/llm/pricing"
	"hermesd/agent/prompt"
	"hermesd/gateway"
	"hermesd/gateway/access"
	"hermesd/gateway/accounts"
	"hermesd/gateway/active"
	"hermesd/gateway/approval"
	"hermesd/gateway/chat"
	"hermesd/gateway/chatmigration"
	"hermesd/gateway/compaction"
	"hermesd/gateway/control"
	"hermesd/gateway/conversation"
	"hermesd/gateway/cron"
	"hermesd/gateway/delivery"
	"hermesd/gateway/i18n"
	"hermesd/gateway/inbox"
	"hermesd/gateway/input"
	"hermesd/gateway/memory"
	"hermesd/gateway/observe"
	"hermesd/gateway/outbox"
	"hermesd/gateway/overlay"
	"hermesd/gateway/pipeline"
	"hermesd/gateway/reply"
	"hermesd/gateway/schedule"
	"hermesd/gateway/session"
	"hermesd/gateway/store"
	"hermesd/gateway/target"
	"hermesd/gateway/turn"
	"hermesd/gateway/usage"
	"hermesd/internal/secret"
)

// Options configure a Pipeline for tests. Store, Agent, Accounts, Access and Prefix are
// required; what else is not set does nothing.
type Options struct {
	Store    store.Store
	Agent    *agent.Agent
	Accounts *accounts.Set
	Access   gateway.Access
	Active   *active.Turns
	Usage    *usage.Meter
	Overlay  *overlay.Builder
	Moves    *chatmigration.Registry
	Pairing  gateway.Pairing
	Host     control.Host
	Models   control.Models // nil: only Model

	Prefix          func(session.Record) (prompt.Prefix, []string)
	CheckTool       func(session.Record, access.Principal, string) error // nil: everyone may use every tool
	Skill           func(id session.ID, name, args string) (text string, ok bool)
	Discover        func(window int) conversation.Discovery
	Fetch           func(context.Context, chat.Account, chat.File) (chat.File, error)
	Attach          func(path string, scope reply.AttachScope) (chat.File, error)
	Media           input.Media
	Title           func(ctx context.Context, id session.ID, question, answer string) (string, error)
	AllowedCommands func(chat.Address) []string
	Reset           func(chat.Address) session.ResetPolicy

	Observe          observe.Func
	OnSessionChanged func(session.ID)
	OnSessionDeleted func(session.Deleted)
	OnReload         func(context.Context) string

	Control   control.Options  // New sets what the other fields say
	Cron      cron.Options     // New sets what the other fields say
	Approvals approval.Options // New sets what the other fields say
	Scripts   cron.Scripts
	Outputs   cron.Outputs

	OnlyPlatform chat.Platform
	Profile      string
	Model        string
	Effort       string
	CacheTTL     string
	Vision       bool
	Window       int
	Placement    prompt.Placement
	Prefill      []llm.Message
	Compression  compaction.Options
	Memory       turn.Memory
	Progress     string
	Acknowledge  bool
	Mode         inbox.Mode
	Policy       session.KeyPolicy
	Uncertain    outbox.UncertainPolicy
	RateLimits   map[chat.Account]outbox.RateLimit
	Streaming    bool
	EditInterval time.Duration
	EditFirst    bool
	Backlog      time.Duration
	Location     *time.Location // nil: time.Local
	Printer      i18n.Printer
	Limits       gateway.Config
	Masker       *secret.Masker
	Log          *zap.Logger
}

// New returns a Pipeline. It opens nothing, and runs nothing before Start.
func New(o Options) *pipeline.Pipeline {
	o = withDefaults(o)
	out := pipeline.NewOutgoing(pipeline.OutgoingParts{
		Store: o.Store, Accounts: o.Accounts, Moves: o.Moves, Access: o.Access, Skill: o.Skill, Scripts: o.Scripts, Outputs: o.Outputs,
	}, pipeline.OutgoingOptions{
		MaxTurns: o.Limits.MaxConcurrentTurns, Targets: target.Options{Location: o.Location, Log: o.Log}, Cron: o.Cron,
		Delivery: delivery.Options{
			Uncertain: o.Uncertain, RepeatNotice: o.Printer.Translate(outbox.RepeatNotice), Preview: o.Streaming,
			EditInterval: o.EditInterval, Ceilings: o.RateLimits, Observe: o.Observe, Masker: o.Masker, Log: o.Log.Named("delivery"),
		},
	})
	return pipeline.New(pipeline.Parts{
		Store: o.Store, People: gateway.People{Access: o.Access, Pairing: o.Pairing},
		Chat: pipeline.Chat{Outgoing: out, Files: pipeline.Files{Fetch: o.Fetch, Attach: o.Attach, Media: o.Media}},
		Agent: pipeline.Agent{
			Agent: o.Agent, Models: o.Models, Prefix: o.Prefix, Overlay: o.Overlay, CheckTool: o.CheckTool, Discover: o.Discover, Compaction: o.Compression, Memory: o.Memory,
		},
		Work: pipeline.Work{
			Active: o.Active, Usage: o.Usage, Pause: control.NewPause(o.Store, o.Profile, o.OnlyPlatform), Skill: o.Skill, Allowed: o.AllowedCommands,
		},
		Host: o.Host, Settings: settings(o),
	})
}

// settings returns the settings of a Pipeline.
func settings(o Options) pipeline.Settings {
	return pipeline.Settings{
		Admission: gateway.Settings{
			Profile: o.Profile, Policy: o.Policy, Mode: o.Mode, Acknowledge: o.Acknowledge, MaxQueuedMessages: o.Limits.MaxQueuedMessages,
			Printer: o.Printer, Mask: o.Agent.Mask, Observe: o.Observe, Log: o.Log,
		},
		Conversation: conversation.Options{
			Policy: o.Policy, Reset: o.Reset, CacheBytes: o.Limits.TranscriptCacheBytes, Printer: o.Printer, Log: o.Log.Named("conversation"),
		},
		Turn: turn.Settings{
			Printer: o.Printer, Placement: o.Placement, Prefill: o.Prefill, Title: o.Title,
			RestartNotice: o.Limits.RestartNotice, EditFirst: o.EditFirst, Freshness: o.Limits.AutoContinueFreshness,
			Backlog: o.Backlog, Inactivity: o.Limits.TurnTimeout,
			Log: o.Log.Named("turn"), Observe: o.Observe, OnSessionDeleted: o.OnSessionDeleted, OnReload: o.OnReload, OnSessionChanged: o.OnSessionChanged,
		},
		Approval: o.Approvals, Control: o.Control, DrainTimeout: o.Limits.DrainTimeout, Log: o.Log,
	}
}

// setDefault sets *v if it is zero.
func setDefault[T any](v *T, to T) {
	if reflect.ValueOf(v).Elem().IsZero() {
		*v = to
	}
}

// withDefaults returns o with what is not set replaced by parts that do nothing.
func withDefaults(o Options) Options {
	setDefault(&o.Log, zap.NewNop())
	setDefault(&o.Location, time.Local)
	setDefault(&o.Masker, new(secret.Masker))
	setDefault(&o.Active, new(active.Turns))
	setDefault(&o.Usage, usage.NewMeter(o.Active))
	setDefault(&o.Overlay, overlay.New(overlay.Options{Location: o.Location, Note: NoNote}, overlay.Settings{}))
	setDefault[gateway.Pairing](&o.Pairing, NoPairing{})
	setDefault[control.Host](&o.Host, NoHost{})
	setDefault[cron.Scripts](&o.Scripts, NoScripts{})
	setDefault[cron.Outputs](&o.Outputs, NoOutputs{})
	setDefault[control.Models](&o.Models, OneModel{Model: o.Model, Effort: o.Effort, CacheTTL: o.CacheTTL, Vision: o.Vision, Window: o.Window})
	setDefault(&o.Memory.External, memory.Off())
	setDefault(&o.Memory.Entries, func(session.Record) (map[string][]string, error) { return nil, nil })
	setDefault(&o.Memory.Notices, func(memory.Turn) []error { return nil })
	setDefault(&o.CheckTool, func(session.Record, access.Principal, string) error { return nil })
	setDefault(&o.Skill, func(session.ID, string, string) (string, bool) { return "", false })
	setDefault(&o.Compression.Refresh, func(_ session.Record, p prompt.Prefix) prompt.Prefix { return p })
	setDefault(&o.Compression.Learn, func(string, string, int) {})
	setDefault(&o.Discover, func(int) conversation.Discovery { return conversation.NoDiscovery{} })
	setDefault(&o.Fetch, func(_ context.Context, _ chat.Account, f chat.File) (chat.File, error) { return f, nil })
	setDefault(&o.Attach, func(string, reply.AttachScope) (chat.File, error) {
		return chat.File{}, i18n.Errorf("files cannot be sent here")
	})
	setDefault(&o.Title, turn.NoTitles)
	setDefault(&o.Observe, func(observe.Event) {})
	setDefault(&o.AllowedCommands, func(chat.Address) []string { return nil })
	setDefault(&o.Reset, func(chat.Address) session.ResetPolicy { return session.ResetPolicy{} })
	setDefault(&o.OnSessionChanged, func(session.ID) {})
	setDefault(&o.OnSessionDeleted, func(session.Deleted) {})
	setDefault(&o.OnReload, func(context.Context) string { return "" })
	return withValues(o)
}

// withValues returns o with Control, Cron and Approvals as the other fields say.
func withValues(o Options) Options {
	c := &o.Control
	c.Model, c.Mode, c.Progress, c.Voice = o.Model, o.Mode, o.Progress, o.Media.Synthesize != nil
	c.Compression, c.Printer, c.Log = o.Compression, o.Printer, o.Log
	setDefault(&c.Prices, pricing.Builtin())
	if o.Cron.Rules.Scan == nil {
		profiles := make(chat.Profiles)
		for account := range o.Accounts.All() {
			profiles[account.Platform] = o.Accounts.Profile(account.Platform)
		}
		o.Cron.Rules = schedule.NewValidator("", profiles)
	}
	o.Cron.Profile, o.Cron.Policy, o.Cron.Printer, o.Cron.Observe, o.Cron.Log = o.Profile, o.Policy, o.Printer, o.Observe, o.Log
	o.Approvals.Printer, o.Approvals.Log = o.Printer, o.Log.Named("approval")
	none := input.NoMedia()
	setDefault(&o.Media.Transcribe, none.Transcribe)
	setDefault(&o.Media.DescribeImage, none.DescribeImage)
	setDefault(&o.Media.Synthesize, none.Synthesize)
	return o
}
