package storagetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"hermesd/gateway/chat"
	"hermesd/gateway/inbox"
	"hermesd/gateway/outbox"
	"hermesd/gateway/schedule"
	"hermesd/gateway/session"
)

// noon is the first slot of the jobs of these tests.
func noon() time.Time { return time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC) }

// hourly is a job that is due at noon and each hour after.
func hourly(id schedule.JobID) schedule.Job {
	before := noon().Add(-time.Hour)
	return schedule.Job{
		ID: id, Name: "job " + string(id), Prompt: "look", Deliver: []string{"local"}, Revision: 1, Created: before,
		Schedule: schedule.Schedule{Kind: schedule.Interval, Text: "every 1h", Every: time.Hour, At: before},
		State:    schedule.JobState{RecordedUntil: before},
	}
}

// firing is the run of j at a slot.
func firing(j schedule.Job, at time.Time) inbox.ScheduledRun {
	id := schedule.OccurrenceID{Job: j.ID, DueAt: at}
	in := schedule.Inbound(j, id)
	k := session.KeyFor("", in.Address, in.Sender.ID, session.KeyPolicy{})
	return inbox.ScheduledRun{Run: schedule.DueRun{Job: j, Occurrence: id}, Entry: inbox.Entry{Lane: inbox.LaneOf(k), Session: k, Inbound: in}}
}

func (w *harness) add(jobs ...schedule.Job) {
	w.Helper()
	added, err := w.AddJobs(w.Context(), jobs)
	w.ok(err)
	for i, ok := range added {
		if !ok {
			w.Fatalf("job %s was not added", jobs[i].ID)
		}
	}
}

func (w *harness) job(id schedule.JobID) schedule.Job {
	w.Helper()
	j, ok, err := w.Job(w.Context(), id)
	w.ok(err)
	if !ok {
		w.Fatalf("there is no job %s", id)
	}
	return j
}

// fire begins the run of a slot and returns the verdict.
func (w *harness) fire(f inbox.ScheduledRun) inbox.ScheduledRunResult {
	w.Helper()
	fired, err := w.StartRuns(w.Context(), []inbox.ScheduledRun{f})
	w.ok(err)
	return fired[0]
}

// slots returns the slots of a job as "12:00 ran ok", newest first.
func (w *harness) slots(id schedule.JobID) []string {
	w.Helper()
	slots, err := w.Occurrences(w.Context(), id, 1000)
	w.ok(err)
	var list []string
	for _, s := range slots {
		text := s.DueAt.UTC().Format("15:04 ") + string(s.State)
		if s.Result != "" {
			text += " " + string(s.Result)
		}
		if s.Reason != "" {
			text += ": " + s.Reason
		}
		list = append(list, text)
	}
	return list
}

// end ends the run that waits in the lane of f.
func (w *harness) end(f inbox.ScheduledRun, m inbox.Commit) {
	w.Helper()
	c, err := w.Claim(w.Context(), f.Entry.Lane, 0)
	w.ok(err)
	if c.Turn == "" {
		w.Fatalf("nothing waits in %s", f.Entry.Lane)
	}
	w.commit(c, m)
}

