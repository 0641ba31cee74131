// Package memory keeps an external memory provider up to date and asks it: it recalls what
// fits a turn before the turn's first model call, and tells the provider what was said
// after the turn was committed.
//
//	turn begins ─► Recall ─► Await ─► text in the overlay
//	turn commits ─► TurnEvents ─► queue in the store ─► worker ─► provider
//
// A provider never makes a turn wait for longer than Settings.RecallWait, and no failure
// of it fails a turn. What is to be told is stored in the commit of the turn, so that it
// is neither lost nor invented. What a provider returns is untrusted: it is scanned, and
// no text of it enters a prompt that fails the scan.
//
// The main type is Service; all its methods may be called from any goroutine.
package memory

import (
	"context"
	"encoding/json"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"hermesd/agent/injection"
	"hermesd/agent/memory/provider"
	"hermesd/gateway/access"
	"hermesd/gateway/store"
)

// Queue is the queue of the store that the events for the provider are in.
const Queue = "memory"

// A Store keeps the events for the provider, and small values.
type Store interface {
	store.Events
	store.Values
}

// Parts are what a Service consists of.
type Parts struct {
	Provider provider.Provider // the Service closes it
	Store    Store
	Settings Settings
	Mask     func(string) string // replaces secrets
	Log      *zap.Logger
	Observe  func(Call)
	// Notify tells an owner something once, without a sound. The notice is an error of
	// i18n.Errorf. It must not wait: a turn waits for it, so that it is part of that turn.
	Notify func(ctx context.Context, notice error)
}

// Settings are those of the section memory of the configuration, and who owners are.
type Settings struct {
	RecallWait time.Duration // of the first model call of a turn, for a recall
	MaxChars   int           // of a recalled block or a result of a tool
	People     string        // whose words are used: owners, members or everyone
	Rooms      bool          // shared conversations have a memory of their own
	CronRecall bool          // scheduled prompts of owners recall
	Sync       bool          // turns are told to the provider
	Mirror     bool          // entries of the built-in memory are told to the provider
	PerUser    bool          // the built-in memory has files for each person
	SyncTools  bool          // with their calls of tools
	QueueMax   int           // events
	// Owners returns who are owners now, with the IDs of each.
	Owners func() []access.Principal
}

// A Call is one call of the provider, or what is counted like one, for metrics.
type Call struct {
	Kind string // recall, standing, sync, synced, tool or check; TurnCall or LeftOut
	// Result is ok, MayRepeat or the class of the error; ready, late, earlier or none for TurnCall;
	// injection or queue_full for LeftOut.
	Result string
	Took   time.Duration
}

// MayRepeat is the result of the question whether the provider has an event that it may have
// got, if it cannot tell: the event is sent, perhaps once more.
const MayRepeat = "may_repeat"

// Kinds of a Call that is none.
const (
	TurnCall = "turn"     // a turn has got what its recall has found until then
	LeftOut  = "left_out" // a text of the provider was not used, or a turn not kept for it
)

// A Service uses one provider. The one that Off returns uses none: its methods do nothing.
type Service struct {
	parts      Parts // without provider and settings
	client     atomic.Pointer[client]
	configured atomic.Pointer[Settings]
	scans      injection.Cache

	unusable error // why there is no provider

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	tasks  sync.WaitGroup
	sends  sync.WaitGroup // events that are being told; counted under mu
	wake   chan struct{}

	started   atomic.Bool
	mirroring sync.Mutex // one comparison at a time

	mu         sync.Mutex
	closed     bool
	breaker    breaker
	recalling  breaker         // of recalls that stand alone
	hold       time.Time       // no event is told before: the key was refused
	health     provider.Health // the last one
	failing    map[string]bool // kinds of calls whose last result was a failure
	noticed    bool            // of this outage an owner was told
	lastOutage struct {
		text string
		at   time.Time
	}
	counted  bool              // earlier is known
	earlier  uint64            // ID of the last event that an earlier process may have sent
	full     bool              // the queue is full, and an owner was told
	refused  bool              // an event was set aside, and an owner was told
	flying   map[string]uint64 // ID of the event of a group that is being told, or settled
	sending  int               // events that are being told
	told     int               // events that were told, and wait to be settled together
	settle   chan struct{}     // is closed when they are
	asked    map[string]bool   // groups whose first event after the start was told
	doubt    map[string]bool   // groups whose last event was told, and that could not be stored
	talks    map[string]*talk  // by session
	standing map[string]int    // recalls of a person since their standing text was fetched
	recalls  int               // that run
	lateRow  int               // recalls in succession that came too late
	stats    stats
}

