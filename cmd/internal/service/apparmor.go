package service

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"unicode"

	"hermesd/cmd/internal/userns"
)

// profileMarker is contained in every AppArmor profile that Install writes.
const profileMarker = `"hermesd service install" writes this`

// parser is the program that loads AppArmor profiles.
const parser = "apparmor_parser"

const profileName = "hermesd"

// AppArmorProfile returns the AppArmor profile that lets a program create user
// namespaces, and restricts nothing. The sandboxes of commands need them.
func AppArmorProfile(binary string) (string, error) {
	if !filepath.IsAbs(binary) || strings.ContainsFunc(binary, unicode.IsControl) {
		return "", fmt.Errorf("AppArmor profile: %q is not an absolute path", binary)
	}
	var path strings.Builder
	for _, r := range binary {
		if strings.ContainsRune(`"\*?[]{}^@`, r) { // they mean something in a path
			path.WriteByte('\\')
		}
		path.WriteRune(r)
	}
	return fmt.Sprintf(`# `+profileMarker+`: it lets hermesd create user namespaces,
# which the sandbox of its commands needs. It restricts nothing.
abi <abi/4.0>,
include <tunables/global>

profile `+profileName+` "%s" flags=(unconfined) {
  userns,

  include if exists <local/`+profileName+`>
}
`, path.String()), nil
}

func (s *Service) profilePath() string { return filepath.Join(s.o.AppArmorDir, profileName) }

// installProfile installs the AppArmor profile if the machine needs it. A user's service
// may not install it: the Report then has the commands for that. A failure is a note,
// because the daemon also runs without.
func (s *Service) installProfile(ctx context.Context, r *Report, force bool) error {
	if !userns.RestrictedByAppArmor(s.o.Proc) {
		return nil
	}
	text, err := AppArmorProfile(s.o.Binary)
	if err != nil {
		return err
	}
	old, err := os.ReadFile(s.profilePath())
	if err == nil && string(old) == text {
		r.Profile = s.profilePath()
		return nil
	}
	if s.o.User {
		r.note("AppArmor keeps hermesd from creating user namespaces, which the better sandboxes of commands need; only root can allow it")
		r.AsRoot = fmt.Sprintf("sudo tee %[1]s >/dev/null <<'END'\n%[2]sEND\nsudo apparmor_parser --replace %[1]s\nhermesd service restart\n", s.profilePath(), text)
		return nil
	}
	if err == nil && !strings.Contains(string(old), profileMarker) && !force {
		r.note("the AppArmor profile %s is not of hermesd's making and stays; --force replaces it", s.profilePath())
		return nil
	}
	if err := writeFile(s.profilePath(), text); err != nil {
		r.note("the AppArmor profile for the sandbox of commands cannot be written: %v", err)
		return nil
	}
	if err := run(ctx, io.Discard, parser, "--replace", s.profilePath()); err != nil {
		r.note("the AppArmor profile %s cannot be loaded: %v", s.profilePath(), err)
		return nil
	}
	r.Profile = s.profilePath()
	return nil
}

// removeProfile unloads and removes the AppArmor profile, if Install wrote it and no
// other service of hermesd is installed.
func (s *Service) removeProfile(ctx context.Context) error {
	units, err := filepath.Glob(filepath.Join(s.o.Dir, "hermesd*.service"))
	if err != nil || len(units) > 0 || s.o.User {
		return err
	}
	raw, err := os.ReadFile(s.profilePath())
	if errors.Is(err, fs.ErrNotExist) || err == nil && !strings.Contains(string(raw), profileMarker) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read AppArmor profile: %w", err)
	}
	unloadErr := run(ctx, io.Discard, parser, "--remove", s.profilePath())
	if err := os.Remove(s.profilePath()); err != nil {
		return fmt.Errorf("remove AppArmor profile: %w", err)
	}
	if unloadErr != nil {
		return fmt.Errorf("the AppArmor profile is removed but still loaded until the next boot: %w", unloadErr)
	}
	return nil
}
