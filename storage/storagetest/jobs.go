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
	"hermesd/gateway/store"
)

// noon is the first occurrence of the jobs of these tests.
func noon() time.Time { return time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC) }

// hourlyJob returns a job that is due at noon and every hour after.
func hourlyJob(id schedule.JobID) schedule.Job {
	before := noon().Add(-time.Hour)
	return schedule.Job{
		ID: id, Name: "job " + string(id), Prompt: "look", Deliver: []string{"local"}, Revision: 1, Created: before,
		Schedule: schedule.Schedule{Kind: schedule.Interval, Text: "every 1h", Every: time.Hour, At: before},
		State:    schedule.JobState{RecordedUntil: before},
	}
}

// runAt returns the run of the occurrence of j at a time.
func runAt(j schedule.Job, at time.Time) store.ScheduledRun {
	id := schedule.OccurrenceID{Job: j.ID, DueAt: at}
	in := schedule.Inbound(j, id)
	k := session.KeyFor("", in.Address, in.Sender.ID, session.KeyPolicy{})
	return store.ScheduledRun{Run: schedule.DueRun{Job: j, Occurrence: id}, Entry: inbox.Entry{Lane: inbox.LaneOf(k), Session: k, Inbound: in}}
}

func (w *harness) addJobs(jobs ...schedule.Job) {
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
		w.Fatalf("no job %s", id)
	}
	return j
}

// startRun starts a run and returns the result.
func (w *harness) startRun(f store.ScheduledRun) store.ScheduledRunResult {
	w.Helper()
	results, err := w.StartRuns(w.Context(), []store.ScheduledRun{f})
	w.ok(err)
	return results[0]
}

