package schedule_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap"

	"hermesd/gateway/gatewaytest"
	"hermesd/gateway/schedule"
	"hermesd/storage/bolt"
)

// home is a jobs file to import, written when the bubble started.
const home = `{"jobs": [
 {"id": "a1b2c3d4e5f6", "name": "Morning  news", "prompt": "News?", "skills": ["news"], "skill": "news", "schedule": {"kind": "cron", "expr": "0 9 * * 1-5", "display": "0 9 * * 1-5"},
  "repeat": {"times": null, "completed": 7}, "enabled": true, "state": "scheduled", "created_at": "1999-12-01T10:00:00.123456+01:00", "deliver": "origin",
  "origin": {"platform": "telegram", "chat_id": 4711, "chat_name": "Anna", "thread_id": null}, "model": null, "script": null, "no_agent": false},
 {"id": "bbbbbbbbbbbb", "prompt": "Check the disk", "schedule": {"kind": "interval", "minutes": 90, "display": "every 90m"}, "next_run_at": "2000-01-01T00:20:00+00:00", "deliver": "origin", "enabled_toolsets": ["web"]},
 {"id": "cccccccccccc", "prompt": "Party", "schedule": {"kind": "once", "run_at": "2000-06-01T20:00:00.5+02:00"}, "repeat": {"times": 1, "completed": 0}, "deliver": ["telegram:5", "local"]},
 {"id": "dddddddddddd", "prompt": "Past", "schedule": {"kind": "once", "run_at": "1999-06-01T20:00:00"}, "state": "completed"},
 {"id": "eeeeeeeeeeee", "prompt": "Paused", "schedule": "every day at 9am", "enabled": false, "script": "/home/anna/.hermes/scripts/disk.sh"},
 {"id": "../etc", "prompt": "x", "schedule": "every 1h"},
 {"id": "ffffffffffff", "prompt": "x", "schedule": {"kind": "interval", "minutes": 0}},
 {"id": "gggggggggggg", "prompt": "x", "schedule": "every 1h", "script": "../../evil.sh"},
 {"id": "hhhhhhhhhhhh", "prompt": "x", "schedule": "every 1h", "deliver": "matrix:!x"},
 {"prompt": "no id", "schedule": "every 1h"},
 "not a job", null
], "updated_at": "2000-01-01T00:00:00+00:00"}`

func TestImportOnce(t *testing.T) {
	inBubble(t, func(d *daemon) {
		ctx := d.t.Context()
		done, err := d.book.Import(ctx, []byte("\xef\xbb\xbf"+home))
		ok(d.t, err)
		var got []string
		for _, v := range done.Added {
			next := "never"
			if len(v.Next) > 0 {
				next = v.Next[0].Format("01-02 15:04")
			}
			got = append(got, fmt.Sprintf("%s %s %s %s %v %s", v.ID, v.Name, v.Status, next, v.Deliver, v.Script))
		}
		want := []string{
			"a1b2c3d4e5f6 Morning news scheduled 01-03 09:00 [origin] ",
			"bbbbbbbbbbbb Check the disk scheduled 01-01 00:20 [local] ",
			"cccccccccccc Party scheduled 06-01 18:00 [telegram:5 local] ",
			"eeeeeeeeeeee Paused paused never [local] disk.sh",
		}
		if diff := cmp.Diff(want, got); diff != "" {
			d.t.Error(diff)
		}
		all := strings.Join(done.Problems, "\n")
		for _, problem := range []string{
			`job "Check the disk" (bbbbbbbbbbbb) is taken without its toolsets`, `("dddddddddddd") is left out: 1999-06-01 20:00 UTC is past`, `the id "../etc" is not valid`,
			`interval of 0 minutes is out of range`, `the script "../../evil.sh" must be a file inside`, `there is no target "matrix:!x"; targets are "origin", "local", a platform (telegram), `, `job 10 ("") is left out: id is missing`, "job 11 is left out", "job 12",
		} {
			if !strings.Contains(all, problem) {
				d.t.Errorf("no problem says %q:\n%s", problem, all)
			}
		}
		_, err = d.book.Remove(ctx, schedule.OperatorCaller(), "cccccccccccc")
		ok(d.t, err)
		done, err = d.book.Import(ctx, []byte(home))
		ok(d.t, err)
		if len(done.Added) != 0 || len(done.Existing) != 4 {
			d.t.Errorf("again: %d added, known %v", len(done.Added), done.Existing)
		}
		if j, _, err := d.store.Job(ctx, "a1b2c3d4e5f6"); err != nil || j.Origin.Chat != "4711" || j.OriginName != "Anna" || j.Skills[0] != "news" || j.Creator != schedule.Operator() {
			d.t.Errorf("got %+v, %v", j, err)
		}
	})
}

