package turn

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"go.uber.org/zap"

	"hermesd/agent"
	"hermesd/agent/llm"
	"hermesd/agent/prompt"
	"hermesd/agent/tool"
	"hermesd/gateway/access"
	"hermesd/gateway/chat"
	"hermesd/gateway/command"
	"hermesd/gateway/delivery"
	"hermesd/gateway/failure"
	"hermesd/gateway/i18n"
	"hermesd/gateway/inbox"
	"hermesd/gateway/observe"
	"hermesd/gateway/session"
)

// Options are what a Runner works with.
type Options struct {
	Store    Store
	Agent    *agent.Agent
	Delivery *delivery.Delivery
	Commands *command.Table
	Env      command.Env
	// Wake says that work waits in a lane.
	Wake func(inbox.Lane)
	// Stop cancels the run of a lane with a cause.
	Stop func(inbox.Lane, error) bool
	// Prefix builds the frozen prompt of a session, and says in sentences what the
	// person should know of it: what was left out, and why.
	Prefix func(session.Record) (prompt.Prefix, []string)
	// Choose returns the model of a session; nil: Model, for all.
	Choose func(session.Settings) (ModelChoice, error)
	// Overlay returns what belongs to one turn only, and Placement says where it
	// stands.
	Overlay   func(session.Record, inbox.Entry) prompt.OverlayParts
	Placement prompt.Placement
	// Compression keeps contexts small.
	Compression CompactionOptions
	// CheckTool says why somebody may not use a tool in a session; nil: all may.
	CheckTool func(rec session.Record, by access.Principal, tool string) error
	// Skill returns what a person means with /name args, if name is a skill.
	Skill func(id session.ID, name, args string) (text string, ok bool)
	// Discover returns what finds the project files of folders that a session
	// comes to; nil, or a nil Discovery, finds nothing.
	Discover func() Discovery
	// Prefill stands between the prompt and the transcript of every call.
	Prefill []llm.Message
	// Commanded reports whether immediate commands of the lane's session wait or
	// run; nil: there are none.
	Commanded func(inbox.Lane) bool
	// Paused reports whether no turn may begin in a lane; only immediate commands run then.
	// nil: never.
	Paused func(inbox.Lane) bool
	// BackgroundCommands returns how many commands run in the background of a session, and what
	// ends them; nil: none do.
	BackgroundCommands func(session.ID) (n int, end func())
	// OnSessionDeleted is told what a session took with it that was deleted; nil: nobody
	// is.
	OnSessionDeleted func(session.Deleted)
	// OnCommit is called after each commit; it must not wait. nil: nobody is told.
	OnCommit func()
	// Observe is told of turns. It must not wait.
	Observe observe.Func
	// Attach takes up a file that an answer attaches. Its error says why not, in
	// words that go on from "I could not attach it:".
	Attach func(path string) (chat.File, error)
	// Fetch downloads an attachment. What went wrong stands in its Problem, and the
	// error, if any, says it to the person.
	Fetch func(context.Context, chat.Account, chat.File) (chat.File, error)
	// ThreadHistory returns what was said in the thread of a message after since and
	// before it.
	ThreadHistory func(ctx context.Context, in chat.Inbound, since time.Time) ([]chat.Quote, error)
	// React shows on a person's message what has become of it.
	React func(chat.Inbound, chat.Reaction)
	// Scheduled knows scheduled runs; nil: there are none.
	Scheduled Scheduled
	// Title returns a name for a conversation that began with asked and answer,
	// and the call that made it, also where it failed; nil: there are none.
	Title func(ctx context.Context, asked, answer string) (string, agent.Call, error)
	// Media turn pictures and voices into words.
	Media Media
	// Approvals say how dangerous commands are allowed.
	Approvals Approvals
	// Send says something for a tool of the turn of e, and returns where in words.
	// nil: tools send nothing.
	Send func(ctx context.Context, e inbox.Entry, turn string, m tool.Message) (string, error)
	// Restart has the daemon start again, because of a command that came from an
	// address.
	Restart func(chat.Address)
	// ReplyToMode is the reply_to_mode of each account: off, first or all.
	ReplyToMode map[chat.Account]string

	// Printer says what people read from the daemon itself.
	Printer i18n.Printer
	Model   ModelChoice
	Policy  session.KeyPolicy
	// Reset says when sessions of a place start over by themselves; nil: never.
	Reset         func(chat.Address) session.ResetPolicy
	Progress      string // display.tool_progress: off, new, all or verbose
	RestartNotice bool
	EditFirst     bool
	Freshness     time.Duration // of a turn that was cut short
	Backlog       time.Duration // greatest age of a message that is answered
	// Ahead is by how much our clock is ahead of that of an account's platform, which
	// says how old its messages are; nil: not at all.
	Ahead      func(chat.Account) time.Duration
	Inactivity time.Duration // of a turn, before it is given up
	CacheBytes int64
	Log        *zap.Logger
}

