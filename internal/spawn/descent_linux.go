package spawn

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

const (
	maxGenerations = 1000 // of ancestors that are read
	maxReads       = 10   // of the ancestors of a process
)

// CheckPeer returns an error if the process that has connected a Unix socket descends
// from an untrusted process of this package, or if that cannot be excluded: its parent
// has ended and AdoptOrphans has made it a child of this process, it has ended itself, or
// its ancestors cannot be read in /proc.
func CheckPeer(c syscall.Conn) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var verdict error
	if err := raw.Control(func(fd uintptr) { verdict = checkPeer(int(fd)) }); err != nil {
		return err
	}
	return verdict
}

func checkPeer(socket int) error {
	peer, err := unix.GetsockoptUcred(socket, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		return fmt.Errorf("cannot determine the process that has connected: %w", err)
	}
	pid := int(peer.Pid)
	handle, err := peerHandle(socket, pid)
	if err != nil {
		return fmt.Errorf("process %d has connected and cannot be found any more: %w", pid, err)
	}
	if handle >= 0 {
		defer func() { _ = unix.Close(handle) }()
	}
	if pid != 0 { // the PID namespaces of descendants are visible in ours
		if err := started.checkDescent(pid); err != nil {
			return err
		}
	}
	if handle >= 0 { // otherwise pid may be the ID of another process by now
		ended := []unix.PollFd{{Fd: int32(handle), Events: unix.POLLIN}}
		if n, err := unix.Poll(ended, 0); err != nil || n != 0 {
			return fmt.Errorf("process %d has connected and has ended", pid)
		}
	}
	return nil
}

// peerHandle returns a PID file descriptor of the process that has connected, -1 if the
// kernel has none. Before Linux 6.5 the descriptor is that of the process that has the ID
// now.
func peerHandle(socket, pid int) (int, error) {
	fd, err := unix.GetsockoptInt(socket, unix.SOL_SOCKET, unix.SO_PEERPIDFD)
	if !errors.Is(err, unix.ENOPROTOOPT) {
		return fd, err
	}
	if pid == 0 {
		return -1, nil
	}
	fd, err = unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM) {
		return -1, nil
	}
	return fd, err
}

// An ancestor is a process on the way from a process up to this one.
type ancestor struct{ pid, parent, session int }

// checkDescent returns an error if the process descends from an untrusted process, or if
// that cannot be excluded. It holds the lock, so that meanwhile no process is started and
// no orphan is reaped.
//
// Whether a process is a descendant never changes: the orphans of a descendant are adopted
// by this process or by a descendant. The ancestors are read twice, because a process ID may be
// reused while they are read. A process has each parent only once, so if the parents are
// the same, they were the parents in between.
func (t *childTable) checkDescent(pid int) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if pid == os.Getpid() {
		return nil
	}
	if _, err := endedChild(); errors.Is(err, unix.ECHILD) {
		return nil // no child, no descendant
	}
	last, problem := ancestors(pid)
	for range maxReads {
		now, err := ancestors(pid)
		if err == nil && problem == nil && slices.Equal(now, last) {
			return t.checkOldest(now[len(now)-1], pid)
		}
		last, problem = now, err
	}
	problem = cmp.Or(problem, errors.New("they change all the time"))
	return fmt.Errorf("cannot determine the ancestors of process %d: %w", pid, problem)
}

// checkOldest judges a process by its oldest ancestor that ancestors has returned.
func (t *childTable) checkOldest(a ancestor, pid int) error {
	if a.parent != os.Getpid() {
		return nil
	}
	switch c := t.byID[a.pid]; {
	case c == nil && t.isTrusted(a.session), t.isTrusted(a.pid):
		return nil
	case c == nil || !c.untrusted:
		return fmt.Errorf("process %d descends from process %d, whose parent has ended", pid, a.pid)
	default:
		return fmt.Errorf("process %d descends from process %d, a command of the agent", pid, a.pid)
	}
}

// isTrusted reports whether the ID is that of a running trusted child. Every child is the
// leader of a session of its own, which only its descendants can be in.
func (t *childTable) isTrusted(pid int) bool {
	c := t.byID[pid]
	return c != nil && !c.untrusted && !c.ended
}

// ancestors returns the process and its ancestors, up to a child of this process or to a
// process without parent in this PID namespace.
func ancestors(pid int) (list []ancestor, err error) {
	if self, err := os.Readlink("/proc/self"); err != nil || self != strconv.Itoa(os.Getpid()) {
		return nil, errors.New("/proc is not mounted, or is that of another PID namespace")
	}
	for range maxGenerations {
		a, err := readAncestor(pid)
		if err != nil {
			return nil, err
		}
		list = append(list, a)
		if a.parent == 0 || a.parent == os.Getpid() {
			return list, nil
		}
		pid = a.parent
	}
	return nil, fmt.Errorf("they are more than %d", maxGenerations)
}

// readAncestor reads the parent and the session of a process.
func readAncestor(pid int) (a ancestor, err error) {
	raw, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return a, err
	}
	f := bytes.Fields(raw[bytes.LastIndexByte(raw, ')')+1:]) // state, parent, group, session
	if len(f) < 4 {
		return a, fmt.Errorf("/proc/%d/stat is %q", pid, raw)
	}
	a.pid = pid
	if a.parent, err = strconv.Atoi(string(f[1])); err == nil {
		a.session, err = strconv.Atoi(string(f[3]))
	}
	return a, err
}
