package bolt

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"

	bbolt "go.etcd.io/bbolt"

	"hermesd/gateway/inbox"
	"hermesd/gateway/outbox"
	"hermesd/gateway/session"
	"hermesd/storage"
)

// maxFindings is the maximum number of findings that Verify returns.
const maxFindings = 100

var errMoreFindings = errors.New("more findings omitted")

// Verify reads every record and checks that the records are consistent with
// each other, then checks the pages of the file. The error joins the findings,
// one per record. Reads and writes continue, except during the check of the
// pages, which is short.
func (s *Store) Verify(ctx context.Context) error {
	var found findings
	err := s.view(ctx, "verify", func(r reader) error {
		if err := checkPages(s.path, s.db, r.tx); err != nil {
			return err
		}
		for _, bucket := range r.buckets() {
			if err := found.checkBucket(ctx, r, bucket); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil || len(found.errs) > 0 { // bbolt's own check could panic now
		return errors.Join(append(found.errs, err)...)
	}
	err = s.runExclusive(ctx, "verify", func() error {
		if err := s.ensureOpen(); err != nil {
			return err
		}
		return s.db.View(func(tx *bbolt.Tx) error {
			for err := range tx.Check() {
				found.add("the file", err)
			}
			return nil
		})
	})
	return errors.Join(append(found.errs, err)...)
}

// Inspect reads the store file at path without changing it, also if it cannot be
// opened, and returns what is damaged in its pages, or else in its records. No process
// may have it open.
func Inspect(ctx context.Context, path string) (findings []error) {
	if err := checkPath(path); err != nil {
		return []error{err}
	}
	findings, err := inspectRecords(ctx, path)
	if err != nil {
		findings = append(findings, err)
	}
	return findings
}

func inspectRecords(ctx context.Context, path string) (_ []error, err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	var found findings
	err = recoverPanics(func() (err error) {
		db, err := bbolt.Open(path, 0o600, &bbolt.Options{ReadOnly: true, Timeout: lockTimeout})
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, db.Close()) }()
		return db.View(func(tx *bbolt.Tx) error {
			for _, bucket := range (reader{tx}).buckets() {
				if err := found.checkBucket(ctx, reader{tx}, bucket); err != nil {
					return err
				}
			}
			return nil
		})
	})
	return found.errs, err
}

// buckets returns the buckets that must be there.
func (r reader) buckets() []string {
	list := buckets()
	if r.bucket(bEvents) != nil || r.bucket(bEventIndex) != nil {
		list = append(list, eventBuckets()...)
	}
	return list
}

// findings collects the problems that Verify finds.
type findings struct{ errs []error }

func (f *findings) add(record string, err error) {
	switch {
	case err == nil || len(f.errs) > maxFindings:
	case len(f.errs) == maxFindings:
		f.errs = append(f.errs, errMoreFindings)
	case isDamage(err):
		f.errs = append(f.errs, err)
	default:
		f.errs = append(f.errs, &storage.DamageError{Record: record, Err: err})
	}
}

func (f *findings) checkBucket(ctx context.Context, r reader, bucket string) error {
	b := r.bucket(bucket)
	if b == nil {
		f.add("the file", fmt.Errorf("bucket %s is missing", bucket))
		return nil
	}
	n := 0
	for k, v := range r.scan(bucket, nil) {
		if n++; n%1000 == 0 && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if bucket == bMeta && string(k) == keySchema {
			continue
		}
		content, err := checkChecksum(bucket, k, v)
		if err == nil {
			err = r.checkRecord(bucket, k, content)
		}
		f.add(recordName(bucket, k), err)
	}
	return nil
}

// checkRecord checks a record against the records that refer to it.
func (r reader) checkRecord(bucket string, k, content []byte) error {
	switch bucket {
	case bEntries:
		return r.checkEntry(k, content)
	case bLanes:
		return r.checkLanePosition(k, content)
	case bRows:
		return r.checkRow(k, content)
	case bQueues:
		return r.checkQueue(k)
	case bSessions:
		return r.checkSession(k, content)
	case bCurrent:
		_, ok, err := r.session(session.ID(content))
		return missingError(err, ok, "session "+string(content))
	case bTurns:
		var t turnRecord
		return decode(bucket, k, content, &t)
	case bSteps:
		return r.checkStep(k, content)
	case bJobs:
		return r.checkJob(k, content)
	case bOccurrences:
		return r.checkOccurrence(k, content)
	case bEvents:
		return r.checkEvent(k)
	case bEventIndex:
		return r.checkEventIndex(k, content)
	case bTranscripts, bPrompts, bCalls, bEngines:
		if !json.Valid(content) {
			return errors.New("not valid JSON")
		}
	}
	return nil
}

func (r reader) checkStep(k, content []byte) error {
	if len(k) < 5 || !json.Valid(content) {
		return errors.New("not a step")
	}
	t, ok, err := r.turn(string(k[:len(k)-5]))
	if err := missingError(err, ok, "turn of the step"); err != nil {
		return err
	}
	if n := binary.BigEndian.Uint32(k[len(k)-4:]); !t.Ended.IsZero() || int(n) >= t.Steps {
		return errors.New("step is not part of its turn")
	}
	return nil
}

func missingError(err error, ok bool, what string) error {
	if err == nil && !ok {
		return fmt.Errorf("%s is missing", what)
	}
	return err
}

func (r reader) checkEntry(k, content []byte) error {
	var e inbox.Entry
	if err := decode(bEntries, k, content, &e); err != nil {
		return err
	}
	v := r.bucket(bLanes).Get(laneKey(e.Lane, e.ID))
	switch {
	case e.State == inbox.Done && (v != nil || e.Outcome == nil):
		return errors.New("entry is done but has a lane position or no outcome")
	case e.State != inbox.Done && v == nil:
		return errors.New("entry is not done but has no lane position")
	}
	return nil
}

func (r reader) checkLanePosition(k, content []byte) error {
	l, id, err := parseLaneKey(k)
	if err != nil || len(content) == 0 {
		return errors.Join(err, errLanePosition)
	}
	e, ok, err := r.entry(id)
	if err := missingError(err, ok, "entry "+id.String()); err != nil {
		return err
	}
	if e.Lane != l || (e.State == inbox.Claimed) != (content[0] == 'c') || e.Turn != string(content[1:]) {
		return fmt.Errorf("mismatch with entry %s", id)
	}
	return nil
}

func (r reader) checkRow(k, content []byte) error {
	var row outbox.Row
	if err := decode(bRows, k, content, &row); err != nil {
		return err
	}
	queued := r.bucket(bQueues).Get(queueKey(row.Msg.To, uint64(row.ID))) != nil
	dead := r.bucket(bDead).Get(k) != nil
	if queued == row.Terminal() || dead != row.DeadLetter() {
		return fmt.Errorf("row is %s, which contradicts its queue or the list of dead letters", row.State)
	}
	return nil
}

func (r reader) checkQueue(k []byte) error {
	a, id, err := parseQueueKey(k)
	if err != nil {
		return err
	}
	row, ok, err := r.row(outbox.ID(id))
	if err := missingError(err, ok, fmt.Sprintf("row o%d", id)); err != nil {
		return err
	}
	if row.Msg.To != a {
		return fmt.Errorf("row o%d is addressed to %s", id, row.Msg.To)
	}
	return nil
}

func (r reader) checkSession(k, content []byte) error {
	var rec sessionRecord
	if err := decode(bSessions, k, content, &rec); err != nil {
		return err
	}
	if r.bucket(bRecent).Get(recentKey(rec.Record)) == nil {
		return errors.New("session is not in the list of recent ones")
	}
	n := 0
	for range r.scan(bTranscripts, transcriptPrefix(rec.ID)) {
		n++
	}
	if n != rec.Start+rec.Messages {
		return lengthError(rec.ID, n, rec.Start+rec.Messages)
	}
	return nil
}
