package memory_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"

	"hermesd/agent/memory/provider"
	"hermesd/gateway/access"
	"hermesd/gateway/memory"
	"hermesd/gateway/session"
	"hermesd/gateway/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A fake is a provider that does what a test says. Fields are set before the service
// starts or with locked.
type fake struct {
	mu       sync.Mutex
	about    provider.About
	recall   func(ctx context.Context, s provider.Scope, query string) ([]provider.Item, error)
	sync     func(ctx context.Context, e provider.Event) (provider.Receipt, error)
	synced   func(e provider.Event, r provider.Receipt) (bool, error)
	standing func(s provider.Scope) (string, error)
	call     func(s provider.Scope, tool string, input json.RawMessage) (string, error)
	check    error
	health   provider.Health

	record
	began   time.Time
	running int
	most    int
	closed  bool
}

// A record is what a fake was asked.
type record struct {
	queries []string
	scopes  []provider.Scope // of recalls, standing texts and tools
	told    []provider.Event // each call of Sync
	at      []time.Duration  // of these calls, since began
	asked   []time.Duration  // calls of Synced
}

// got returns what the fake was asked so far.
func (f *fake) got() record {
	f.mu.Lock()
	defer f.mu.Unlock()
	r := f.record
	return record{slices.Clone(r.queries), slices.Clone(r.scopes), slices.Clone(r.told), slices.Clone(r.at), slices.Clone(r.asked)}
}

func newFake() *fake {
	return &fake{about: provider.About{Name: "fake", Label: "Fake", Header: "There is a long-term memory.", Mode: "test", Place: "here", Owner: "hermes", Exact: true}, began: time.Now()}
}

func (f *fake) locked(do func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	do()
}

func (f *fake) About() provider.About                          { return f.about }
func (f *fake) Check(context.Context) (provider.Health, error) { return f.health, f.check }

func (f *fake) Standing(_ context.Context, s provider.Scope) (text string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.scopes = append(f.scopes, s)
	if f.standing == nil {
		return "", nil
	}
	return f.standing(s)
}

func (f *fake) Recall(ctx context.Context, s provider.Scope, query string) ([]provider.Item, error) {
	f.mu.Lock()
	f.queries, f.scopes = append(f.queries, query), append(f.scopes, s)
	do := f.recall
	f.mu.Unlock()
	if do == nil {
		return nil, nil
	}
	return do(ctx, s, query)
}

func (f *fake) Sync(ctx context.Context, e provider.Event) (provider.Receipt, error) {
	f.mu.Lock()
	f.told, f.at = append(f.told, e), append(f.at, time.Since(f.began))
	f.running++
	f.most = max(f.most, f.running)
	do := f.sync
	f.mu.Unlock()
	defer f.locked(func() { f.running-- })
	if do == nil {
		return provider.Receipt{}, nil
	}
	return do(ctx, e)
}

func (f *fake) Synced(_ context.Context, e provider.Event, r provider.Receipt) (bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked = append(f.asked, time.Since(f.began))
	if f.synced == nil {
		return false, provider.ErrUnknown
	}
	return f.synced(e, r)
}

func (f *fake) Call(_ context.Context, s provider.Scope, tool string, input json.RawMessage) (string, error) {
	f.mu.Lock()
	f.scopes = append(f.scopes, s)
	f.mu.Unlock()
	return f.call(s, tool, input)
}

func (f *fake) Close() error {
	f.locked(func() { f.closed = true })
	return nil
}

func (f *fake) isClosed() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.closed
}

// texts returns the first text of each event that was told, or its kind.
func (f *fake) texts() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	list := []string{}
	for _, e := range f.told {
		switch {
		case len(e.Messages) > 0:
			list = append(list, e.Messages[0].Text)
		case e.Fact.Text != "":
			list = append(list, string(e.Kind)+" "+e.Fact.Text+e.Fact.ID)
		default:
			list = append(list, string(e.Kind))
		}
	}
	return list
}

// A queue is a store in memory.
type queue struct {
	mu     sync.Mutex
	id     uint64
	rows   []store.QueuedEvent
	values map[string][]byte
	reads  int   // calls of NextEvents
	writes int   // calls of SetValue
	bytes  int64 // that EventCounts adds
	fail   error // of SettleEvent
	// settled are the times of the calls of SettleEvent.
	settled []time.Time
}

