package spawn

import (
	"context"
	"errors"
	"fmt"
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
	// Status tells whether it can be enforced.
	Processes int
}

// DefaultProcesses is the default of Policy.Processes.
const DefaultProcesses = 512

// lifeTime is how long the processes of a sandbox may take to end.
const lifeTime = 10 * time.Second

// A Sandbox runs processes under a Policy. It is immutable and safe for concurrent use;
// the nil Sandbox restricts nothing.
type Sandbox struct {
	policy  Policy
	status  Status
	bwrap   string // path of bubblewrap
	ownPIDs bool   // the supervisor has namespaces of its own
}

// A Status describes what a Sandbox enforces.
type Status struct {
	Mechanism Mechanism
	ABI       int      // Landlock version of the kernel, 0 if none
	Net       string   // how the network is restricted, in words; "": not restricted
	NetReason string   // why no command can be started without network; "": any can, if there is a mechanism
	Bound     string   // what limits the number of processes, in words; "": nothing
	Tested    []string // what the self-test tried without success, in words
	Reason    []string // why better mechanisms are not used
}

// Full reports whether commands have a root directory of their own, and any can be started
// without network. Under Landlock they see the names of all files.
func (s Status) Full() bool {
	return (s.Mechanism == Bubblewrap || s.Mechanism == Namespaces) && s.NetReason == ""
}

// String returns a description for users.
func (s Status) String() string {
	var b strings.Builder
	switch s.Mechanism {
	case Bubblewrap:
		b.WriteString("commands run in bubblewrap")
	case Namespaces:
		b.WriteString("commands run in namespaces of their own")
	case Landlock:
		fmt.Fprintf(&b, "commands run under Landlock (ABI %d of the kernel) and seccomp, without namespaces", s.ABI)
	default:
		b.WriteString("commands run without a sandbox, with all rights of this account")
	}
	if s.Mechanism != None {
		if s.Net != "" {
			b.WriteString("; " + s.Net)
		}
		if s.NetReason != "" {
			b.WriteString("; none can be run without network: " + s.NetReason)
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
var ErrNoSandbox = errors.New("no sandbox works on this machine: on Linux, install bubblewrap (the package is called bubblewrap nearly everywhere), " +
	"or allow user namespaces, or run Linux 6.12 or newer with Landlock switched on; or set terminal.sandbox to off if commands may do all that this account may do")

// Open determines by test runs which mechanism works on this machine and enforces p. With
// Off it returns a Sandbox that restricts nothing.
func Open(ctx context.Context, mode Mode, p Policy) (*Sandbox, error) {
	switch mode {
	case Off:
		return &Sandbox{status: Status{Mechanism: None, Reason: []string{"it is switched off"}}}, nil
	case Auto, Require:
		return open(ctx, p, Bubblewrap, Namespaces, Landlock)
	}
	return nil, fmt.Errorf("spawn: there is no sandbox mode %q; use auto or off", mode)
}

func open(ctx context.Context, p Policy, mechanisms ...Mechanism) (*Sandbox, error) {
	p, err := p.normalize()
	if err != nil {
		return nil, fmt.Errorf("sandbox: %w", err)
	}
	if !supported {
		return nil, fmt.Errorf("%w (there is none for this system)", ErrNoSandbox)
	}
	var reasons []string
	for _, m := range mechanisms {
		s := &Sandbox{policy: p, status: Status{Mechanism: m}}
		err := s.try(ctx)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if err == nil {
			s.status.Reason = reasons
			return s, nil
		}
		reasons = append(reasons, fmt.Sprintf("%s: %v", m, err))
	}
	return nil, fmt.Errorf("%w (%s)", ErrNoSandbox, strings.Join(reasons, "; "))
}

// try tests whether the mechanism of s works, and completes the status.
func (s *Sandbox) try(ctx context.Context) error {
	if err := s.checkPolicy(); err != nil {
		return err
	}
	var missing string
	s.status.ABI, missing = landlockABI()
	switch s.status.Mechanism {
	case Bubblewrap:
		var err error
		if s.bwrap, err = findBwrap(); err != nil {
			return err
		}
		s.ownPIDs = true
		if s.probe(ctx, false) == nil {
			break
		}
		s.ownPIDs = false
		if err := s.probe(ctx, false); err != nil {
			return err
		}
	case Namespaces:
		s.ownPIDs = true
		if err := s.probe(ctx, false); err != nil {
			return err
		}
	default:
		switch {
		case s.status.ABI == 0:
			return errors.New(missing)
		case s.status.ABI < minABI:
			return fmt.Errorf("the kernel has version %d of it, which cannot deny signals to other processes; %d can (Linux 6.12)", s.status.ABI, minABI)
		}
		if err := s.probe(ctx, false); err != nil {
			return err
		}
	}
	if !s.policy.Network {
		s.status.Net = "no network"
	} else if err := s.probe(ctx, true); err != nil {
		s.status.NetReason = err.Error()
	}
	return nil
}

// checkNoNetwork returns an error if commands cannot be started without network.
func (s *Sandbox) checkNoNetwork() error {
	switch {
	case !s.isActive():
		return errors.New("it cannot be run without network, because there is no sandbox")
	case s.status.NetReason != "":
		return fmt.Errorf("it cannot be run without network: %s", s.status.NetReason)
	}
	return nil
}

// isActive reports whether processes are restricted by s.
func (s *Sandbox) isActive() bool { return s != nil && s.status.Mechanism != None }

// Status returns what s enforces.
func (s *Sandbox) Status() Status {
	if s == nil {
		return Status{Mechanism: None}
	}
	return s.status
}

// minABI is the Landlock version that can deny signals to and abstract sockets of
// processes outside (Linux 6.12).
const minABI = 6

// firstLine returns the beginning of a program's output.
func firstLine(b []byte) string {
	line, _, _ := strings.Cut(strings.TrimSpace(string(b)), "\n")
	return strings.ToValidUTF8(line[:min(len(line), 300)], "")
}
