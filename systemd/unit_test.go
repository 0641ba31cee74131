package systemd_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"hermesd/systemd"
)

func unit(t *testing.T, s systemd.Settings) string {
	t.Helper()
	u, err := systemd.Unit(s)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// directives returns the values of a unit file, by section and name.
func directives(u string) map[string]string {
	all, section := map[string]string{}, ""
	for line := range strings.Lines(u) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "[") {
			section = strings.Trim(line, "[]")
		} else if key, value, ok := strings.Cut(line, "="); ok && !strings.HasPrefix(line, "#") {
			all[section+"."+key] = value
		}
	}
	return all
}

func TestUnitMatchesFiles(t *testing.T) {
	for name, user := range map[string]bool{"hermesd.service": false, "hermesd-user.service": true} {
		raw, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(raw), unit(t, systemd.Settings{User: user})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// Both files contain the directives that the daemon and its operators depend on.
func TestUnitRequiredDirectives(t *testing.T) {
	for _, user := range []bool{false, true} {
		got := directives(unit(t, systemd.Settings{User: user}))
		for key, want := range map[string]string{
			"Service.Type": "notify", "Service.NotifyAccess": "main", "Service.WatchdogSec": "60",
			"Service.ExecReload": "/bin/kill -HUP $MAINPID",
			"Service.Restart":    "on-failure", "Service.RestartForceExitStatus": "75", "Service.RestartPreventExitStatus": "78",
			"Service.NoNewPrivileges": "yes", "Service.ProtectSystem": "strict", "Service.PrivateTmp": "yes", "Service.UMask": "0077",
			"Service.MemoryMax": "2G", "Service.OOMPolicy": "continue", "Service.KillMode": "mixed",
		} {
			if got[key] != want {
				t.Errorf("user %v: %s is %q, want %q", user, key, got[key], want)
			}
		}
		if !strings.HasPrefix(got["Service.SystemCallFilter"], "@system-service ") || got["Service.ReadWritePaths"] == "" {
			t.Errorf("user %v: SystemCallFilter is %q, ReadWritePaths %q", user, got["Service.SystemCallFilter"], got["Service.ReadWritePaths"])
		}
		if want := map[bool]string{false: "multi-user.target", true: "default.target"}[user]; got["Install.WantedBy"] != want {
			t.Errorf("user %v: wanted by %q", user, got["Install.WantedBy"])
		}
	}
}

func TestUnitForSettings(t *testing.T) {
	got := directives(unit(t, systemd.Settings{Binary: "/opt/my tools/50%/$x/hermesd", Home: `/srv/a "b"/50%`, Account: "bot", Stop: 130 * time.Second}))
	for key, want := range map[string]string{
		"Service.ExecStart":        `"/opt/my tools/50%%/$$x/hermesd" run`,
		"Service.Environment":      `"HERMES_HOME=/srv/a \"b\"/50%%"`,
		"Service.WorkingDirectory": `/srv/a "b"/50%%`,
		"Service.ReadWritePaths":   `"/srv/a \"b\"/50%%"`,
		"Service.User":             "bot",
		"Service.TimeoutStopSec":   "130",
		"Service.StateDirectory":   "",
		"Service.ProtectHome":      "yes",
	} {
		if got[key] != want {
			t.Errorf("%s is %q, want %q", key, got[key], want)
		}
	}
	if got := directives(unit(t, systemd.Settings{Home: "/home/bot/.hermes"}))["Service.ProtectHome"]; got != "read-only" {
		t.Errorf("ProtectHome is %q and hides the home", got)
	}
	if got := directives(unit(t, systemd.Settings{Binary: "/home/ann/bin/hermesd"}))["Service.ProtectHome"]; got != "read-only" {
		t.Errorf("ProtectHome is %q and hides the program", got)
	}
	if got := directives(unit(t, systemd.Settings{Home: "/var/lib/hermesd"}))["Service.StateDirectory"]; got != "hermesd" {
		t.Errorf("StateDirectory is %q", got)
	}
}

func TestUnitWithoutDirectives(t *testing.T) {
	u := unit(t, systemd.Settings{User: true, Without: []string{"ProtectSystem", "SystemCallFilter"}})
	got := directives(u)
	if got["Service.ProtectSystem"] != "" || got["Service.SystemCallFilter"] != "" || got["Service.PrivateTmp"] != "yes" {
		t.Errorf("got %v", got)
	}
	if !strings.Contains(u, "# left out, this manager cannot apply it: ProtectSystem=strict\n") {
		t.Errorf("it is not named in %s", u)
	}
	for _, user := range []bool{false, true} {
		optional := systemd.Optional(user)
		for _, name := range []string{"MemoryMax", "NoNewPrivileges", "ProtectSystem", "SystemCallFilter", "SystemCallErrorNumber"} {
			if !slices.Contains(optional, name) {
				t.Errorf("%s cannot be left out", name)
			}
		}
		for _, name := range []string{"ExecStart", "Restart", "Type", "WantedBy", "WatchdogSec"} {
			if slices.Contains(optional, name) {
				t.Errorf("%s can be left out", name)
			}
		}
	}
}

func TestUnitInvalidSettings(t *testing.T) {
	for _, s := range []systemd.Settings{
		{Binary: "hermesd"},
		{Binary: "/x\nExecStartPre=/bin/sh"},
		{Home: "~/.hermes"},
		{Home: "/x\ny"},
		{User: true, Account: "bot"},
		{Account: "a b"},
		{Account: "a\nb"},
		{Without: []string{"ExecStart"}},
		{Without: []string{"Nonsense"}},
	} {
		if u, err := systemd.Unit(s); err == nil {
			t.Errorf("%+v gave %s", s, u)
		}
	}
}

// verify checks a unit with systemd-analyze, or skips the test if that is not possible.
func verify(t *testing.T, text string, user bool) systemd.VerifyReport {
	t.Helper()
	path := filepath.Join(t.TempDir(), systemd.UnitName(""))
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	v, err := systemd.Verify(ctx, path, user)
	if errors.Is(err, systemd.ErrNoVerifier) {
		t.Skip(err)
	}
	if err != nil {
		t.Skipf("systemd-analyze does not work here: %v", err)
	}
	return v
}

func TestUnitPassesVerify(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for name, s := range map[string]systemd.Settings{
		"system":                 {Binary: self},
		"user":                   {Binary: self, User: true},
		"system with a home":     {Binary: self, Home: "/srv/a b", Account: "root", Stop: time.Minute},
		"user with a home":       {Binary: self, Home: "/srv/50% \"x\"", User: true},
		"user without a sandbox": {Binary: self, User: true, Without: systemd.Optional(true)},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(systemd.VerifyReport{}, verify(t, unit(t, s), s.User)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestVerifyUnknownDirectives(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	u := strings.Replace(unit(t, systemd.Settings{Binary: self}), "[Install]", "ProtectUnicorns=yes\nMemoryMax=lots\n[Install]", 1)
	v := verify(t, u, false)
	if diff := cmp.Diff([]string{"ProtectUnicorns"}, v.Unknown); diff != "" {
		t.Errorf("unknown (-want +got):\n%s", diff)
	}
	if len(v.Problems) != 1 || !strings.Contains(v.Problems[0], "lots") {
		t.Errorf("problems are %q", v.Problems)
	}
}