// all returns all rows.
func (q *queue) all() []store.QueuedEvent {
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.Clone(q.rows)
}

// count returns one of the counters.
func (q *queue) count(n *int) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return *n
}

func newQueue() *queue { return &queue{values: map[string][]byte{}} }

func (q *queue) Value(_ context.Context, key string) ([]byte, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.values[key], nil
}

func (q *queue) SetValue(_ context.Context, key string, v []byte) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.values[key] = v
	q.writes++
	return nil
}

func (q *queue) EditValue(_ context.Context, key string, change func([]byte) ([]byte, error)) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	v, err := change(q.values[key])
	if err == nil {
		q.values[key] = v
	}
	return err
}

func (q *queue) EnqueueEvents(_ context.Context, events []store.Event, key string, value []byte) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if key != "" {
		q.values[key] = value
	}
	for _, e := range events {
		q.rows = slices.DeleteFunc(q.rows, func(r store.QueuedEvent) bool { return r.Key == e.Key })
		first := slices.IndexFunc(q.rows, func(r store.QueuedEvent) bool { return r.Group == e.Group && r.Aside == "" })
		if e.Reschedules && first >= 0 && q.rows[first].Tries == 0 && q.rows[first].Due.After(time.Now()) {
			q.rows[first].Due, q.rows[first].Added = e.Due, time.Now()
		}
		q.id++
		q.rows = append(q.rows, store.QueuedEvent{Event: e, ID: q.id, Added: time.Now()})
	}
	return nil
}

func (q *queue) NextEvents(ctx context.Context, _ string, n int, except ...uint64) (due []store.QueuedEvent, next time.Time, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.reads++
	groups := map[string]bool{}
	for _, r := range q.rows {
		if groups[r.Group] || r.Aside != "" {
			continue
		}
		groups[r.Group] = true
		if slices.Contains(except, r.ID) {
			continue
		}
		if !r.Due.After(time.Now()) && len(due) < n {
			due = append(due, r)
		} else if next.IsZero() || r.Due.Before(next) {
			if next = r.Due; next.IsZero() {
				next = time.Now().Add(-1)
			}
		}
	}
	slices.SortStableFunc(due, func(a, b store.QueuedEvent) int { return a.Due.Compare(b.Due) })
	return due, next, ctx.Err()
}

func (q *queue) SettleEvent(_ context.Context, s store.EventSettlement) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.settled = append(q.settled, time.Now())
	i := slices.IndexFunc(q.rows, func(r store.QueuedEvent) bool { return r.ID == s.ID })
	if q.fail != nil || i < 0 {
		return q.fail
	}
	if s.Key != "" {
		q.values[s.Key] = s.Value
	}
	r := &q.rows[i]
	r.Tries++
	if s.Doc != nil {
		r.Doc = s.Doc
	}
	r.Aside, r.Due = s.Aside, s.Due
	if s.Accepted {
		r.Group = store.AcceptedGroup(r.Group)
	}
	if s.Done {
		q.rows = slices.Delete(q.rows, i, i+1)
	}
	q.rows = slices.DeleteFunc(q.rows, func(r store.QueuedEvent) bool { return slices.Contains(s.Merged, r.ID) })
	return nil
}

func (q *queue) QueuedEvents(_ context.Context, _ string, groups ...string) ([]store.QueuedEvent, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(q.rows), func(r store.QueuedEvent) bool {
		return len(groups) > 0 && (r.Aside != "" || !slices.Contains(groups, r.Group))
	}), nil
}

func (q *queue) LastEvent(context.Context, string) (last uint64, _ error) {
	for _, r := range q.all() {
		last = max(last, r.ID)
	}
	return last, nil
}

func (q *queue) RetryEvents(_ context.Context, _ string, ids ...uint64) (n int, _ error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i := range q.rows {
		if len(ids) == 0 || slices.Contains(ids, q.rows[i].ID) {
			q.rows[i].Aside, q.rows[i].Due = "", time.Time{}
			n++
		}
	}
	return n, nil
}

