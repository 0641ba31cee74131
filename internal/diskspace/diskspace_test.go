package diskspace_test

import (
	"path/filepath"
	"testing"

	"hermesd/internal/diskspace"
)

func TestOf(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	free, total, err := diskspace.Of(dir)
	if err != nil || total == 0 || free > total {
		t.Errorf("got %d of %d bytes, %v", free, total, err)
	}
	if _, _, err := diskspace.Of(filepath.Join(dir, "none")); err == nil {
		t.Error("a directory that is missing has space")
	}
}