func slotTests() map[string]func(*harness) {
	return map[string]func(*harness){
		"jobs are kept, changed and removed": jobsAreKept,
		"a slot runs once": func(w *harness) {
			w.add(hourly("a"))
			f := firing(w.job("a"), noon())
			first := w.fire(f)
			equal(w, "verdict", first.Status, schedule.Started)
			equal(w, "again, while it runs", w.fire(f).Status, schedule.JobChanged)
			w.crash()
			equal(w, "after a crash", w.fire(f).Status, schedule.JobChanged)
			equal(w, "slots", w.slots("a"), []string{"12:00 running"})
			equal(w, "running", w.job("a").State.RunningOccurrence, noon())
			w.end(f, replied())
			equal(w, "slots", w.slots("a"), []string{"12:00 ran ok"})
			equal(w, "after its end", w.fire(f).Status, schedule.AlreadyRecorded)
			w.crash()
			equal(w, "after its end and a crash", w.fire(f).Status, schedule.AlreadyRecorded)
			equal(w, "slots", w.slots("a"), []string{"12:00 ran ok"})
			equal(w, "outcome of its entry", w.outcome(first.Acceptance.ID).Result, inbox.Replied)
			equal(w, "runs", w.job("a").State.Runs, 1)
		},
		"a slot is fired by many and runs once": func(w *harness) {
			w.add(hourly("a"))
			f := firing(w.job("a"), noon())
			var wg sync.WaitGroup
			begun := make(chan bool, 20)
			for range 20 {
				wg.Go(func() {
					fired, err := w.StartRuns(context.Background(), []inbox.ScheduledRun{f})
					if err != nil {
						w.Error(err)
						return
					}
					begun <- fired[0].Status == schedule.Started
				})
			}
			wg.Wait()
			close(begun)
			n := 0
			for b := range begun {
				if b {
					n++
				}
			}
			equal(w, "begun", n, 1)
			equal(w, "waiting", w.Waiting(f.Entry.Lane), 1)
		},
		"a slot ends as its entry does": slotsEnd,
		"the end of a slot can say more than its entry": func(w *harness) {
			w.add(hourly("a"))
			f := firing(w.job("a"), noon())
			w.fire(f)
			m := replied()
			m.RunOutcome = &schedule.RunOutcome{Result: schedule.Failed, Reason: "the script failed"}
			w.end(f, m)
			equal(w, "slots", w.slots("a"), []string{"12:00 ran failed: the script failed"})
			j := w.job("a")
			equal(w, "state", []any{j.State.Result, j.State.Reason, j.State.Failures}, []any{schedule.Failed, "the script failed", 1})
		},
		"a run whose answer cannot be delivered has failed": undelivered,
		"a job that has changed is not run as it was": func(w *harness) {
			w.add(hourly("a"))
			f := firing(w.job("a"), noon())
			_, err := w.EditJob(w.Context(), "a", func(j *schedule.Job) error { j.Paused = true; return nil })
			w.ok(err)
			equal(w, "verdict", w.fire(f).Status, schedule.JobChanged)
			f.Run.Job = w.job("a")
			equal(w, "paused", w.fire(f).Status, schedule.JobChanged)
			w.ok(w.RemoveJob(w.Context(), "a"))
			equal(w, "removed", w.fire(f).Status, schedule.JobChanged)
			equal(w, "slots", w.slots("a"), nil)
			equal(w, "waiting", w.Waiting(f.Entry.Lane), 0)
		},
		"slots that do not run are recorded once": func(w *harness) {
			w.add(hourly("a"))
			f := firing(w.job("a"), noon())
			missed := schedule.Occurrence{OccurrenceID: f.Run.Occurrence, State: schedule.Missed, Reason: "down"}
			skipped := schedule.Occurrence{OccurrenceID: schedule.OccurrenceID{Job: "a", DueAt: noon().Add(time.Hour)}, State: schedule.Skipped, Reason: "overlap"}
			w.ok(w.RecordNotRun(w.Context(), []schedule.Occurrence{missed, skipped}))
			missed.Reason = "another reason"
			w.ok(w.RecordNotRun(w.Context(), []schedule.Occurrence{missed}))
			w.ok(w.RecordNotRun(w.Context(), []schedule.Occurrence{{OccurrenceID: schedule.OccurrenceID{Job: "none", DueAt: noon()}, State: schedule.Missed}}))
			w.crash()
			equal(w, "slots", w.slots("a"), []string{"13:00 skipped: overlap", "12:00 missed: down"})
			equal(w, "a skipped slot", w.fire(firing(w.job("a"), noon().Add(time.Hour))).Status, schedule.AlreadyRecorded)
			f.Run.Job = w.job("a")
			equal(w, "a missed slot, of which the clock was wrong", w.fire(f).Status, schedule.Started)
			equal(w, "slots", w.slots("a"), []string{"13:00 skipped: overlap", "12:00 running"})
		},
		"a job that is to run twice runs twice": func(w *harness) {
			j := hourly("a")
			j.Repeat = 2
			w.add(j)
			for i := range 3 {
				f := firing(w.job("a"), noon().Add(time.Duration(i)*time.Hour))
				if v := w.fire(f).Status; (v == schedule.Started) != (i < 2) {
					w.Fatalf("run %d: %s", i+1, v)
				} else if i < 2 {
					w.end(f, replied())
				}
			}
			equal(w, "completed", w.job("a").Status(), "completed")
		},
		"a run that was asked for is beside the schedule": func(w *harness) {
			j := hourly("a")
			j.Repeat, j.Paused = 1, true
			w.add(j)
			at := noon().Add(-17 * time.Minute)
			f := firing(w.job("a"), at)
			f.Run.Manual = true
			equal(w, "nobody asked", w.fire(f).Status, schedule.JobChanged)
			j, err := w.EditJob(w.Context(), "a", func(j *schedule.Job) error { j.State.ManualRunAt = at; return nil })
			w.ok(err)
			f.Run.Job = j
			equal(w, "asked", w.fire(f).Status, schedule.Started)
			w.end(f, replied())
			equal(w, "again", w.fire(f).Status, schedule.JobChanged)
			j = w.job("a")
			equal(w, "state", []any{j.State.Runs, j.State.Done, j.State.ManualRunAt.IsZero(), j.State.RecordedUntil}, []any{0, false, true, noon().Add(-time.Hour)})
			equal(w, "slots", w.slots("a"), []string{"11:43 ran ok"})
		},
		"the oldest slots are forgotten": func(w *harness) {
			w.add(hourly("a"), hourly("b"))
			w.ok(w.RecordNotRun(w.Context(), []schedule.Occurrence{{OccurrenceID: schedule.OccurrenceID{Job: "b", DueAt: noon()}, State: schedule.Missed}}))
			var all []schedule.Occurrence
			for i := range 520 {
				all = append(all, schedule.Occurrence{OccurrenceID: schedule.OccurrenceID{Job: "a", DueAt: noon().Add(time.Duration(i) * time.Hour)}, State: schedule.Missed})
			}
			w.ok(w.RecordNotRun(w.Context(), all))
			slots, err := w.Occurrences(w.Context(), "a", 1000)
			w.ok(err)
			equal(w, "kept", []any{len(slots), slots[0].DueAt, slots[len(slots)-1].DueAt}, []any{500, noon().Add(519 * time.Hour), noon().Add(20 * time.Hour)})
			slots, err = w.Occurrences(w.Context(), "", 1)
			w.ok(err)
			equal(w, "the newest of all", slots[0].OccurrenceID, schedule.OccurrenceID{Job: "a", DueAt: noon().Add(519 * time.Hour)})
			equal(w, "of the other job", w.slots("b"), []string{"12:00 missed"})
		},
	}
}

