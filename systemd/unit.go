package systemd

import (
	_ "embed"
	"fmt"
	"path/filepath"
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
