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
	"hermesd/gateway/access"
	"hermesd/gateway/accounts"
	"hermesd/gateway/active"
	"hermesd/gateway/approval"
	"hermesd/gateway/chat"
	"hermesd/gateway/command"
	"hermesd/gateway/conversation"
	"hermesd/gateway/delivery"
	"hermesd/gateway/failure"
	"hermesd/gateway/i18n"
	"hermesd/gateway/inbox"
	"hermesd/gateway/input"
	"hermesd/gateway/observe"
	"hermesd/gateway/session"
	"hermesd/gateway/target"
	"hermesd/gateway/usage"
)

// Options configure a Runner.
type Options struct {
	Store    Store
	Agent    *agent.Agent
	Delivery *delivery.Delivery
	Accounts *accounts.Set
	Targets  *target.Directory // what tools send to other chats
	Active   *active.Turns     // the Runner registers its turns
	Usage    *usage.Meter      // counts the model calls
	Commands *command.Table
	// Wake wakes a lane in which work waits.
	Wake func(inbox.Lane)
	// Sessions holds the conversations. Close closes its passes.
	Sessions *conversation.Book
	// Choose returns the model of a session; nil means Model for all sessions.
	Choose func(session.Settings) (ModelChoice, error)
	// Overlay returns the overlay of a turn; nil means none. Placement is its position
	// in the request.
	Overlay   func(session.Record, inbox.Entry) prompt.OverlayParts
	Placement prompt.Placement
	// Compression configures the compaction of sessions.
	Compression CompactionOptions
	// CheckTool returns an error if a principal may not use a tool in a session; nil
	// allows all.
	CheckTool func(rec session.Record, principal access.Principal, tool string) error
	// Discover returns a new Discovery for a session with a context window of so many tokens; a nil func or a nil Discovery finds
	// nothing.
	Discover func(window int) Discovery
	// AllowedCommands returns command.Call.Allowed at an address; nil: no limit.
	AllowedCommands func(chat.Address) []string
	// Prefill are messages between the prompt and the transcript of every call.
	Prefill []llm.Message
	// WaitsForCommands reports whether immediate commands of the lane's session, such as
	// /new and /stop, wait or run. The lane is woken when that ends. nil means never.
	WaitsForCommands func(inbox.Lane) bool
	// Paused reports whether no turn may start in a lane. Immediate commands still run.
	// nil means never.
	Paused func(inbox.Lane) bool
	// Held reports whether nothing may start in a lane, not even immediate commands. The
	// lane is woken when that ends. nil means never.
	Held func(inbox.Lane) bool
	// OnSessionDeleted, if set, is called after a session was deleted.
	OnSessionDeleted func(session.Deleted)
	// OnSessionChanged, if set, is called after messages of a session were committed. It
	// must not block.
	OnSessionChanged func(session.ID)
	// Observe receives the events of turns. It must not block.
	Observe observe.Func
	// Attach returns the file of scope at a path that an answer attaches; nil rejects all. Its
	// error is shown to the user after "I could not attach it:".
	Attach func(path string, scope AttachScope) (chat.File, error)
	// Scheduled provides scheduled runs; nil means that there are none.
	Scheduled Scheduled
	// Title returns a title for a conversation that started with question and answer,
	// and the model call, also on failure; nil means no titles.
	Title func(ctx context.Context, question, answer string) (string, agent.Call, error)
	// Input makes the messages that models read.
	Input *input.Composer
	// Synthesize returns a recording of a text; nil: answers are not spoken.
	Synthesize func(context.Context, string) (chat.File, error)
	Approval   *approval.Service // asks people for tools

	// Printer translates the daemon's own texts.
	Printer       i18n.Printer
	Model         ModelChoice
	Progress      string // display.tool_progress: off, new, all or verbose
	RestartNotice bool
	EditFirst     bool
	Freshness     time.Duration // maximum age of an interrupted turn that is resumed
	Backlog       time.Duration // maximum age of a message that is answered; 0 means no limit
	Inactivity    time.Duration // time without progress after which a turn is canceled; 0 means no limit
	Log           *zap.Logger
}

// A ModelChoice is the model of a session and its settings.
type ModelChoice = conversation.ModelChoice

