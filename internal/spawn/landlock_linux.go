package spawn

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/landlock-lsm/go-landlock/landlock"
	llsys "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"
)

// landlockABI returns the Landlock version of this kernel; 0 and the reason if there is
// none.
func landlockABI() (int, string) {
	abi, err := llsys.LandlockGetABIVersion()
	switch {
	case errors.Is(err, unix.ENOSYS):
		return 0, "this kernel has no Landlock"
	case errors.Is(err, unix.EOPNOTSUPP):
		return 0, "Landlock is not switched on in this kernel"
	case err != nil:
		return 0, "Landlock cannot be used: " + err.Error()
	}
	return abi, ""
}

// restrict applies Landlock to this process. The restriction persists across exec and is
// inherited by child processes.
func restrict(e helperRequest) error {
	abi, why := landlockABI()
	if abi == 0 {
		return errors.New(why)
	}
	c := landlock.V11
	if e.Network {
		c.HandledAccessNet = 0
	}
	rules := []landlock.Rule{
		landlock.RODirs("/proc"),
		landlock.RWFiles("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty").WithIoctlDev().IgnoreIfMissing(),
		landlock.RWDirs("/dev/shm", "/dev/pts").WithIoctlDev().IgnoreIfMissing(),
	}
	for _, p := range e.Places {
		info, err := os.Stat(p.Path)
		switch {
		case err != nil || p.Kind == hidden:
		case p.Kind == writable:
			r := landlock.RWDirs(p.Path)
			if abi >= 2 { // before version 2, BestEffort would enforce nothing with this right
				r = r.WithRefer()
			}
			rules = append(rules, r)
		case info.IsDir():
			rules = append(rules, landlock.RODirs(p.Path))
		default:
			rules = append(rules, landlock.ROFiles(p.Path))
		}
	}
	return c.BestEffort().Restrict(rules...)
}

// keptCapabilities returns the capabilities that root keeps in a sandbox.
func keptCapabilities() []string {
	return []string{"CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_FSETID", "CAP_KILL", "CAP_SETGID", "CAP_SETUID", "CAP_NET_BIND_SERVICE"}
}

// dropCapabilities drops all others permanently.
func dropCapabilities() error {
	if os.Getuid() != 0 {
		return nil // a non-root process has none after exec
	}
	keep := []int{unix.CAP_CHOWN, unix.CAP_DAC_OVERRIDE, unix.CAP_FOWNER, unix.CAP_FSETID, unix.CAP_KILL, unix.CAP_SETGID, unix.CAP_SETUID, unix.CAP_NET_BIND_SERVICE}
	for c := range unix.CAP_LAST_CAP + 1 {
		if slices.Contains(keep, c) {
			continue
		}
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, uintptr(c), 0, 0, 0); err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.EPERM) {
			return err
		}
	}
	return nil
}

// bwrapArgs returns the arguments of bubblewrap.
func (e helperRequest) bwrapArgs() []string {
	a := []string{"bwrap", "--die-with-parent", "--unshare-pid", "--unshare-ipc", "--unshare-uts"}
	if !e.Network {
		a = append(a, "--unshare-net")
	}
	if os.Getuid() == 0 {
		a = append(a, "--cap-drop", "ALL")
		for _, c := range keptCapabilities() {
			a = append(a, "--cap-add", c)
		}
	}
	a = append(a, "--dev", "/dev", "--proc", "/proc")
	if e.hasOwnTemp() {
		a = append(a, "--bind", e.Temp, "/tmp")
	}
	for _, p := range SystemPaths() {
		if to, err := os.Readlink(p); err == nil {
			a = append(a, "--symlink", to, p)
		}
	}
	var covers []string
	for _, p := range e.Places {
		info, err := os.Stat(p.Path)
		switch {
		case err != nil:
		case p.Kind == readable:
			a = append(a, "--ro-bind", p.Path, p.Path)
		case p.Kind == writable:
			a = append(a, "--bind", p.Path, p.Path)
		case info.IsDir():
			a = append(a, "--tmpfs", p.Path)
			covers = append(covers, "--remount-ro", p.Path)
		default:
			a = append(a, "--ro-bind", "/dev/null", p.Path)
		}
	}
	a = append(a, covers...)
	a = append(a, "--remount-ro", "/", "--chdir", e.Dir, "--", e.Path)
	return append(a, e.Argv[1:]...)
}

// processBound describes what limits the number of processes; pids is the highest process
// ID that a command in the sandbox sees.
func (s *Sandbox) processBound(ctx context.Context, pids string) string {
	n := s.policy.Processes
	switch {
	case os.Getuid() != 0 && s.status.Isolated:
		return fmt.Sprintf("at most %d processes at once", n)
	case os.Getuid() != 0:
		return fmt.Sprintf("at most %d processes at once beside those this account runs already", n)
	case !s.status.Isolated:
		return ""
	case s.status.Mechanism == Bubblewrap: // which creates another namespace inside this one
		try := *s
		try.status.Mechanism = bare
		r, err := Run(ctx, Command{Argv: []string{"cat", "/proc/sys/kernel/pid_max"}, Dir: "/", Sandbox: &try, Timeout: 10 * time.Second})
		if err != nil {
			return ""
		}
		pids = firstLine(r.Head)
	}
	if most, err := strconv.Atoi(pids); err == nil && most <= max(n, minPIDs) {
		return fmt.Sprintf("at most %d processes at once", most)
	}
	return ""
}
