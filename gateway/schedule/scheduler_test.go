package schedule_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"

	"hermesd/gateway/schedule"
)

func TestOccurrencesRunWhenDue(t *testing.T) {
	inBubble(t, func(d *daemon) {
		d.start()
		d.create("aa", "every 1h")
		d.create("bb", "in 90m")
		d.create("cc", "30 1 * * *")
		d.wait(3*time.Hour + time.Minute)
		d.want("aa", "1h0m0s ran, 2h0m0s ran, 3h0m0s ran")
		d.want("bb", "1h30m0s ran")
		d.want("cc", "1h30m0s ran")
		if j, _, err := d.store.Job(d.t.Context(), "bb"); err != nil || j.Status() != "completed" {
			t.Errorf("a job that runs once is %s, %v", j.Status(), err)
		}
		st := d.s.Status()
		if st.Stalled || st.Error != "" || st.Jobs != 2 || st.NextJob != "aa" || st.Running+st.Waiting != 0 {
			t.Errorf("status %+v", st)
		}
	})
}

func TestCatchUpModes(t *testing.T) {
	for catch, want := range map[schedule.CatchUp]string{
		schedule.CatchOnce: "1h0m0s ran, 2h0m0s missed nothing ran then, or the clock jumped, 3h0m0s missed nothing ran then, or the clock jumped, 4h0m0s ran, 5h0m0s ran",
		schedule.CatchNone: "1h0m0s ran, 2h0m0s missed nothing ran then, or the clock jumped, 3h0m0s missed nothing ran then, or the clock jumped, 4h0m0s missed nothing ran then, or the clock jumped, 5h0m0s ran",
		schedule.CatchAll:  "1h0m0s ran, 2h0m0s ran, 3h0m0s ran, 4h0m0s ran, 5h0m0s ran",
	} {
		t.Run(string(catch), func(t *testing.T) {
			inBubble(t, func(d *daemon) {
				d.o.CatchUp = catch
				d.start()
				d.create("aa", "every 1h")
				d.wait(90 * time.Minute)
				d.restart(3 * time.Hour)
				d.wait(time.Hour)
				d.want("aa", want)
			})
		})
	}
}

func TestOccurrenceWithinGraceRuns(t *testing.T) {
	inBubble(t, func(d *daemon) {
		d.o.CatchUp = schedule.CatchNone
		d.start()
		d.create("aa", "every 1h")
		d.wait(59 * time.Minute)
		d.restart(4 * time.Minute)
		d.wait(time.Minute)
		d.want("aa", "1h0m0s ran")
	})
}

func TestGapRecordCoversOldestOccurrences(t *testing.T) {
	inBubble(t, func(d *daemon) {
		d.start()
		d.create("aa", "every 1m")
		d.wait(30 * time.Second)
		d.restart(10 * time.Hour)
		d.wait(5 * time.Second)
		slots, err := d.store.Occurrences(d.t.Context(), "aa", 1000)
		ok(t, err)
		oldest := slots[len(slots)-1]
		if len(slots) != 101 || oldest.Count != 500 || oldest.State != schedule.Missed || !oldest.Since.Equal(time.Date(2000, 1, 1, 0, 1, 0, 0, time.UTC)) {
			t.Errorf("%d slots, the oldest is %+v", len(slots), oldest)
		}
		if slots[0].State != schedule.Running || slots[1].State != schedule.Missed {
			t.Errorf("the newest are %+v", slots[:2])
		}
		d.wait(time.Minute)
	})
}

func TestOverlapSkipsOccurrence(t *testing.T) {
	inBubble(t, func(d *daemon) {
		d.takes = 150 * time.Minute
		d.start()
		d.create("aa", "every 1h")
		d.wait(5*time.Hour + 59*time.Minute)
		d.want("aa", "1h0m0s ran, 2h0m0s skipped overlap, 3h0m0s skipped overlap, 4h0m0s running, 5h0m0s skipped overlap")
		d.wait(time.Hour)
	})
}

func TestParallelLimitsRuns(t *testing.T) {
	inBubble(t, func(d *daemon) {
		d.o.Parallel, d.takes = 2, time.Minute
		d.start()
		for _, id := range []schedule.JobID{"aa", "bb", "cc", "dd", "ee"} {
			d.create(id, "0 1 * * *")
		}
		d.wait(time.Hour + 30*time.Second)
		if st := d.s.Status(); st.Running != 2 || st.Waiting != 3 {
			t.Errorf("status %+v", st)
		}
		d.wait(5 * time.Minute)
		for _, id := range []schedule.JobID{"aa", "bb", "cc", "dd", "ee"} {
			d.want(id, "1h0m0s ran")
		}
	})
}

func TestRepeatPauseAndManualRun(t *testing.T) {
	inBubble(t, func(d *daemon) {
		ctx, me := d.t.Context(), schedule.OperatorCaller()
		d.start()
		twice := 2
		d.create("aa", "every 1h", func(dr *schedule.JobPatch) { dr.Repeat = &twice })
		d.create("bb", "every 1h")
		d.wait(90 * time.Minute)
		_, err := d.book.Pause(ctx, me, "bb")
		ok(t, err)
		_, err = d.book.Run(ctx, me, "look at bb", "call 1")
		ok(t, err)
		d.wait(time.Minute)
		_, err = d.book.Run(ctx, me, "bb", "call 1") // repeated request
		ok(t, err)
		d.wait(119 * time.Minute)
		_, err = d.book.Resume(ctx, me, "bb")
		ok(t, err)
		d.wait(time.Hour)
		d.want("aa", "1h0m0s ran, 2h0m0s ran")
		d.want("bb", "1h0m0s ran, 1h30m0s ran, 4h0m0s ran")
	})
}

