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

// supported says that there are sandboxes for this system.
const supported = true

// lifeFD is open in a supervisor as long as what it supervises may run.
const lifeFD = 3

// wrap makes cmd run in the sandbox. The supervisor is this program; the path
// also names it after the file was replaced.
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
		Network: p.Network, Places: p.places(), Temp: p.Temp, Processes: p.Processes, Memory: p.Memory,
	}
	cmd.Env = p.fit(cmd.Env)
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

// enterNamespaces gives what is started name spaces of its own. Who is not root needs one
// of users for that.
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

// supervise starts the command and ends all that is left of it: when the command
// has ended, and when the process that wanted it is gone or closes the pipe.
func supervise(e helperRequest) int {
	debug.SetGCPercent(-1)
	unix.CloseOnExec(lifeFD)
	if e.Fenced {
		if err := setUpNamespaces(e); err != nil {
			return broken(err)
		}
	} else if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return broken(err)
	}
	args, err := e.args(roleEnter)
	if err != nil {
		return broken(err)
	}
	asked := make(chan os.Signal, 8)
	signal.Notify(asked, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT)
	warm()
	child, err := syscall.ForkExec("/proc/self/exe", args, &syscall.ProcAttr{
		Env: os.Environ(), Files: []uintptr{0, 1, 2}, Sys: &syscall.SysProcAttr{Setpgid: true},
	})
	if err != nil {
		return broken(err)
	}
	// These two end with this process.
	go func() {
		for range asked {
			_ = syscall.Kill(-child, syscall.SIGTERM)
		}
	}()
	go func() {
		var b [1]byte
		_, _ = syscall.Read(lifeFD, b[:])
		kill(child) // the rest follows
	}()
	code := reap(child)
	end(child)
	return code
}

// warm makes threads ahead of need: once the number of processes is at its
// bound, there are none to be had.
func warm() {
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

// reap buries whoever ends, until child does, and returns its exit code.
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

// kill ends the child and its group at one stroke. The child may have left it.
func kill(child int) {
	_ = syscall.Kill(-child, syscall.SIGKILL)
	_ = syscall.Kill(child, syscall.SIGKILL)
}

// end ends all that has come from child, which is buried: its group, and then,
// as orphans come to this process, one generation after the other. Whoever ends
// hands its children over first, so that there are none once nobody is left to
// wait for. Nobody else may wait meanwhile.
func end(child int) {
	_ = syscall.Kill(-child, syscall.SIGKILL)
	if os.Getpid() == 1 {
		return // the end of this process ends them
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

// children returns the ids of the processes whose parent is pid.
func children(pid int) []int {
	var out []int
	each(func(id int, stat []byte) {
		if f := bytes.Fields(stat); len(f) > 1 && string(f[1]) == strconv.Itoa(pid) {
			out = append(out, id)
		}
	})
	return out
}

// each calls visit with what /proc says of each process after its name.
func each(visit func(id int, stat []byte)) {
	dir, err := os.Open("/proc")
	if err != nil {
		return
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1) // what there is
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

// enter is the last step: it takes away what the command may not have, and
// becomes the command.
func enter(e helperRequest) int {
	runtime.LockOSThread() // what is taken away is taken from a thread
	// What a user needed to furnish the name space.
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil && !errors.Is(err, unix.EINVAL) {
		return broken(err)
	}
	if err := os.Chdir(e.Dir); err != nil {
		return broken(err)
	}
	path, argv := e.Path, e.Argv
	switch e.Wall {
	case Landlock:
		if err := restrict(e); err != nil {
			return broken(err)
		}
		if err := dropCapabilities(); err != nil {
			return broken(err)
		}
	case Bubblewrap:
		path, argv = e.Bwrap, e.bwrapArgs()
	}
	if err := limit(e); err != nil {
		return broken(err)
	}
	err := syscall.Exec(path, argv, os.Environ())
	fmt.Fprintf(os.Stderr, "hermesd: %s cannot be run in the sandbox: %v\n", path, err)
	return exitDenied
}

// limit sets what the kernel bounds by itself.
func limit(e helperRequest) error {
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
		return nil // it does not bind root
	}
	n := uint64(e.Processes)
	if !e.Fenced {
		n += threads(uid) // the bound is on all that the account runs
	}
	return set(unix.RLIMIT_NPROC, n)
}

// threads returns how many threads the account runs.
func threads(uid int) (n uint64) {
	each(func(id int, stat []byte) {
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
