package bolt

import (
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

	"hermesd/internal/atomicfile"
	"hermesd/storage"
)

// lockTimeout is how long Open waits for the file lock of a process that is
// exiting.
const lockTimeout = 100 * time.Millisecond

// growStep is the number of bytes by which the file grows.
const growStep = 1 << 20

// identity is the record that identifies the store and counts the processes
// that opened it.
type identity struct {
	Epoch   uint64    `json:"epoch"`
	Created time.Time `json:"created"`
}

// Keys of bucket meta.
const (
	keyStore  = "store"
	keySchema = "schema"
)

// open opens or creates the file, migrates it and starts a new epoch.
func (s *Store) open() error {
	err := s.openEpoch()
	if errors.Is(err, errPanic) {
		if damage := recoverPanics(func() error { return checkPath(s.path) }); isDamage(damage) {
			return damage // which names the page
		}
	}
	return err
}

func (s *Store) openEpoch() error {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	if _, err := os.Stat(s.path); errors.Is(err, fs.ErrNotExist) && s.opts.ReadOnly == nil {
		if err := createFile(s.path); err != nil {
			return fmt.Errorf("create file: %w", err)
		}
	}
	if err := s.openFile(); err != nil {
		return err
	}
	have, err := readSchema(s.db, s.path)
	if err != nil {
		return err
	}
	if s.opts.ReadOnly != nil {
		if have != SchemaNow() {
			return fmt.Errorf("migrate from schema %d: %w", have, s.opts.ReadOnly)
		}
		s.broken = s.opts.ReadOnly
		return s.reloadMirror()
	}
	if err := migrate(s.db, s.path, have, migrations()); err != nil {
		if errors.Is(err, errPanic) {
			s.broken = err
		}
		return err
	}
	if err := s.startEpoch(); err != nil {
		return fmt.Errorf("start epoch: %w", err)
	}
	return s.reloadMirror()
}

// openFile opens the file without changing it.
func (s *Store) openFile() error {
	raw, err := os.Open(s.path)
	if err != nil {
		return err
	}
	defer func() { _ = raw.Close() }() // read only
	if err := checkMeta(raw); err != nil {
		return err
	}
	return recoverPanics(func() error {
		db, err := bbolt.Open(s.path, 0o600, &bbolt.Options{
			Timeout: lockTimeout, FreelistType: bbolt.FreelistMapType, NoStatistics: true,
			InitialMmapSize: mapSize(), MaxSize: int(s.opts.MaxBytes), ReadOnly: s.opts.ReadOnly != nil,
		})
		if err != nil {
			if errors.Is(err, bolterrors.ErrTimeout) {
				err = &storage.LockedError{Path: s.path}
			}
			return err
		}
		db.AllocSize = growStep
		s.db = db
		return checkFile(raw, false)
	})
}

// mapSize is the initial size of the memory map: growing a map waits for all
// readers. It costs address space, not memory.
func mapSize() int {
	switch {
	case runtime.GOOS == "windows": // there it would become the size of the file
		return 0
	case strconv.IntSize == 32:
		return 1 << 25
	}
	return 1 << 28
}

// reloadMirror fills the mirror from the file.
func (s *Store) reloadMirror() error {
	return recoverPanics(func() error {
		return s.db.View(func(tx *bbolt.Tx) error { return s.mirror.load(reader{tx}) })
	})
}

// createFile creates a complete new file at path, or none.
func createFile(path string) error {
	tmp := path + ".new"
	if err := os.Remove(tmp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	db, err := bbolt.Open(tmp, 0o600, &bbolt.Options{Timeout: lockTimeout, FreelistType: bbolt.FreelistMapType})
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
		return setSchema(tx, SchemaNow())
	})
	if err := errors.Join(err, db.Close()); err != nil {
		return err
	}
	if err := os.Rename(tmp, path); err != nil {
		return err
	}
	return atomicfile.SyncDir(filepath.Dir(path))
}

// reopenAfterFailure opens the file again after a failure that bbolt does not undo:
// a panic, or a lost memory map. If that is impossible now, the next write tries
// again.
func (s *Store) reopenAfterFailure() {
	s.dbMu.Lock()
	defer s.dbMu.Unlock()
	if s.broken != nil {
		return
	}
	if err := errors.Join(s.closeFile(), s.reopen()); err != nil {
		s.recordError(fmt.Errorf("reopen file: %w", err))
	}
}

// reopen opens the file again within the current epoch. The caller holds dbMu.
func (s *Store) reopen() error {
	err := s.openFile()
	if err == nil {
		err = s.reloadMirror()
	}
	if err != nil {
		return errors.Join(err, s.closeFile())
	}
	return nil
}

// ensureOpen opens the file if an earlier attempt to reopen it failed.
func (s *Store) ensureOpen() error {
	if s.broken != nil || s.db != nil {
		return s.broken
	}
	s.dbMu.Lock()
	defer s.dbMu.Unlock()
	return s.reopen()
}
