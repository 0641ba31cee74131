// Package service installs the daemon as a systemd service, of the system or of a user,
// and starts, stops and inspects it. The main type is [Service].
//
// It calls the programs systemctl, loginctl and journalctl. Directives of the unit file
// that the manager cannot apply are omitted and listed in the file and in the Report of
// Install.
package service

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"hermesd/cmd/internal/userns"
	"hermesd/systemd"
)

// SystemHome is the default home directory of a system service.
const SystemHome = "/var/lib/hermesd"

// DefaultAccount is the default account of a system service.
const DefaultAccount = "hermesd"

// ErrNoManager is returned if systemd is not running.
var ErrNoManager = errors.New("there is no systemd here; let your supervisor run `hermesd run`: exit code 75 asks for a restart, after 78 a restart is of no use")

// Options identify a service and how its manager is reached. Binary and Home are
// required.
type Options struct {
	User    bool   // a service of the current user, not of the system
	Binary  string // absolute path of hermesd
	Home    string // absolute path of its home directory
	Profile string // profile of the home directory
	Account string // account of a system service
	// Stop limits the time that the service may take to stop.
	Stop time.Duration
	// Dir is the directory of the unit file; "" for the manager's default.
	Dir string
	// AppArmorDir is the directory of AppArmor profiles; "": /etc/apparmor.d. Proc is the
	// directory with the settings of the kernel; "": userns.Proc.
	AppArmorDir, Proc string
	// Env looks up environment variables.
	Env func(string) (string, bool)
	// Verify checks a unit file, as systemd.Verify does.
	Verify func(ctx context.Context, path string, user bool) (systemd.VerifyReport, error)
}

// A Service is one service, installed or not.
type Service struct {
	o    Options
	unit string // unit name
	path string // path of the unit file
}

// New returns the service that o identifies. It changes nothing.
func New(o Options) (*Service, error) {
	o.AppArmorDir, o.Proc = cmp.Or(o.AppArmorDir, "/etc/apparmor.d"), cmp.Or(o.Proc, userns.Proc)
	if o.Dir == "" {
		dir, err := unitDir(o)
		if err != nil {
			return nil, err
		}
		o.Dir = dir
	}
	return &Service{o: o, unit: systemd.UnitName(o.Profile), path: filepath.Join(o.Dir, systemd.UnitName(o.Profile))}, nil
}

// unitDir returns the directory in which the manager looks for units of the
// operator.
func unitDir(o Options) (string, error) {
	if !o.User {
		return "/etc/systemd/system", nil
	}
	if dir, _ := o.Env("XDG_CONFIG_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "systemd", "user"), nil
	}
	home, _ := o.Env("HOME")
	if home == "" {
		return "", errors.New("where the unit file belongs is not known: set HOME")
	}
	return filepath.Join(home, ".config", "systemd", "user"), nil
}

// Path returns the path of the unit file, which need not exist.
func (s *Service) Path() string { return s.path }

// run runs a program with English output to out. The error contains its standard
// error.
func run(ctx context.Context, out io.Writer, name string, args ...string) error {
	path, err := exec.LookPath(name)
	if err != nil && name == parser {
		return fmt.Errorf("%s is not on PATH; install the package apparmor", name)
	}
	if err != nil {
		return fmt.Errorf("%w (%s is not on PATH)", ErrNoManager, name)
	}
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Env = append(os.Environ(), "LC_ALL=C", "SYSTEMD_COLORS=0", "SYSTEMD_PAGER=")
	cmd.WaitDelay = 5 * time.Second
	var stderr strings.Builder
	cmd.Stdout, cmd.Stderr = out, &stderr
	if err := cmd.Run(); err != nil {
		if text := strings.TrimSpace(stderr.String()); text != "" {
			return fmt.Errorf("%s %s: %s: %w", name, strings.Join(args, " "), strings.ReplaceAll(text, "\n", "; "), err)
		}
		return fmt.Errorf("%s %s: %w", name, strings.Join(args, " "), err)
	}
	return nil
}

