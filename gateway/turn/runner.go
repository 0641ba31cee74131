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
	"hermesd/gateway/chat"
	"hermesd/gateway/command"
	"hermesd/gateway/delivery"
	"hermesd/gateway/inbox"
	"hermesd/gateway/session"
)

// A Mode says what a message does that arrives while a turn runs.
type Mode string

// The modes.
const (
	Interrupt Mode = "interrupt" // the run stops at the next safe point
	Queue     Mode = "queue"     // each message is a turn of its own, in order
	Steer     Mode = "steer"     // the message is given to the run after its next tool result
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
	// Prefix builds the frozen prompt of a new session.
	Prefix func(session.Record) prompt.Prefix
	// Overlay returns what the overlay of one turn says, part by part.
	Overlay func(session.Record, inbox.Entry) []string
	// Fetch downloads an attachment. What went wrong stands in its Problem.
	Fetch func(context.Context, chat.Account, chat.File) chat.File
	// Quote is the reply_to_mode of each account: off, first or all.
	Quote map[chat.Account]string

	Model         string
	Effort        string
	CacheTTL      string
	Vision        bool // images go to the model as images
	Mode          Mode
	Policy        session.Policy
	Reset         session.Reset
	Progress      string // display.tool_progress: off, new, all or verbose
	RestartNotice bool
	EditFirst     bool
	Freshness     time.Duration // of a turn that was cut short
	Backlog       time.Duration // greatest age of a message that is answered
	Inactivity    time.Duration // of a turn, before it is given up
	CacheBytes    int64
	Log           *zap.Logger
}

// A Runner leads claims through their turns. Run may be called for several
// lanes at once, for one lane only once at a time.
type Runner struct {
	o       Options
	cache   *cache
	holding *holds
	sole    sole
	closing chan struct{} // closed by Close
	once    sync.Once

	mu     sync.Mutex // guards what follows
	handed map[inbox.Lane]inbox.Claim
}

// New returns a Runner.
func New(o Options) *Runner {
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	return &Runner{o: o, cache: newCache(o.CacheBytes), holding: newHolds(), sole: sole{busy: make(map[session.ID]chan struct{})}, closing: make(chan struct{}), handed: make(map[inbox.Lane]inbox.Claim)}
}

// Close ends the waiting for a store that refuses commits: what was to be
// committed is left to the next start. It comes before the runs are cancelled.
func (r *Runner) Close() { r.once.Do(func() { close(r.closing) }) }

// An entry is set aside when maxCrashes processes died over it; if each time
// more than fewTurns turns were under way, so that nobody knows whose fault it
// was, only after mostCrashes.
const (
	maxCrashes  = 2
	mostCrashes = 6
	fewTurns    = 3
)

// poisoned reports whether e seems to kill the process.
func poisoned(e inbox.Entry) bool {
	return e.Crashes >= maxCrashes && e.Company <= fewTurns || e.Crashes >= mostCrashes
}

// storeRetry is how long a lane rests after the store refused it.
const storeRetry = time.Second

// Run works on what waits in lane: one claim, one turn. If more is left it
// wakes the lane again, so that others get their turn in between.
func (r *Runner) Run(ctx context.Context, l inbox.Lane) {
	limit := 0
	if r.o.Mode == Queue {
		limit = 1
	}
	c, handed := r.take(l)
	var err error
	if !handed {
		c, err = r.o.Store.Claim(context.WithoutCancel(ctx), l, limit)
	}
	if err != nil {
		r.o.Log.Error("claim", zap.String("lane", string(l)), zap.Error(err))
		time.AfterFunc(storeRetry, func() { r.o.Wake(l) })
		return
	}
	if c.Turn == "" {
		return
	}
	t := &turn{r: r, c: c, log: r.o.Log.With(zap.String("turn", c.Turn), zap.String("session", string(c.Entries[0].Session)))}
	t.run(ctx)
	// What came between the hand-over and this run has woken nobody.
	if c.Waiting > 0 || t.again || handed && r.o.Store.Waiting(l) > 0 {
		r.o.Wake(l)
	}
}

// Hand gives the runner a claim that was made when its entry was accepted. The
// next Run of the lane works on it.
func (r *Runner) Hand(c inbox.Claim) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.handed[c.Lane] = c
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
		if err := r.o.Store.Release(ctx, c); err != nil {
			r.o.Log.Error("release", zap.String("lane", string(c.Lane)), zap.Error(err))
		}
	}
}

// Joined tells a turn of lane that still gathers the pieces of its input that
// one more has come, and reports whether there is such a turn.
func (r *Runner) Joined(l inbox.Lane) bool { return r.holding.poke(l) }

// A turn is one claim on its way to its commit.
type turn struct {
	r       *Runner
	c       inbox.Claim
	log     *zap.Logger
	s       *conversation // nil until loaded
	trace   Trace
	spent   llm.Usage // by the turn's model calls, those of dead runs included once it ends
	heard   inbox.ID  // the newest entry of which the model has heard
	refused bool      // a commit of it was refused for good
	again   bool      // the lane has more to do
}

func (t *turn) first() inbox.Entry { return t.c.Entries[0] }
func (t *turn) last() inbox.Entry  { return t.c.Entries[len(t.c.Entries)-1] }

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
		t.setAside(ctx)
	case e.Solo:
		t.command(ctx)
	case t.c.Crashed && time.Since(e.Accepted) > t.r.o.Freshness:
		t.tooLate(ctx, "I was restarted while I worked on this message, too long ago to go on by myself. Send it again if it still matters.")
	case t.r.o.Backlog > 0 && time.Since(e.In.At) > t.r.o.Backlog && !t.c.Crashed:
		t.tooLate(ctx, "I was away when this message came, and it is too old to answer by myself now. Send it again if it still matters.")
	default:
		t.talk(ctx)
	}
}

// A step is one recorded step of a turn: what the agent recorded, with the
// input of the turn in the first one, so that a resumed turn says the same.
type step struct {
	Input json.RawMessage `json:"in,omitempty"`
	Agent agent.Step      `json:"a"`
	// Through is the newest entry of which the model has heard by then.
	Through inbox.ID `json:"t,omitempty"`
}
