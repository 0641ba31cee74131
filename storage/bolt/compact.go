package bolt

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	bbolt "go.etcd.io/bbolt"
)

// compactBatch is how many bytes of a compaction are copied at once.
const compactBatch = 1 << 20

// Compact gives the space back that what was forgotten has left in the file: by
// itself the file never shrinks. Writes wait meanwhile; claims and attempts are
// not touched. If it fails the file is what it was.
func (s *Store) Compact(ctx context.Context) error {
	return s.exclusive(ctx, "compact", func() error {
		if err := s.ready(); err != nil {
			return err
		}
		tmp := s.path + ".compact"
		if err := s.copyTo(tmp); err != nil {
			return errors.Join(err, discard(tmp))
		}
		return s.swap(tmp)
	})
}

// copyTo writes a dense copy of the file, and makes it last.
func (s *Store) copyTo(tmp string) error {
	if err := discard(tmp); err != nil {
		return err
	}
	dst, err := bbolt.Open(tmp, 0o600, &bbolt.Options{Timeout: openWait, FreelistType: bbolt.FreelistMapType, NoSync: true})
	if err != nil {
		return err
	}
	err = bbolt.Compact(dst, s.db, compactBatch)
	if err == nil {
		err = dst.Sync()
	}
	return errors.Join(err, dst.Close())
}

// swap puts the copy in the place of the file.
func (s *Store) swap(tmp string) error {
	s.dbmu.Lock()
	defer s.dbmu.Unlock()
	err := s.shut()
	if err == nil {
		err = os.Rename(tmp, s.path)
	}
	if err == nil {
		err = syncDir(filepath.Dir(s.path))
	}
	if again := s.reopen(); again != nil {
		err = errors.Join(err, fmt.Errorf("open the file again: %w", again))
	}
	return err
}

func discard(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Backup writes a copy of the store to path, whole or not at all. Others go on
// reading and writing.
func (s *Store) Backup(ctx context.Context, path string) error {
	return s.view(ctx, "back up to "+path, func(reader) error { return backup(s.db, path) })
}
