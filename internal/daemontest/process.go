package daemontest

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"hermesd/internal/spawn"
)

// A Process is one process of the daemon.
type Process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when the process has ended
	err  error         // valid once done is closed
}

// startProcess starts the daemon with its output written to out.
func startProcess(o Options, out io.Writer) (*Process, error) {
	cmd := exec.Command(o.Binary, "run", "--home", o.Home)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.Env = append(environment(os.Environ()), o.Env...)
	start := cmd.Start
	if o.TimerSlack > 0 {
		start = func() error { return spawn.WithTimerSlack(o.TimerSlack, cmd.Start) }
	}
	if err := start(); err != nil {
		return nil, fmt.Errorf("start daemon: %w", err)
	}
	p := &Process{cmd: cmd, done: make(chan struct{})}
	go func() { p.err = cmd.Wait(); close(p.done) }() // ends with the process; Kill and Term wait for it
	return p, nil
}

// environment returns the variables that a program needs to run. Others could change the
// settings of the daemon: tokens of real bots, or a proxy.
func environment(ours []string) []string {
	kept := []string{"PATH", "HOME", "TMPDIR", "XDG_RUNTIME_DIR", "TZ", "LANG", "GORACE", "GODEBUG", "GOMAXPROCS", "GOMEMLIMIT", "GOTRACEBACK", "GOCOVERDIR"}
	return slices.DeleteFunc(slices.Clone(ours), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return !slices.Contains(kept, name)
	})
}

// Kill sends SIGKILL and returns when the process has ended.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
}

// Term sends SIGTERM and waits for the end of the process. After limit it kills the
// process and returns an error.
func (p *Process) Term(limit time.Duration) error {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
		return p.err
	case <-time.After(limit):
		p.Kill()
		return fmt.Errorf("daemon did not stop within %v", limit)
	}
}

// Ended returns a channel that is closed when the process has ended.
func (p *Process) Ended() <-chan struct{} { return p.done }

// Err returns the exit error of the process, or an error if it still runs.
func (p *Process) Err() error {
	select {
	case <-p.done:
		return p.err
	default:
		return errors.New("daemon is still running")
	}
}

// CPU returns the processor time that the process's threads have used, as counted by the
// scheduler. It needs /proc.
func (p *Process) CPU() (time.Duration, error) {
	tasks, err := os.ReadDir(p.procPath("task"))
	if err != nil {
		return 0, err
	}
	var sum time.Duration
	for _, t := range tasks {
		raw, err := os.ReadFile(p.procPath("task/" + t.Name() + "/schedstat"))
		if err != nil {
			continue // the thread has just ended
		}
		ran, _, _ := strings.Cut(string(raw), " ")
		n, err := strconv.ParseInt(ran, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("/proc/<pid>/task/*/schedstat: %w", err)
		}
		sum += time.Duration(n)
	}
	return sum, nil
}

// Memory is the resident memory of a process in bytes. Anon is anonymous memory, File that
// of mapped files such as the store.
type Memory struct{ Anon, File int64 }

// Memory returns the resident memory of the process. It needs /proc.
func (p *Process) Memory() (m Memory, err error) {
	raw, err := os.ReadFile(p.procPath("status"))
	if err != nil {
		return m, err
	}
	for line := range strings.Lines(string(raw)) {
		name, value, _ := strings.Cut(line, ":")
		kib, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
		switch name {
		case "RssAnon":
			m.Anon = kib << 10
		case "RssFile":
			m.File = kib << 10
		}
	}
	return m, nil
}

// Switches returns the number of voluntary context switches of the process's threads. It
// needs /proc.
func (p *Process) Switches() (int64, error) {
	tasks, err := os.ReadDir(p.procPath("task"))
	if err != nil {
		return 0, err
	}
	var sum int64
	for _, t := range tasks {
		raw, err := os.ReadFile(p.procPath("task/" + t.Name() + "/status"))
		if err != nil {
			continue // the thread has just ended
		}
		for line := range strings.Lines(string(raw)) {
			if v, ok := strings.CutPrefix(line, "voluntary_ctxt_switches:"); ok {
				n, _ := strconv.ParseInt(strings.TrimSpace(v), 10, 64)
				sum += n
			}
		}
	}
	return sum, nil
}

func (p *Process) procPath(name string) string {
	return fmt.Sprintf("/proc/%d/%s", p.cmd.Process.Pid, name)
}
