package spawn_test

import (
	"encoding/binary"
	"fmt"
	"runtime"
	"testing"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"hermesd/internal/spawn"
)

// The filter is run in a virtual machine, with what this kernel would not let the test try.
func TestFilterOfSystemCalls(t *testing.T) {
	t.Parallel()
	if runtime.GOARCH != "amd64" {
		t.Skip("the numbers are those of amd64")
	}
	const allow, none, x32 = unix.SECCOMP_RET_ALLOW, uint32(0), 0x40000000
	for _, tt := range []struct {
		name                        string
		noUnix, noInet, noForeign   bool
		arch, number, first, second uint32
		want                        unix.Errno // 0: allowed
	}{
		{name: "read", number: unix.SYS_READ},
		{name: "another architecture", arch: unix.AUDIT_ARCH_I386, number: unix.SYS_READ, want: unix.ENOSYS},
		{name: "x32", number: unix.SYS_READ | x32, want: unix.ENOSYS},
		{name: "io_uring", number: unix.SYS_IO_URING_ENTER, want: unix.ENOSYS},
		{name: "bpf", number: unix.SYS_BPF, want: unix.ENOSYS},
		{name: "userfaultfd", number: unix.SYS_USERFAULTFD, want: unix.ENOSYS},
		{name: "keyctl", number: unix.SYS_KEYCTL, want: unix.ENOSYS},
		{name: "clone3", number: unix.SYS_CLONE3, want: unix.ENOSYS},
		{name: "mount", number: unix.SYS_MOUNT, want: unix.EPERM},
		{name: "clone of a process", number: unix.SYS_CLONE, first: uint32(unix.SIGCHLD)},
		{name: "clone of a thread", number: unix.SYS_CLONE, first: unix.CLONE_VM | unix.CLONE_THREAD | unix.CLONE_SIGHAND},
		{name: "clone with a user namespace", number: unix.SYS_CLONE, first: unix.CLONE_NEWUSER, want: unix.EPERM},
		{name: "unshare of files", number: unix.SYS_UNSHARE, first: unix.CLONE_FILES},
		{name: "unshare of mounts", number: unix.SYS_UNSHARE, first: unix.CLONE_NEWNS, want: unix.EPERM},
		{name: "vsock", number: unix.SYS_SOCKET, first: unix.AF_VSOCK, want: unix.EAFNOSUPPORT},
		{name: "packet", number: unix.SYS_SOCKET, first: unix.AF_PACKET, want: unix.EAFNOSUPPORT},
		{name: "netlink", number: unix.SYS_SOCKET, first: unix.AF_NETLINK},
		{name: "unix", number: unix.SYS_SOCKET, first: unix.AF_UNIX},
		{name: "unix, shared network on an old kernel", noUnix: true, number: unix.SYS_SOCKET, first: unix.AF_UNIX, want: unix.EACCES},
		{name: "a pair, without unix", noUnix: true, noForeign: true, number: unix.SYS_SOCKETPAIR, first: unix.AF_UNIX},
		{name: "inet", number: unix.SYS_SOCKET, first: unix.AF_INET6},
		{name: "inet without network", noInet: true, number: unix.SYS_SOCKET, first: unix.AF_INET6, want: unix.EACCES},
		{name: "ptrace in a namespace", number: unix.SYS_PTRACE},
		{name: "ptrace", noForeign: true, number: unix.SYS_PTRACE, want: unix.EPERM},
		{name: "shared memory in a namespace", number: unix.SYS_SHMGET},
		{name: "shared memory", noForeign: true, number: unix.SYS_SHMAT, want: unix.ENOSYS},
		{name: "own limits", noForeign: true, number: unix.SYS_PRLIMIT64},
		{name: "limits of another process", noForeign: true, number: unix.SYS_PRLIMIT64, first: 7, want: unix.EPERM},
		{name: "own priority", noForeign: true, number: unix.SYS_SETPRIORITY},
		{name: "priority of another process", noForeign: true, number: unix.SYS_SETPRIORITY, second: 7, want: unix.EPERM},
		{name: "the last call", number: unix.SYS_SOCKET - 1},
	} {
		raw, err := spawn.Filter(tt.noUnix, tt.noInet, tt.noForeign)
		if err != nil {
			t.Fatal(err)
		}
		program, ok := bpf.Disassemble(raw)
		if !ok {
			t.Fatal("the program cannot be read")
		}
		vm, err := bpf.NewVM(program)
		if err != nil {
			t.Fatal(err)
		}
		arch := tt.arch
		if arch == none {
			arch = unix.AUDIT_ARCH_X86_64
		}
		data := make([]byte, 64) // struct seccomp_data; the virtual machine loads in network order
		for at, v := range map[int]uint32{0: tt.number, 4: arch, 16: tt.first, 24: tt.second} {
			binary.BigEndian.PutUint32(data[at:], v)
		}
		got, err := vm.Run(data)
		want := uint32(allow)
		if tt.want != 0 {
			want = unix.SECCOMP_RET_ERRNO | uint32(tt.want)
		}
		if err != nil || uint32(got) != want {
			t.Errorf("%s: got %#x, %v; want %s", tt.name, got, err, fmt.Sprintf("%#x", want))
		}
	}
}
