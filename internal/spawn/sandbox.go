package spawn

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// A Mode determines whether processes run in a sandbox.
type Mode string

// The modes: the best sandbox that works on the machine, or no sandbox. Require is a former
// name of Auto.
const (
	Auto    Mode = "auto"
	Off     Mode = "off"
	Require Mode = "require"
)

// A Mechanism restricts the file access of processes.
type Mechanism string

// The mechanisms.
const (
	None       Mechanism = "none"
	Bubblewrap Mechanism = "bubblewrap"
	Namespaces Mechanism = "namespaces" // mount, PID and IPC namespaces that this program sets up itself
	Landlock   Mechanism = "landlock"   // with seccomp, and without namespaces
)

// A Policy defines what a process in a sandbox may do. Paths are absolute. The process
// can read SystemPaths and Read, and read and change Write; all other files are hidden.
type Policy struct {
	Write []string // directories
	Read  []string // files and directories in addition to SystemPaths
	// Hide lists paths that are hidden although they are inside a path of the others.
	// Paths of the others inside a hidden directory stay visible.
	Hide    []string
	Network bool   // may connect to other machines
	Temp    string // directory for temporary files, created if missing; "": the first of Write
	// Processes is the maximum number of processes at a time, 0 for DefaultProcesses;
	// Status tells whether it can be enforced. Memory is the maximum number of bytes of
	// data of each process, at least MinMemory; 0: no limit.
	Processes int
	Memory    int64
}

// DefaultProcesses is the default of Policy.Processes.
const DefaultProcesses = 512

// MinMemory is the minimum of Policy.Memory: processes do not start with less.
const MinMemory = 128 << 20

// lifeTime is how long the processes of a sandbox may take to end.
const lifeTime = 10 * time.Second

// SystemPaths returns the paths that every process in a sandbox may read and execute, if
// they exist.
func SystemPaths() []string {
	return []string{
		"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/opt", "/nix", "/gnu",
		"/run/systemd/resolve", "/run/resolvconf", "/run/current-system", "/sys/devices/system/cpu",
	}
}

// systemSecrets returns the system files that are hidden because root could read them.
func systemSecrets() []string {
	return []string{"/etc/shadow", "/etc/shadow-", "/etc/gshadow", "/etc/gshadow-", "/etc/ssl/private", "/etc/sudoers", "/etc/sudoers.d"}
}

// A Sandbox runs processes under a Policy. It is immutable and safe for concurrent use;
// the nil Sandbox restricts nothing.
type Sandbox struct {
	policy Policy
	status Status
	bwrap  string // path of bubblewrap
}

// A Status describes what a Sandbox enforces.
type Status struct {
	Mechanism Mechanism
	ABI       int // Landlock version of the kernel, 0 if none
	// Isolated: processes have their own namespaces. They see only each other, and none
	// is left when a command ends.
	Isolated bool
	Net      string   // how the network is restricted, in words; "": not restricted
	Bound    string   // what limits the number of processes, in words; "": nothing
	Reason   []string // why better mechanisms are not used
}

// String returns a description for users.
func (s Status) String() string {
	var b strings.Builder
	switch s.Mechanism {
	case Bubblewrap:
		b.WriteString("commands run in bubblewrap")
	case Landlock:
		fmt.Fprintf(&b, "commands run under Landlock (ABI %d of the kernel)", s.ABI)
	default:
		b.WriteString("commands run without a sandbox, with all rights of this account")
	}
	if s.Mechanism != None {
		if s.Isolated {
			b.WriteString(", in a process name space of their own")
		} else {
			b.WriteString(", without a process name space")
		}
		if s.Net != "" {
			b.WriteString("; " + s.Net)
		}
		if s.Bound != "" {
			b.WriteString("; " + s.Bound)
		} else {
			b.WriteString("; nothing but their timeout bounds the number of their processes")
		}
	}
	if len(s.Reason) > 0 {
		b.WriteString(" (" + strings.Join(s.Reason, "; ") + ")")
	}
	return b.String()
}

// ErrNoSandbox is wrapped by the error of Open if no sandbox works.
var ErrNoSandbox = errors.New("no sandbox works on this machine: install bubblewrap (the package is called bubblewrap nearly everywhere), " +
	"or run a Linux kernel of 5.13 or newer with Landlock switched on; or set the sandbox to off if commands may do all that this account may do")

