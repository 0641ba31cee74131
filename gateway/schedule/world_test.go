package schedule_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"hermesd/gateway/chat"
	"hermesd/gateway/gatewaytest"
	"hermesd/gateway/inbox"
	"hermesd/gateway/schedule"
	"hermesd/gateway/session"
	"hermesd/gateway/store"
	"hermesd/storage/bolt"
)

// A daemon is a Scheduler on a real store with a simulated gateway that accepts runs,
// counts them and ends them after a while.
type daemon struct {
	t     *testing.T
	path  string
	store *bolt.Store
	s     *schedule.Scheduler
	book  *schedule.Manager
	o     schedule.Options
	stop  func()

	takes time.Duration // how long a run takes
	port  port          // what scheduler and gateway write to: the store, or one that simulates a kill

	mu    sync.Mutex // guards the fields below
	began map[string]int
	full  error // the error of Start
	never map[schedule.JobID]string
}

// telegram returns the profiles of the platforms in these tests.
func telegram() chat.Profiles {
	return chat.ProfilesOf(chat.Profile{Platform: chat.Telegram, Unasked: true})
}

// port lists what scheduler and gateway need from the store.
type port interface {
	schedule.Store
	StartRuns(ctx context.Context, runs []store.ScheduledRun) ([]store.ScheduledRunResult, error)
	Claim(ctx context.Context, lane inbox.Lane, most int) (store.Claim, error)
	FinishTurn(ctx context.Context, c store.Claim, m store.Finish) error
	Lanes(ctx context.Context) ([]inbox.Lane, error)
}

// whole adapts a store to port.
type whole struct{ *bolt.Store }

func (w whole) FinishTurn(ctx context.Context, c store.Claim, m store.Finish) error {
	_, err := w.Store.FinishTurn(ctx, c, m)
	return err
}

// inBubble runs f in a synctest bubble with a daemon that is not started yet. The time
// is 2000-01-01 00:00 UTC.
func inBubble(t *testing.T, f func(d *daemon)) {
	dir := gatewaytest.MemoryDir(t)
	synctest.Test(t, func(t *testing.T) {
		d := &daemon{t: t, path: filepath.Join(dir, "hermesd.db"), began: map[string]int{}, takes: 10 * time.Second, stop: func() {}, o: schedule.Options{OnNotRun: func([]schedule.Occurrence) {}, Log: zap.NewNop()}}
		d.open()
		f(d)
		d.stop()
		ok(t, d.store.Verify(context.Background()))
		ok(t, d.store.Close())
	})
}

func (d *daemon) open() {
	d.t.Helper()
	var err error
	d.store, err = bolt.Open(context.Background(), d.path, bolt.Options{Lease: time.Hour})
	ok(d.t, err)
	d.port = whole{d.store}
	d.book = schedule.NewManager(d.store, schedule.NewValidator("", telegram()), func(ids ...schedule.JobID) {
		if d.s != nil {
			d.s.Wake(ids...)
		}
	})
}

// start runs the scheduler and continues interrupted runs.
func (d *daemon) start() {
	d.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	d.s = schedule.NewScheduler(d.port, d, d.o)
	var wg sync.WaitGroup
	wg.Go(func() { d.s.Run(ctx) })
	lanes, err := d.port.Lanes(ctx)
	if !errors.Is(err, errDead) {
		ok(d.t, err)
	}
	for _, l := range lanes {
		wg.Go(func() { d.work(ctx, l) })
	}
	d.mu.Lock()
	d.stop = func() { cancel(); wg.Wait(); d.stop = func() {} }
	d.mu.Unlock()
}

// restart simulates a crash: claimed entries are not ended.
func (d *daemon) restart(down time.Duration) {
	d.t.Helper()
	d.stop()
	ok(d.t, d.store.Close())
	<-time.After(down)
	d.open()
	d.start()
}

// Start accepts runs like the gateway.
func (d *daemon) Start(ctx context.Context, runs []schedule.DueRun) ([]schedule.StartResult, error) {
	d.mu.Lock()
	full, never := d.full, d.never
	d.mu.Unlock()
	if full != nil {
		return nil, full
	}
	fired := make([]schedule.StartResult, len(runs))
	var firings []store.ScheduledRun
	for i, r := range runs {
		if why, no := never[r.Job.ID]; no {
			fired[i] = schedule.StartResult{Status: schedule.NotAllowed, Reason: why}
			continue
		}
		in := schedule.Inbound(r.Job, r.Occurrence)
		k := session.KeyFor("", in.Address, in.Sender.ID, session.KeyPolicy{})
		firings = append(firings, store.ScheduledRun{Run: r, Entry: inbox.Entry{Lane: inbox.LaneOf(k), Session: k, Inbound: in}})
	}
	got, err := d.port.StartRuns(ctx, firings)
	if err != nil {
		return nil, err
	}
	for i := range fired {
		if fired[i].Status != "" {
			continue
		}
		fired[i].Status = got[0].Status
		if got[0].Status == schedule.Started {
			go d.work(ctx, firings[0].Entry.Lane) // ends with ctx; the bubble waits for it
		}
		got, firings = got[1:], firings[1:]
	}
	return fired, nil
}

