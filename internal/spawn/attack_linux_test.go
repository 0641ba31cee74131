package spawn_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// An attack returns nil if it succeeds.
type attack struct {
	name string
	try  func(targets) error
}

type attackResult struct {
	Name    string
	Reached bool
	Err     string
}

// errNothing is returned by an attack that found nothing.
var errNothing = errors.New("nothing was found")

// runAttacks runs the attacks inside the sandbox, and prints the results.
func runAttacks(argument string) int {
	var t targets
	if err := json.Unmarshal([]byte(argument), &t); err != nil {
		fmt.Println(err)
		return 1
	}
	if t.Phase == "signals" {
		sendSignals(t)
		return 0
	}
	tried := attacks()
	if t.Phase == "network" {
		tried = networkAttempts()
	}
	var results []attackResult
	for _, a := range tried {
		err := a.try(t)
		results = append(results, attackResult{Name: a.name, Reached: err == nil, Err: fmt.Sprint(err)})
	}
	if err := json.NewEncoder(os.Stdout).Encode(results); err != nil {
		return 1
	}
	return 0
}

// sendSignals tries to end everything outside.
func sendSignals(t targets) {
	for _, pid := range []int{t.Sibling, t.Daemon, -t.Sibling, -t.Daemon, os.Getppid(), -1} {
		_ = syscall.Kill(pid, syscall.SIGKILL) // refused, or ends this process
	}
}

func attacks() []attack {
	return slices.Concat(fileAttacks(), socketAttacks(), processAttacks(), memoryAttacks(), namespaceAttacks(), kernelAttacks())
}

// anyOf succeeds if f succeeds for one of all.
func anyOf[T any](all []T, f func(T) error) error {
	err := errNothing
	for _, one := range all {
		e := f(one)
		if e == nil {
			return nil
		}
		err = e
	}
	return err
}

func openFor(flag int) func(string) error {
	return func(path string) error {
		f, err := os.OpenFile(path, flag|unix.O_NOCTTY|unix.O_NONBLOCK, 0)
		if err == nil {
			_ = f.Close()
		}
		return err
	}
}

// contains succeeds if a file contains the canary.
func contains(path string) error {
	raw, err := os.ReadFile(path)
	if err == nil && !strings.Contains(string(raw), canary) {
		return errNothing
	}
	return err
}

func fileAttacks() []attack {
	return []attack{
		{"reading a file outside", func(t targets) error { return anyOf(t.Files, contains) }},
		{"writing a file outside", func(t targets) error { return anyOf(t.Files, openFor(os.O_WRONLY)) }},
		{"removing a file outside", func(t targets) error { return anyOf(t.Files, os.Remove) }},
		{"listing the home", func(t targets) error {
			entries, err := os.ReadDir(filepath.Dir(t.Workspace))
			if err == nil && len(entries) == 1 { // only the workspace
				return errNothing
			}
			return err
		}},
		{"a symbolic link", func(t targets) error {
			return anyOf(t.Files, func(f string) error {
				at := filepath.Join(t.Workspace, "link")
				defer os.Remove(at)
				return errors.Join(os.Symlink(f, at), contains(at))
			})
		}},
		{"a hard link", func(t targets) error {
			return anyOf(t.Files, func(f string) error { return os.Link(f, filepath.Join(t.Workspace, "hard")) })
		}},
		{"/etc/shadow", func(targets) error {
			raw, err := os.ReadFile("/etc/shadow")
			if err == nil && len(raw) == 0 {
				return errNothing
			}
			return err
		}},
		{"changing the system", func(targets) error {
			return anyOf([]string{"/usr/bin/hermesd-test", "/etc/hermesd-test", "/hermesd-test", "/dev/hermesd-test", "/lib/hermesd-test"}, openFor(os.O_WRONLY|os.O_CREATE))
		}},
		{"a file by handle", func(targets) error {
			h := unix.NewFileHandle(1, make([]byte, 8))
			fd, err := unix.OpenByHandleAt(unix.AT_FDCWD, h, unix.O_RDONLY)
			if err == nil {
				_ = unix.Close(fd)
			}
			return err
		}},
		{"a device", func(targets) error {
			return anyOf([]string{"/dev/mem", "/dev/kmsg", "/dev/port", "/dev/sda", "/dev/vda", "/dev/nvme0n1", "/dev/loop-control", "/dev/fuse", "/dev/vsock"}, openFor(os.O_RDONLY))
		}},
		{"making a device", func(t targets) error {
			return unix.Mknod(filepath.Join(t.Workspace, "disk"), unix.S_IFBLK|0o600, int(unix.Mkdev(8, 0)))
		}},
		{"the terminal of the operator", func(t targets) error {
			if t.Terminal == "" {
				return errNothing
			}
			fd, err := unix.Open(t.Terminal, unix.O_RDWR|unix.O_NOCTTY, 0)
			if err != nil {
				return err
			}
			c := byte('x')
			_, _, _ = unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.TIOCSTI, uintptr(unsafe.Pointer(&c)))
			_, err = unix.Write(fd, []byte("x"))
			return err
		}},
	}
}

