//go:build !amd64 && !arm64 && !arm && !riscv64 && !loong64

package spawn

var semaphoreCalls []uint32
