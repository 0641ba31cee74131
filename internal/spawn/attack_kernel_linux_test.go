package spawn_test

import (
	"errors"
	"os"
	"runtime"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// openQueue opens a POSIX message queue.
func openQueue(name string, flag int) (int, error) {
	p, err := unix.BytePtrFromString(name)
	if err != nil {
		return -1, err
	}
	fd, _, errno := unix.Syscall6(unix.SYS_MQ_OPEN, uintptr(unsafe.Pointer(p)), uintptr(flag), 0o600, 0, 0, 0)
	if errno != 0 {
		return -1, errno
	}
	return int(fd), nil
}

func unlinkQueue(name string) {
	if p, err := unix.BytePtrFromString(name); err == nil {
		_, _, _ = unix.Syscall(unix.SYS_MQ_UNLINK, uintptr(unsafe.Pointer(p)), 0, 0)
	}
}

// call makes a system call that must be refused with one of the errors.
func call(nr uintptr, arguments [3]uintptr, refused ...error) error {
	_, _, errno := unix.Syscall(nr, arguments[0], arguments[1], arguments[2])
	for _, r := range refused {
		if errors.Is(errno, r) {
			return errno
		}
	}
	return nil
}

func memoryAttacks() []attack {
	return []attack{
		{"shared memory in /dev/shm", func(t targets) error {
			if t.Shared == "" {
				return errNothing
			}
			return contains(t.Shared)
		}},
		{"a System V segment by key", func(t targets) error { _, err := unix.SysvShmGet(t.Key, 4096, 0); return err }},
		{"a System V segment by ID", func(t targets) error { _, err := unix.SysvShmAttach(t.Segment, 0, 0); return err }},
		{"a message queue", func(t targets) error {
			if t.Queue == "" {
				return errNothing
			}
			_, err := openQueue(t.Queue, unix.O_RDWR)
			return err
		}},
		{"keyrings", func(targets) error {
			name := []byte("user\x00name\x00")
			return errors.Join(
				call(unix.SYS_KEYCTL, [3]uintptr{0, ^uintptr(0) - 3, 1}, unix.ENOSYS), // the user keyring
				call(unix.SYS_REQUEST_KEY, [3]uintptr{uintptr(unsafe.Pointer(&name[0])), uintptr(unsafe.Pointer(&name[5])), 0}, unix.ENOSYS),
				call(unix.SYS_ADD_KEY, [3]uintptr{uintptr(unsafe.Pointer(&name[0])), uintptr(unsafe.Pointer(&name[5])), 0}, unix.ENOSYS))
		}},
	}
}

func namespaceAttacks() []attack {
	refused := func(name string, nr uintptr, arguments [3]uintptr, with ...error) attack {
		return attack{name, func(targets) error { return call(nr, arguments, with...) }}
	}
	slash, tmpfs, proc := cString("/"), cString("tmpfs"), cString("/proc")
	return []attack{
		refused("a new user namespace", unix.SYS_UNSHARE, [3]uintptr{unix.CLONE_NEWUSER}, unix.EPERM),
		refused("a new mount namespace", unix.SYS_UNSHARE, [3]uintptr{unix.CLONE_NEWNS}, unix.EPERM),
		refused("a process in a new user namespace", unix.SYS_CLONE, [3]uintptr{unix.CLONE_NEWUSER | uintptr(unix.SIGCHLD)}, unix.EPERM),
		refused("clone3", unix.SYS_CLONE3, [3]uintptr{0, 88}, unix.ENOSYS),
		refused("mounting", unix.SYS_MOUNT, [3]uintptr{tmpfs, slash, tmpfs}, unix.EPERM),
		refused("unmounting", unix.SYS_UMOUNT2, [3]uintptr{proc, unix.MNT_DETACH}, unix.EPERM),
		refused("pivot_root", unix.SYS_PIVOT_ROOT, [3]uintptr{slash, slash}, unix.EPERM),
		refused("chroot", unix.SYS_CHROOT, [3]uintptr{slash}, unix.EPERM),
		refused("open_tree", unix.SYS_OPEN_TREE, [3]uintptr{^uintptr(99), slash, unix.OPEN_TREE_CLONE}, unix.EPERM),
		refused("fsopen", unix.SYS_FSOPEN, [3]uintptr{tmpfs}, unix.EPERM),
		refused("mount_setattr", unix.SYS_MOUNT_SETATTR, [3]uintptr{^uintptr(99), slash}, unix.EPERM),
		{"another namespace", func(targets) error {
			f, err := os.Open("/proc/self/ns/mnt")
			if err != nil {
				return err
			}
			defer f.Close()
			return unix.Setns(int(f.Fd()), 0)
		}},
	}
}

func cString(s string) uintptr {
	b := append([]byte(s), 0)
	pinned.Store(&b[0], b)
	return uintptr(unsafe.Pointer(&b[0]))
}

var pinned sync.Map // keeps the arguments of system calls in memory

func kernelAttacks() []attack {
	all := []attack{
		{"settings of the kernel", func(targets) error {
			return anyOf([]string{"/proc/sys/kernel/core_pattern", "/proc/sys/kernel/hostname", "/proc/sys/vm/drop_caches", "/proc/sysrq-trigger", "/proc/irq/default_smp_affinity", "/proc/mtrr", "/proc/acpi/wakeup", "/sys/kernel/mm/ksm/run"}, openFor(os.O_WRONLY))
		}},
		{"its own part of /proc, for writing", func(targets) error { return openFor(os.O_WRONLY)("/proc/self/comm") }},
		{"the memory of the kernel", func(targets) error { return anyOf([]string{"/proc/kcore", "/proc/kmsg"}, openFor(os.O_RDONLY)) }},
		{"the name of the machine", func(targets) error { return unix.Sethostname([]byte("taken")) }},
	}
	for name, nr := range map[string]uintptr{
		"io_uring": unix.SYS_IO_URING_SETUP, "bpf": unix.SYS_BPF, "userfaultfd": unix.SYS_USERFAULTFD, "perf_event_open": unix.SYS_PERF_EVENT_OPEN,
	} {
		all = append(all, attack{name, func(targets) error { return call(nr, [3]uintptr{}, unix.ENOSYS) }})
	}
	if runtime.GOARCH == "amd64" {
		const getpid, x32 = 39, 0x40000000
		all = append(all, attack{"a call of the x32 ABI", func(targets) error { return call(getpid|x32, [3]uintptr{}, unix.ENOSYS) }})
	}
	return all
}
