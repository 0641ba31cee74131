package spawn

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// probeTimeout limits the self-test of one mechanism.
const probeTimeout = 20 * time.Second

// A probeTarget is what the self-test tries to reach from the inside.
type probeTarget struct {
	Write    string `json:"write"`  // file that must be writable
	Hidden   string `json:"hidden"` // file that must not be readable
	Path     string `json:"path"`   // socket
	Abstract string `json:"abstract"`
	Terminal string `json:"terminal,omitempty"` // "": this machine gives out no terminals
	Shared   string `json:"shared,omitempty"`   // file in /dev/shm
	Segment  int    `json:"segment,omitempty"`  // key of a System V segment
	Port     int    `json:"port,omitempty"`     // of this machine, on the loopback; 0: the command has the network
	Process  int    `json:"process"`            // in PIDs
	PIDs     string `json:"pids"`               // a PID namespace
}

// A probeResult is what the self-test found.
type probeResult struct {
	Tested  []string `json:"tested"`  // what could not be reached
	Reached []string `json:"reached"` // what could
	Broken  string   `json:"broken,omitempty"`
	PIDs    string   `json:"pids"` // pid_max
}

// probe runs this program in the sandbox, where it tries to reach things that the sandbox
// must hide, with the network that the policy allows or without. It completes the status
// of s.
func (s *Sandbox) probe(ctx context.Context, noNetwork bool) error {
	dir, err := os.MkdirTemp("", "hermesd-probe-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return err
	}
	target, release, err := prepareTarget(dir)
	if err != nil {
		return err
	}
	defer release()
	exe, err := os.Executable()
	if err == nil {
		exe, err = filepath.EvalSymlinks(exe)
	}
	if err != nil {
		return fmt.Errorf("find the program file: %w", err)
	}
	if s.policy.Network && !noNetwork {
		target.Port = 0
	}
	try := *s
	try.policy.Write = append([]string{filepath.Dir(target.Write)}, s.policy.Write...)
	try.policy.Hide = append([]string{filepath.Dir(target.Hidden)}, s.policy.Hide...)
	try.policy.Read = append([]string{exe}, s.policy.Read...)
	argument, err := json.Marshal(target)
	if err != nil {
		return err
	}
	r, err := Run(ctx, Command{
		Argv: []string{exe, helperArg, roleSelfTest, string(argument)}, Dir: filepath.Dir(target.Write), Sandbox: &try, NoNetwork: noNetwork, Timeout: probeTimeout,
	})
	if err != nil {
		return err
	}
	if r.Cause != nil {
		return r.Cause
	}
	var found probeResult
	if err := json.Unmarshal(r.Head, &found); err != nil {
		return fmt.Errorf("a first command failed (%d): %s", r.Code, firstLine(r.Head))
	}
	return s.judge(found, target)
}

// judge returns an error if the sandbox did not hold.
func (s *Sandbox) judge(found probeResult, target probeTarget) error {
	if found.Broken != "" {
		return errors.New(found.Broken)
	}
	if len(found.Reached) > 0 {
		return fmt.Errorf("the self-test reached %s", strings.Join(found.Reached, ", "))
	}
	if raw, err := os.ReadFile(target.Write); err != nil || string(raw) != "x" {
		return errors.New("what may be written cannot be written")
	}
	if raw, err := os.ReadFile(target.Hidden); err != nil || string(raw) != "x" {
		return errors.New("what is hidden was changed")
	}
	s.status.Tested = found.Tested
	s.status.Bound = s.processBound(found.PIDs)
	return nil
}

// processBound describes what limits the number of processes; pids is the highest process
// ID inside.
func (s *Sandbox) processBound(pids string) string {
	n := s.policy.Processes
	switch {
	case os.Getuid() != 0 && s.ownPIDs:
		return fmt.Sprintf("at most %d processes at once", n)
	case os.Getuid() != 0:
		return fmt.Sprintf("at most %d processes at once in addition to those that this account runs already", n)
	case !s.ownPIDs:
		return ""
	case s.status.Mechanism == Bubblewrap && hasOwnPIDMax(): // its own namespace inside of ours has another value
		return fmt.Sprintf("at most %d processes at once", max(n, minPIDs))
	}
	if most, err := strconv.Atoi(pids); err == nil && most <= max(n, minPIDs) {
		return fmt.Sprintf("at most %d processes at once", most)
	}
	return ""
}