// A ModelChoice is the model that answers in a session.
type ModelChoice struct {
	Provider llm.Provider // nil: the agent's own
	Model    string
	Effort   string
	CacheTTL string
	Vision   bool // images go to the model as images
	Window   int  // tokens of its context
}

// A Discovery finds the project files of folders that tools touch.
type Discovery interface {
	// After returns what to append to the result of a call with that input, ""
	// mostly.
	After(input json.RawMessage) string
	// MarkSeen is told of each result that the session holds already.
	MarkSeen(result string)
}

// Reasons reports whether the model thinks before it answers.
func (c ModelChoice) Reasons() bool { return c.Effort != "" && c.Effort != "none" }

// A Runner leads claims through their turns. Run may be called for several
// lanes at once, for one lane only once at a time.
type Runner struct {
	opts        Options
	cache       *cache
	waits       *inputWaits
	locks       sessionLock
	closing     chan struct{} // closed by Close
	breaks      breaks
	spending    usageTotals
	fallbacks   failure.FallbackCounter
	active      activeTurns
	compactions backgroundCompactions
	asking      *questions
	beside      sync.WaitGroup // what runs beside turns; see aside
	once        sync.Once

	mu     sync.Mutex // guards what follows
	handed map[inbox.Lane]inbox.Claim
}

// New returns a Runner.
func New(o Options) *Runner {
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	r := &Runner{opts: o, waits: newHolds(), asking: newQuestions(), locks: sessionLock{busy: make(map[session.ID]chan struct{})}, closing: make(chan struct{}), handed: make(map[inbox.Lane]inbox.Claim)}
	r.cache = newCache(o.CacheBytes, r.forget)
	return r
}

// forget lets go of the context engine of a conversation that memory gives up. One
// that is at work for a pass of hygiene is still needed.
func (r *Runner) forget(s *sessionState) {
	if l, ok := s.engine.(agent.Lifecycle); ok && !r.compactions.orphan(s.record.ID) {
		l.End()
	}
}

// Close ends the waiting for a store that refuses commits: what was to be
// committed is left to the next start. It comes before the runs are cancelled.
func (r *Runner) Close() { r.once.Do(func() { close(r.closing) }) }

// Wait returns when nothing is under way any more beside the turns, after Close.
func (r *Runner) Wait() {
	r.compactions.running.Wait()
	r.beside.Wait()
}

// An entry is set aside when maxCrashes processes died over it; if each time
// more than fewTurns turns were under way, so that nobody knows whose fault it
// was, only after mostCrashes.
const (
	maxCrashes       = 2
	maxCrashesShared = 6
	fewTurns         = 3
)

// poisoned reports whether e seems to kill the process.
func poisoned(e inbox.Entry) bool {
	return e.Crashes >= maxCrashes && e.TurnsAtCrash <= fewTurns || e.Crashes >= maxCrashesShared
}

// commandWait is how long a turn waits before it looks again whether the commands
// are done that were given before its message.
const commandWait = 5 * time.Millisecond

// storeRetry is how long a lane rests after the store refused it.
const storeRetry = time.Second

// Run works on what waits in lane: one claim, one turn. If more is left it
// wakes the lane again, so that others get their turn in between.
func (r *Runner) Run(ctx context.Context, l inbox.Lane) {
	if r.opts.Commanded != nil && r.opts.Commanded(l) { // a /new, a /stop goes first
		time.AfterFunc(commandWait, func() { r.opts.Wake(l) })
		return
	}
	if r.opts.Paused != nil && r.opts.Paused(l) && !l.Immediate() {
		return // the end of the pause wakes it
	}
	c, handed := r.take(l)
	var err error
	if !handed {
		c, err = r.opts.Store.Claim(context.WithoutCancel(ctx), l, 0)
	}
	if err != nil {
		r.opts.Log.Error("claim", zap.String("lane", string(l)), zap.Error(err))
		time.AfterFunc(storeRetry, func() { r.opts.Wake(l) })
		return
	}
	if c.Turn == "" {
		return
	}
	t := &turn{runner: r, claim: c, Printer: r.opts.Printer, log: r.opts.Log.With(zap.String("turn", c.Turn), zap.String("session", string(c.Entries[0].Session)))}
	t.observed(ctx)
	// What came between the hand-over and this run has woken nobody.
	if c.Remaining > 0 || t.moreWork || handed && r.opts.Store.Waiting(l) > 0 {
		r.opts.Wake(l)
	}
}

// OfferClaim gives the runner a claim that was made when its entry was accepted. The
// next Run of the lane works on it.
func (r *Runner) OfferClaim(c inbox.Claim) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.handed[c.Lane] = c
}

