package bolt_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	bbolt "go.etcd.io/bbolt"

	"hermesd/gateway/chat"
	"hermesd/gateway/inbox"
	"hermesd/gateway/schedule"
	"hermesd/gateway/store"
	"hermesd/storage/storagetest"
)

func TestMigrationAddsJobs(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, dir)
	runTurn(t, s, "lane", "s1", 0)
	ok(t, s.Close())
	db := must[*bbolt.DB](t)(bbolt.Open(storePath(dir), 0o600, nil))
	ok(t, db.Update(func(tx *bbolt.Tx) error {
		return errors.Join(tx.DeleteBucket([]byte("jobs")), tx.DeleteBucket([]byte("slots")), tx.Bucket([]byte("meta")).Put([]byte("schema"), []byte("2")))
	}))
	ok(t, db.Close())
	s = open(t, dir)
	added := must[[]bool](t)(s.AddJobs(t.Context(), []schedule.Job{{ID: "a"}}))
	if !added[0] {
		t.Error("the job was not added")
	}
	if rows, err := storagetest.Transcript(t.Context(), s, "s1", 0); err != nil || len(rows) == 0 {
		t.Errorf("the transcript has %d rows, %v", len(rows), err)
	}
	ok(t, s.Verify(t.Context()))
	db = must[*bbolt.DB](t)(bbolt.Open(filepath.Join(dir, "hermesd.db.schema2.bak"), 0o600, nil))
	defer func() { ok(t, db.Close()) }()
	if got := schemaOf(t, db); got != "2" {
		t.Errorf("the backup has schema %s, want 2", got)
	}
	if _, err := os.Stat(storePath(dir) + ".schema1.bak"); err == nil {
		t.Error("there is a backup of a schema that the file never had")
	}
}

func TestDamagedRunDoesNotBlockJob(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, dir)
	at := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	j := schedule.Job{ID: "a", Schedule: schedule.Schedule{Kind: schedule.Once, At: at}}
	must[[]bool](t)(s.AddJobs(t.Context(), []schedule.Job{j}))
	id := schedule.OccurrenceID{Job: "a", DueAt: at}
	e := inbox.Entry{Lane: "cron", Inbound: chat.Inbound{IdempotencyKey: id.String(), Text: "the-run", Kind: chat.Message}}
	fired := must[[]store.ScheduledRunResult](t)(s.StartRuns(t.Context(), []store.ScheduledRun{{Run: schedule.DueRun{Job: j, Occurrence: id}, Entry: e}}))
	if fired[0].Status != schedule.Started {
		t.Fatalf("the run is %s", fired[0].Status)
	}
	ok(t, s.Close())
	s, _, err := openBytes(t, flipBits(t, must[[]byte](t)(os.ReadFile(storePath(dir))), "the-run"))
	ok(t, err)
	if c := must[store.Claim](t)(s.Claim(t.Context(), "cron", 0)); c.Turn != "" {
		t.Errorf("the damaged run was claimed: %+v", c)
	}
	occurrences := must[[]schedule.Occurrence](t)(s.Occurrences(t.Context(), "a", 10))
	if len(occurrences) != 1 || occurrences[0].State != schedule.Ran || occurrences[0].Result != schedule.Failed || occurrences[0].Reason != "the stored record is damaged" {
		t.Errorf("occurrences %+v", occurrences)
	}
	if j, _, err := s.Job(t.Context(), "a"); err != nil || !j.State.RunningOccurrence.IsZero() {
		t.Errorf("the job runs since %s, %v", j.State.RunningOccurrence, err)
	}
	ok(t, s.Verify(t.Context()))
}
