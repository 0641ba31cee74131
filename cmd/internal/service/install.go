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

	"hermesd/systemd"
)

// mark is in every unit file of ours.
const mark = `"hermesd service install" writes this`

// InstallOptions says how Install goes about it.
type InstallOptions struct {
	Start bool // start it too, or again
	Force bool // replace a unit file that is not ours
}

// A Report says what Install has done.
type Report struct {
	Unit    string   `json:"unit"`
	Changed bool     `json:"changed"` // the unit file was written
	Started bool     `json:"started"`
	LeftOut []string `json:"left_out,omitempty"` // directives that the manager cannot apply
	Notes   []string `json:"notes,omitempty"`    // what the operator should know or do
}

func (r *Report) note(format string, args ...any) {
	r.Notes = append(r.Notes, fmt.Sprintf(format, args...))
}

// Install writes the unit file, has the manager read it, and switches the
// service on. It can be called again: what is as it should be stays. Directives
// that the manager does not know, or that keep the daemon from starting, are
// left out and named in the Report.
func (s *Service) Install(ctx context.Context, how InstallOptions) (r Report, err error) {
	r.Unit = s.path
	if _, err := s.ctl(ctx, "--version"); err != nil {
		return r, err
	}
	if err := s.check(how.Force); err != nil {
		return r, err
	}
	r.LeftOut = s.hidden(&r)
	if err := s.judge(ctx, &r); err != nil {
		return r, err
	}
	if err := s.put(ctx, &r); err != nil {
		return r, err
	}
	if _, err := s.ctl(ctx, "enable", s.unit); err != nil {
		return r, err
	}
	if s.o.User {
		s.linger(ctx, &r)
	}
	if !how.Start {
		return r, nil
	}
	err = s.begin(ctx, &r)
	r.Started = err == nil
	return r, err
}

// begin starts the service. A group of directives with which the manager
// cannot start it at all is left out, one group after the other.
func (s *Service) begin(ctx context.Context, r *Report) error {
	for {
		_, err := s.ctl(ctx, "restart", s.unit)
		if err == nil {
			return nil
		}
		st, stateErr := s.State(ctx)
		if stateErr != nil {
			return errors.Join(err, stateErr)
		}
		more := slices.DeleteFunc(s.group(st.Exit), func(name string) bool { return slices.Contains(r.LeftOut, name) })
		if len(more) == 0 {
			if st.Hint() != "" {
				return fmt.Errorf("%w; %s", err, st.Hint())
			}
			return err
		}
		r.LeftOut = append(r.LeftOut, more...)
		r.note("this manager cannot apply %s (exit code %d): it runs without it", setup(st.Exit), st.Exit)
		if err := s.put(ctx, r); err != nil {
			return err
		}
	}
}

// group returns the directives of the unit behind one of systemd's exit codes.
func (s *Service) group(code int) []string {
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

// check refuses what cannot become a service.
func (s *Service) check(force bool) error {
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
		return fmt.Errorf("home: %w", err)
	case err != nil && (s.o.User || s.o.Home != SystemHome): // the manager makes that one
		return fmt.Errorf("the home %s does not exist: make it, or start `hermesd run` once", s.o.Home)
	}
	raw, err := os.ReadFile(s.path)
	if err == nil && !strings.Contains(string(raw), mark) && !force {
		return fmt.Errorf("%s is not of hermesd's making; look at it, and use --force to replace it", s.path)
	}
	return nil
}

// hidden returns what must be left out because it would hide the binary or the
// home from the daemon.
func (s *Service) hidden(r *Report) []string {
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

// text is the unit file without what r leaves out.
func (s *Service) text(r *Report) (string, error) {
	account := s.o.Account
	if s.o.User {
		account = ""
	}
	return systemd.Unit(systemd.Settings{
		User: s.o.User, Binary: s.o.Binary, Home: s.o.Home, Account: account, Stop: s.o.Stop, Without: r.LeftOut,
	})
}

// judge has the manager's own check look at the file and leaves out what it
// does not know.
func (s *Service) judge(ctx context.Context, r *Report) error {
	text, err := s.text(r)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "hermesd-unit-")
	if err != nil {
		return fmt.Errorf("check the unit file: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }() // a leftover does no harm
	path := filepath.Join(dir, s.unit)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return fmt.Errorf("check the unit file: %w", err)
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

// put writes the unit file, if it is not as it should be, and has the manager
// read it.
func (s *Service) put(ctx context.Context, r *Report) error {
	text, err := s.text(r)
	if err != nil {
		return err
	}
	old, err := os.ReadFile(s.path)
	if err != nil || string(old) != text {
		if err := replace(s.path, text); err != nil {
			return fmt.Errorf("write the unit file: %w", err)
		}
		r.Changed = true
	}
	_, err = s.ctl(ctx, "daemon-reload")
	return err
}

// replace writes a file whole or not at all.
func replace(path, text string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".hermesd-*")
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	err = errors.Join(err, f.Chmod(0o644), f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name()) // what is there of it
	}
	return err
}

// linger has the user's services run without a login, or says how.
func (s *Service) linger(ctx context.Context, r *Report) {
	if s.lingering(ctx) == "yes" {
		return
	}
	if err := s.o.Run(ctx, io.Discard, "loginctl", "enable-linger", s.who()); err != nil {
		r.note("it ends when you log out, for lingering cannot be switched on from here (%v): run `sudo loginctl enable-linger %s`", err, s.who())
		return
	}
	r.note("lingering is on for %s: the service runs without a login", s.who())
}

// who is the user who asks.
func (s *Service) who() string {
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return strconv.Itoa(os.Getuid())
}

// Uninstall stops the service, switches it off and removes the unit file. The
// home stays. It succeeds if nothing is installed.
func (s *Service) Uninstall(ctx context.Context, force bool) error {
	raw, err := os.ReadFile(s.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("unit file: %w", err)
	}
	if !strings.Contains(string(raw), mark) && !force {
		return fmt.Errorf("%s is not of hermesd's making; look at it, and use --force to remove it", s.path)
	}
	if _, err := s.ctl(ctx, "disable", "--now", s.unit); err != nil {
		return err
	}
	if err := os.Remove(s.path); err != nil {
		return fmt.Errorf("remove the unit file: %w", err)
	}
	_, err = s.ctl(ctx, "daemon-reload")
	return err
}
