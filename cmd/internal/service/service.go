// Package service installs the daemon as a service of systemd, of the machine
// or of one user, and starts, stops and looks at it.
//
// All of it goes through the programs systemctl, loginctl and journalctl, as an
// operator would call them. What this manager cannot apply of the unit file is
// left out and named, in the file and in the Report of Install.
package service

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"hermesd/systemd"
)

// SystemHome is the home of a service of the machine for which none is named.
const SystemHome = "/var/lib/hermesd"

// DefaultAccount is the account of a service of the machine for which none is
// named.
const DefaultAccount = "hermesd"

// ErrNoManager is returned where systemd does not run.
var ErrNoManager = errors.New("there is no systemd here; let your supervisor run `hermesd run`: exit code 75 asks for a restart, after 78 a restart is of no use")

// Options say which service is meant, and how its manager is reached.
type Options struct {
	User    bool   // of the user who asks, not of the machine
	Binary  string // absolute path of hermesd
	Home    string // absolute path of its home directory
	Profile string // of the home
	Account string // service of the machine only: under which it runs
	// Stop is how long it may take to stop.
	Stop time.Duration
	// Dir is where the unit file belongs; "": where the manager looks for it.
	Dir string
	// Env looks up the environment.
	Env func(string) (string, bool)
	// Run runs a program of the system; nil: Exec.
	Run func(ctx context.Context, out io.Writer, name string, args ...string) error
	// Verify checks a unit file; nil: systemd.Verify.
	Verify func(ctx context.Context, path string, user bool) (systemd.VerifyReport, error)
}

// A Service is one service, installed or not.
type Service struct {
	o    Options
	unit string // its name
	path string // of its unit file
}

// New returns the service that o means.
func New(o Options) (*Service, error) {
	if o.Run == nil {
		o.Run = Exec
	}
	if o.Verify == nil {
		o.Verify = systemd.Verify
	}
	if o.Env == nil {
		o.Env = os.LookupEnv
	}
	if o.Dir == "" {
		dir, err := unitDir(o)
		if err != nil {
			return nil, err
		}
		o.Dir = dir
	}
	return &Service{o: o, unit: systemd.UnitName(o.Profile), path: filepath.Join(o.Dir, systemd.UnitName(o.Profile))}, nil
}

// unitDir is where the manager looks for units that an operator has made.
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

// Path is where the unit file is, or would be.
func (s *Service) Path() string { return s.path }

// Exec runs a program of the system with its output in English, on out. The
// error holds what it said on standard error.
func Exec(ctx context.Context, out io.Writer, name string, args ...string) error {
	path, err := exec.LookPath(name)
	if err != nil {
		return fmt.Errorf("%w (%s is not on PATH)", ErrNoManager, name)
	}
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Env = append(os.Environ(), "LC_ALL=C", "SYSTEMD_COLORS=0", "SYSTEMD_PAGER=")
	cmd.WaitDelay = 5 * time.Second
	var said strings.Builder
	cmd.Stdout, cmd.Stderr = out, &said
	if err := cmd.Run(); err != nil {
		if text := strings.TrimSpace(said.String()); text != "" {
			return fmt.Errorf("%s %s: %s: %w", name, strings.Join(args, " "), strings.ReplaceAll(text, "\n", "; "), err)
		}
		return fmt.Errorf("%s %s: %w", name, strings.Join(args, " "), err)
	}
	return nil
}

// ctl calls systemctl for the manager that is meant.
func (s *Service) ctl(ctx context.Context, args ...string) (string, error) {
	if s.o.User {
		args = append([]string{"--user"}, args...)
	}
	var out strings.Builder
	err := s.o.Run(ctx, &out, "systemctl", args...)
	if err != nil {
		err = s.explain(err)
	}
	return out.String(), err
}

// explain adds the next step to what systemctl says most often.
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

// Start starts the service and waits until it says that it is ready.
func (s *Service) Start(ctx context.Context) error { return s.control(ctx, "start") }

// Stop stops the service: running turns may finish for the drain timeout.
func (s *Service) Stop(ctx context.Context) error { return s.control(ctx, "stop") }

// Restart stops the service, if it runs, and starts it.
func (s *Service) Restart(ctx context.Context) error { return s.control(ctx, "restart") }

// ErrNotInstalled is returned where there is no unit file.
var ErrNotInstalled = errors.New("the service is not installed; `hermesd service install` does that")

func (s *Service) control(ctx context.Context, verb string) error {
	if _, err := os.Stat(s.path); err != nil {
		return fmt.Errorf("%s: %w", s.path, ErrNotInstalled)
	}
	if _, err := s.ctl(ctx, verb, s.unit); err != nil {
		st, stateErr := s.State(ctx)
		if stateErr == nil && st.Hint() != "" {
			return fmt.Errorf("%w; %s", err, st.Hint())
		}
		return err
	}
	return nil
}

// Logs writes the last lines of the service's journal to out; follow: and each
// new one, until ctx ends.
func (s *Service) Logs(ctx context.Context, out io.Writer, lines int, follow bool) error {
	unit := "--unit=" + s.unit
	if s.o.User {
		unit = "--user-unit=" + s.unit
	}
	args := []string{unit, "--no-pager", "--output=cat", fmt.Sprintf("--lines=%d", lines)}
	if follow {
		args = append(args, "--follow")
	}
	err := s.o.Run(ctx, out, "journalctl", args...)
	if ctx.Err() != nil {
		return nil // it was to go on until then
	}
	return err
}
