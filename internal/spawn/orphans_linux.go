package spawn

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A child is a process that this package has started.
type child struct {
	pid       int
	untrusted bool
	ended     bool // it may be reaped at any time; guarded by childTable.mu
}

// A childTable contains the children that have not been reaped. Children are started
// under the lock, so that a child that is not in the table is an adopted orphan.
type childTable struct {
	mu      sync.Mutex
	byID    map[int]*child
	reapers int // calls of AdoptOrphans that have not been undone
}

var started = childTable{byID: map[int]*child{}}

func (t *childTable) start(cmd *exec.Cmd, untrusted bool) (*child, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := WithTimerSlack(initialTimerSlack, cmd.Start); err != nil {
		return nil, err
	}
	c := &child{pid: cmd.Process.Pid, untrusted: untrusted}
	t.byID[c.pid] = c
	return c, nil
}

// initialTimerSlack is the timer slack that Linux gives processes. That of the daemon may be larger:
// see TimerSlackNSec= in its unit.
const initialTimerSlack = 50 * time.Microsecond

// WithTimerSlack calls start, which starts a process whose timers may be that late.
func WithTimerSlack(late time.Duration, start func() error) error {
	runtime.LockOSThread() // the process inherits the slack of the thread that starts it
	defer runtime.UnlockOSThread()
	ours, err := unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0)
	if err == nil && int64(ours) != late.Nanoseconds() {
		_ = unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(late.Nanoseconds()), 0, 0, 0) // best effort
		defer func() { _ = unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(ours), 0, 0, 0) }()
	}
	return start()
}

// end is called before c is reaped. Later its process ID may be that of another process.
func (t *childTable) end(c *child) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c.ended = true
}

// remove is called after c has been reaped.
func (t *childTable) remove(c *child) {
	t.mu.Lock()
	if t.byID[c.pid] == c {
		delete(t.byID, c.pid)
	}
	waiting := t.reapers > 0
	t.mu.Unlock()
	if waiting {
		t.reapOrphans() // c may have been in front of them
	}
}

// AdoptOrphans makes this process the parent of all orphans among its descendants, so
// that CheckPeer finds every descendant, and reaps the orphans that end, until stop is
// called. Orphans are adopted after that too. The whole process must start its processes
// by this package, otherwise their exit codes are lost.
func AdoptOrphans() (stop func(), err error) {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return nil, fmt.Errorf("adopt orphaned processes: %w", err)
	}
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, unix.SIGCHLD)
	started.addReapers(1)
	var reaper sync.WaitGroup
	reaper.Go(func() { // stop waits for it
		started.reapOrphans()
		for range ended {
			started.reapOrphans()
		}
	})
	return func() {
		signal.Stop(ended) // nothing is sent after that
		close(ended)
		reaper.Wait()
		started.addReapers(-1)
	}, nil
}

func (t *childTable) addReapers(n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.reapers += n
}

// reapOrphans reaps ended orphans until there is none or a child in the table has ended,
// which is reaped by its own goroutine. That one calls reapOrphans again.
func (t *childTable) reapOrphans() {
	for {
		t.mu.Lock()
		pid, err := endedChild()
		if err != nil || pid == 0 || t.byID[pid] != nil {
			t.mu.Unlock()
			return
		}
		err = unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOHANG|unix.WALL, nil)
		t.mu.Unlock()
		if err != nil && err != unix.EINTR { //nolint:errorlint // a system call returns the number itself
			return
		}
	}
}

// endedChild returns the process ID of a child that can be reaped, 0 if there is none.
// The error is ECHILD if this process has no child.
func endedChild() (int, error) {
	for {
		var info unix.Siginfo
		err := unix.Waitid(unix.P_ALL, 0, &info, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT|unix.WALL, nil)
		switch {
		case err == unix.EINTR: //nolint:errorlint // a system call returns the number itself
		case err != nil:
			return 0, err
		default:
			// The field si_pid follows three int32 and is aligned like a pointer.
			offset := max(3*unsafe.Sizeof(info.Signo), 2*unsafe.Sizeof(uintptr(0)))
			return int(*(*int32)(unsafe.Add(unsafe.Pointer(&info), offset))), nil
		}
	}
}

// niceOffset is added to the nice value of this process for children, so that they do not
// delay the acceptance of messages.
const niceOffset = 10

func childNice() int {
	ours, err := unix.Getpriority(unix.PRIO_PROCESS, 0) // 20 - nice
	if err != nil {
		ours = 20
	}
	return min(20-ours+niceOffset, 19)
}

// lowerPriority gives the child's group a lower CPU priority than this process.
func lowerPriority(cmd *exec.Cmd) {
	_ = unix.Setpriority(unix.PRIO_PGRP, cmd.Process.Pid, childNice()) // best effort
}

// waitChild waits for the end of the child, calls ended before its process ID can be
// reused, and reaps it.
func waitChild(cmd *exec.Cmd, ended func()) error {
	for {
		err := unix.Waitid(unix.P_PID, cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	ended()
	return cmd.Wait()
}