func TestImportInvalidFile(t *testing.T) {
	inBubble(t, func(d *daemon) {
		for raw, problems := range map[string]int{"": 0, "{}": 0, `{"jobs":null}`: 0, "[]": 0, "nonsense": 1, `{"jobs":7}`: 1, `{"jobs":{"x":{"id":"x1","prompt":"p","schedule":"every 1h"}}}`: 0, `[{"id":"x1"}]`: 1} {
			done, err := d.book.Import(d.t.Context(), []byte(raw))
			ok(d.t, err)
			if len(done.Problems) != problems {
				d.t.Errorf("%q: %q", raw, done.Problems)
			}
		}
	})
}

// nowhere is a Store that stores nothing.
type nowhere struct{ schedule.Store }

func (nowhere) AddJobs(_ context.Context, jobs []schedule.Job) ([]bool, error) {
	added := make([]bool, len(jobs))
	for i := range added {
		added[i] = true
	}
	return added, nil
}

// FuzzImport checks that every imported job is valid, whatever the file contains.
func FuzzImport(f *testing.F) {
	f.Add([]byte(home))
	f.Add([]byte(`{"jobs":{"x":{"id":"x1","prompt":"p","schedule":{"kind":"interval","minutes":1e300}}}}`))
	f.Add([]byte(`[{"id":"x1","prompt":"p","schedule":{"kind":"once","run_at":"9999-12-31T23:59:59.9Z"},"repeat":-3}]`))
	b := schedule.NewManager(nowhere{}, schedule.NewValidator("Europe/Berlin", telegram()), func(...schedule.JobID) {})
	f.Fuzz(func(t *testing.T, raw []byte) {
		done, err := b.Import(t.Context(), raw)
		ok(t, err)
		for _, v := range done.Added {
			if err := schedule.NewValidator("", telegram()).Validate(v.Job, time.Now()); err != nil {
				t.Errorf("%+v: %v", v.Job, err)
			}
			if v.Active() && len(v.Next) == 0 {
				t.Errorf("%+v is never due", v.Job)
			}
		}
	})
}

// BenchmarkTenThousandJobs measures how long 10,000 jobs due at one instant take until
// each has its record, and how long messages of chats wait to be accepted meanwhile.
func BenchmarkTenThousandJobs(b *testing.B) {
	for range b.N {
		b.StopTimer()
		store, err := bolt.Open(b.Context(), filepath.Join(b.TempDir(), "hermesd.db"), bolt.Options{})
		ok(b, err)
		alone := accepts(b, store, "before", time.After(time.Second))
		jobs := make([]schedule.Job, 10_000)
		at := time.Now().Add(-time.Second).Truncate(time.Second)
		for i := range jobs {
			jobs[i] = schedule.Job{
				ID: schedule.JobID(fmt.Sprintf("%012d", i)), Name: "job", Prompt: strings.Repeat("look ", 40), Deliver: []string{"local"}, Revision: 1,
				Schedule: schedule.Schedule{Kind: schedule.Once, At: at}, State: schedule.JobState{RecordedUntil: at.Add(-time.Second)},
			}
		}
		_, err = store.AddJobs(b.Context(), jobs)
		ok(b, err)
		b.StartTimer()
		done := make(chan time.Time)
		begin := time.Now()
		runner := &counter{store: store, left: len(jobs), done: done}
		s := schedule.NewScheduler(store, runner, schedule.Options{OnNotRun: func([]schedule.Occurrence) {}, Log: zap.NewNop()})
		ctx, cancel := context.WithCancel(b.Context())
		ended := make(chan struct{})
		go func() { s.Run(ctx); close(ended) }()
		importing := accepts(b, store, "importing", done)
		b.ReportMetric(time.Since(begin).Seconds(), "s/10k-slots")
		b.ReportMetric(alone.Seconds()*1e3, "ms-accept-p95-alone")
		b.ReportMetric(importing.Seconds()*1e3, "ms-accept-p95-importing")
		cancel()
		<-ended
		slots, err := store.Occurrences(b.Context(), "", 20_000)
		ok(b, err)
		if len(slots) != len(jobs) {
			b.Fatalf("%d slots, want %d", len(slots), len(jobs))
		}
		ok(b, store.Close())
	}
}