func jobsAreKept(w *harness) {
	w.add(hourly("b"), hourly("a"))
	added, err := w.AddJobs(w.Context(), []schedule.Job{hourly("a"), hourly("c")})
	w.ok(err)
	equal(w, "added", added, []bool{false, true})
	_, err = w.EditJob(w.Context(), "c", func(j *schedule.Job) error { j.Name = "x"; j.ID = "z"; return nil })
	w.ok(err)
	boom := errors.New("no")
	if _, err := w.EditJob(w.Context(), "a", func(j *schedule.Job) error { j.Name = "x"; return boom }); !errors.Is(err, boom) {
		w.Fatalf("got %v, want %v", err, boom)
	}
	w.ok(w.RemoveJob(w.Context(), "b"))
	w.ok(w.RemoveJob(w.Context(), "b"))
	if err := w.RemoveJob(w.Context(), "none"); !errors.Is(err, schedule.ErrNoJob) {
		w.Fatalf("got %v, want %v", err, schedule.ErrNoJob)
	}
	if _, err := w.EditJob(w.Context(), "b", func(*schedule.Job) error { return nil }); !errors.Is(err, schedule.ErrNoJob) {
		w.Fatalf("got %v, want %v", err, schedule.ErrNoJob)
	}
	w.crash()
	jobs, err := w.Jobs(w.Context())
	w.ok(err)
	var got []string
	for _, j := range jobs {
		got = append(got, fmt.Sprint(j.ID, " ", j.Name, " ", j.Revision))
	}
	equal(w, "jobs", got, []string{"a job a 1", "c x 2"})
	added, err = w.AddJobs(w.Context(), []schedule.Job{hourly("b")})
	w.ok(err)
	equal(w, "a removed job does not come back", added, []bool{false})
	if _, ok, err := w.Job(w.Context(), "b"); ok || err != nil {
		w.Fatalf("b is there (%t), %v", ok, err)
	}
}

