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
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// supported reports whether sandboxes exist for this operating system.
const supported = true

// helperPath is this program. This path stays valid if the program file is replaced.
var helperPath = "/proc/self/exe"

// wrap changes cmd so that it runs in the sandbox, under this program as supervisor.
func (s *Sandbox) wrap(cmd *exec.Cmd, fileSize int64, noNetwork bool) error {
	p := s.policy
	p.Network = p.Network && !noNetwork
	dir := cmd.Dir
	if dir == "" {
		wd, err := os.Getwd()
		if err != nil {
			return err
		}
		dir = wd
	}
	places := p.places()
	request, err := json.Marshal(helperRequest{
		Path: cmd.Path, Argv: cmd.Args, Env: p.adjustEnv(cmd.Env, places), Dir: dir, Wall: s.status.Mechanism, ABI: s.status.ABI, Bwrap: s.bwrap, OwnPIDs: s.ownPIDs,
		Network: p.Network, Places: places, Processes: p.Processes, FileSize: fileSize, Nice: childNice(),
	})
	if err != nil {
		return err
	}
	fd, err := memoryFile("request", request)
	if err != nil {
		return err
	}
	cmd.ExtraFiles = []*os.File{os.NewFile(uintptr(fd), "request")}
	cmd.Path, cmd.Args, cmd.Env, cmd.Dir = helperPath, helperArgs(roleSupervise), []string{}, "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{}
	if s.ownPIDs {
		enterNamespaces(cmd.SysProcAttr, s.status.Mechanism == Namespaces, !p.Network)
	}
	return nil
}

func helperArgs(role string) []string { return []string{"hermesd", helperArg, role} }