// systemctl runs systemctl for the system or user manager and returns its output.
func (s *Service) systemctl(ctx context.Context, args ...string) (string, error) {
	if s.o.User {
		args = append([]string{"--user"}, args...)
	}
	var out strings.Builder
	err := run(ctx, &out, "systemctl", args...)
	if err != nil {
		err = s.explain(err)
	}
	return out.String(), err
}

// explain adds the next step to frequent errors of systemctl.
func (s *Service) explain(err error) error {
	text := err.Error()
	switch {
	case strings.Contains(text, "System has not been booted with systemd"):
		return fmt.Errorf("%w (%w)", ErrNoManager, err)
	case s.o.User && (strings.Contains(text, "connect to bus") || strings.Contains(text, "connect to user scope bus")):
		return fmt.Errorf("%w; your own manager is not reached: log in directly instead of with su, or set XDG_RUNTIME_DIR=/run/user/%d, or install with --system as root", err, os.Getuid())
	case strings.Contains(text, "Access denied") || strings.Contains(text, "authentication required") || strings.Contains(text, "Permission denied"):
		return fmt.Errorf("%w; a service of the machine is for root: use sudo, or leave out --system", err)
	}
	return err
}

// Start starts the service and waits until it is ready.
func (s *Service) Start(ctx context.Context) error { return s.runVerb(ctx, "start") }

// Stop stops the service: running turns may finish for the drain timeout.
func (s *Service) Stop(ctx context.Context) error { return s.runVerb(ctx, "stop") }

// Restart stops the service if it runs, and starts it.
func (s *Service) Restart(ctx context.Context) error { return s.runVerb(ctx, "restart") }

// ErrNotInstalled is returned if there is no unit file.
var ErrNotInstalled = errors.New("the service is not installed; `hermesd service install` does that")

func (s *Service) runVerb(ctx context.Context, verb string) error {
	if _, err := os.Stat(s.path); err != nil {
		return fmt.Errorf("%s: %w", s.path, ErrNotInstalled)
	}
	if _, err := s.systemctl(ctx, verb, s.unit); err != nil {
		st, stateErr := s.State(ctx)
		if stateErr == nil && st.Hint() != "" {
			return fmt.Errorf("%w; %s", err, st.Hint())
		}
		return err
	}
	return nil
}

// Logs writes the last lines of the service's journal to out. If follow is set, it
// continues with new lines until ctx ends. Without systemd it returns ErrNoManager and
// where the log is: journalctl prints nothing then, and succeeds.
func (s *Service) Logs(ctx context.Context, out io.Writer, lines int, follow bool) error {
	if _, err := s.State(ctx); errors.Is(err, ErrNoManager) {
		return fmt.Errorf("%w; there is no journal either: `hermesd run` logs to standard error, or to the file that logging.file names", ErrNoManager)
	}
	unit := "--unit=" + s.unit
	if s.o.User {
		unit = "--user-unit=" + s.unit
	}
	args := []string{unit, "--no-pager", "--output=cat", fmt.Sprintf("--lines=%d", lines)}
	if follow {
		args = append(args, "--follow")
	}
	err := run(ctx, out, "journalctl", args...)
	if ctx.Err() != nil {
		return nil // follow ends with ctx
	}
	return err
}

// A State is the state of the service as the manager reports it.
type State struct {
	Unit      string `json:"unit"`                // path of the unit file; "" if there is none
	Active    string `json:"active"`              // active, inactive, failed, activating, …
	Sub       string `json:"sub"`                 // running, dead, auto-restart, …
	Enabled   string `json:"enabled"`             // enabled: starts automatically
	Result    string `json:"result"`              // result of the last run
	Status    string `json:"status"`              // status text of the daemon
	Since     string `json:"since,omitempty"`     // when it became active
	PID       int    `json:"pid,omitempty"`       // 0 if it is not running
	Exit      int    `json:"exit"`                // last exit code
	Restarts  int    `json:"restarts"`            // automatic restarts since it was started
	Outdated  bool   `json:"outdated,omitempty"`  // the file has changed since the manager read it
	Lingering string `json:"lingering,omitempty"` // of a user service: yes or no
}

