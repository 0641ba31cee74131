//go:build unix

package storage_test

import (
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"hermesd/storage"
)

func TestNoSpace(t *testing.T) {
	for _, e := range []unix.Errno{unix.ENOSPC, unix.EDQUOT, unix.EFBIG, unix.EROFS} {
		if !storage.NoSpace(fmt.Errorf("write: %w", &os.PathError{Op: "write", Path: "x", Err: e})) {
			t.Errorf("%v is not recognized", e)
		}
	}
	for _, err := range []error{nil, unix.EIO, unix.EBADF} {
		if storage.NoSpace(err) {
			t.Errorf("%v counts as a full disk", err)
		}
	}
}
