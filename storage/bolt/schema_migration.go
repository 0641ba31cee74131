package bolt

import (
	"errors"
	"fmt"
	"strconv"

	bbolt "go.etcd.io/bbolt"

	"hermesd/storage"
)

// firstSchema is the schema version of the first release.
const firstSchema = 1

// A migration converts a file from one schema version to the next.
type migration struct {
	name string
	run  func(tx *bbolt.Tx) error
}

// migrations returns the migrations from firstSchema on, one per version.
func migrations() []migration {
	return []migration{
		{"add model calls and engine states", createBuckets(bCalls, bEngines)},
		{"add jobs and occurrences", createBuckets(bJobs, bOccurrences)},
	}
}

// createBuckets returns a migration that creates buckets.
func createBuckets(names ...string) func(*bbolt.Tx) error {
	return func(tx *bbolt.Tx) error {
		var errs []error
		for _, name := range names {
			_, err := tx.CreateBucketIfNotExists([]byte(name))
			errs = append(errs, err)
		}
		return errors.Join(errs...)
	}
}

// SchemaNow returns the version of the schema that this program writes. It is
// the newest one that the program can read.
func SchemaNow() int { return firstSchema + len(migrations()) }

// readSchema reads the schema version of a file. It is stored as plain text, so
// that later versions can change the format of everything else.
func readSchema(db *bbolt.DB, path string) (int, error) {
	var text string
	err := recoverPanics(func() error {
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
		return 0, &storage.DamageError{Record: "the file", Err: errors.New("no schema version: not a hermesd store")}
	}
	if n > SchemaNow() {
		return 0, &storage.NewerError{Path: path, Have: n, Know: SchemaNow()}
	}
	return n, nil
}

func setSchema(tx *bbolt.Tx, n int) error {
	return tx.Bucket([]byte(bMeta)).Put([]byte(keySchema), []byte(strconv.Itoa(n)))
}

// migrate runs the migrations that a file of schema have lacks, each in its own
// transaction, after a backup next to the file.
func migrate(db *bbolt.DB, path string, have int, steps []migration) error {
	if have-firstSchema >= len(steps) {
		return nil
	}
	if err := backup(db, fmt.Sprintf("%s.schema%d.bak", path, have)); err != nil {
		return fmt.Errorf("back up before the migration: %w", err)
	}
	for i, m := range steps[have-firstSchema:] {
		err := recoverPanics(func() error {
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
