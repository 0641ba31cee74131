package systemd

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
)

//go:embed hermesd.service
var systemUnit string

//go:embed hermesd-user.service
var userUnit string

// UnitName returns the unit name of a profile, for system and user units; "" is the
// default profile.
func UnitName(profile string) string {
	if profile == "" {
		return "hermesd.service"
	}
	return "hermesd-" + profile + ".service"
}

// Settings are the values of a unit file. Zero fields keep the values of the files in
// this directory.
type Settings struct {
	User    bool   // for a user's service manager, not the system's
	Binary  string // absolute path of hermesd
	Home    string // absolute path of the home directory, which must exist
	Account string // system unit only: the account under which it runs
	// Stop is the time that the daemon may take to stop: its drain timeout and some
	// time to store the remaining state.
	Stop time.Duration
	// Without lists directives that the service manager cannot apply. Each is replaced
	// by a comment. Only directives in Optional are allowed.
	Without []string
}

// Unit returns the unit file for s. It returns an error if a setting is invalid or
// cannot be written in a unit file.
func Unit(s Settings) (string, error) {
	values, err := s.values()
	if err != nil {
		return "", err
	}
	unit := systemUnit
	if s.User {
		unit = userUnit
	}
	for _, name := range s.Without {
		if !slices.Contains(Optional(s.User), name) {
			return "", fmt.Errorf("unit file: %s cannot be left out", name)
		}
	}
	var b strings.Builder
	for line := range strings.Lines(unit) {
		key, _, ok := strings.Cut(line, "=")
		value, set := values[key]
		switch {
		case ok && slices.Contains(s.Without, key):
			fmt.Fprintf(&b, "# left out, this manager cannot apply it: %s", line)
		case ok && set && value == "": // needed for the default home only
		case ok && set:
			fmt.Fprintf(&b, "%s=%s\n", key, value)
		default:
			b.WriteString(line)
		}
	}
	return b.String(), nil
}

// values returns the values that replace those of the directives in the file; ""
// removes a directive.
func (s Settings) values() (map[string]string, error) {
	v := map[string]string{}
	for name, path := range map[string]string{"binary": s.Binary, "home": s.Home} {
		if path == "" {
			continue
		}
		if !filepath.IsAbs(path) || strings.ContainsFunc(path, unicode.IsControl) {
			return nil, fmt.Errorf("unit file: %s %q is not an absolute path", name, path)
		}
	}
	if s.Binary != "" {
		v["ExecStart"] = quote(strings.ReplaceAll(s.Binary, "$", "$$")) + " run"
		if !s.User && isUnderHome(s.Binary) {
			v["ProtectHome"] = "read-only" // the program must be readable
		}
	}
	if s.Home != "" {
		v["Environment"] = quote("HERMES_HOME=" + s.Home)
		v["WorkingDirectory"] = strings.ReplaceAll(s.Home, "%", "%%") // does not support quotes
		v["ReadWritePaths"] = quote(s.Home)
		if !s.User && s.Home != "/var/lib/hermesd" {
			v["StateDirectory"], v["StateDirectoryMode"] = "", ""
			if isUnderHome(s.Home) {
				v["ProtectHome"] = "read-only" // ReadWritePaths makes the home writable
			}
		}
	}
	if s.Account != "" {
		if s.User {
			return nil, fmt.Errorf("unit file: a user's unit runs under that user's account, not under %q", s.Account)
		}
		if strings.ContainsFunc(s.Account, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) || r == '%' || r == ':' }) {
			return nil, fmt.Errorf("unit file: %q is not the name of an account", s.Account)
		}
		v["User"] = s.Account
	}
	if s.Stop > 0 {
		v["TimeoutStopSec"] = strconv.FormatInt(int64(s.Stop.Round(time.Second)/time.Second), 10)
	}
	return v, nil
}

// isUnderHome reports whether ProtectHome would hide path.
func isUnderHome(path string) bool {
	for _, dir := range []string{"/home", "/root", "/run/user"} {
		if path == dir || strings.HasPrefix(path, dir+"/") {
			return true
		}
	}
	return false
}

// quote returns s as one word of a unit file.
func quote(s string) string {
	s = strings.ReplaceAll(s, "%", "%%")
	if !strings.ContainsAny(s, " \"'\\;") {
		return s
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}

// Optional returns the directives of a unit that only confine the daemon; it also runs
// without them.
func Optional(user bool) []string {
	unit := systemUnit
	if user {
		unit = userUnit
	}
	from := strings.Index(unit, "\nMemoryHigh=")
	to := strings.Index(unit, "\n[Install]")
	var names []string
	for line := range strings.Lines(unit[from:to]) {
		if key, _, ok := strings.Cut(line, "="); ok && !strings.HasPrefix(line, "#") {
			names = append(names, key)
		}
	}
	return names
}

// ErrNoVerifier is returned by Verify if systemd-analyze is not installed.
var ErrNoVerifier = errors.New("systemd: systemd-analyze not found")

// A VerifyReport is the result of systemd-analyze verify for a unit file.
type VerifyReport struct {
	// Unknown lists the directives that this version of the service manager does not
	// know: candidates for Settings.Without.
	Unknown []string
	// Problems lists the other findings, one line each.
	Problems []string
}

// Verify checks the unit file at path with systemd-analyze. Findings are no error.
func Verify(ctx context.Context, path string, user bool) (VerifyReport, error) {
	tool, err := exec.LookPath("systemd-analyze")
	if err != nil {
		return VerifyReport{}, ErrNoVerifier
	}
	args := []string{"verify", path}
	env := append(os.Environ(), "SYSTEMD_LOG_LEVEL=warning", "SYSTEMD_LOG_COLOR=0", "LC_ALL=C")
	if user {
		args = append([]string{"--user"}, args...)
		if os.Getenv("XDG_RUNTIME_DIR") == "" { // required by systemd-analyze although not used
			env = append(env, "XDG_RUNTIME_DIR="+os.TempDir())
		}
	}
	cmd := exec.CommandContext(ctx, tool, args...)
	cmd.Env = env
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err = cmd.Run()
	v := parseFindings(out.String())
	var failed *exec.ExitError
	if err != nil && !errors.As(err, &failed) {
		return VerifyReport{}, fmt.Errorf("verify unit file: %w", err)
	}
	if failed != nil && len(v.Unknown) == 0 && len(v.Problems) == 0 {
		return VerifyReport{}, fmt.Errorf("verify unit file: %w", err)
	}
	return v, nil
}

var unknownKey = regexp.MustCompile(`Unknown (?:key name|key|lvalue) '([A-Za-z]+)'`)

// parseFindings parses the output of systemd-analyze.
func parseFindings(out string) VerifyReport {
	var v VerifyReport
	for line := range strings.Lines(out) {
		line = strings.TrimSpace(line)
		m := unknownKey.FindStringSubmatch(line)
		switch {
		case line == "":
		case m == nil:
			v.Problems = append(v.Problems, line)
		case !slices.Contains(v.Unknown, m[1]):
			v.Unknown = append(v.Unknown, m[1])
		}
	}
	return v
}
