package bolt_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	bbolt "go.etcd.io/bbolt"

	"hermesd/storage/bolt"
	"hermesd/storage/storagetest"
)

func schemaOf(t *testing.T, db *bbolt.DB) string {
	t.Helper()
	var text string
	ok(t, db.View(func(tx *bbolt.Tx) error {
		text = string(tx.Bucket([]byte("meta")).Get([]byte("schema")))
		return nil
	}))
	return text
}

func firstReleaseStore(t *testing.T) (*bbolt.DB, string) {
	t.Helper()
	dir := t.TempDir()
	s := open(t, dir)
	runTurn(t, s, "lane", "s1", 0)
	ok(t, s.Close())
	db := must[*bbolt.DB](t)(bbolt.Open(storePath(dir), 0o600, nil))
	t.Cleanup(func() { ok(t, db.Close()) })
	ok(t, db.Update(func(tx *bbolt.Tx) error { // the format of the first release
		return errors.Join(tx.DeleteBucket([]byte("calls")), tx.DeleteBucket([]byte("engines")), tx.Bucket([]byte("meta")).Put([]byte("schema"), []byte("1")))
	}))
	return db, storePath(dir)
}

func TestMigrationFromFirstRelease(t *testing.T) {
	t.Parallel()
	db, path := firstReleaseStore(t)
	ok(t, db.Close())
	s := open(t, filepath.Dir(path))
	defer func() { ok(t, s.Close()) }()
	if _, err := s.Calls(t.Context(), "s1", 0); err != nil {
		t.Error(err)
	}
	if rows, err := storagetest.Transcript(t.Context(), s, "s1", 0); err != nil || len(rows) == 0 {
		t.Errorf("the transcript has %d rows, %v", len(rows), err)
	}
	if _, err := os.Stat(path + ".schema1.bak"); err != nil {
		t.Errorf("there is no backup: %v", err)
	}
}

func createBucket(name string) bolt.Migration {
	return bolt.Migration{Name: name, Run: func(tx *bbolt.Tx) error {
		_, err := tx.CreateBucket([]byte(name))
		return err
	}}
}

func TestMigrationsRunInOrderAfterBackup(t *testing.T) {
	t.Parallel()
	db, path := firstReleaseStore(t)
	first, second, third := createBucket("first"), createBucket("second"), createBucket("third")
	needs := second.Run
	second.Run = func(tx *bbolt.Tx) error {
		if tx.Bucket([]byte("first")) == nil {
			return errors.New("the first has not run")
		}
		return needs(tx)
	}
	ok(t, bolt.Migrate(db, path, 1, []bolt.Migration{first, second}))
	if got := schemaOf(t, db); got != "3" {
		t.Errorf("schema %s, want 3", got)
	}
	ok(t, bolt.Migrate(db, path, 3, []bolt.Migration{first, second}))
	ok(t, bolt.Migrate(db, path, 3, []bolt.Migration{first, second, third}))
	if got := schemaOf(t, db); got != "4" {
		t.Errorf("schema %s, want 4", got)
	}
	kept := must[*bbolt.DB](t)(bbolt.Open(path+".schema1.bak", 0o600, nil))
	defer func() { ok(t, kept.Close()) }()
	if got := schemaOf(t, kept); got != "1" {
		t.Errorf("the backup has schema %s, want 1", got)
	}
}

func TestFailedMigrationChangesNothing(t *testing.T) {
	t.Parallel()
	db, path := firstReleaseStore(t)
	broken := bolt.Migration{Name: "broken", Run: func(tx *bbolt.Tx) error {
		return errors.Join(tx.DeleteBucket([]byte("entries")), errors.New("no"))
	}}
	err := bolt.Migrate(db, path, 1, []bolt.Migration{createBucket("first"), broken})
	if err == nil || !strings.Contains(err.Error(), "schema 3 (broken)") {
		t.Fatalf("got %v, want the step named", err)
	}
	if got := schemaOf(t, db); got != "2" {
		t.Errorf("schema %s, want 2: the first step is done", got)
	}
	ok(t, db.View(func(tx *bbolt.Tx) error {
		if tx.Bucket([]byte("entries")) == nil {
			return errors.New("part of the failed step is stored")
		}
		return nil
	}))
	if _, err := os.Stat(path + ".schema1.bak"); err != nil {
		t.Errorf("there is no backup: %v", err)
	}
}
