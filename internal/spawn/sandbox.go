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

// A Mode says whether processes run in a sandbox.
type Mode string

// The modes: the best sandbox that works here, if any; none; or none is an
// error.
const (
	Auto    Mode = "auto"
	Off     Mode = "off"
	Require Mode = "require"
)

// A Mechanism is what keeps a process from files.
type Mechanism string

// The walls.
const (
	None       Mechanism = "none"
	Landlock   Mechanism = "landlock"
	Bubblewrap Mechanism = "bubblewrap"
)

// A Policy says what a process in a sandbox may do. Paths are absolute. Of the
// files of the machine it sees those of SystemPaths and of Read, and may change
// those in Write; everything else is hidden.
type Policy struct {
	Write []string // folders
	Read  []string // files and folders beside SystemPaths
	// Hide names what is hidden although it is in a folder of the others. A folder
	// of the others that is inside a hidden one is seen all the same.
	Hide    []string
	Network bool   // may speak to other machines
	Temp    string // folder for temporary files, made if need be; "": the first of Write
	// Processes is how many may run at once, 0 for DefaultProcesses; Status says
	// whether that can be held here. Memory is the most bytes of data of each one, at
	// least LeastMemory; 0 is no limit.
	Processes int
	Memory    int64
}

// DefaultProcesses is how many processes may run at once in a sandbox.
const DefaultProcesses = 512

// MinMemory is the smallest limit on memory: less does not start.
const MinMemory = 128 << 20

// lifeTime is how long a sandbox may take to end all that is in it.
const lifeTime = 10 * time.Second

// SystemPaths returns what every process in a sandbox may read and run, where
// it exists.
func SystemPaths() []string {
	return []string{
		"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/opt", "/nix", "/gnu",
		"/run/systemd/resolve", "/run/resolvconf", "/run/current-system", "/sys/devices/system/cpu",
	}
}

// systemSecrets are hidden where a root of the sandbox could read them.
func systemSecrets() []string {
	return []string{"/etc/shadow", "/etc/shadow-", "/etc/gshadow", "/etc/gshadow-", "/etc/ssl/private", "/etc/sudoers", "/etc/sudoers.d"}
}

// A Sandbox holds processes within a Policy. It does not change; the nil
// Sandbox holds nothing.
type Sandbox struct {
	policy Policy
	status Status
	bwrap  string // the program
}

// A Status says what holds.
type Status struct {
	Mechanism Mechanism
	ABI       int // version of Landlock in this kernel, 0 without
	// Isolated says that processes have a name space of their own: they see only each
	// other, and not one is left when a command ends.
	Isolated bool
	Net      string   // how far the network is closed, in words; "": it is open
	Bound    string   // what bounds how many processes run, in words; "": nothing
	Reason   []string // why what would be better is not used
}

// String says all of it for people.
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

// ErrNoSandbox is why Open fails that requires a sandbox.
var ErrNoSandbox = errors.New("no sandbox works on this machine: install bubblewrap (the package is called bubblewrap nearly everywhere), " +
	"or run a Linux kernel of 5.13 or newer with Landlock switched on; or set the sandbox to off if commands may do all that this account may do")

// Open finds out by real runs which sandbox works here and holds p. With Auto
// and no sandbox, and with Off, it returns a Sandbox that holds nothing.
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
	p, err := p.clean()
	if err != nil {
		return nil, fmt.Errorf("sandbox: %w", err)
	}
	s.policy = p
	s.choose(ctx)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if s.status.Mechanism == None && mode == Require {
		return nil, fmt.Errorf("%w (%s)", ErrNoSandbox, strings.Join(s.status.Reason, "; "))
	}
	return s, nil
}

// bare is the inside of a sandbox without a wall, to look at it.
const bare Mechanism = "bare"

// holds reports whether processes are started in it.
func (s *Sandbox) holds() bool { return s != nil && s.status.Mechanism != None }

// Status says what holds.
func (s *Sandbox) Status() Status {
	if s == nil {
		return Status{Mechanism: None}
	}
	return s.status
}

// choose tries what could work, best first, and takes what does.
func (s *Sandbox) choose(ctx context.Context) {
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
			pids, err := try.prove(ctx)
			if err != nil {
				s.status.Reason = append(s.status.Reason, fmt.Sprintf("%s %s does not work: %v", wall, map[bool]string{true: "with a name space", false: "alone"}[fenced], err))
				continue
			}
			try.status.Bound = try.bound(ctx, pids)
			try.status.Reason = s.status.Reason
			try.status.Net = try.closed()
			*s = *try
			return
		}
	}
}

// prove runs something real in the sandbox: it must be able to write where it
// may, and not to read what is hidden. It returns the highest process id in there.
func (s *Sandbox) prove(ctx context.Context) (pids string, err error) {
	if err := s.refused(); err != nil {
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

// firstLine returns the beginning of what a program wrote.
func firstLine(b []byte) string {
	line, _, _ := strings.Cut(strings.TrimSpace(string(b)), "\n")
	return strings.ToValidUTF8(line[:min(len(line), 200)], "")
}

// closed says in words how far the network is closed.
func (s *Sandbox) closed() string {
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
