package bolt

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	bbolt "go.etcd.io/bbolt"

	"hermesd/storage"
)

// firstSchema is the schema with which the program was first released.
const firstSchema = 1

// A migration brings a file from one schema to the next.
type migration struct {
	name string
	run  func(tx *bbolt.Tx) error
}

// migrations are the steps from firstSchema on, one per schema.
func migrations() []migration {
	return []migration{
		{"a ledger of model calls and what context engines keep", withBuckets(bCalls, bEngines)},
		{"scheduled prompts and their slots", withBuckets(bJobs, bSlots)},
	}
}

// withBuckets is a migration that makes buckets.
func withBuckets(names ...string) func(*bbolt.Tx) error {
	return func(tx *bbolt.Tx) error {
		var errs []error
		for _, name := range names {
			_, err := tx.CreateBucketIfNotExists([]byte(name))
			errs = append(errs, err)
		}
		return errors.Join(errs...)
	}
}

func schemaNow() int { return firstSchema + len(migrations()) }

// schemaOf reads the schema of a file. It is kept as plain text, so that later
// versions can change how everything else is kept.
func schemaOf(db *bbolt.DB, path string) (int, error) {
	var text string
	err := guarded(func() error {
		return db.View(func(tx *bbolt.Tx) error {
			if b := tx.Bucket([]byte(bMeta)); b != nil {
				text = string(b.Get([]byte(keySchema)))
			}
			return nil
		})
	})
	if err != nil {
		return 0, err
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0, &storage.DamageError{Record: "the file", Err: errors.New("it does not say which schema it has: it is not a file of ours")}
	}
	if n > schemaNow() {
		return 0, &storage.NewerError{Path: path, Have: n, Know: schemaNow()}
	}
	return n, nil
}

func setSchema(tx *bbolt.Tx, n int) error {
	return tx.Bucket([]byte(bMeta)).Put([]byte(keySchema), []byte(strconv.Itoa(n)))
}

// migrate runs the steps that a file with schema have lacks, each in its own
// transaction, after a backup beside the file.
func migrate(db *bbolt.DB, path string, have int, chain []migration) error {
	if have-firstSchema >= len(chain) {
		return nil
	}
	if err := backup(db, fmt.Sprintf("%s.schema%d.bak", path, have)); err != nil {
		return fmt.Errorf("back it up before the migration: %w", err)
	}
	for i, m := range chain[have-firstSchema:] {
		err := guarded(func() error {
			return db.Update(func(tx *bbolt.Tx) error {
				if err := m.run(tx); err != nil {
					return err
				}
				return setSchema(tx, have+i+1)
			})
		})
		if err != nil {
			return fmt.Errorf("migrate to schema %d (%s): %w", have+i+1, m.name, err)
		}
	}
	return nil
}

// backup copies the file to path, whole or not at all.
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
	return syncDir(filepath.Dir(path))
}