func TestManualRunWaitsForDaemon(t *testing.T) {
	inBubble(t, func(d *daemon) {
		d.create("aa", "every 1d")
		_, err := d.book.Run(d.t.Context(), schedule.OperatorCaller(), "aa", "")
		ok(t, err)
		d.wait(time.Hour)
		d.start()
		d.wait(time.Minute)
		d.want("aa", "0s ran")
	})
}

func TestUpdateDropsOldSchedule(t *testing.T) {
	inBubble(t, func(d *daemon) {
		d.start()
		d.create("aa", "every 1h")
		d.wait(59 * time.Minute)
		text := "every 2h"
		_, err := d.book.Update(d.t.Context(), schedule.OperatorCaller(), "aa", schedule.JobPatch{Schedule: &text})
		ok(t, err)
		d.wait(3 * time.Hour)
		d.want("aa", "2h59m0s ran")
		_, err = d.book.Remove(d.t.Context(), schedule.OperatorCaller(), "aa")
		ok(t, err)
		d.wait(5 * time.Hour)
		d.want("aa", "")
	})
}

func TestRunNotAllowedIsSkippedWithReason(t *testing.T) {
	inBubble(t, func(d *daemon) {
		d.never = map[schedule.JobID]string{"aa": "who made it may not speak here any more"}
		d.start()
		d.create("aa", "every 1h")
		d.create("bb", "every 1h")
		d.wait(61 * time.Minute)
		d.want("aa", "1h0m0s skipped who made it may not speak here any more")
		d.want("bb", "1h0m0s ran")
	})
}

func TestWriteFailureIsRetried(t *testing.T) {
	inBubble(t, func(d *daemon) {
		d.start()
		d.create("aa", "every 1h")
		d.mu.Lock()
		d.full = errors.New("the disk is full")
		d.mu.Unlock()
		d.wait(time.Hour + 2*time.Minute)
		if st := d.s.Status(); !strings.Contains(st.Error, "the disk is full") || st.Stalled || st.Waiting != 1 {
			t.Errorf("status %+v", st)
		}
		d.want("aa", "")
		d.mu.Lock()
		d.full = nil
		d.mu.Unlock()
		d.wait(time.Minute)
		d.want("aa", "1h0m0s ran")
		if st := d.s.Status(); st.Error != "" {
			t.Errorf("status %+v", st)
		}
	})
}

// stuck is a Runner whose Start does not return.
type stuck struct{ until chan struct{} }

func (s stuck) Start(context.Context, []schedule.DueRun) ([]schedule.StartResult, error) {
	<-s.until
	return nil, errors.New("too late")
}

func TestStatusStalledWithinTwoTicks(t *testing.T) {
	inBubble(t, func(d *daemon) {
		s := schedule.NewScheduler(d.store, stuck{make(chan struct{})}, schedule.Options{OnNotRun: func([]schedule.Occurrence) {}, Log: zap.NewNop()})
		if !s.Status().Stalled {
			t.Error("a scheduler that does not run is not stalled")
		}
		until := make(chan struct{})
		s = schedule.NewScheduler(d.store, stuck{until}, schedule.Options{OnNotRun: func([]schedule.Occurrence) {}, Log: zap.NewNop(), Tick: 10 * time.Second})
		ctx, cancel := context.WithCancel(d.t.Context())
		done := make(chan struct{})
		go func() { s.Run(ctx); close(done) }()
		d.create("aa", "in 1h")
		s.Wake()
		d.wait(time.Hour + 5*time.Second)
		if s.Status().Stalled {
			t.Error("it is stalled at once")
		}
		d.wait(20 * time.Second)
		if !s.Status().Stalled {
			t.Error("it is not stalled after two ticks")
		}
		close(until)
		cancel()
		<-done
	})
}

func TestWithoutJobsTheClockIsNotRead(t *testing.T) {
	inBubble(t, func(d *daemon) {
		var reads atomic.Int64
		d.o.Clock = func() time.Time { reads.Add(1); return time.Now() }
		d.start()
		d.wait(time.Minute)
		before := reads.Load()
		d.wait(24 * time.Hour)
		if n := reads.Load() - before; n > 0 {
			t.Errorf("read %d times", n)
		}
		if d.s.Status().Stalled {
			t.Error("a scheduler without jobs is stalled")
		}
		d.create("aa", "in 1h")
		d.wait(2 * time.Hour)
		d.want("aa", "25h1m0s ran")
	})
}

// fickle is a Runner for which every job has changed.
type fickle struct{ calls int }

func (f *fickle) Start(_ context.Context, runs []schedule.DueRun) ([]schedule.StartResult, error) {
	f.calls++
	fired := make([]schedule.StartResult, len(runs))
	for i := range fired {
		fired[i].Status = schedule.JobChanged
	}
	return fired, nil
}

func TestChangedJobRetriedOncePerTick(t *testing.T) {
	inBubble(t, func(d *daemon) {
		f := &fickle{}
		s := schedule.NewScheduler(d.store, f, schedule.Options{OnNotRun: func([]schedule.Occurrence) {}, Log: zap.NewNop(), Tick: 10 * time.Second})
		ctx, cancel := context.WithCancel(d.t.Context())
		done := make(chan struct{})
		go func() { s.Run(ctx); close(done) }()
		d.create("aa", "in 1h")
		s.Wake()
		d.wait(time.Hour + 55*time.Second)
		cancel()
		<-done
		if f.calls < 4 || f.calls > 8 {
			t.Errorf("it was tried %d times in 55 s", f.calls)
		}
	})
}