// A Discovery finds the project files of directories that tools access.
type Discovery = conversation.Discovery

// A Runner runs the turns of claims. Run may be called concurrently for different
// lanes, but not for the same lane.
type Runner struct {
	opts       Options
	waits      *inputWaits
	closing    chan struct{} // closed by Close
	runs       laneRuns
	background sync.WaitGroup // see goBackground
	closeOnce  sync.Once

	mu      sync.Mutex // guards what follows
	offered map[inbox.Lane]inbox.Claim
}

// New returns a Runner. A nil Log discards messages.
func New(o Options) *Runner {
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	r := &Runner{opts: o, runs: newLaneRuns(), waits: newInputWaits(), closing: make(chan struct{}), offered: make(map[inbox.Lane]inbox.Claim)}
	return r
}

// Close ends the retries of failed commits, which are left to the next start, and
// cancels background work. It must be called before the runs are canceled.
func (r *Runner) Close() { r.closeOnce.Do(func() { close(r.closing); r.opts.Sessions.Passes.Close() }) }

// Wait waits for the end of background work, after Close.
func (r *Runner) Wait() {
	r.opts.Sessions.Passes.Wait()
	r.background.Wait()
}

// storeRetryDelay is the time until a lane is tried again after a store failure.
const storeRetryDelay = time.Second

// Run claims entries of lane l and runs one turn for them. If more entries wait it
// wakes the lane again, so that other lanes run in between.
func (r *Runner) Run(ctx context.Context, l inbox.Lane) {
	if r.opts.Held != nil && r.opts.Held(l) {
		return
	}
	if r.opts.WaitsForCommands != nil && r.opts.WaitsForCommands(l) {
		return
	}
	if r.opts.Paused != nil && r.opts.Paused(l) && !l.Immediate() {
		return // the end of the pause wakes it
	}
	ctx, limit, end := r.runs.begin(ctx, l)
	defer end()
	c, offered := r.takeOfferedClaim(l)
	var err error
	if !offered {
		c, err = r.opts.Store.Claim(context.WithoutCancel(ctx), l, limit)
	}
	if err != nil {
		r.opts.Log.Error("cannot claim entries", zap.String("lane", string(l)), zap.Error(err))
		time.AfterFunc(storeRetryDelay, func() { r.opts.Wake(l) })
		return
	}
	if c.Turn == "" {
		return
	}
	r.runs.add(l, c.Entries...)
	t := &turn{runner: r, claim: c, Printer: r.opts.Printer, log: r.opts.Log.With(zap.String("turn", c.Turn), zap.String("session", string(c.Entries[0].Session)))}
	t.runObserved(ctx)
	// Entries that were accepted between the offer and this run have not woken the lane.
	if c.Remaining > 0 || t.hasMoreWork || offered && r.opts.Store.Waiting(l) > 0 {
		r.opts.Wake(l)
	}
}

// OfferClaim passes a claim that was made when its entry was accepted to the next Run
// of its lane. It may be called from any goroutine.
func (r *Runner) OfferClaim(c inbox.Claim) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.offered[c.Lane] = c
}

// HasOfferedClaim reports whether an offered claim of lane l waits for a Run.
func (r *Runner) HasOfferedClaim(l inbox.Lane) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, ok := r.offered[l]
	return ok
}

func (r *Runner) takeOfferedClaim(l inbox.Lane) (inbox.Claim, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c, ok := r.offered[l]
	delete(r.offered, l)
	return c, ok
}

// Release releases the offered claims that no Run has taken, so that their entries wait
// again. It must be called after the last Run.
func (r *Runner) Release(ctx context.Context) {
	r.mu.Lock()
	offered := r.offered
	r.offered = make(map[inbox.Lane]inbox.Claim)
	r.mu.Unlock()
	for _, c := range offered {
		if err := r.opts.Store.Release(ctx, c); err != nil {
			r.opts.Log.Error("cannot release claim", zap.String("lane", string(c.Lane)), zap.Error(err))
		}
	}
}

