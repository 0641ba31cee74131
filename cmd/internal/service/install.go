package service

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"hermesd/internal/atomicfile"
	"hermesd/systemd"
)

// unitMarker is contained in every unit file that Install writes.
const unitMarker = `"hermesd service install" writes this`

// InstallOptions configure Install.
type InstallOptions struct {
	Start bool // also start or restart it
	Force bool // replace a unit file that Install did not write
}

// A Report is the result of Install.
type Report struct {
	Unit    string   `json:"unit"`
	Changed bool     `json:"changed"` // the unit file was written
	Started bool     `json:"started"`
	LeftOut []string `json:"omitted,omitempty"`          // directives that the manager cannot apply
	Profile string   `json:"apparmor_profile,omitempty"` // path of the AppArmor profile, if the machine needs it
	AsRoot  string   `json:"as_root,omitempty"`          // commands that the operator should run, and that only root may
	Notes   []string `json:"notes,omitempty"`            // information and advice for the operator
}

func (r *Report) note(format string, args ...any) {
	r.Notes = append(r.Notes, fmt.Sprintf(format, args...))
}

// Install writes the unit file, reloads the manager, and enables the service. It is
// idempotent. Directives that the manager does not know, or that prevent the daemon
// from starting, are omitted and listed in the Report.
func (s *Service) Install(ctx context.Context, how InstallOptions) (r Report, err error) {
	r.Unit = s.path
	if _, err := s.systemctl(ctx, "--version"); err != nil {
		return r, err
	}
	if err := s.checkInstallable(how.Force); err != nil {
		return r, err
	}
	if err := s.installProfile(ctx, &r, how.Force); err != nil {
		return r, err
	}
	r.LeftOut = s.hidingDirectives(&r)
	if err := s.verifyUnit(ctx, &r); err != nil {
		return r, err
	}
	if err := s.writeUnit(ctx, &r); err != nil {
		return r, err
	}
	if _, err := s.systemctl(ctx, "enable", s.unit); err != nil {
		return r, err
	}
	if s.o.User {
		s.enableLinger(ctx, &r)
	}
	if !how.Start {
		return r, nil
	}
	err = s.startUnit(ctx, &r)
	r.Started = err == nil
	return r, err
}

// startUnit starts the service. If the manager cannot apply a group of directives,
// it omits the group and tries again.
func (s *Service) startUnit(ctx context.Context, r *Report) error {
	for {
		_, err := s.systemctl(ctx, "restart", s.unit)
		if err == nil {
			return nil
		}
		st, stateErr := s.State(ctx)
		if stateErr != nil {
			return errors.Join(err, stateErr)
		}
		more := slices.DeleteFunc(s.directivesFor(st.Exit), func(name string) bool { return slices.Contains(r.LeftOut, name) })
		if len(more) == 0 {
			if st.Hint() != "" {
				return fmt.Errorf("%w; %s", err, st.Hint())
			}
			return err
		}
		r.LeftOut = append(r.LeftOut, more...)
		r.note("this manager cannot apply %s (exit code %d): it runs without it", failedSetup(st.Exit), st.Exit)
		if err := s.writeUnit(ctx, r); err != nil {
			return err
		}
	}
}

// directivesFor returns the optional directives of the unit that can cause one of
// systemd's exit codes.
func (s *Service) directivesFor(code int) []string {
	names := map[int][]string{
		exitCapabilities: {"CapabilityBoundingSet", "AmbientCapabilities"},
		exitNamespace: {
			"ProtectSystem", "ReadWritePaths", "ProtectHome", "PrivateTmp", "PrivateDevices", "ProtectClock", "ProtectControlGroups",
			"ProtectHostname", "ProtectKernelModules",
		},
		exitSeccomp: {
			"SystemCallFilter", "SystemCallArchitectures", "SystemCallErrorNumber", "RestrictAddressFamilies", "RestrictRealtime",
			"RestrictSUIDSGID", "LockPersonality",
		},
	}[code]
	able := systemd.Optional(s.o.User)
	return slices.DeleteFunc(names, func(n string) bool { return !slices.Contains(able, n) })
}

func (s *Service) checkInstallable(force bool) error {
	if !s.o.User {
		if _, err := user.Lookup(s.o.Account); err != nil {
			return fmt.Errorf("there is no account %q: make it (useradd --system --home-dir %s --shell /usr/sbin/nologin %s) or name another with --account", s.o.Account, s.o.Home, s.o.Account)
		}
	}
	info, err := os.Stat(s.o.Home)
	switch {
	case err == nil && !info.IsDir():
		return fmt.Errorf("%s is not a directory", s.o.Home)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("check home directory: %w", err)
	case err != nil && (s.o.User || s.o.Home != SystemHome): // the manager creates that one
		return fmt.Errorf("the home %s does not exist: make it, or start `hermesd run` once", s.o.Home)
	}
	raw, err := os.ReadFile(s.path)
	if err == nil && !strings.Contains(string(raw), unitMarker) && !force {
		return fmt.Errorf("%s is not of hermesd's making; look at it, and use --force to replace it", s.path)
	}
	return nil
}

