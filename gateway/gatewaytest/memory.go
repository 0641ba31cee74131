package gatewaytest

import (
	"os"
	"testing"
)

// MemoryDir returns a temporary directory, in memory if the machine has one: for tests that
// kill processes, not machines, and so need no syncs.
func MemoryDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "hermesd-test-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}
