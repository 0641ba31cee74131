package bolt

import bbolt "go.etcd.io/bbolt"

// A Migration is a migration defined by a test.
type Migration struct {
	Name string
	Run  func(tx *bbolt.Tx) error
}

// Migrate runs chain on a file of schema have.
func Migrate(db *bbolt.DB, path string, have int, chain []Migration) error {
	var steps []migration
	for _, m := range chain {
		steps = append(steps, migration{m.Name, m.Run})
	}
	return migrate(db, path, have, steps)
}

// The records that only this package knows.
type (
	SessionRecord     = sessionRecord
	TurnRecord        = turnRecord
	KeyRecord         = keyRecord
	MigratedKeyRecord = migratedKey
)