func socketAttacks() []attack {
	family := func(domain int) func(targets) error {
		return func(targets) error {
			fd, err := unix.Socket(domain, unix.SOCK_DGRAM, 0)
			if err == nil {
				_ = unix.Close(fd)
			}
			return err
		}
	}
	return []attack{
		{"sockets of the host", func(t targets) error {
			return anyOf(t.Sockets, func(addr string) error {
				c, err := net.DialTimeout("unix", addr, time.Second)
				if err == nil {
					_ = c.Close()
				}
				return err
			})
		}},
		{"services of the host", func(targets) error {
			return anyOf([]string{"/run/docker.sock", "/run/systemd/private", "/run/dbus/system_bus_socket", "/run/systemd/resolve/io.systemd.Resolve", "/run/nscd/socket"}, func(addr string) error {
				c, err := net.DialTimeout("unix", addr, time.Second)
				if err == nil {
					_ = c.Close()
				}
				return err
			})
		}},
		{"a vsock socket", family(unix.AF_VSOCK)},
		{"a packet socket", family(unix.AF_PACKET)},
		{"an AF_ALG socket", family(unix.AF_ALG)},
		{"a unix socket without a mount namespace", func(t targets) error {
			if !t.Landlock {
				return errNothing
			}
			return family(unix.AF_UNIX)(t)
		}},
		{"no pair of sockets", func(targets) error { // programs need them
			p, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
			if err != nil {
				return nil
			}
			return errors.Join(errNothing, unix.Close(p[0]), unix.Close(p[1]))
		}},
		{"the network, where it is closed", func(t targets) error {
			if t.Network || !t.Landlock { // the others have a network namespace
				return errNothing
			}
			return family(unix.AF_INET)(t)
		}},
	}
}

func processAttacks() []attack {
	both := func(f func(pid int) error) func(targets) error {
		return func(t targets) error { return anyOf([]int{t.Sibling, t.Daemon}, f) }
	}
	return []attack{
		{"signals", both(func(pid int) error { return syscall.Kill(pid, 0) })},
		{"the environment of another process", func(t targets) error {
			names, _ := filepath.Glob("/proc/[0-9]*/environ")
			self, err := os.Readlink("/proc/self")
			if err != nil {
				return err
			}
			return anyOf(slices.DeleteFunc(names, func(n string) bool { return n == "/proc/"+self+"/environ" }), contains)
		}},
		{"memory and files of another process", both(func(pid int) error {
			dir := "/proc/" + strconv.Itoa(pid) + "/"
			return anyOf([]string{"mem", "root/etc/passwd", "cwd/file", "fd/0", "exe", "maps"}, func(name string) error { return openFor(os.O_RDONLY)(dir + name) })
		})},
		{"files of the first process", func(t targets) error {
			return anyOf(t.Files, func(f string) error { return contains("/proc/1/root" + f) })
		}},
		{"overwriting the program of the first process", func(targets) error {
			return anyOf([]string{"/proc/1/exe", "/proc/self/exe"}, openFor(os.O_WRONLY))
		}},
		{"tracing", both(func(pid int) error { return unix.PtraceSeize(pid) })},
		{"reading memory", both(func(pid int) error {
			b := make([]byte, 1)
			_, err := unix.ProcessVMReadv(pid, []unix.Iovec{{Base: &b[0], Len: 1}}, []unix.RemoteIovec{{Base: 0x400000, Len: 1}}, 0)
			if errors.Is(err, unix.EFAULT) {
				return nil // it was allowed
			}
			return err
		})},
		{"taking a descriptor", both(func(pid int) error {
			fd, err := unix.PidfdOpen(pid, 0)
			if err != nil {
				return err
			}
			defer unix.Close(fd)
			_, err = unix.PidfdGetfd(fd, 0, 0)
			return err
		})},
		{"limits", both(func(pid int) error {
			return unix.Prlimit(pid, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 7, Max: 7}, nil)
		})},
		{"priorities", both(func(pid int) error { return unix.Setpriority(unix.PRIO_PROCESS, pid, 19) })},
		{"processors", both(func(pid int) error {
			var set unix.CPUSet
			set.Set(0)
			return unix.SchedSetaffinity(pid, &set)
		})},
		{"core dumps", func(targets) error {
			return unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{Cur: 1 << 20, Max: 1 << 20})
		}},
		{"inherited descriptors", func(targets) error {
			names, err := os.ReadDir("/proc/self/fd")
			if err != nil {
				return err
			}
			for _, n := range names {
				to, err := os.Readlink("/proc/self/fd/" + n.Name())
				if fd, _ := strconv.Atoi(n.Name()); err == nil && fd > 2 && !strings.HasPrefix(to, "anon_inode:[event") && !strings.HasPrefix(to, "/proc/") && !strings.HasPrefix(to, "/sys/fs/cgroup/") {
					return nil
				}
			}
			return errNothing
		}},
		{"the environment", func(targets) error {
			for _, kv := range os.Environ() {
				if name, _, _ := strings.Cut(kv, "="); strings.HasPrefix(name, "HERMES") || strings.HasPrefix(name, "CANARY") {
					return nil
				}
			}
			return errNothing
		}},
	}
}
