package spawn

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// supported reports whether sandboxes exist for this operating system.
const supported = true

// lifeFD is the read end of a pipe in the supervisor. The command may run while the
// write end is open.
const lifeFD = 3

// wrap changes cmd so that it runs in the sandbox, under this program as supervisor. The
// path /proc/self/exe stays valid if the program file is replaced.
func (s *Sandbox) wrap(cmd *exec.Cmd) error {
	p := s.policy
	dir := cmd.Dir
	if dir == "" {
		wd, err := os.Getwd()
		if err != nil {
			return err
		}
		dir = wd
	}
	e := helperRequest{
		Path: cmd.Path, Argv: cmd.Args, Dir: dir, Wall: s.status.Mechanism, Bwrap: s.bwrap, Fenced: s.status.Isolated,
		Network: p.Network, Places: p.pathRules(), Temp: p.Temp, Processes: p.Processes, Memory: p.Memory,
	}
	cmd.Env = p.adjustEnv(cmd.Env)
	var err error
	if cmd.Args, err = e.args(roleSupervise); err != nil {
		return err
	}
	cmd.Path = "/proc/self/exe"
	cmd.SysProcAttr = &syscall.SysProcAttr{}
	if s.status.Isolated {
		enterNamespaces(cmd.SysProcAttr, !p.Network && s.status.Mechanism == Landlock)
	}
	return nil
}

func (e helperRequest) args(role string) ([]string, error) {
	raw, err := json.Marshal(e)
	return []string{"hermesd", helperArg, role, string(raw)}, err
}

// enterNamespaces starts the child in its own namespaces. An unprivileged user also needs
// a user namespace.
func enterNamespaces(attr *syscall.SysProcAttr, net bool) {
	attr.Cloneflags = syscall.CLONE_NEWPID | syscall.CLONE_NEWNS
	if net {
		attr.Cloneflags |= syscall.CLONE_NEWNET
	}
	if uid := os.Getuid(); uid != 0 {
		attr.Cloneflags |= syscall.CLONE_NEWUSER
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: uid, HostID: uid, Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getgid(), HostID: os.Getgid(), Size: 1}}
		attr.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_NET_ADMIN}
	}
}

// supervise runs the command and kills its remaining descendants when the command has
// ended, or when the parent has died or closed the pipe.
func supervise(e helperRequest) int {
	debug.SetGCPercent(-1)
	unix.CloseOnExec(lifeFD)
	if e.Fenced {
		if err := setUpNamespaces(e); err != nil {
			return reportFailure(err)
		}
	} else if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return reportFailure(err)
	}
	args, err := e.args(roleEnter)
	if err != nil {
		return reportFailure(err)
	}
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT)
	startThreads()
	child, err := syscall.ForkExec("/proc/self/exe", args, &syscall.ProcAttr{
		Env: os.Environ(), Files: []uintptr{0, 1, 2}, Sys: &syscall.SysProcAttr{Setpgid: true},
	})
	if err != nil {
		return reportFailure(err)
	}
	// Both goroutines run until this process exits.
	go func() {
		for range signals {
			_ = syscall.Kill(-child, syscall.SIGTERM)
		}
	}()
	go func() {
		var b [1]byte
		_, _ = syscall.Read(lifeFD, b[:])
		kill(child) // reap returns then, and endDescendants kills the rest
	}()
	code := reap(child)
	endDescendants(child)
	return code
}

// startThreads creates threads in advance, because none can be created when the process
// limit is reached.
func startThreads() {
	var all, ready sync.WaitGroup
	hold := make(chan struct{})
	for range 6 {
		ready.Add(1)
		all.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			ready.Done()
			<-hold
		})
	}
	ready.Wait()
	close(hold)
	all.Wait()
}

// reap waits for children until child ends, and returns its exit code.
func reap(child int) int {
	for {
		var w syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &w, 0, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return exitBroken
		case pid == child && w.Signaled():
			return 128 + int(w.Signal())
		case pid == child:
			return w.ExitStatus()
		}
	}
}

