package spawn

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// Offsets in struct seccomp_data.
const (
	offNumber = 0
	offArch   = 4
	offArgs   = 16 // the low half of the first argument on little-endian machines
)

// x32Bit is set in the numbers of x32 system calls, which report the architecture of
// x86-64.
const x32Bit = 0x40000000

// auditArchs maps the value of GOARCH to the architecture that the kernel reports. Others
// are not supported: on some of them a system call that multiplexes others cannot be
// filtered.
var auditArchs = map[string]uint32{
	"amd64": unix.AUDIT_ARCH_X86_64, "arm64": unix.AUDIT_ARCH_AARCH64, "arm": unix.AUDIT_ARCH_ARM,
	"riscv64": unix.AUDIT_ARCH_RISCV64, "loong64": unix.AUDIT_ARCH_LOONGARCH64,
}

// newNamespaces are the flags of clone and unshare that create namespaces. CLONE_NEWTIME
// is missing: for clone it is part of the signal number, and without a user namespace it
// needs a capability that commands do not have.
const newNamespaces = unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP

// A filterConfig selects what a filter refuses in addition to what every one refuses.
type filterConfig struct {
	noUnix    bool // socket(AF_UNIX); socketpair is never refused
	noInet    bool // socket(AF_INET) and socket(AF_INET6)
	noForeign bool // calls with which a process without namespaces reaches others: ptrace, shared memory, limits
}

// seccompFilter returns the BPF program that refuses system calls.
func seccompFilter(c filterConfig) ([]bpf.RawInstruction, error) {
	arch, ok := auditArchs[runtime.GOARCH]
	if !ok {
		return nil, fmt.Errorf("there is no filter for the system calls of %s", runtime.GOARCH)
	}
	f := filter{
		bpf.LoadAbsolute{Off: offArch, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: arch, SkipTrue: 1},
		refuse(unix.ENOSYS),
		bpf.LoadAbsolute{Off: offNumber, Size: 4},
	}
	if runtime.GOARCH == "amd64" {
		f = append(f, bpf.JumpIf{Cond: bpf.JumpLessThan, Val: x32Bit, SkipTrue: 1}, refuse(unix.ENOSYS))
	}
	// clone3 passes its flags in memory, where a filter cannot read them. Programs fall
	// back to clone.
	f.refuse(unix.ENOSYS, unix.SYS_CLONE3,
		unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER, unix.SYS_BPF, unix.SYS_USERFAULTFD,
		unix.SYS_KEYCTL, unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY, unix.SYS_PERF_EVENT_OPEN, unix.SYS_FANOTIFY_INIT, unix.SYS_OPEN_BY_HANDLE_AT,
		unix.SYS_LOOKUP_DCOOKIE, unix.SYS_KEXEC_LOAD, unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE)
	f.refuse(unix.EPERM,
		unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_CHROOT, unix.SYS_SETNS,
		unix.SYS_OPEN_TREE, unix.SYS_MOVE_MOUNT, unix.SYS_MOUNT_SETATTR, unix.SYS_FSOPEN, unix.SYS_FSCONFIG, unix.SYS_FSMOUNT, unix.SYS_FSPICK)
	f.refuseFlags(unix.SYS_CLONE, newNamespaces)
	f.refuseFlags(unix.SYS_UNSHARE, newNamespaces)
	if c.noForeign {
		f.refuse(unix.ENOSYS,
			unix.SYS_SHMGET, unix.SYS_SHMAT, unix.SYS_SHMCTL, unix.SYS_SEMGET, unix.SYS_SEMCTL,
			unix.SYS_MSGGET, unix.SYS_MSGSND, unix.SYS_MSGRCV, unix.SYS_MSGCTL, unix.SYS_MQ_OPEN, unix.SYS_MQ_UNLINK)
		f.refuse(unix.ENOSYS, semaphoreCalls...)
		f.refuse(unix.EPERM,
			unix.SYS_PTRACE, unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV, unix.SYS_PROCESS_MADVISE, unix.SYS_PIDFD_GETFD, unix.SYS_KCMP,
			unix.SYS_MIGRATE_PAGES, unix.SYS_MOVE_PAGES)
		for _, nr := range []uint32{unix.SYS_PRLIMIT64, unix.SYS_SCHED_SETAFFINITY, unix.SYS_SCHED_SETSCHEDULER, unix.SYS_SCHED_SETPARAM, unix.SYS_SCHED_SETATTR} {
			f.refuseOthers(nr, 0)
		}
		f.refuseOthers(unix.SYS_SETPRIORITY, 1)
		f.refuseOthers(unix.SYS_IOPRIO_SET, 1)
	}
	f.limitFamilies(c)
	f = append(f, bpf.RetConstant{Val: unix.SECCOMP_RET_ALLOW})
	return bpf.Assemble(f)
}

