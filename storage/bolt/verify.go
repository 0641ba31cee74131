package bolt

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"

	bbolt "go.etcd.io/bbolt"

	"hermesd/gateway/inbox"
	"hermesd/gateway/outbox"
	"hermesd/gateway/session"
	"hermesd/storage"
)

// maxFindings is how many findings Verify names.
const maxFindings = 100

var errEnough = errors.New("and more: only the first 100 are named")

// Verify reads every record and checks that they fit each other, then the pages
// of the file. It returns what is wrong, record by record, or nil. Reading and
// writing go on meanwhile, but for the check of the pages, which is short.
func (s *Store) Verify(ctx context.Context) error {
	var found findings
	err := s.view(ctx, "verify", func(r reader) error {
		if err := wellFormed(s.raw, s.db, r.tx, true); err != nil {
			return err
		}
		for _, bucket := range buckets() {
			if err := found.bucket(ctx, r, bucket); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil || len(found.errs) > 0 { // bbolt's own check could panic now
		return errors.Join(append(found.errs, err)...)
	}
	err = s.exclusive(ctx, "verify", func() error {
		if err := s.ready(); err != nil {
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

// findings are what is wrong.
type findings struct{ errs []error }

func (f *findings) add(record string, err error) {
	switch {
	case err == nil || len(f.errs) > maxFindings:
	case len(f.errs) == maxFindings:
		f.errs = append(f.errs, errEnough)
	case isDamage(err):
		f.errs = append(f.errs, err)
	default:
		f.errs = append(f.errs, &storage.DamageError{Record: record, Err: err})
	}
}

func (f *findings) bucket(ctx context.Context, r reader, bucket string) error {
	b := r.bucket(bucket)
	if b == nil {
		f.add("the file", fmt.Errorf("bucket %s is missing", bucket))
		return nil
	}
	c := b.Cursor()
	n := 0
	for k, v := c.First(); k != nil; k, v = c.Next() {
		if n++; n%1000 == 0 && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if bucket == bMeta && string(k) == keySchema {
			continue
		}
		content, err := checkChecksum(bucket, k, v)
		if err == nil {
			err = r.fits(bucket, k, content)
		}
		f.add(recordName(bucket, k), err)
	}
	return nil
}

// fits checks a record against those that belong to it.
func (r reader) fits(bucket string, k, content []byte) error {
	switch bucket {
	case bEntries:
		return r.fitsEntry(k, content)
	case bLanes:
		return r.fitsPlace(k, content)
	case bRows:
		return r.fitsRow(k, content)
	case bQueues:
		return r.fitsQueue(k)
	case bSessions:
		return r.fitsSession(k, content)
	case bCurrent:
		_, ok, err := r.session(session.ID(content))
		return missing(err, ok, "session "+string(content))
	case bTurns:
		var t turnRecord
		return decode(bucket, k, content, &t)
	case bSteps:
		return r.fitsStep(k, content)
	case bJobs:
		return r.fitsJob(k, content)
	case bSlots:
		return r.fitsSlot(k, content)
	case bTranscripts, bPrompts, bCalls, bEngines:
		if !json.Valid(content) {
			return errors.New("it is not JSON")
		}
	}
	return nil
}

func (r reader) fitsStep(k, content []byte) error {
	if len(k) < 5 || !json.Valid(content) {
		return errors.New("it is not a step")
	}
	t, ok, err := r.turn(string(k[:len(k)-5]))
	if err := missing(err, ok, "its turn"); err != nil {
		return err
	}
	if n := binary.BigEndian.Uint32(k[len(k)-4:]); !t.Ended.IsZero() || int(n) >= t.Steps {
		return errors.New("its turn does not have it any more")
	}
	return nil
}

func missing(err error, ok bool, what string) error {
	if err == nil && !ok {
		return fmt.Errorf("%s is missing", what)
	}
	return err
}

func (r reader) fitsEntry(k, content []byte) error {
	var e inbox.Entry
	if err := decode(bEntries, k, content, &e); err != nil {
		return err
	}
	v := r.bucket(bLanes).Get(laneKey(e.Lane, e.ID))
	switch {
	case e.State == inbox.Done && (v != nil || e.Outcome == nil):
		return errors.New("it is done, but has a place in its lane or no outcome")
	case e.State != inbox.Done && v == nil:
		return errors.New("it is not done, but has no place in its lane")
	}
	return nil
}

func (r reader) fitsPlace(k, content []byte) error {
	l, id, err := laneOf(k)
	if err != nil || len(content) == 0 {
		return errors.Join(err, errLanePosition)
	}
	e, ok, err := r.entry(id)
	if err := missing(err, ok, "entry "+id.String()); err != nil {
		return err
	}
	if e.Lane != l || (e.State == inbox.Claimed) != (content[0] == 'c') || e.Turn != string(content[1:]) {
		return fmt.Errorf("entry %s says otherwise", id)
	}
	return nil
}

func (r reader) fitsRow(k, content []byte) error {
	var row outbox.Row
	if err := decode(bRows, k, content, &row); err != nil {
		return err
	}
	queued := r.bucket(bQueues).Get(queueKey(row.Msg.To, uint64(row.ID))) != nil
	dead := r.bucket(bDead).Get(k) != nil
	if queued == row.Terminal() || dead != row.DeadLetter() {
		return fmt.Errorf("it is %s, and its queue or the list of dead letters says otherwise", row.State)
	}
	return nil
}

func (r reader) fitsQueue(k []byte) error {
	a, id, err := queueOf(k)
	if err != nil {
		return err
	}
	row, ok, err := r.row(outbox.ID(id))
	if err := missing(err, ok, fmt.Sprintf("row o%d", id)); err != nil {
		return err
	}
	if row.Msg.To != a {
		return fmt.Errorf("row o%d is for %s", id, row.Msg.To)
	}
	return nil
}

func (r reader) fitsSession(k, content []byte) error {
	var rec sessionRecord
	if err := decode(bSessions, k, content, &rec); err != nil {
		return err
	}
	if r.bucket(bRecent).Get(recentKey(rec.Record)) == nil {
		return errors.New("it is not in the list of recent ones")
	}
	c := r.bucket(bTranscripts).Cursor()
	n := 0
	prefix := transcriptPrefix(rec.ID)
	for k, _ := c.Seek(prefix); bytes.HasPrefix(k, prefix); k, _ = c.Next() {
		n++
	}
	if n != rec.Start+rec.Messages {
		return wrongLength(rec.ID, n, rec.Start+rec.Messages)
	}
	return nil
}
