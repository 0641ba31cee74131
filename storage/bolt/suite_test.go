package bolt_test

import (
	"path/filepath"
	"testing"

	"hermesd/storage/bolt"
	"hermesd/storage/storagetest"
)

func open(t testing.TB, dir string) *bolt.Store {
	t.Helper()
	s, err := bolt.Open(t.Context(), filepath.Join(dir, "hermesd.db"), bolt.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestSuite(t *testing.T) {
	storagetest.Suite(t, func(t testing.TB, dir string) storagetest.Store { return open(t, dir) })
}