// hidingDirectives returns the directives that must be omitted because they would
// hide the binary or the home directory from the daemon.
func (s *Service) hidingDirectives(r *Report) []string {
	for _, path := range []string{s.o.Binary, s.o.Home} {
		for _, tmp := range []string{"/tmp", "/var/tmp"} {
			if strings.HasPrefix(path, tmp+"/") {
				r.note("%s lies in %s, which is emptied from time to time: a service should not live there", path, tmp)
				return []string{"PrivateTmp"}
			}
		}
	}
	return nil
}

// text returns the unit file without the directives that r omits.
func (s *Service) text(r *Report) (string, error) {
	account := s.o.Account
	if s.o.User {
		account = ""
	}
	return systemd.Unit(systemd.Settings{
		User: s.o.User, Binary: s.o.Binary, Home: s.o.Home, Account: account, Stop: s.o.Stop, Without: r.LeftOut,
	})
}

// verifyUnit checks the unit file with systemd-analyze and omits optional directives
// that it does not know.
func (s *Service) verifyUnit(ctx context.Context, r *Report) error {
	text, err := s.text(r)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "hermesd-unit-")
	if err != nil {
		return fmt.Errorf("check unit file: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }() // a leftover is harmless
	path := filepath.Join(dir, s.unit)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return fmt.Errorf("check unit file: %w", err)
	}
	v, err := s.o.Verify(ctx, path, s.o.User)
	switch {
	case errors.Is(err, systemd.ErrNoVerifier):
		r.note("the unit file was not checked: there is no systemd-analyze")
		return nil
	case err != nil:
		r.note("the unit file was not checked: %v", err)
		return nil
	}
	able := systemd.Optional(s.o.User)
	for _, name := range v.Unknown {
		if !slices.Contains(able, name) {
			return fmt.Errorf("this systemd does not know %s=, without which the service cannot work: it is too old", name)
		}
		if !slices.Contains(r.LeftOut, name) {
			r.LeftOut = append(r.LeftOut, name)
		}
	}
	for _, p := range v.Problems {
		r.note("systemd-analyze says: %s", p)
	}
	return nil
}

// writeUnit writes the unit file if it differs, and reloads the manager.
func (s *Service) writeUnit(ctx context.Context, r *Report) error {
	text, err := s.text(r)
	if err != nil {
		return err
	}
	old, err := os.ReadFile(s.path)
	if err != nil || string(old) != text {
		if err := writeFile(s.path, text); err != nil {
			return fmt.Errorf("write unit file: %w", err)
		}
		r.Changed = true
	}
	_, err = s.systemctl(ctx, "daemon-reload")
	return err
}

// writeFile writes a file that everybody may read.
func writeFile(path, text string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return atomicfile.Replace(path, []byte(text), 0o644)
}

// enableLinger lets the user's services run without a login, or notes how to do
// that.
func (s *Service) enableLinger(ctx context.Context, r *Report) {
	if s.lingering(ctx) == "yes" {
		return
	}
	if err := run(ctx, io.Discard, "loginctl", "enable-linger", s.userName()); err != nil {
		r.note("it ends when you log out, for lingering cannot be switched on from here (%v): run `sudo loginctl enable-linger %s`", err, s.userName())
		return
	}
	r.note("lingering is on for %s: the service runs without a login", s.userName())
}

func (s *Service) userName() string {
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return strconv.Itoa(os.Getuid())
}

// Uninstall stops and disables the service and removes the unit file, and the AppArmor
// profile with the last service of the system. The home directory remains. It returns nil if nothing is installed.
func (s *Service) Uninstall(ctx context.Context, force bool) error {
	raw, err := os.ReadFile(s.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read unit file: %w", err)
	}
	if !strings.Contains(string(raw), unitMarker) && !force {
		return fmt.Errorf("%s is not of hermesd's making; look at it, and use --force to remove it", s.path)
	}
	if _, err := s.systemctl(ctx, "disable", "--now", s.unit); err != nil {
		return err
	}
	if err := os.Remove(s.path); err != nil {
		return fmt.Errorf("remove unit file: %w", err)
	}
	if _, err = s.systemctl(ctx, "daemon-reload"); err != nil {
		return err
	}
	return s.removeProfile(ctx)
}
