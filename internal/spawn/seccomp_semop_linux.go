//go:build amd64 || arm64 || arm || riscv64 || loong64

package spawn

import "golang.org/x/sys/unix"

// semaphoreCalls do not exist as calls of their own on architectures without a filter.
var semaphoreCalls = []uint32{unix.SYS_SEMOP, unix.SYS_SEMTIMEDOP}