// IsSoleAuthor reports whether a turn of lane l runs, or has been claimed, and by wrote all
// of its messages. It may be called from any goroutine.
func (r *Runner) IsSoleAuthor(l inbox.Lane, by access.Principal) bool {
	r.mu.Lock()
	c, offered := r.offered[l]
	r.mu.Unlock()
	if offered {
		return active.WroteAll(by, c.Entries)
	}
	return r.opts.Active.IsSoleAuthor(l, by)
}

// PartArrived notifies the turn of lane l that waits for more parts of its input, and
// reports whether there is one. It may be called from any goroutine.
func (r *Runner) PartArrived(l inbox.Lane) bool { return r.waits.notify(l) }

// A turn is the processing of one claim, from its start to its commit.
type turn struct {
	i18n.Printer   // translates texts for users
	runner         *Runner
	claim          inbox.Claim
	log            *zap.Logger
	session        *conversation.Conversation // nil until loaded
	trace          Trace
	tokenUsage     llm.Usage      // of the turn's model calls, including those of earlier runs once it ends
	auxiliaryUsage llm.Usage      // of compactions and of model calls by tools
	lastSeen       inbox.ID       // newest entry that the model has received
	commitRejected bool           // a commit failed with inbox.ErrConflict
	hasMoreWork    bool           // the lane must be woken again
	replies        replies        // to questions of tools
	result         observe.Result // "" until committed
}

func (t *turn) first() inbox.Entry { return t.claim.Entries[0] }
func (t *turn) last() inbox.Entry  { return t.claim.Entries[len(t.claim.Entries)-1] }

// run runs the turn and recovers from panics: the user gets a failure message, and the
// daemon continues.
func (t *turn) run(ctx context.Context) {
	defer func() {
		if p := recover(); p != nil {
			t.log.Error("panic in a turn", zap.Any("panic", p), zap.ByteString("stack", debug.Stack()))
			t.fail(ctx, fmt.Errorf("panic: %v", p))
		}
	}()
	switch e := t.first(); {
	case e.IsGuilty():
		t.quarantine(ctx)
	case e.Exclusive:
		t.runCommand(ctx)
	case t.claim.Crashed && t.isSuspended(ctx):
		t.endTooOld(ctx, failure.Suspended)
	case t.claim.Crashed && time.Since(e.Accepted) > t.runner.opts.Freshness:
		t.endTooOld(ctx, failure.Interrupted)
	case t.runner.opts.Backlog > 0 && t.runner.messageAge(e) > t.runner.opts.Backlog && !t.claim.Crashed:
		t.endTooOld(ctx, failure.TooOld)
	case e.Occurrence != nil && t.runner.opts.Scheduled != nil:
		t.runScheduled(ctx)
	default:
		t.runAgent(ctx)
	}
}

// messageAge returns the age of a message by the clock of its platform.
func (r *Runner) messageAge(e inbox.Entry) time.Duration {
	age := time.Since(e.Inbound.SentAt)
	if e.Occurrence == nil {
		age -= r.opts.Accounts.ClockAhead(e.Inbound.Address.AccountID())
	}
	return age
}

// maxConsecutiveCrashes is the number of consecutive crashes during turns of a session
// after which an interrupted turn of it is not resumed.
const maxConsecutiveCrashes = 3

// isSuspended reports whether so many consecutive crashes happened during turns of the
// session that the turn must not be resumed.
func (t *turn) isSuspended(ctx context.Context) bool {
	rec, ok, err := t.runner.opts.Store.Session(ctx, t.first().Session)
	return err == nil && ok && rec.Crashes >= maxConsecutiveCrashes
}

// A step is the stored form of one step of a turn. The first one contains the input of
// the turn, so that a resumed turn uses the same input.
type step struct {
	Input json.RawMessage `json:"in,omitempty"`
	Agent agent.Step      `json:"a"`
	// LastSeen is the newest entry that the model had received by then.
	LastSeen inbox.ID `json:"t,omitempty"`
	// Calls are the ledger records of model calls since the previous step.
	Calls []json.RawMessage `json:"c,omitempty"`
	// Session is the session of the turn; only in the first step.
	Session session.ID `json:"s,omitempty"`
	// Engine is the state of the context engine, if it has changed.
	Engine json.RawMessage `json:"e,omitempty"`
}
