// Package repo_test checks rules of the whole repository: which package may import
// which, where files are opened and processes are started, how long functions are, and
// that pages agree with the code.
package repo_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// TestMain makes the root of the repository the working directory, so that all paths in
// the tests are relative to it.
func TestMain(m *testing.M) {
	if err := enterRoot(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// enterRoot makes the nearest directory with a go.mod the working directory.
func enterRoot() error {
	dir, err := os.Getwd()
	if err != nil {
		return err
	}
	for ; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return os.Chdir(dir)
		}
		if dir == filepath.Dir(dir) {
			return fmt.Errorf("no go.mod found")
		}
	}
}
