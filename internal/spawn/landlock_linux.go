package spawn

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"

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

// restrictScope denies signals to processes and abstract sockets outside, if the kernel
// can, to this thread and to the processes that it starts. The other threads can still
// signal these.
func restrictScope(abi int) error {
	if abi < minABI {
		return nil
	}
	fd, err := llsys.LandlockCreateRuleset(&llsys.RulesetAttr{Scoped: llsys.ScopeAbstractUnixSocket | llsys.ScopeSignal}, 0)
	if err != nil {
		return fmt.Errorf("landlock_create_ruleset: %w", err)
	}
	defer unix.Close(fd)
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("set no_new_privs: %w", err)
	}
	if err := llsys.LandlockRestrictSelf(fd, 0); err != nil {
		return fmt.Errorf("landlock_restrict_self: %w", err)
	}
	return nil
}

// restrictFiles denies the access to all files but those of the sandbox, and what
// restrictScope denies. Both persist across exec and are inherited by child processes.
func restrictFiles(e helperRequest) error {
	c := landlock.V11
	c.HandledAccessNet = 0 // the filter of system calls closes the network
	rules := []landlock.Rule{
		landlock.RODirs("/proc"),
		landlock.RWFiles("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty").WithIoctlDev().IgnoreIfMissing(),
	}
	for _, p := range e.Places {
		info, err := os.Stat(p.Source)
		switch {
		case err != nil || p.Kind != writable && p.Kind != readable:
		case p.Kind == writable:
			rules = append(rules, landlock.RWDirs(p.Source).WithRefer())
		case info.IsDir():
			rules = append(rules, landlock.RODirs(p.Source))
		default:
			rules = append(rules, landlock.ROFiles(p.Source))
		}
	}
	return c.BestEffort().Restrict(rules...)
}

// keptCapabilities returns the capabilities that root keeps in a root of its own. Landlock
// alone does not deny changes of the owner and the mode of files: there it keeps none.
func (e helperRequest) keptCapabilities() map[string]int {
	if e.Wall == Landlock {
		return nil
	}
	return map[string]int{
		"CAP_CHOWN": unix.CAP_CHOWN, "CAP_DAC_OVERRIDE": unix.CAP_DAC_OVERRIDE, "CAP_FOWNER": unix.CAP_FOWNER, "CAP_FSETID": unix.CAP_FSETID,
		"CAP_KILL": unix.CAP_KILL, "CAP_SETGID": unix.CAP_SETGID, "CAP_SETUID": unix.CAP_SETUID, "CAP_NET_BIND_SERVICE": unix.CAP_NET_BIND_SERVICE,
	}
}

// dropCapabilities drops all others permanently.
func (e helperRequest) dropCapabilities() error {
	if os.Getuid() != 0 {
		return nil // a non-root process has none after exec
	}
	keep := slices.Collect(maps.Values(e.keptCapabilities()))
	for c := range unix.CAP_LAST_CAP + 1 {
		if slices.Contains(keep, c) {
			continue
		}
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, uintptr(c), 0, 0, 0); err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.EPERM) {
			return fmt.Errorf("drop capabilities: %w", err)
		}
	}
	return nil
}
