//go:build unix

package service_test

import (
	"context"
	"errors"
	"io"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"hermesd/cmd/internal/service"
	"hermesd/systemd"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fake is a program that replaces systemctl, loginctl, journalctl and apparmor_parser: it records its
// calls and behaves as the files of its directory say.
//
//	calls      recorded calls, one per line
//	deny       words of a call that fails, with its error text
//	linger     yes or no
//	refuses    a directive with which the service cannot start
//	exit       the exit code that the manager then reports
const fake = `#!/bin/sh
d=$(dirname "$0")
name=$(basename "$0")
echo "$name $*" >> "$d/calls"
while read -r words; do
	case "$name $*" in *"$words"*) cat "$d/says" >&2; exit 1;; esac
done < "$d/deny"
case "$name $*" in
*"show-user"*) echo "Linger=$(cat "$d/linger")";;
*"enable-linger"*) echo yes > "$d/linger";;
*" show "*)
	echo "LoadState=loaded"; echo "FragmentPath=$d/unit/hermesd.service"; echo "UnitFileState=enabled"
	cat "$d/state";;
*" restart "*|*" start "*)
	if [ -s "$d/refuses" ] && grep -q "^$(cat "$d/refuses")=" "$d/unit/hermesd.service"; then
		printf 'ActiveState=activating\nSubState=auto-restart\nResult=exit-code\nExecMainStatus=%s\n' "$(cat "$d/exit")" > "$d/state"
		echo "Job for hermesd.service failed" >&2; exit 1
	fi
	printf 'ActiveState=active\nSubState=running\nResult=success\nExecMainStatus=0\nMainPID=77\nNRestarts=2\nStatusText=2 turns run\n' > "$d/state";;
*"journalctl"*) echo "a line of the log";;
esac
`

type harness struct {
	*testing.T
	dir  string
	home string
	o    service.Options
}

func newHarness(t *testing.T) *harness {
	w := &harness{T: t, dir: t.TempDir(), home: t.TempDir()}
	for _, name := range []string{"systemctl", "loginctl", "journalctl", "apparmor_parser"} {
		w.put(name, fake)
	}
	for _, name := range []string{"deny", "refuses", "calls"} {
		w.put(name, "")
	}
	w.put("linger", "no\n")
	w.put("state", "ActiveState=inactive\nSubState=dead\n")
	t.Setenv("PATH", w.dir+":"+os.Getenv("PATH"))
	w.o = service.Options{
		User: true, Binary: "/opt/hermesd/hermesd", Home: w.home, Stop: 90 * time.Second, Dir: filepath.Join(w.dir, "unit"),
		AppArmorDir: filepath.Join(w.dir, "apparmor.d"), Proc: filepath.Join(w.dir, "proc"),
		Verify: func(context.Context, string, bool) (systemd.VerifyReport, error) { return systemd.VerifyReport{}, nil },
	}
	return w
}

func (w *harness) put(name, text string) {
	w.Helper()
	if err := os.WriteFile(filepath.Join(w.dir, name), []byte(text), 0o700); err != nil {
		w.Fatal(err)
	}
}

func (w *harness) read(name string) string {
	w.Helper()
	raw, err := os.ReadFile(filepath.Join(w.dir, name))
	if err != nil {
		w.Fatal(err)
	}
	return string(raw)
}

func (w *harness) service() *service.Service {
	w.Helper()
	s, err := service.New(w.o)
	if err != nil {
		w.Fatal(err)
	}
	return s
}

func (w *harness) install(how service.InstallOptions) (service.Report, error) {
	w.Helper()
	return w.service().Install(w.Context(), how)
}

func TestInstallWritesEnablesLingersAndStarts(t *testing.T) {
	w := newHarness(t)
	r, err := w.install(service.InstallOptions{Start: true})
	if err != nil {
		t.Fatal(err)
	}
	unit := w.read("unit/hermesd.service")
	for _, line := range []string{
		"ExecStart=/opt/hermesd/hermesd run\n", "HERMES_HOME=" + w.home, "RestartForceExitStatus=75\n", "RestartPreventExitStatus=78\n", "TimeoutStopSec=90\n",
	} {
		if !strings.Contains(unit, line) {
			t.Errorf("%q is not in\n%s", line, unit)
		}
	}
	if !r.Changed || !r.Started || r.Unit != filepath.Join(w.dir, "unit", "hermesd.service") {
		t.Errorf("got %+v", r)
	}
	if !slices.ContainsFunc(r.Notes, func(n string) bool { return strings.Contains(n, "lingering is on") }) || w.read("linger") != "yes\n" {
		t.Errorf("lingering: %q", r.Notes)
	}
	want := []string{"--user --version", "--user daemon-reload", "--user enable hermesd.service", "loginctl enable-linger", "--user restart hermesd.service"}
	calls := w.read("calls")
	for _, c := range want {
		if _, rest, ok := strings.Cut(calls, c); ok {
			calls = rest
		} else {
			t.Errorf("%q was not called, or not in this order:\n%s", c, w.read("calls"))
		}
	}
	again, err := w.install(service.InstallOptions{})
	if err != nil || again.Changed || again.Started || slices.ContainsFunc(again.Notes, func(n string) bool { return strings.Contains(n, "linger") }) {
		t.Errorf("the second time: %+v, %v", again, err)
	}
}

// Each profile is a separate service.
func TestInstallPerProfile(t *testing.T) {
	w := newHarness(t)
	w.o.Profile = "work"
	r, err := w.install(service.InstallOptions{Start: true})
	if err != nil || r.Unit != filepath.Join(w.dir, "unit", "hermesd-work.service") {
		t.Fatalf("%+v, %v", r, err)
	}
	if calls := w.read("calls"); !strings.Contains(calls, "--user enable hermesd-work.service") || strings.Contains(calls, "hermesd.service") {
		t.Errorf("called were\n%s", calls)
	}
}

func TestInstallExplainsFailedLinger(t *testing.T) {
	w := newHarness(t)
	w.put("deny", "enable-linger\n")
	w.put("says", "Could not enable linger: Interactive authentication required.")
	r, err := w.install(service.InstallOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(r.Notes, func(n string) bool { return strings.Contains(n, "sudo loginctl enable-linger") }) {
		t.Errorf("notes: %q", r.Notes)
	}
}

func TestInstallOmitsUnknownDirectives(t *testing.T) {
	w := newHarness(t)
	w.o.Verify = func(_ context.Context, path string, user bool) (systemd.VerifyReport, error) {
		if raw, err := os.ReadFile(path); err != nil || !user || !strings.Contains(string(raw), "ExecStart=") {
			t.Errorf("it is asked about %q, %v", raw, err)
		}
		return systemd.VerifyReport{Unknown: []string{"OOMPolicy"}, Problems: []string{"something else"}}, nil
	}
	r, err := w.install(service.InstallOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(r.LeftOut, "OOMPolicy") || !strings.Contains(w.read("unit/hermesd.service"), "# left out, this manager cannot apply it: OOMPolicy") {
		t.Errorf("left out: %q", r.LeftOut)
	}
	if !slices.ContainsFunc(r.Notes, func(n string) bool { return strings.Contains(n, "something else") }) {
		t.Errorf("notes: %q", r.Notes)
	}
	w.o.Verify = func(context.Context, string, bool) (systemd.VerifyReport, error) {
		return systemd.VerifyReport{Unknown: []string{"RestartForceExitStatus"}}, nil
	}
	if _, err := w.install(service.InstallOptions{}); err == nil || !strings.Contains(err.Error(), "too old") {
		t.Errorf("what cannot be left out: %v", err)
	}
}

func TestInstallOmitsFailingDirectives(t *testing.T) {
	for code, directive := range map[string]string{"226": "ProtectSystem", "228": "SystemCallFilter"} {
		w := newHarness(t)
		w.put("refuses", directive)
		w.put("exit", code)
		r, err := w.install(service.InstallOptions{Start: true})
		if err != nil || !r.Started || !slices.Contains(r.LeftOut, directive) {
			t.Errorf("%s: %+v, %v", directive, r, err)
		}
	}
	w := newHarness(t)
	w.put("refuses", "ExecStart")
	w.put("exit", "78")
	r, err := w.install(service.InstallOptions{Start: true})
	if err == nil || r.Started || !strings.Contains(err.Error(), "config check") {
		t.Errorf("a wrong configuration: %+v, %v", r, err)
	}
}

func TestInstallKeepsForeignUnit(t *testing.T) {
	w := newHarness(t)
	if err := os.Mkdir(filepath.Join(w.dir, "unit"), 0o700); err != nil {
		t.Fatal(err)
	}
	w.put("unit/hermesd.service", "[Service]\nExecStart=/bin/true\n")
	if _, err := w.install(service.InstallOptions{}); err == nil || !strings.Contains(err.Error(), "--force") {
		t.Errorf("install: %v", err)
	}
	if err := w.service().Uninstall(t.Context(), false); err == nil || !strings.Contains(err.Error(), "--force") {
		t.Errorf("uninstall: %v", err)
	}
	if _, err := w.install(service.InstallOptions{Force: true}); err != nil {
		t.Error(err)
	}
}

func TestUninstallStopsAndRemoves(t *testing.T) {
	w := newHarness(t)
	if err := w.service().Uninstall(t.Context(), false); err != nil {
		t.Errorf("nothing is installed: %v", err)
	}
	if _, err := w.install(service.InstallOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := w.service().Uninstall(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(w.service().Path()); err == nil {
		t.Error("the unit file is still there")
	}
	if !strings.Contains(w.read("calls"), "disable --now hermesd.service") {
		t.Errorf("calls:\n%s", w.read("calls"))
	}
	if err := w.service().Start(t.Context()); !errors.Is(err, service.ErrNotInstalled) {
		t.Errorf("start: %v", err)
	}
}

func TestStateHints(t *testing.T) {
	w := newHarness(t)
	if _, err := w.install(service.InstallOptions{Start: true}); err != nil {
		t.Fatal(err)
	}
	st, err := w.service().State(t.Context())
	if err != nil || !st.Running() || st.PID != 77 || st.Restarts != 2 || st.Status != "2 turns run" || st.Hint() != "" {
		t.Errorf("got %+v, %v", st, err)
	}
	for state, want := range map[string]string{
		"ActiveState=failed\nExecMainStatus=78\n":                   "config check",
		"ActiveState=failed\nResult=watchdog\n":                     "sign of life",
		"ActiveState=failed\nResult=oom-kill\n":                     "MemoryMax",
		"ActiveState=failed\nResult=exit-code\nExecMainStatus=1\n":  "service logs",
		"ActiveState=activating\nExecMainStatus=226\n":              "confinement",
		"ActiveState=active\nNeedDaemonReload=yes\nSubState=runs\n": "has changed",
	} {
		w.put("state", state)
		if st, err := w.service().State(t.Context()); err != nil || !strings.Contains(st.Hint(), want) {
			t.Errorf("%q: %q, %v", state, st.Hint(), err)
		}
	}
	var out strings.Builder
	if err := w.service().Logs(t.Context(), &out, 20, false); err != nil || out.String() != "a line of the log\n" {
		t.Errorf("logs: %q, %v", out.String(), err)
	}
	if !strings.Contains(w.read("calls"), "journalctl --user-unit=hermesd.service --no-pager --output=cat --lines=20") {
		t.Errorf("calls:\n%s", w.read("calls"))
	}
}

func TestServiceWithoutSystemd(t *testing.T) {
	w := newHarness(t)
	w.put("deny", "--version\n")
	w.put("says", "System has not been booted with systemd as init system (PID 1). Can't operate.")
	if _, err := w.install(service.InstallOptions{}); !errors.Is(err, service.ErrNoManager) {
		t.Errorf("got %v", err)
	}
	w.put("deny", "daemon-reload\n")
	w.put("says", "Failed to connect to bus: No medium found")
	if _, err := w.install(service.InstallOptions{}); err == nil || !strings.Contains(err.Error(), "XDG_RUNTIME_DIR") {
		t.Errorf("got %v", err)
	}
	w.put("deny", "show\n")
	w.put("says", "System has not been booted with systemd as init system (PID 1). Can't operate.")
	if err := w.service().Logs(t.Context(), io.Discard, 20, false); !errors.Is(err, service.ErrNoManager) || !strings.Contains(err.Error(), "logging.file") {
		t.Errorf("logs: %v", err)
	}
	t.Setenv("PATH", t.TempDir())
	if _, err := w.install(service.InstallOptions{}); !errors.Is(err, service.ErrNoManager) {
		t.Errorf("got %v", err)
	}
}

func TestInstallSystemServiceNeedsAccountAndHome(t *testing.T) {
	w := newHarness(t)
	w.o.User, w.o.Account = false, "nobody-has-this-name"
	if _, err := w.install(service.InstallOptions{}); err == nil || !strings.Contains(err.Error(), "useradd") {
		t.Errorf("no account: %v", err)
	}
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	w.o.Account = me.Username
	if _, err := w.install(service.InstallOptions{}); err != nil {
		t.Fatal(err)
	}
	if unit := w.read("unit/hermesd.service"); !strings.Contains(unit, "User="+me.Username+"\n") || strings.Contains(w.read("calls"), "--user") {
		t.Errorf("got %s", unit)
	}
	w.o.Home = filepath.Join(w.home, "missing")
	if _, err := w.install(service.InstallOptions{}); err == nil || !strings.Contains(err.Error(), "hermesd run") {
		t.Errorf("no home: %v", err)
	}
}

// The installed unit file passes systemd-analyze.
func TestInstalledUnitPassesVerify(t *testing.T) {
	w := newHarness(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	w.o.Binary, w.o.Verify = self, systemd.Verify
	r, err := w.install(service.InstallOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(r.LeftOut, "PrivateTmp") { // both paths are in a temporary directory here
		t.Errorf("left out: %q", r.LeftOut)
	}
	v, err := systemd.Verify(t.Context(), w.service().Path(), true)
	if err != nil {
		t.Skip(err)
	}
	if len(v.Unknown)+len(v.Problems) > 0 {
		t.Errorf("got %+v", v)
	}
}
