package schedule_test

import (
	"context"
	"errors"
	"io"
	"os"
	"sync"
	"testing"
	"time"

	"hermesd/gateway/inbox"
	"hermesd/gateway/schedule"
	"hermesd/gateway/store"
)

var errDead = errors.New("the process is dead")

// A reaper ends a daemon before or after one of its writes, as a kill would: the next
// daemon finds the file as it is then.
type reaper struct {
	port
	path string

	mu    sync.Mutex // held during each write, so that the copy is consistent
	n, at int
	dead  bool
	where string
}

func (r *reaper) pass(name string, write func() error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.point("before " + name) {
		return errDead
	}
	err := write()
	if r.point("after " + name) {
		return errDead
	}
	return err
}

func (r *reaper) point(name string) bool {
	if r.dead {
		return true
	}
	if r.n++; r.n != r.at {
		return false
	}
	r.dead, r.where = true, name
	from, err := os.Open(r.path)
	if err != nil {
		panic(err)
	}
	defer from.Close()
	to, err := os.Create(r.path + ".left")
	if err != nil {
		panic(err)
	}
	defer to.Close()
	if _, err := io.Copy(to, from); err != nil {
		panic(err)
	}
	return true
}

func (r *reaper) StartRuns(ctx context.Context, runs []store.ScheduledRun) (f []store.ScheduledRunResult, err error) {
	err = r.pass("fire", func() (err error) { f, err = r.port.StartRuns(ctx, runs); return err })
	return f, err
}

func (r *reaper) RecordNotRun(ctx context.Context, slots []schedule.Occurrence) error {
	return r.pass("decide", func() error { return r.port.RecordNotRun(ctx, slots) })
}

func (r *reaper) EditJob(ctx context.Context, id schedule.JobID, change func(*schedule.Job) error) (j schedule.Job, err error) {
	err = r.pass("edit", func() (err error) { j, err = r.port.EditJob(ctx, id, change); return err })
	return j, err
}

func (r *reaper) Claim(ctx context.Context, l inbox.Lane, most int) (c store.Claim, err error) {
	err = r.pass("claim", func() (err error) { c, err = r.port.Claim(ctx, l, most); return err })
	return c, err
}

func (r *reaper) FinishTurn(ctx context.Context, c store.Claim, m store.Finish) error {
	return r.pass("commit", func() error { return r.port.FinishTurn(ctx, c, m) })
}

// TestOccurrenceKilledAtEachWrite kills the daemon before and after each write of a few
// hours and checks the state after the next one has run: each due occurrence has
// exactly one record, and no run was ended twice.
func TestOccurrenceKilledAtEachWrite(t *testing.T) {
	points := 0
	for at := 1; ; at++ {
		lived := false
		inBubble(t, func(d *daemon) { lived = dieAt(d, at) })
		if lived || t.Failed() {
			break
		}
		points++
	}
	if points < 20 {
		t.Errorf("%d points prove little", points)
	}
	t.Logf("%d deaths", points)
}

// dieAt runs the scenario with a kill at one point, and reports whether the scenario
// ended before that point.
func dieAt(d *daemon, at int) (lived bool) {
	d.takes = 75 * time.Minute // the run of an hourly job overlaps its next occurrence
	d.create("aa", "every 1h")
	d.create("bb", "in 1h")
	d.create("cc", "30 1-3 * * *")
	r := &reaper{port: whole{d.store}, path: d.path, at: at}
	d.port = r
	d.start()
	d.wait(3*time.Hour + 30*time.Second)
	d.stop()
	ok(d.t, d.store.Close())
	if lived = !r.dead; r.dead {
		ok(d.t, os.Rename(d.path+".left", d.path))
	}
	dead := time.Now()
	<-time.After(2 * time.Minute)
	d.open()
	d.start()
	d.wait(4 * time.Hour) // all started runs end
	slots, err := d.store.Occurrences(context.Background(), "", 1000)
	ok(d.t, err)
	records := map[schedule.OccurrenceID]int{}
	for _, s := range slots {
		records[s.OccurrenceID]++
		if s.Count > 0 {
			d.t.Errorf("died %s: a record for %d slots", r.where, s.Count)
		}
		if begun := d.began[s.String()]; s.State == schedule.Ran && begun == 0 || begun > 2 {
			d.t.Errorf("died %s: %s is %s and was begun %d times", r.where, s.OccurrenceID, s.State, begun)
		}
	}
	start := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	due := map[schedule.JobID][]time.Duration{"bb": {time.Hour}, "cc": {90 * time.Minute, 150 * time.Minute, 210 * time.Minute}}
	for h := time.Hour; start.Add(h).Before(time.Now()); h += time.Hour {
		due["aa"] = append(due["aa"], h)
	}
	n := 0
	for id, list := range due {
		for _, h := range list {
			n++
			if got := records[schedule.OccurrenceID{Job: id, DueAt: start.Add(h)}]; got != 1 {
				d.t.Errorf("died %s at %s: the slot of %s at %s has %d records", r.where, dead, id, h, got)
			}
		}
	}
	if len(slots) != n {
		d.t.Errorf("died %s: %d records for %d slots", r.where, len(slots), n)
	}
	return lived
}
