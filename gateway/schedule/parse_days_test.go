package schedule_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"hermesd/gateway/schedule"
)

// jumpy gives d a wall clock that can be set. The returned func moves it.
func (d *daemon) jumpy() (put func(time.Duration)) {
	off := time.Duration(0)
	d.o.Clock = func() time.Time {
		d.mu.Lock()
		defer d.mu.Unlock()
		return time.Now().Add(off)
	}
	return func(by time.Duration) {
		d.mu.Lock()
		defer d.mu.Unlock()
		off += by
	}
}

func TestClockSetForwardRecordsMissed(t *testing.T) {
	inBubble(t, func(d *daemon) {
		put := d.jumpy()
		d.start()
		d.create("aa", "every 1h")
		d.wait(90 * time.Minute)
		put(3 * time.Hour)
		d.wait(time.Hour)
		d.want("aa", "1h0m0s ran, 2h0m0s missed nothing ran then, or the clock jumped, 3h0m0s missed nothing ran then, or the clock jumped, 4h0m0s ran, 5h0m0s ran")
	})
}

func TestClockSetBackRunsNothingTwice(t *testing.T) {
	inBubble(t, func(d *daemon) {
		put := d.jumpy()
		d.start()
		d.create("aa", "every 1h")
		d.wait(150 * time.Minute)
		put(-2 * time.Hour)
		d.wait(151 * time.Minute)
		d.want("aa", "1h0m0s ran, 2h0m0s ran, 3h0m0s ran")
	})
}

// TestClockTemporarilyWrongLosesNothing sets the clock ten days forward and back
// again: occurrences that were missed then still run when they are really due.
func TestClockTemporarilyWrongLosesNothing(t *testing.T) {
	inBubble(t, func(d *daemon) {
		put := d.jumpy()
		d.start()
		d.create("aa", "every 24h")
		d.wait(time.Hour)
		put(10 * 24 * time.Hour)
		d.wait(time.Hour)
		put(-10 * 24 * time.Hour)
		d.wait(71 * time.Hour)
		slots, err := d.store.Occurrences(d.t.Context(), "aa", 100)
		ok(d.t, err)
		ran := 0
		for _, s := range slots {
			if s.State == schedule.Ran {
				ran++
			}
		}
		if ran != 4 || len(slots) != 10 { // the newest of the ten, and those of three days
			t.Errorf("%d of %d slots ran: %s", ran, len(slots), d.history("aa"))
		}
	})
}

func TestEndedInFutureIsNoOverlap(t *testing.T) {
	inBubble(t, func(d *daemon) {
		d.create("aa", "every 1h")
		_, err := d.store.EditJob(d.t.Context(), "aa", func(j *schedule.Job) error {
			j.State.Ended = time.Now().Add(1000 * time.Hour)
			return nil
		})
		ok(d.t, err)
		d.start()
		d.wait(121 * time.Minute)
		d.want("aa", "1h0m0s ran, 2h0m0s ran")
	})
}

// TestClockSetAtRandom sets the clock at random: no occurrence has two runs, and once the
// clock is right again every occurrence runs.
func TestClockSetAtRandom(t *testing.T) {
	for seed := range uint64(3) {
		inBubble(t, func(d *daemon) {
			put, r := d.jumpy(), rand.New(rand.NewPCG(seed, 1))
			d.takes = time.Second
			d.start()
			d.create("aa", "every 10m")
			put(1000 * time.Hour) // so that it never shows a time before the job was created
			for range 20 {
				d.wait(time.Duration(r.Int64N(int64(40 * time.Minute))))
				put(time.Duration(r.Int64N(int64(6*time.Hour))) - 3*time.Hour)
			}
			d.wait(4 * time.Hour)
			now := d.o.Clock()
			slots, err := d.store.Occurrences(d.t.Context(), "aa", 1000)
			ok(d.t, err)
			seen, late := map[time.Time]bool{}, 0
			for _, s := range slots {
				if seen[s.DueAt] {
					d.t.Errorf("seed %d: %s has two records", seed, s.DueAt)
				}
				seen[s.DueAt] = true
				if since := now.Sub(s.DueAt); since < 3*time.Hour && since > 0 && s.State == schedule.Ran {
					late++
				}
			}
			if late < 17 {
				d.t.Errorf("seed %d: %d of 18 slots ran after the clock was right", seed, late)
			}
			for id, n := range d.began {
				if n != 1 {
					d.t.Errorf("seed %d: %s was begun %d times", seed, id, n)
				}
			}
		})
	}
}
