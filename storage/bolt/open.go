package bolt

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"time"

	bbolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"hermesd/storage"
)

// openWait is how long the file may be locked by a process that is ending.
const openWait = 100 * time.Millisecond

// growStep is by how much the file grows.
const growStep = 1 << 20

// identity is the record that says whose file it is.
type identity struct {
	Epoch   uint64    `json:"epoch"`
	Created time.Time `json:"created"`
}

// The records of bucket meta.
const (
	keyStore  = "store"
	keySchema = "schema"
)

// open opens or makes the file, brings it up to date, and begins a new epoch.
func (s *Store) open() error {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	if _, err := os.Stat(s.path); errors.Is(err, fs.ErrNotExist) {
		if err := create(s.path); err != nil {
			return fmt.Errorf("make it: %w", err)
		}
	}
	if err := s.connect(); err != nil {
		return err
	}
	have, err := schemaOf(s.db, s.path)
	if err != nil {
		return err
	}
	if err := migrate(s.db, s.path, have, migrations()); err != nil {
		if errors.Is(err, errPanic) {
			s.broken = err
		}
		return err
	}
	if err := s.begin(); err != nil {
		return fmt.Errorf("begin an epoch: %w", err)
	}
	return s.reload()
}

// connect opens the file as it is.
func (s *Store) connect() error {
	raw, err := os.OpenFile(s.path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	s.raw = raw
	if err := inspect(raw); err != nil {
		return err
	}
	return guarded(func() error {
		db, err := bbolt.Open(s.path, 0o600, &bbolt.Options{
			Timeout: openWait, FreelistType: bbolt.FreelistMapType, NoStatistics: true,
			InitialMmapSize: mapSize(), MaxSize: int(s.o.MaxBytes),
		})
		if err != nil {
			if errors.Is(err, bolterrors.ErrTimeout) {
				err = &storage.LockedError{Path: s.path}
			}
			return err
		}
		db.AllocSize = growStep
		s.db = db
		return db.View(func(tx *bbolt.Tx) error { return wellFormed(raw, db, tx, false) })
	})
}

// mapSize is how much of the file is mapped from the start: growing a mapping
// waits for all who read. It costs addresses, not memory.
func mapSize() int {
	switch {
	case runtime.GOOS == "windows": // there it would be the size of the file
		return 0
	case strconv.IntSize == 32:
		return 1 << 25
	}
	return 1 << 28
}

// reload makes the mirror show what the file has.
func (s *Store) reload() error {
	return guarded(func() error {
		return s.db.View(func(tx *bbolt.Tx) error { return s.mirror.load(reader{tx}) })
	})
}

// create makes a file with all that belongs into it, or none.
func create(path string) error {
	tmp := path + ".new"
	if err := os.Remove(tmp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	db, err := bbolt.Open(tmp, 0o600, &bbolt.Options{Timeout: openWait, FreelistType: bbolt.FreelistMapType})
	if err != nil {
		return err
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		for _, name := range buckets() {
			if _, err := tx.CreateBucket([]byte(name)); err != nil {
				return err
			}
		}
		content := fmt.Appendf(nil, `{"created":%q}`, time.Now().UTC().Format(time.RFC3339))
		if err := tx.Bucket([]byte(bMeta)).Put([]byte(keyStore), addChecksum(bMeta, []byte(keyStore), content)); err != nil {
			return err
		}
		return setSchema(tx, schemaNow())
	})
	if err := errors.Join(err, db.Close()); err != nil {
		return err
	}
	if err := os.Rename(tmp, path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

// syncDir makes a new name in dir last.
func syncDir(dir string) error {
	if runtime.GOOS == "windows" { // it cannot, and does not need to
		return nil
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// A metaBackup is the content of a meta page before a commit writes over it.
type metaBackup struct {
	at   int64
	data []byte
}

// backupMeta reads the meta page that the commit of tx is going to write.
func (s *Store) backupMeta(tx *bbolt.Tx) *metaBackup {
	size := s.db.Info().PageSize
	p := &metaBackup{at: int64(tx.ID()%2) * int64(size), data: make([]byte, pageHeader+metaSize)}
	if _, err := s.raw.ReadAt(p.data, p.at); err != nil {
		return nil
	}
	return p
}

// restore puts the meta page back if the commit that failed has changed it:
// what failed has not happened, also when only its last fsync failed.
func (s *Store) restore(p *metaBackup) error {
	if p == nil || s.metaUnchanged(p) {
		return nil
	}
	if _, err := s.raw.WriteAt(p.data, p.at); err != nil {
		return err
	}
	return s.raw.Sync()
}

// reopenAfterFailure opens the file again after a commit that failed, as it was before the
// commit. If it cannot be opened now the next write tries again; what is open is
// read until then, if the commit has left nothing behind.
func (s *Store) reopenAfterFailure(before *metaBackup) {
	s.dbmu.Lock()
	defer s.dbmu.Unlock()
	if s.broken != nil {
		return
	}
	if err := s.writable(); err != nil && s.db != nil && s.metaUnchanged(before) {
		s.stale = true
		s.note(fmt.Errorf("open the file again: %w", err))
		return
	}
	errs := []error{}
	if s.raw != nil {
		errs = append(errs, s.restore(before))
	}
	errs = append(errs, s.shut())
	errs = append(errs, s.reopen())
	if err := errors.Join(errs...); err != nil {
		s.note(fmt.Errorf("open the file again: %w", err))
	}
}

// writable reports why the file cannot be opened to be written.
func (s *Store) writable() error {
	f, err := os.OpenFile(s.path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return f.Close()
}

// metaUnchanged reports whether the meta page p still is what it was.
func (s *Store) metaUnchanged(p *metaBackup) bool {
	if p == nil || s.raw == nil {
		return false
	}
	now := make([]byte, len(p.data))
	_, err := s.raw.ReadAt(now, p.at)
	return err == nil && bytes.Equal(now, p.data)
}

// reopen opens the file in the epoch that has begun. The caller holds dbmu.
func (s *Store) reopen() error {
	err := s.connect()
	if err == nil {
		err = s.reload()
	}
	if err != nil {
		return errors.Join(err, s.shut())
	}
	return nil
}

// ready opens the file if it could not be opened again before.
func (s *Store) ready() error {
	switch {
	case s.broken != nil:
		return s.broken
	case s.db != nil && !s.stale:
		return nil
	}
	if s.stale {
		if err := s.writable(); err != nil {
			return err
		}
	}
	s.dbmu.Lock()
	defer s.dbmu.Unlock()
	if err := s.shut(); err != nil {
		return err
	}
	s.stale = false
	return s.reopen()
}
