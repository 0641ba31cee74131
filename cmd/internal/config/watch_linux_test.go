package config_test

import (
	"os"
	"path/filepath"
	"testing"

	"hermesd/cmd/internal/config"
)

// The store is open in the watched directory and writes pages for each message.
func TestWritesToAFileThatStaysOpenDoNotWakeTheWatcher(t *testing.T) {
	dir := t.TempDir()
	store, err := os.Create(filepath.Join(dir, "hermesd.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	touched, stop, err := config.WatchDirs([]string{dir})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.WriteString("page"); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "config.yaml")
	if err := os.WriteFile(file, []byte("a: 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := <-touched; got != file {
		t.Errorf("%s is touched first", got)
	}
	stop()
	for range touched { // it is closed
	}
}