// occurrences returns the occurrences of a job as "12:00 ran ok", newest first.
func (w *harness) occurrences(id schedule.JobID) []string {
	w.Helper()
	found, err := w.Occurrences(w.Context(), id, 1000)
	w.ok(err)
	var list []string
	for _, s := range found {
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

// endRun ends the run that waits in the lane of f.
func (w *harness) endRun(f store.ScheduledRun, m store.Finish) {
	w.Helper()
	c, err := w.Claim(w.Context(), f.Entry.Lane, 0)
	w.ok(err)
	if c.Turn == "" {
		w.Fatalf("nothing waits in %s", f.Entry.Lane)
	}
	w.finish(c, m)
}

func jobTests() map[string]func(*harness) {
	return map[string]func(*harness){
		"jobs are stored, changed and removed": testJobs,
		"an occurrence runs once": func(w *harness) {
			w.addJobs(hourlyJob("a"))
			f := runAt(w.job("a"), noon())
			first := w.startRun(f)
			equal(w, "status", first.Status, schedule.Started)
			equal(w, "again, while it runs", w.startRun(f).Status, schedule.JobChanged)
			w.crash()
			equal(w, "after a crash", w.startRun(f).Status, schedule.JobChanged)
			equal(w, "occurrences", w.occurrences("a"), []string{"12:00 running"})
			equal(w, "running", w.job("a").State.RunningOccurrence, noon())
			w.endRun(f, replied())
			equal(w, "occurrences", w.occurrences("a"), []string{"12:00 ran ok"})
			equal(w, "after its end", w.startRun(f).Status, schedule.AlreadyRecorded)
			w.crash()
			equal(w, "after its end and a crash", w.startRun(f).Status, schedule.AlreadyRecorded)
			equal(w, "occurrences", w.occurrences("a"), []string{"12:00 ran ok"})
			equal(w, "outcome of its entry", w.outcome(first.Acceptance.ID).Result, inbox.Replied)
			equal(w, "runs", w.job("a").State.Runs, 1)
		},
		"concurrent starts run an occurrence once": func(w *harness) {
			w.addJobs(hourlyJob("a"))
			f := runAt(w.job("a"), noon())
			var wg sync.WaitGroup
			started := make(chan bool, 20)
			for range 20 {
				wg.Go(func() {
					results, err := w.StartRuns(context.Background(), []store.ScheduledRun{f})
					if err != nil {
						w.Error(err)
						return
					}
					started <- results[0].Status == schedule.Started
				})
			}
			wg.Wait()
			close(started)
			n := 0
			for b := range started {
				if b {
					n++
				}
			}
			equal(w, "started", n, 1)
			equal(w, "waiting", w.Waiting(f.Entry.Lane), 1)
		},
		"an occurrence ends like its entry":           testOccurrenceEnd,
		"a run with an undelivered answer has failed": testUndelivered,
		"a run of an older job revision is not started": func(w *harness) {
			w.addJobs(hourlyJob("a"))
			f := runAt(w.job("a"), noon())
			_, err := w.EditJob(w.Context(), "a", func(j *schedule.Job) error { j.Paused = true; return nil })
			w.ok(err)
			equal(w, "status", w.startRun(f).Status, schedule.JobChanged)
			f.Run.Job = w.job("a")
			equal(w, "paused", w.startRun(f).Status, schedule.JobChanged)
			w.ok(w.RemoveJob(w.Context(), "a"))
			equal(w, "removed", w.startRun(f).Status, schedule.JobChanged)
			equal(w, "occurrences", w.occurrences("a"), nil)
			equal(w, "waiting", w.Waiting(f.Entry.Lane), 0)
		},
		"a job that is removed while it runs is kept until the run ends": func(w *harness) {
			w.addJobs(hourlyJob("a"))
			w.ok(w.RecordNotRun(w.Context(), []schedule.Occurrence{{OccurrenceID: schedule.OccurrenceID{Job: "a", DueAt: noon().Add(-time.Hour)}, State: schedule.Missed}}))
			f := runAt(w.job("a"), noon())
			w.startRun(f)
			want := w.job("a")
			w.ok(w.RemoveJob(w.Context(), "a"))
			w.ok(w.RemoveJob(w.Context(), "a"))
			w.crash()
			got := w.job("a")
			equal(w, "removed", got.Removed.IsZero(), false)
			got.Removed = want.Removed
			equal(w, "job", got, want)
			equal(w, "occurrences", w.occurrences("a"), []string{"12:00 running"})
			jobs, err := w.Jobs(w.Context())
			w.ok(err)
			equal(w, "jobs", len(jobs), 0)
			w.endRun(f, replied())
			if _, ok, err := w.Job(w.Context(), "a"); ok || err != nil {
				w.Fatalf("the job is kept (%t), %v", ok, err)
			}
			equal(w, "occurrences", w.occurrences("a"), nil)
			added, err := w.AddJobs(w.Context(), []schedule.Job{hourlyJob("a")})
			w.ok(err)
			equal(w, "added again", added, []bool{false})
		},
		"occurrences that do not run are recorded once": func(w *harness) {
			w.addJobs(hourlyJob("a"))
			f := runAt(w.job("a"), noon())
			missed := schedule.Occurrence{OccurrenceID: f.Run.Occurrence, State: schedule.Missed, Reason: "down"}
			skipped := schedule.Occurrence{OccurrenceID: schedule.OccurrenceID{Job: "a", DueAt: noon().Add(time.Hour)}, State: schedule.Skipped, Reason: "overlap"}
			w.ok(w.RecordNotRun(w.Context(), []schedule.Occurrence{missed, skipped}))
			missed.Reason = "another reason"
			w.ok(w.RecordNotRun(w.Context(), []schedule.Occurrence{missed}))
			w.ok(w.RecordNotRun(w.Context(), []schedule.Occurrence{{OccurrenceID: schedule.OccurrenceID{Job: "none", DueAt: noon()}, State: schedule.Missed}}))
			w.crash()
			equal(w, "occurrences", w.occurrences("a"), []string{"13:00 skipped: overlap", "12:00 missed: down"})
			equal(w, "a skipped occurrence", w.startRun(runAt(w.job("a"), noon().Add(time.Hour))).Status, schedule.AlreadyRecorded)
			f.Run.Job = w.job("a")
			equal(w, "a missed occurrence, recorded with a wrong clock", w.startRun(f).Status, schedule.Started)
			equal(w, "occurrences", w.occurrences("a"), []string{"13:00 skipped: overlap", "12:00 running"})
		},
		"a job with a repeat limit of two runs twice": func(w *harness) {
			j := hourlyJob("a")
			j.Repeat = 2
			w.addJobs(j)
			for i := range 3 {
				f := runAt(w.job("a"), noon().Add(time.Duration(i)*time.Hour))
				if v := w.startRun(f).Status; (v == schedule.Started) != (i < 2) {
					w.Fatalf("run %d: %s", i+1, v)
				} else if i < 2 {
					w.endRun(f, replied())
				}
			}
			equal(w, "completed", w.job("a").Status(), "completed")
		},
		"a manual run does not affect the schedule": func(w *harness) {
			j := hourlyJob("a")
			j.Repeat, j.Paused = 1, true
			w.addJobs(j)
			at := noon().Add(-17 * time.Minute)
			f := runAt(w.job("a"), at)
			f.Run.Manual = true
			equal(w, "not requested", w.startRun(f).Status, schedule.JobChanged)
			j, err := w.EditJob(w.Context(), "a", func(j *schedule.Job) error { j.State.ManualRunAt = at; return nil })
			w.ok(err)
			f.Run.Job = j
			equal(w, "requested", w.startRun(f).Status, schedule.Started)
			w.endRun(f, replied())
			equal(w, "again", w.startRun(f).Status, schedule.JobChanged)
			j = w.job("a")
			equal(w, "state", []any{j.State.Runs, j.State.Done, j.State.ManualRunAt.IsZero(), j.State.RecordedUntil}, []any{0, false, true, noon().Add(-time.Hour)})
			equal(w, "occurrences", w.occurrences("a"), []string{"11:43 ran ok"})
		},
		"the oldest occurrences are deleted": func(w *harness) {
			w.addJobs(hourlyJob("a"), hourlyJob("b"))
			w.ok(w.RecordNotRun(w.Context(), []schedule.Occurrence{{OccurrenceID: schedule.OccurrenceID{Job: "b", DueAt: noon()}, State: schedule.Missed}}))
			var all []schedule.Occurrence
			for i := range 520 {
				all = append(all, schedule.Occurrence{OccurrenceID: schedule.OccurrenceID{Job: "a", DueAt: noon().Add(time.Duration(i) * time.Hour)}, State: schedule.Missed})
			}
			w.ok(w.RecordNotRun(w.Context(), all))
			found, err := w.Occurrences(w.Context(), "a", 1000)
			w.ok(err)
			equal(w, "stored", []any{len(found), found[0].DueAt, found[len(found)-1].DueAt}, []any{500, noon().Add(519 * time.Hour), noon().Add(20 * time.Hour)})
			found, err = w.Occurrences(w.Context(), "", 1)
			w.ok(err)
			equal(w, "the newest of all", found[0].OccurrenceID, schedule.OccurrenceID{Job: "a", DueAt: noon().Add(519 * time.Hour)})
			equal(w, "of the other job", w.occurrences("b"), []string{"12:00 missed"})
		},
	}
}

func testJobs(w *harness) {
	w.addJobs(hourlyJob("b"), hourlyJob("a"))
	added, err := w.AddJobs(w.Context(), []schedule.Job{hourlyJob("a"), hourlyJob("c")})
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
	added, err = w.AddJobs(w.Context(), []schedule.Job{hourlyJob("b")})
	w.ok(err)
	equal(w, "a removed job is not added again", added, []bool{false})
	if _, ok, err := w.Job(w.Context(), "b"); ok || err != nil {
		w.Fatalf("b exists (%t), %v", ok, err)
	}
}

func testOccurrenceEnd(w *harness) {
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
		w.addJobs(hourlyJob(id))
		f := runAt(w.job(id), noon())
		w.startRun(f)
		w.endRun(f, store.Finish{End: store.End{Outcome: c.outcome}})
		equal(w, "occurrences", w.occurrences(id), []string{"12:00 " + c.want})
		equal(w, "running", w.job(id).State.RunningOccurrence.IsZero(), true)
	}
	// An entry that another turn cancels ends its occurrence too.
	w.addJobs(hourlyJob("x"))
	f := runAt(w.job("x"), noon())
	w.startRun(f)
	w.acceptTexts("/stop")
	w.finish(w.claim(0, "/stop"), store.Finish{
		End: store.End{Outcome: inbox.Outcome{Result: inbox.Replied}}, Cancel: []inbox.Lane{f.Entry.Lane}, CancelReason: "the operator",
	})
	equal(w, "occurrences", w.occurrences("x"), []string{"12:00 ran failed: cancelled: the operator"})
}

func testUndelivered(w *harness) {
	w.addJobs(hourlyJob("a"), hourlyJob("b"))
	for _, id := range []schedule.JobID{"a", "b"} {
		f := runAt(w.job(id), noon())
		w.startRun(f)
		m := replied()
		to := chat.Address{Platform: chat.Telegram, Kind: chat.DM, Chat: string(id)}
		m.Rows = []outbox.Row{newRow(to, string(id))}
		w.endRun(f, m)
		r := w.next(to, string(id))
		found, err := w.Occurrences(w.Context(), id, 1)
		w.ok(err)
		equal(w, "delivery", []any{found[0].Result, found[0].Delivery}, []any{schedule.Pending, schedule.Waiting})
		if id == "a" {
			w.settle(sentSettlement(r.ID))
		} else {
			w.settle(outbox.Settlement{ID: r.ID, State: outbox.Dead, Reason: "blocked"})
		}
	}
	found, err := w.Occurrences(w.Context(), "", 10)
	w.ok(err)
	for _, s := range found {
		if s.Job == "a" {
			equal(w, "a", []any{s.Result, s.Delivery}, []any{schedule.OK, schedule.Delivered})
			continue
		}
		equal(w, "b", []any{s.Result, s.Delivery, s.Reason}, []any{schedule.Failed, schedule.Undelivered, "not delivered to telegram:b: blocked"})
	}
	equal(w, "failures", w.job("b").State.Failures, 1)
}
