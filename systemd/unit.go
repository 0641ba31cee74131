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

// UnitName is the name under which either unit is installed: each profile has one
// of its own.
func UnitName(profile string) string {
	if profile == "" {
		return "hermesd.service"
	}
	return "hermesd-" + profile + ".service"
}

// Settings say what a unit file is for. Zero fields leave what the file in this
// folder has.
type Settings struct {
	User    bool   // for a user's own manager, not the system's
	Binary  string // absolute path of hermesd
	Home    string // absolute path of the home directory, which must exist
	Account string // system only: the account under which it runs
	// Stop is how long the daemon may take to stop: its drain timeout and some
	// time to write down what is left.
	Stop time.Duration
	// Without names directives that the manager cannot apply. They are left
	// out, and a comment says so. Only those in Optional can be.
	Without []string
}

// Unit returns the unit file for the settings.
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
		case ok && set && value == "": // what only the default home needs
		case ok && set:
			fmt.Fprintf(&b, "%s=%s\n", key, value)
		default:
			b.WriteString(line)
		}
	}
	return b.String(), nil
}

// values returns what the settings put in place of the directives in the file;
// "" takes one out.
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
		if !s.User && underHome(s.Binary) {
			v["ProtectHome"] = "read-only" // it must be seen to be run
		}
	}
	if s.Home != "" {
		v["Environment"] = quote("HERMES_HOME=" + s.Home)
		v["WorkingDirectory"] = strings.ReplaceAll(s.Home, "%", "%%") // takes no quotes
		v["ReadWritePaths"] = quote(s.Home)
		if !s.User && s.Home != "/var/lib/hermesd" {
			v["StateDirectory"], v["StateDirectoryMode"] = "", ""
			if underHome(s.Home) {
				v["ProtectHome"] = "read-only" // ReadWritePaths opens the one place
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

// underHome says that ProtectHome would hide path.
func underHome(path string) bool {
	for _, dir := range []string{"/home", "/root", "/run/user"} {
		if path == dir || strings.HasPrefix(path, dir+"/") {
			return true
		}
	}
	return false
}

// quote writes s as one word of a unit file.
func quote(s string) string {
	s = strings.ReplaceAll(s, "%", "%%")
	if !strings.ContainsAny(s, " \"'\\;") {
		return s
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}

// Optional returns the directives of a unit without which the daemon runs as
// well, only less confined.
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