// work claims the entries of a lane, waits, and commits.
func (d *daemon) work(ctx context.Context, l inbox.Lane) {
	c, err := d.port.Claim(ctx, l, 0)
	if err != nil || c.Turn == "" {
		return
	}
	slot := c.Entries[0].Occurrence
	d.mu.Lock()
	d.began[slot.String()]++
	d.mu.Unlock()
	select {
	case <-ctx.Done():
		return
	case <-time.After(d.takes):
	}
	if d.port.FinishTurn(ctx, c, store.Finish{End: store.End{Outcome: inbox.Outcome{Result: inbox.Replied}}}) == nil {
		d.s.Wake(slot.Job)
	}
}

func (d *daemon) create(id schedule.JobID, text string, change ...func(*schedule.JobPatch)) schedule.JobView {
	d.t.Helper()
	prompt := "look at " + string(id)
	draft := schedule.JobPatch{Schedule: &text, Prompt: &prompt}
	for _, c := range change {
		c(&draft)
	}
	v, err := d.book.Create(context.Background(), schedule.OperatorCaller(), id, draft)
	ok(d.t, err)
	return v
}

// history returns the occurrences of a job, oldest first, with times relative to the
// start of the bubble.
func (d *daemon) history(id schedule.JobID) string {
	d.t.Helper()
	slots, err := d.store.Occurrences(context.Background(), id, 1000)
	ok(d.t, err)
	var list []string
	for _, s := range slices.Backward(slots) {
		text := fmt.Sprint(s.DueAt.Sub(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)), " ", s.State)
		if s.Count > 0 {
			text += fmt.Sprint(" x", s.Count)
		}
		why, _, _ := strings.Cut(s.Reason, ":")
		list = append(list, strings.TrimSpace(text+" "+why))
	}
	return strings.Join(list, ", ")
}

func (d *daemon) want(id schedule.JobID, want string) {
	d.t.Helper()
	if got := d.history(id); got != want {
		d.t.Errorf("history of %s:\n got %s\nwant %s", id, got, want)
	}
}

func (d *daemon) wait(span time.Duration) {
	<-time.After(span)
	synctest.Wait()
}

// counter is a Runner that accepts all runs and closes done after the last one.
type counter struct {
	store *bolt.Store
	left  int
	done  chan time.Time
}

func (c *counter) Start(ctx context.Context, runs []schedule.DueRun) ([]schedule.StartResult, error) {
	firings := make([]store.ScheduledRun, len(runs))
	for i, r := range runs {
		in := schedule.Inbound(r.Job, r.Occurrence)
		firings[i] = store.ScheduledRun{Run: r, Entry: inbox.Entry{Lane: inbox.Lane(in.IdempotencyKey), Inbound: in}}
	}
	got, err := c.store.StartRuns(ctx, firings)
	fired := make([]schedule.StartResult, len(got))
	for i, f := range got {
		if fired[i].Status = f.Status; f.Status == schedule.Started {
			c.left--
		}
	}
	if c.left == 0 {
		close(c.done)
	}
	return fired, err
}

// accepts accepts messages of chats until end and returns the 95th percentile of their
// waiting time.
func accepts(b *testing.B, s *bolt.Store, name string, end <-chan time.Time) time.Duration {
	b.Helper()
	var took []time.Duration
	for i := 0; ; i++ {
		select {
		case <-end:
			slices.Sort(took)
			return took[len(took)*95/100]
		default:
		}
		begin := time.Now()
		in := chat.Inbound{IdempotencyKey: fmt.Sprint(name, i), Kind: chat.Message, Address: chat.Address{Platform: chat.Telegram, Chat: "7"}}
		_, err := s.Accept(b.Context(), []store.Admission{{Entry: inbox.Entry{Lane: inbox.Lane(fmt.Sprint(name, i)), Inbound: in}}})
		ok(b, err)
		took = append(took, time.Since(begin))
	}
}
