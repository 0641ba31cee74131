package bolt

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	bbolt "go.etcd.io/bbolt"

	"hermesd/internal/atomicfile"
)

// compactBatch is the number of bytes that a compaction copies per transaction.
const compactBatch = 1 << 20

// Compact shrinks the file by the space of deleted records; by itself the file
// never shrinks. Writes wait while it runs; claims and attempts are not
// affected. If Compact fails, the file is unchanged.
func (s *Store) Compact(ctx context.Context) error {
	return s.runExclusive(ctx, "compact", func() error {
		if err := s.ensureOpen(); err != nil {
			return err
		}
		tmp := s.path + ".compact"
		if err := s.copyTo(tmp); err != nil {
			return errors.Join(err, removeIfExists(tmp))
		}
		return s.replaceFile(tmp)
	})
}

// copyTo writes a dense, synced copy of the file.
func (s *Store) copyTo(tmp string) error {
	if err := removeIfExists(tmp); err != nil {
		return err
	}
	dst, err := bbolt.Open(tmp, 0o600, &bbolt.Options{Timeout: lockTimeout, FreelistType: bbolt.FreelistMapType, NoSync: true})
	if err != nil {
		return err
	}
	err = bbolt.Compact(dst, s.db, compactBatch)
	if err == nil {
		err = dst.Sync()
	}
	return errors.Join(err, dst.Close())
}

// replaceFile replaces the file by the copy.
func (s *Store) replaceFile(tmp string) error {
	s.dbMu.Lock()
	defer s.dbMu.Unlock()
	err := s.closeFile()
	if err == nil {
		err = os.Rename(tmp, s.path)
	}
	if err == nil {
		err = atomicfile.SyncDir(filepath.Dir(s.path))
	}
	if reopenErr := s.reopen(); reopenErr != nil {
		err = errors.Join(err, fmt.Errorf("reopen file: %w", reopenErr))
	}
	return err
}

func removeIfExists(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Backup writes a copy of the store to path, completely or not at all. Reads
// and writes continue.
func (s *Store) Backup(ctx context.Context, path string) error {
	return s.view(ctx, "back up to "+path, func(reader) error { return backup(s.db, path) })
}

// backup copies the file to path, completely or not at all.
func backup(db *bbolt.DB, path string) error {
	tmp := path + ".new"
	err := db.View(func(tx *bbolt.Tx) error { return tx.CopyFile(tmp, 0o600) })
	if err != nil {
		return err
	}
	f, err := os.OpenFile(tmp, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(tmp, path); err != nil {
		return err
	}
	return atomicfile.SyncDir(filepath.Dir(path))
}