// kill sends SIGKILL to the child and its original group, which the child may have left.
func kill(child int) {
	_ = syscall.Kill(-child, syscall.SIGKILL)
	_ = syscall.Kill(child, syscall.SIGKILL)
}

// endDescendants kills all descendants of child, which has been reaped: first its group,
// then, generation by generation, the orphans that become children of this process. A
// process that ends hands over its children first, so none is left when there is no child
// to wait for. No other goroutine may wait for children meanwhile.
func endDescendants(child int) {
	_ = syscall.Kill(-child, syscall.SIGKILL)
	if os.Getpid() == 1 {
		return // as PID 1 of the namespace: the kernel kills the rest when this process exits
	}
	for {
		for _, pid := range children(os.Getpid()) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		if _, err := syscall.Wait4(-1, nil, 0, nil); err != nil && !errors.Is(err, syscall.EINTR) {
			return
		}
	}
}

// children returns the process IDs whose parent is pid.
func children(pid int) []int {
	var out []int
	forEachProcess(func(id int, stat []byte) {
		if f := bytes.Fields(stat); len(f) > 1 && string(f[1]) == strconv.Itoa(pid) {
			out = append(out, id)
		}
	})
	return out
}

// forEachProcess calls visit with the fields of /proc/<id>/stat that follow the name.
func forEachProcess(visit func(id int, stat []byte)) {
	dir, err := os.Open("/proc")
	if err != nil {
		return
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1) // as many as could be read
	for _, name := range names {
		id, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if raw, err := os.ReadFile("/proc/" + name + "/stat"); err == nil {
			visit(id, raw[bytes.LastIndexByte(raw, ')')+1:])
		}
	}
}

// enter restricts this process to the rights of the command and executes the command.
func enter(e helperRequest) int {
	runtime.LockOSThread() // the restrictions apply to a thread
	// These were needed by an unprivileged user to set up the namespaces.
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil && !errors.Is(err, unix.EINVAL) {
		return reportFailure(err)
	}
	if err := os.Chdir(e.Dir); err != nil {
		return reportFailure(err)
	}
	path, argv := e.Path, e.Argv
	switch e.Wall {
	case Landlock:
		if err := restrict(e); err != nil {
			return reportFailure(err)
		}
		if err := dropCapabilities(); err != nil {
			return reportFailure(err)
		}
	case Bubblewrap:
		path, argv = e.Bwrap, e.bwrapArgs()
	}
	if err := setLimits(e); err != nil {
		return reportFailure(err)
	}
	err := syscall.Exec(path, argv, os.Environ())
	fmt.Fprintf(os.Stderr, "hermesd: %s cannot be run in the sandbox: %v\n", path, err)
	return exitDenied
}

// setLimits sets the resource limits.
func setLimits(e helperRequest) error {
	set := func(what int, n uint64) error {
		return unix.Setrlimit(what, &unix.Rlimit{Cur: n, Max: n})
	}
	if err := set(unix.RLIMIT_CORE, 0); err != nil {
		return err
	}
	if e.Memory > 0 {
		if err := set(unix.RLIMIT_DATA, uint64(e.Memory)); err != nil {
			return err
		}
	}
	uid := os.Getuid()
	if uid == 0 {
		return nil // RLIMIT_NPROC does not apply to root
	}
	n := uint64(e.Processes)
	if !e.Fenced {
		n += countThreads(uid) // the limit counts all threads of the account
	}
	return set(unix.RLIMIT_NPROC, n)
}

// countThreads returns the number of threads of the account.
func countThreads(uid int) (n uint64) {
	forEachProcess(func(id int, stat []byte) {
		info, err := os.Stat("/proc/" + strconv.Itoa(id))
		if err != nil {
			return
		}
		st, ok := info.Sys().(*syscall.Stat_t)
		if f := strings.Fields(string(stat)); ok && int(st.Uid) == uid && len(f) > 17 {
			if t, err := strconv.ParseUint(f[17], 10, 32); err == nil {
				n += t
			}
		}
	})
	return n
}