func slotsEnd(w *harness) {
	for i, c := range []struct {
		outcome inbox.Outcome
		want    string
	}{
		{inbox.Outcome{Result: inbox.Replied}, "ran ok"},
		{inbox.Outcome{Result: inbox.Silent, Reason: "silent"}, "ran ok"},
		{inbox.Outcome{Result: inbox.Failed, Reason: "no model"}, "ran failed: no model"},
		{inbox.Outcome{Result: inbox.Cancelled, Reason: "/stop"}, "ran failed: cancelled: /stop"},
	} {
		id := schedule.JobID(fmt.Sprint("j", i))
		w.add(hourly(id))
		f := firing(w.job(id), noon())
		w.fire(f)
		w.end(f, inbox.Commit{Outcome: c.outcome})
		equal(w, "slots", w.slots(id), []string{"12:00 " + c.want})
		equal(w, "running", w.job(id).State.RunningOccurrence.IsZero(), true)
	}
	// An entry that another turn cancels ends its slot too.
	w.add(hourly("x"))
	f := firing(w.job("x"), noon())
	w.fire(f)
	w.say("/stop")
	w.commit(w.claim(0, "/stop"), inbox.Commit{
		Outcome: inbox.Outcome{Result: inbox.Replied}, Cancel: []inbox.Lane{f.Entry.Lane}, CancelReason: "the operator",
	})
	equal(w, "slots", w.slots("x"), []string{"12:00 ran failed: cancelled: the operator"})
}

func undelivered(w *harness) {
	w.add(hourly("a"), hourly("b"))
	for _, id := range []schedule.JobID{"a", "b"} {
		f := firing(w.job(id), noon())
		w.fire(f)
		m := replied()
		to := chat.Address{Platform: chat.Telegram, Kind: chat.DM, Chat: string(id)}
		m.Rows = []outbox.Row{message(to, string(id))}
		w.end(f, m)
		r := w.next(to, string(id))
		slots, err := w.Occurrences(w.Context(), id, 1)
		w.ok(err)
		equal(w, "delivery", []any{slots[0].Result, slots[0].Delivery}, []any{schedule.Pending, schedule.Waiting})
		if id == "a" {
			w.settle(sent(r.ID))
		} else {
			w.settle(outbox.Settlement{ID: r.ID, State: outbox.Dead, Reason: "blocked"})
		}
	}
	slots, err := w.Occurrences(w.Context(), "", 10)
	w.ok(err)
	for _, s := range slots {
		if s.Job == "a" {
			equal(w, "a", []any{s.Result, s.Delivery}, []any{schedule.OK, schedule.Delivered})
			continue
		}
		equal(w, "b", []any{s.Result, s.Delivery, s.Reason}, []any{schedule.Failed, schedule.Undelivered, "not delivered to telegram:b: blocked"})
	}
	equal(w, "failures", w.job("b").State.Failures, 1)
}