// Limits of a Service.
const (
	maxInFlight  = 2  // events that are told at the same time
	maxTold      = 16 // events that wait to be settled together
	maxRecalls   = 32 // that run at the same time
	readTimeout  = 30 * time.Second
	writeTimeout = 2 * time.Minute
	closeTimeout = 5 * time.Second
	sendTimeout  = 2 * time.Second       // of Close, for what is being told
	settlePause  = 20 * time.Millisecond // that an event waits to be settled with others
)

// New returns a Service. Start begins its work.
func New(p Parts) *Service {
	s := &Service{
		parts: p, wake: make(chan struct{}, 1),
		failing: map[string]bool{}, flying: map[string]uint64{}, asked: map[string]bool{}, doubt: map[string]bool{},
		talks: map[string]*talk{}, standing: map[string]int{},
	}
	s.client.Store(newClient(p.Provider))
	s.configured.Store(&p.Settings)
	s.parts.Provider, s.parts.Settings = nil, Settings{}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

// Off returns a Service without provider.
func Off() *Service { return Unusable("", nil) }

// Unusable returns a Service like Off for a provider that cannot be used because of err,
// which Status reports.
func Unusable(name string, err error) *Service {
	s := &Service{unusable: err}
	s.client.Store(&client{about: provider.About{Name: name}})
	s.configured.Store(new(Settings))
	return s
}

func (s *Service) off() bool { return s == nil || s.client.Load().provider == nil }

// Start begins to tell the events of the queue, first those that could not be told before,
// and checks the provider once. The work ends with ctx or Close. A second call does
// nothing: two workers would tell events twice.
func (s *Service) Start(ctx context.Context) {
	if s.off() || s.started.Swap(true) {
		return
	}
	stop := context.AfterFunc(ctx, s.cancel)
	s.spawn(func() {
		defer stop()
		s.run()
	})
	s.spawn(s.check)
}

// spawn runs f in a goroutine that Close waits for, unless the Service is closed.
func (s *Service) spawn(f func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.tasks.Go(f)
	return true
}

// Close ends the work within 5 seconds and closes the provider. Events that were not told
// stay in the queue. What is being told may be answered for 2 seconds, because a provider
// that cannot tell whether it has an event would get it twice.
func (s *Service) Close() {
	if s.off() {
		return
	}
	s.mu.Lock()
	again := s.closed
	s.closed = true
	s.settleTold()
	s.mu.Unlock()
	if again {
		return
	}
	s.await(&s.sends, sendTimeout)
	s.cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.tasks.Wait()
		s.close(s.client.Load())
	}()
	select {
	case <-done:
	case <-time.After(closeTimeout - sendTimeout):
		s.parts.Log.Warn("the memory provider does not end", zap.String("provider", s.about().Name))
	}
}

// await waits for g, at most for limit.
func (s *Service) await(g *sync.WaitGroup, limit time.Duration) {
	done := make(chan struct{})
	s.tasks.Go(func() { g.Wait(); close(done) })
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	case <-s.ctx.Done():
	}
}

// Wake says that events were committed.
func (s *Service) Wake() {
	if s.off() {
		return
	}
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Reload asks the provider again after a change of the configuration; see Configure. Calls
// that were held back because of failures are made, the provider is checked, and the events
// of the queue are told now, except those that were added for later: ends of conversations,
// and turns that wait for more.
func (s *Service) Reload() {
	if s.off() {
		return
	}
	s.mu.Lock()
	s.breaker, s.recalling, s.hold, s.refused = breaker{}, breaker{}, time.Time{}, false
	s.mu.Unlock()
	s.retry(func(q store.QueuedEvent) bool { return q.Aside != "" || q.Tries > 0 || !q.Due.After(q.Added) })
	s.spawn(s.check)
	s.Wake()
}

// hasFailed reports whether an event waits because it could not be told.
func hasFailed(q store.QueuedEvent) bool {
	var r row
	return q.Tries > 0 && q.Aside == "" && json.Unmarshal(q.Doc, &r) == nil && r.Fails > 0
}

// retry makes the events due now that match.
func (s *Service) retry(match func(store.QueuedEvent) bool) {
	queued, err := s.parts.Store.QueuedEvents(s.ctx, Queue)
	var ids []uint64
	for _, q := range queued {
		if match(q) {
			ids = append(ids, q.ID)
		}
	}
	if err == nil && len(ids) > 0 { // without IDs it is the whole queue
		_, err = s.parts.Store.RetryEvents(s.ctx, Queue, ids...)
	}
	if err != nil && s.ctx.Err() == nil {
		s.parts.Log.Error("cannot retry events of the memory provider", zap.Error(err))
	}
}