// Open determines by test runs which mechanism works on this machine and enforces p. With
// Off it returns a Sandbox that restricts nothing.
func Open(ctx context.Context, mode Mode, p Policy) (*Sandbox, error) {
	s := &Sandbox{status: Status{Mechanism: None}}
	switch mode {
	case Off:
		s.status.Reason = []string{"it is switched off"}
		return s, nil
	case Auto, Require:
	default:
		return nil, fmt.Errorf("spawn: there is no sandbox mode %q; use auto, off or require", mode)
	}
	p, err := p.normalize()
	if err != nil {
		return nil, fmt.Errorf("sandbox: %w", err)
	}
	s.policy = p
	s.selectMechanism(ctx)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if s.status.Mechanism == None {
		return nil, fmt.Errorf("%w (%s)", ErrNoSandbox, strings.Join(s.status.Reason, "; "))
	}
	return s, nil
}

// bare is a helper run without mechanism, used for probing.
const bare Mechanism = "bare"

// isActive reports whether processes are restricted by s.
func (s *Sandbox) isActive() bool { return s != nil && s.status.Mechanism != None }

// Status returns what s enforces.
func (s *Sandbox) Status() Status {
	if s == nil {
		return Status{Mechanism: None}
	}
	return s.status
}

// selectMechanism probes the mechanisms, best first, and uses the first that works.
func (s *Sandbox) selectMechanism(ctx context.Context) {
	if !supported {
		s.status.Reason = []string{"there is no sandbox for this system"}
		return
	}
	abi, why := landlockABI()
	path, err := exec.LookPath("bwrap")
	if err != nil {
		s.status.Reason = append(s.status.Reason, "bubblewrap is not installed")
	}
	for _, wall := range []Mechanism{Bubblewrap, Landlock} {
		if wall == Bubblewrap && path == "" {
			continue
		}
		if wall == Landlock && abi == 0 {
			s.status.Reason = append(s.status.Reason, why)
			continue
		}
		for _, fenced := range []bool{true, false} {
			try := &Sandbox{policy: s.policy, bwrap: path, status: Status{Mechanism: wall, ABI: abi, Isolated: fenced}}
			pids, err := try.probe(ctx)
			if err != nil {
				s.status.Reason = append(s.status.Reason, fmt.Sprintf("%s %s does not work: %v", wall, map[bool]string{true: "with a name space", false: "alone"}[fenced], err))
				continue
			}
			try.status.Bound = try.processBound(ctx, pids)
			try.status.Reason = s.status.Reason
			try.status.Net = try.networkBound()
			*s = *try
			return
		}
	}
}

// probe runs a command in the sandbox. The command must be able to write to an allowed
// path and unable to read a hidden one. probe returns the highest process ID inside.
func (s *Sandbox) probe(ctx context.Context) (pids string, err error) {
	if err := s.checkPolicy(); err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp("", "hermesd-probe-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return "", err
	}
	open, hidden := filepath.Join(dir, "open"), filepath.Join(dir, "hidden")
	for _, d := range []string{open, hidden} {
		if err := os.Mkdir(d, 0o700); err != nil {
			return "", err
		}
	}
	if err := os.WriteFile(filepath.Join(hidden, "file"), []byte("x"), 0o600); err != nil {
		return "", err
	}
	try := *s
	try.policy.Write, try.policy.Temp = append([]string{open}, s.policy.Write...), open
	try.policy.Hide = append([]string{hidden}, s.policy.Hide...)
	r, err := Run(ctx, Command{
		Shell: `echo x > open/file || exit 11
cat hidden/file >/dev/null 2>&1 && exit 12
echo y 2>/dev/null > hidden/file && exit 13
cat /proc/sys/kernel/pid_max`,
		Interpreter: "sh", Dir: dir, Sandbox: &try, Timeout: 10 * time.Second,
	})
	switch {
	case err != nil:
		return "", err
	case r.Cause != nil:
		return "", r.Cause
	case r.Code == 11:
		return "", errors.New("what may be written cannot be written")
	case r.Code == 12 || r.Code == 13:
		return "", errors.New("what is hidden can be reached")
	case r.Code != 0:
		return "", fmt.Errorf("a first command failed: %s", firstLine(r.Head))
	}
	if raw, err := os.ReadFile(filepath.Join(hidden, "file")); err != nil || string(raw) != "x" {
		return "", errors.New("what is hidden was changed")
	}
	return firstLine(r.Head), nil
}

// firstLine returns the beginning of a program's output.
func firstLine(b []byte) string {
	line, _, _ := strings.Cut(strings.TrimSpace(string(b)), "\n")
	return strings.ToValidUTF8(line[:min(len(line), 200)], "")
}

// networkBound describes how the network is restricted.
func (s *Sandbox) networkBound() string {
	switch {
	case s.policy.Network:
		return ""
	case s.status.Isolated || s.status.Mechanism == Bubblewrap:
		return "no network"
	case s.status.ABI >= 10:
		return "no TCP and no UDP"
	case s.status.ABI >= 4:
		return "no TCP, but UDP, which this kernel cannot close"
	}
	return "the network is open, because this kernel cannot close it"
}