func (q *queue) DropEvents(_ context.Context, _ string, ids ...uint64) (int, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	before := len(q.rows)
	q.rows = slices.DeleteFunc(q.rows, func(r store.QueuedEvent) bool { return len(ids) == 0 || slices.Contains(ids, r.ID) })
	return before - len(q.rows), nil
}

func (q *queue) EventCounts(string) (c store.EventCounts) {
	q.mu.Lock()
	defer q.mu.Unlock()
	c.Bytes = q.bytes
	for _, r := range q.rows {
		if r.Aside != "" {
			c.Aside++
			continue
		}
		if c.Waiting++; c.Oldest.IsZero() {
			c.Oldest = r.Added
		}
		c.Bytes += int64(len(r.Doc))
	}
	return c
}

// A bench is a service with its provider and its store.
type bench struct {
	*memory.Service
	t       *testing.T
	f       *fake
	store   *queue
	mu      sync.Mutex
	notices []string
	calls   []memory.Call
}

func settings() memory.Settings {
	return memory.Settings{RecallWait: 800 * time.Millisecond, MaxChars: 10000, People: "owners", Sync: true, Mirror: true, QueueMax: 20000, Owners: func() []access.Principal { return nil }}
}

// open returns a running service. It is closed at the end of the test.
func open(t *testing.T, f *fake, q *queue, set memory.Settings) *bench {
	b := &bench{t: t, f: f, store: q}
	p := b.parts(set)
	p.Provider, p.Store = f, q
	b.Service = memory.New(p)
	b.Start(t.Context())
	t.Cleanup(b.Close)
	return b
}

// parts returns the parts of b without provider and store.
func (b *bench) parts(set memory.Settings) memory.Parts {
	return memory.Parts{
		Settings: set, Log: zaptest.NewLogger(b.t),
		Mask: func(text string) string { return text },
		Observe: func(c memory.Call) {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.calls = append(b.calls, c)
		},
		Notify: func(_ context.Context, notice error) {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.notices = append(b.notices, notice.Error())
		},
	}
}

func (b *bench) told() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.notices)
}

// count returns how many calls of a kind had a result.
func (b *bench) count(kind, result string) (n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range b.calls {
		if c.Kind == kind && c.Result == result {
			n++
		}
	}
	return n
}

// commit adds events as a commit would.
func (b *bench) commit(events []store.Event) {
	b.t.Helper()
	if err := b.store.EnqueueEvents(b.t.Context(), events, "", nil); err != nil {
		b.t.Fatal(err)
	}
	b.Wake()
}

// say commits a turn of a session.
func (b *bench) say(id session.ID, text string) {
	b.t.Helper()
	b.commit(b.TurnEvents(owner(id, 1, text), string(id)+text, text, "yes: "+text, time.Now()))
}

// begin is the beginning of a turn whose preparation takes no time. It returns the block,
// and for how long the turn waited.
func (b *bench) begin(t memory.Turn) (string, time.Duration) {
	r := b.Recall(t)
	synctest.Wait()
	began := time.Now()
	block := r.Await(b.t.Context())
	took := time.Since(began)
	if again := r.Await(b.t.Context()); again != block {
		b.t.Errorf("the block changes from %q to %q", block, again)
	}
	return block, took
}

// owner is a turn of an owner in a direct chat, after turns other turns of the session.
func owner(id session.ID, turns int, text string) memory.Turn {
	return memory.Turn{
		Record: session.Record{ID: id, Turns: turns}, Level: access.Owner, Platform: "telegram", Chat: "7", Key: "agent-main-telegram-dm-7", UserID: "7", Text: text,
	}
}

func items(texts ...string) []provider.Item {
	var list []provider.Item
	for i, text := range texts {
		list = append(list, provider.Item{ID: fmt.Sprint(i), Text: text})
	}
	return list
}

// pause ends after d, or with ctx.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return &provider.Error{Class: provider.Down, Text: "timeout", Sent: true, Err: ctx.Err()}
	}
}

func later(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// silent returns a Service of p that reports nothing, and masks nothing without a Mask.
func silent(p memory.Parts) *memory.Service {
	if p.Mask == nil {
		p.Mask = func(text string) string { return text }
	}
	p.Log, p.Observe, p.Notify = zap.NewNop(), func(memory.Call) {}, func(context.Context, error) {}
	return memory.New(p)
}