// enterNamespaces starts the child in its own PID and mount namespaces, in an IPC namespace
// if it builds a root directory, and then in a network namespace if it has no network. An
// unprivileged user also needs a user namespace.
func enterNamespaces(attr *syscall.SysProcAttr, root, noNetwork bool) {
	attr.Cloneflags = syscall.CLONE_NEWPID | syscall.CLONE_NEWNS
	if root {
		attr.Cloneflags |= syscall.CLONE_NEWIPC
		if noNetwork {
			attr.Cloneflags |= syscall.CLONE_NEWNET
		}
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
	if err := closeOnExec(); err != nil {
		return reportFailure(err)
	}
	if err := prepareNamespaces(e); err != nil {
		return reportFailure(err)
	}
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT)
	startThreads()
	// The command cannot trace this process, nor open its program or its files.
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return reportFailure(err)
	}
	_ = unix.Setpriority(unix.PRIO_PGRP, 0, e.Nice) // best effort; the command, in a group of its own, inherits it
	child, err := e.start()
	if err != nil {
		fmt.Fprintf(os.Stderr, "hermesd: %s cannot be run in the sandbox: %v\n", e.Path, err)
		return exitDenied
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

// prepareNamespaces builds what the command will see. Without namespaces orphans become
// children of this process, which can then end them.
func prepareNamespaces(e helperRequest) error {
	switch {
	case !e.OwnPIDs:
		return unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
	case e.Wall == Bubblewrap:
		return enterPIDNamespace(e)
	}
	if !e.Network {
		if err := enableLoopback(); err != nil {
			return fmt.Errorf("bring up the loopback: %w", err)
		}
	}
	return enterRoot(e)
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
	forEachProcess(anyProcess, func(id int, stat []byte) {
		if f := bytes.Fields(stat); len(f) > 1 && string(f[1]) == strconv.Itoa(pid) {
			out = append(out, id)
		}
	})
	return out
}

func anyProcess(string) bool { return true }

// forEachProcess calls visit, for each process whose directory in /proc is selected, with
// the fields of the file stat that follow the name.
func forEachProcess(selected func(dir string) bool, visit func(id int, stat []byte)) {
	dir, err := os.Open("/proc")
	if err != nil {
		return
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1) // as many as could be read
	for _, name := range names {
		id, err := strconv.Atoi(name)
		if err != nil || !selected("/proc/"+name) {
			continue
		}
		if raw, err := os.ReadFile("/proc/" + name + "/stat"); err == nil {
			visit(id, raw[bytes.LastIndexByte(raw, ')')+1:])
		}
	}
}

// filter returns what system calls the command may not make.
func (e helperRequest) filter() filterConfig {
	alone := e.Wall == Landlock // without a mount namespace
	return filterConfig{noUnix: alone || e.Network && e.ABI < minABI, noInet: alone && !e.Network, noForeign: alone}
}

// start starts the command with its restrictions. They apply to this thread, which the
// goroutine keeps, and are inherited by the command.
func (e helperRequest) start() (pid int, err error) {
	runtime.LockOSThread()
	if e.Wall == Landlock { // its restrictions apply to all threads, and would allow the command to signal this process
		return syscall.ForkExec(helperPath, helperArgs(roleEnter), &syscall.ProcAttr{
			Files: []uintptr{0, 1, 2, lifeFD, requestFD}, Env: []string{}, Sys: &syscall.SysProcAttr{Setpgid: true},
		})
	}
	// These were needed by an unprivileged user to set up the namespaces.
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil && !errors.Is(err, unix.EINVAL) {
		return 0, err
	}
	if err := errors.Join(restrictScope(e.ABI), setLimits(e)); err != nil {
		return 0, err
	}
	if e.Wall == Bubblewrap {
		return e.startBwrap()
	}
	if err := e.dropCapabilities(); err != nil {
		return 0, err
	}
	if err := installFilter(e.filter()); err != nil {
		return 0, err
	}
	return syscall.ForkExec(e.Path, e.Argv, &syscall.ProcAttr{
		Dir: e.Dir, Files: []uintptr{0, 1, 2}, Env: e.Env, Sys: &syscall.SysProcAttr{Setpgid: true},
	})
}

// enter restricts this process with Landlock and executes the command.
func enter(e helperRequest) int {
	runtime.LockOSThread() // the filter applies to a thread
	err := errors.Join(closeOnExec(), setLimits(e), os.Chdir(e.Dir), restrictFiles(e), e.dropCapabilities(), installFilter(e.filter()))
	if err != nil {
		return reportFailure(err)
	}
	err = unix.Exec(e.Path, e.Argv, e.Env)
	fmt.Fprintf(os.Stderr, "hermesd: %s cannot be run in the sandbox: %v\n", e.Path, err)
	return exitDenied
}

func setLimits(e helperRequest) error {
	set := func(what int, n uint64) error {
		return unix.Setrlimit(what, &unix.Rlimit{Cur: n, Max: n})
	}
	if err := set(unix.RLIMIT_CORE, 0); err != nil {
		return err
	}
	if e.FileSize > 0 {
		if err := set(unix.RLIMIT_FSIZE, uint64(e.FileSize)); err != nil {
			return err
		}
	}
	uid := os.Getuid()
	if uid == 0 {
		return nil // RLIMIT_NPROC does not apply to root
	}
	n := uint64(e.Processes)
	if !e.OwnPIDs {
		n += countThreads(uid) // the limit counts all threads of the account
	}
	return set(unix.RLIMIT_NPROC, n)
}

// countThreads returns the number of threads of the account.
func countThreads(uid int) (n uint64) {
	owned := func(dir string) bool {
		var st unix.Stat_t
		return unix.Stat(dir, &st) == nil && int(st.Uid) == uid
	}
	forEachProcess(owned, func(_ int, stat []byte) {
		if f := bytes.Fields(stat); len(f) > 17 {
			if t, err := strconv.ParseUint(string(f[17]), 10, 32); err == nil {
				n += t
			}
		}
	})
	return n
}

// closeOnExec keeps all descriptors but the standard ones out of programs that this process
// executes.
func closeOnExec() error {
	err := unix.CloseRange(3, 1<<31-1, unix.CLOSE_RANGE_CLOEXEC)
	if err == nil || !errors.Is(err, unix.ENOSYS) && !errors.Is(err, unix.EINVAL) {
		return err
	}
	names, err := os.ReadDir("/proc/self/fd") // before Linux 5.11
	if err != nil {
		return fmt.Errorf("list the open files: %w", err)
	}
	for _, n := range names {
		if fd, err := strconv.Atoi(n.Name()); err == nil && fd > 2 {
			unix.CloseOnExec(fd)
		}
	}
	return nil
}