// HasOfferedClaim reports whether a claim of lane was handed over that no Run has taken.
func (r *Runner) HasOfferedClaim(l inbox.Lane) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, ok := r.handed[l]
	return ok
}

func (r *Runner) take(l inbox.Lane) (inbox.Claim, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c, ok := r.handed[l]
	delete(r.handed, l)
	return c, ok
}

// Release lets the entries of claims that no Run has taken wait again. It is for
// a stop, after the last Run.
func (r *Runner) Release(ctx context.Context) {
	r.mu.Lock()
	handed := r.handed
	r.handed = make(map[inbox.Lane]inbox.Claim)
	r.mu.Unlock()
	for _, c := range handed {
		if err := r.opts.Store.Release(ctx, c); err != nil {
			r.opts.Log.Error("release", zap.String("lane", string(c.Lane)), zap.Error(err))
		}
	}
}

// PartArrived tells a turn of lane that still gathers the pieces of its input that
// one more has come, and reports whether there is such a turn.
func (r *Runner) PartArrived(l inbox.Lane) bool { return r.waits.poke(l) }

// A turn is one claim on its way to its commit.
type turn struct {
	i18n.Printer // says what people read
	runner       *Runner
	claim        inbox.Claim
	log          *zap.Logger
	session      *sessionState // nil until loaded
	trace        Trace
	tokenUsage   llm.Usage // by the turn's model calls, those of dead runs included once it ends
	summarised   llm.Usage // by compactions, and by what tools had models do
	lastSeen     inbox.ID  // the newest entry of which the model has heard
	stored       int       // how many messages of the transcript are in the store, or in passes
	passes       []inbox.Compaction
	calls        []json.RawMessage // of models, as the ledger has them
	kept         int               // how many of calls are in recorded steps
	noted        json.RawMessage   // what the recorded steps have of the context engine
	reprompt     bool              // the frozen prompt has changed
	refused      bool              // a commit of it was refused for good
	moreWork     bool              // the lane has more to do
	replies      replies           // to questions of its tools
	result       observe.Result    // "" unless a commit of it is true
}

func (t *turn) first() inbox.Entry { return t.claim.Entries[0] }
func (t *turn) last() inbox.Entry  { return t.claim.Entries[len(t.claim.Entries)-1] }

// run is the wall behind which a turn may panic: the person is told, and the
// daemon goes on.
func (t *turn) run(ctx context.Context) {
	defer func() {
		if p := recover(); p != nil {
			t.log.Error("panic in a turn", zap.Any("panic", p), zap.ByteString("stack", debug.Stack()))
			t.fail(ctx, fmt.Errorf("panic: %v", p))
		}
	}()
	switch e := t.first(); {
	case poisoned(e):
		t.quarantine(ctx)
	case e.Exclusive:
		t.command(ctx)
	case t.claim.Crashed && t.suspended(ctx):
		t.endTooOld(ctx, failure.Suspended)
	case t.claim.Crashed && time.Since(e.Accepted) > t.runner.opts.Freshness:
		t.endTooOld(ctx, failure.Interrupted)
	case t.runner.opts.Backlog > 0 && t.runner.age(e) > t.runner.opts.Backlog && !t.claim.Crashed:
		t.endTooOld(ctx, failure.TooOld)
	case e.Occurrence != nil && t.runner.opts.Scheduled != nil:
		t.scheduled(ctx)
	default:
		t.runAgent(ctx)
	}
}

// age is how old a message is by the clock of its platform.
func (r *Runner) age(e inbox.Entry) time.Duration {
	age := time.Since(e.Inbound.SentAt)
	if r.opts.Ahead != nil && e.Occurrence == nil {
		age -= r.opts.Ahead(e.Inbound.Address.AccountID())
	}
	return age
}

// maxCrashesInARow is in how many crashes in a row a session may have had a turn under way
// before such a turn is not gone on with.
const maxCrashesInARow = 3

// suspended reports whether the session was under way in so many crashes that the
// turn must not be tried again.
func (t *turn) suspended(ctx context.Context) bool {
	rec, ok, err := t.runner.opts.Store.Session(ctx, t.first().Session)
	return err == nil && ok && rec.Crashes >= maxCrashesInARow
}

// A step is one recorded step of a turn: what the agent recorded, with the
// input of the turn in the first one, so that a resumed turn says the same.
type step struct {
	Input json.RawMessage `json:"in,omitempty"`
	Agent agent.Step      `json:"a"`
	// Through is the newest entry of which the model has heard by then.
	Through inbox.ID `json:"t,omitempty"`
	// Calls are those of models since the step before.
	Calls []json.RawMessage `json:"c,omitempty"`
	// Session is that of the turn, in the first step.
	Session session.ID `json:"s,omitempty"`
	// Engine is what the context engine keeps, if that has changed.
	Engine json.RawMessage `json:"e,omitempty"`
}