// A filter is a BPF program whose accumulator holds the number of the system call after
// each of its parts.
type filter []bpf.Instruction

func refuse(errno unix.Errno) bpf.Instruction {
	return bpf.RetConstant{Val: unix.SECCOMP_RET_ERRNO | uint32(errno)}
}

// on appends the instructions for one system call. They must end with a result.
func (f *filter) on(nr uint32, body ...bpf.Instruction) {
	*f = append(*f, bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: nr, SkipTrue: uint8(len(body))})
	*f = append(*f, body...)
}

// refuse makes calls fail with errno.
func (f *filter) refuse(errno unix.Errno, calls ...uint32) {
	for _, nr := range calls {
		f.on(nr, refuse(errno))
	}
}

// refuseFlags makes a call fail with EPERM if its first argument has one of flags.
func (f *filter) refuseFlags(nr, flags uint32) {
	f.on(nr, bpf.LoadAbsolute{Off: offArgs, Size: 4}, bpf.JumpIf{Cond: bpf.JumpBitsSet, Val: flags, SkipFalse: 1},
		refuse(unix.EPERM), bpf.RetConstant{Val: unix.SECCOMP_RET_ALLOW})
}

// refuseOthers makes a call fail with EPERM if an argument is not 0, which means the
// calling process.
func (f *filter) refuseOthers(nr uint32, arg uint32) {
	f.on(nr, bpf.LoadAbsolute{Off: offArgs + 8*arg, Size: 4}, bpf.JumpIf{Cond: bpf.JumpEqual, Val: 0, SkipTrue: 1},
		refuse(unix.EPERM), bpf.RetConstant{Val: unix.SECCOMP_RET_ALLOW})
}

// limitFamilies refuses sockets of all families but those that programs need.
func (f *filter) limitFamilies(c filterConfig) {
	body := []bpf.Instruction{bpf.LoadAbsolute{Off: offArgs, Size: 4}}
	is := func(family uint32, result bpf.Instruction) {
		body = append(body, bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: family, SkipTrue: 1}, result)
	}
	allow := bpf.RetConstant{Val: unix.SECCOMP_RET_ALLOW}
	pick := func(no bool) bpf.Instruction {
		if no {
			return refuse(unix.EACCES)
		}
		return allow
	}
	is(unix.AF_UNIX, pick(c.noUnix))
	is(unix.AF_INET, pick(c.noInet))
	is(unix.AF_INET6, pick(c.noInet))
	is(unix.AF_NETLINK, allow)
	f.on(unix.SYS_SOCKET, append(body, refuse(unix.EAFNOSUPPORT))...)
}

// installFilter applies a filter to this thread and to the program that it executes.
func installFilter(c filterConfig) error {
	raw, err := seccompFilter(c)
	if err != nil {
		return err
	}
	prog := make([]unix.SockFilter, len(raw))
	for i, r := range raw {
		prog[i] = unix.SockFilter{Code: r.Op, Jt: r.Jt, Jf: r.Jf, K: r.K}
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("set no_new_privs: %w", err)
	}
	p := unix.SockFprog{Len: uint16(len(prog)), Filter: &prog[0]}
	if _, _, errno := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&p))); errno != 0 {
		return fmt.Errorf("filter system calls: %w", errno)
	}
	return nil
}

// filterBytes returns a filter in the form that bubblewrap reads.
func filterBytes(c filterConfig) ([]byte, error) {
	raw, err := seccompFilter(c)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	for _, r := range raw {
		_ = binary.Write(&b, binary.NativeEndian, r) // cannot fail: a buffer and a type of fixed size
	}
	return b.Bytes(), nil
}