// prepareTarget creates what the self-test tries to reach. release removes it.
func prepareTarget(dir string) (t probeTarget, release func(), err error) {
	var undo []func()
	release = func() {
		for _, f := range undo {
			f()
		}
	}
	fail := func(err error) (probeTarget, func(), error) {
		release()
		return t, nil, err
	}
	for _, d := range []string{"open", "hidden"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o700); err != nil {
			return fail(err)
		}
	}
	name := "hermesd-probe-" + rand.Text()
	t = probeTarget{
		Write: filepath.Join(dir, "open", "file"), Hidden: filepath.Join(dir, "hidden", "file"), Path: filepath.Join(dir, "hidden", "sock"), Abstract: "@" + name,
		Process: os.Getpid(), PIDs: pidNamespace(),
	}
	if err := os.WriteFile(t.Hidden, []byte("x"), 0o600); err != nil {
		return fail(err)
	}
	for _, addr := range []string{t.Path, t.Abstract} {
		fd, err := listen(unix.AF_UNIX, &unix.SockaddrUnix{Name: addr})
		if err != nil {
			return fail(fmt.Errorf("open a socket for the self-test: %w", err))
		}
		undo = append(undo, func() { _ = unix.Close(fd) })
	}
	if fd, port, err := listenLoopback(); err == nil { // else there is no network that could be reached
		t.Port = port
		undo = append(undo, func() { _ = unix.Close(fd) })
	}
	if path, f := openTerminal(); f != nil {
		t.Terminal = path
		undo = append(undo, func() { _ = f.Close() })
	}
	if shm := "/dev/shm/" + name; os.WriteFile(shm, []byte("x"), 0o600) == nil {
		t.Shared = shm
		undo = append(undo, func() { _ = os.Remove(shm) })
	}
	key := int(uint32(time.Now().UnixNano())>>2 | 1)
	if id, err := unix.SysvShmGet(key, 4096, unix.IPC_CREAT|unix.IPC_EXCL|0o600); err == nil {
		t.Segment = key
		undo = append(undo, func() { _, _ = unix.SysvShmCtl(id, unix.IPC_RMID, nil) })
	}
	return t, release, nil
}

// listenLoopback returns the descriptor and the port of a TCP socket that listens on the
// loopback.
func listenLoopback() (fd, port int, err error) {
	fd, err = listen(unix.AF_INET, &unix.SockaddrInet4{Addr: loopback})
	if err != nil {
		return -1, 0, err
	}
	addr, err := unix.Getsockname(fd)
	if a, ok := addr.(*unix.SockaddrInet4); err == nil && ok {
		return fd, a.Port, nil
	}
	_ = unix.Close(fd)
	return -1, 0, errors.Join(errors.New("the port is unknown"), err)
}

var loopback = [4]byte{127, 0, 0, 1}

// listen returns the descriptor of a socket that listens on addr. Package net is not used:
// the initialization of the helper would wait for it, and so for many others.
func listen(family int, addr unix.Sockaddr) (fd int, err error) {
	fd, err = unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	if err = unix.Bind(fd, addr); err == nil {
		err = unix.Listen(fd, 8)
	}
	if err != nil {
		_ = unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// openTerminal returns a new terminal: its path and its other side, nil if there is none.
func openTerminal() (string, *os.File) {
	f, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return "", nil
	}
	n, err := unix.IoctlGetInt(int(f.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(f.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		_ = f.Close()
		return "", nil
	}
	return "/dev/pts/" + strconv.Itoa(n), f
}

// pidNamespace identifies the PID namespace of this process; "": unknown.
func pidNamespace() string {
	name, _ := os.Readlink("/proc/self/ns/pid")
	return name
}

func tryOpen(path string, flag int) func() error {
	return func() error {
		f, err := os.OpenFile(path, flag|unix.O_NOCTTY|unix.O_NONBLOCK, 0)
		if err == nil {
			_ = f.Close()
		}
		return err
	}
}

func tryDial(family int, addr unix.Sockaddr) func() error {
	return func() error {
		fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		return unix.Connect(fd, addr)
	}
}

// selfTest is the self-test inside the sandbox. It prints a probeResult.
func selfTest(argument string) int {
	var t probeTarget
	if err := json.Unmarshal([]byte(argument), &t); err != nil {
		return reportFailure(err)
	}
	var r probeResult
	try := func(what string, reach func() error) {
		if reach() == nil {
			r.Reached = append(r.Reached, what)
		} else {
			r.Tested = append(r.Tested, what)
		}
	}
	try("a hidden file", tryOpen(t.Hidden, os.O_RDONLY))
	try("a hidden file for writing", tryOpen(t.Hidden, os.O_WRONLY))
	try("a socket outside", tryDial(unix.AF_UNIX, &unix.SockaddrUnix{Name: t.Path}))
	try("an abstract socket outside", tryDial(unix.AF_UNIX, &unix.SockaddrUnix{Name: t.Abstract}))
	if t.Port != 0 {
		try("a port of this machine without network", tryDial(unix.AF_INET, &unix.SockaddrInet4{Addr: loopback, Port: t.Port}))
	}
	if t.Terminal != "" {
		try("a terminal", tryOpen(t.Terminal, os.O_RDWR))
	}
	if t.Shared != "" {
		try("shared memory in /dev/shm", tryOpen(t.Shared, os.O_RDONLY))
	}
	if t.Segment != 0 {
		try("a System V shared memory segment", func() error { _, err := unix.SysvShmGet(t.Segment, 4096, 0); return err })
	}
	try("the daemon's process", func() error {
		if own := pidNamespace(); own != "" && own != t.PIDs {
			return unix.ESRCH // its ID means another process here
		}
		return unix.Kill(t.Process, 0)
	})
	if err := os.WriteFile(t.Write, []byte("x"), 0o600); err != nil {
		r.Broken = "what may be written cannot be written"
	} else if out, err := exec.Command("sh", "-c", "echo x >/dev/null").CombinedOutput(); err != nil {
		r.Broken = fmt.Sprintf("a first shell failed: %v: %s", err, firstLine(out))
	}
	raw, _ := os.ReadFile("/proc/sys/kernel/pid_max") // missing: the limit is unknown
	r.PIDs = strings.TrimSpace(string(raw))
	if err := json.NewEncoder(os.Stdout).Encode(r); err != nil {
		return exitBroken
	}
	return 0
}