// Running reports whether the daemon is running.
func (s State) Running() bool { return s.Active == "active" }

// Hint returns what to do about the state, or "".
func (s State) Hint() string {
	switch {
	case s.Unit == "":
		return ErrNotInstalled.Error()
	case s.Exit == 78:
		return "the configuration is wrong, and it is not restarted: `hermesd config check` says where; then `hermesd service start`"
	case s.Result == "watchdog":
		return "it gave no sign of life and was ended: `hermesd service logs` shows the time before, `hermesd doctor` looks at the store"
	case s.Result == "oom-kill":
		return "it took too much memory: raise MemoryMax= with systemctl edit"
	case failedSetup(s.Exit) != "":
		return "the manager cannot apply " + failedSetup(s.Exit) + " here: `hermesd service install` leaves it out"
	case s.Active == "failed" || s.Sub == "auto-restart":
		return "`hermesd service logs` says why"
	case s.Outdated:
		return "the unit file has changed: `hermesd service install` applies it"
	case s.Lingering == "no":
		return "it ends when you log out: `loginctl enable-linger` keeps it"
	}
	return ""
}

// State returns the state of the service.
func (s *Service) State(ctx context.Context) (State, error) {
	out, err := s.systemctl(ctx, "show", s.unit, "--property="+strings.Join([]string{
		"LoadState", "ActiveState", "SubState", "UnitFileState", "Result", "StatusText", "ActiveEnterTimestamp",
		"MainPID", "ExecMainStatus", "NRestarts", "NeedDaemonReload", "FragmentPath",
	}, ","))
	if err != nil {
		return State{}, fmt.Errorf("get service state: %w", err)
	}
	v := map[string]string{}
	for line := range strings.Lines(out) {
		if key, value, ok := strings.Cut(strings.TrimRight(line, "\r\n"), "="); ok {
			v[key] = value
		}
	}
	number := func(name string) int {
		n, _ := strconv.Atoi(v[name]) // 0 if the property is missing
		return n
	}
	st := State{
		Active: v["ActiveState"], Sub: v["SubState"], Enabled: v["UnitFileState"], Result: v["Result"], Status: v["StatusText"],
		Since: v["ActiveEnterTimestamp"], PID: number("MainPID"), Exit: number("ExecMainStatus"), Restarts: number("NRestarts"),
		Outdated: v["NeedDaemonReload"] == "yes",
	}
	if v["LoadState"] != "not-found" {
		st.Unit = v["FragmentPath"]
	}
	if s.o.User {
		st.Lingering = s.lingering(ctx)
	}
	return st, nil
}

// lingering returns whether the user's services run without a login: yes, no, or ""
// if that is unknown.
func (s *Service) lingering(ctx context.Context) string {
	var out strings.Builder
	if err := run(ctx, &out, "loginctl", "show-user", s.userName(), "--property=Linger"); err != nil {
		return "" // loginctl knows no user who was never logged in
	}
	_, value, _ := strings.Cut(strings.TrimSpace(out.String()), "=")
	return value
}

// failedSetup returns what systemd failed to set up, by the exit code with which it
// ended the process before the program started; "" for other codes.
func failedSetup(code int) string {
	switch code {
	case exitNamespace:
		return "the confinement of files"
	case exitSeccomp:
		return "the filter of system calls"
	case exitCapabilities:
		return "the limits of capabilities"
	}
	return ""
}

// Exit codes of systemd.exec(5) for directives that cannot be applied.
const (
	exitCapabilities = 218
	exitNamespace    = 226
	exitSeccomp      = 228
)