// BenchmarkTenThousandJobs measures the time that this takes.
func TestTenThousandJobsInOneMinute(t *testing.T) {
	dir := gatewaytest.MemoryDir(t)
	synctest.Test(t, func(t *testing.T) {
		store, err := bolt.Open(t.Context(), filepath.Join(dir, "hermesd.db"), bolt.Options{})
		ok(t, err)
		jobs := make([]schedule.Job, 10_000)
		for i := range jobs { // spread over the seconds of a minute
			at := time.Now().Add(time.Minute + time.Duration(i%60)*time.Second)
			jobs[i] = schedule.Job{ID: schedule.JobID(fmt.Sprintf("%012d", i)), Revision: 1, Schedule: schedule.Schedule{Kind: schedule.Once, At: at}}
		}
		_, err = store.AddJobs(t.Context(), jobs)
		ok(t, err)
		done := make(chan time.Time, 1)
		s := schedule.NewScheduler(store, &counter{store: store, left: len(jobs), done: done}, schedule.Options{OnNotRun: func([]schedule.Occurrence) {}, Log: zap.NewNop()})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { s.Run(ctx); close(ended) }()
		<-done
		time.Sleep(time.Hour) // none of them runs again
		cancel()
		<-ended
		slots, err := store.Occurrences(t.Context(), "", 2*len(jobs))
		ok(t, err)
		of := map[schedule.JobID]int{}
		for _, slot := range slots {
			of[slot.Job]++
		}
		if len(slots) != len(jobs) || len(of) != len(jobs) {
			t.Errorf("%d slots of %d jobs", len(slots), len(of))
		}
		ok(t, store.Close())
	})
}

func TestBatchLimitsTransaction(t *testing.T) {
	dir := gatewaytest.MemoryDir(t)
	synctest.Test(t, func(t *testing.T) {
		store, err := bolt.Open(t.Context(), filepath.Join(dir, "hermesd.db"), bolt.Options{})
		ok(t, err)
		at := time.Now().Add(time.Minute)
		jobs := make([]schedule.Job, 1000)
		for i := range jobs {
			jobs[i] = schedule.Job{ID: schedule.JobID(fmt.Sprintf("%012d", i)), Revision: 1, Schedule: schedule.Schedule{Kind: schedule.Once, At: at}}
		}
		_, err = store.AddJobs(t.Context(), jobs)
		ok(t, err)
		before := store.Stats().Commits
		done := make(chan time.Time, 1)
		s := schedule.NewScheduler(store, &counter{store: store, left: len(jobs), done: done}, schedule.Options{OnNotRun: func([]schedule.Occurrence) {}, Log: zap.NewNop()})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { s.Run(ctx); close(ended) }()
		<-done
		if n := store.Stats().Commits - before; n > 110 {
			t.Errorf("%d commits for 1,000 slots", n)
		}
		cancel()
		<-ended
		ok(t, store.Close())
	})
}
