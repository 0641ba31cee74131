//go:build unix

package service_test

import (
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"hermesd/cmd/internal/service"
)

// restrict lets AppArmor restrict user namespaces on this machine.
func (w *harness) restrict() {
	w.Helper()
	if err := os.MkdirAll(filepath.Join(w.dir, "proc", "kernel"), 0o700); err != nil {
		w.Fatal(err)
	}
	w.put("proc/kernel/apparmor_restrict_unprivileged_userns", "1\n")
}

// asSystem makes it a service of the system, under the account that runs the test.
func (w *harness) asSystem() {
	w.Helper()
	me, err := user.Current()
	if err != nil {
		w.Fatal(err)
	}
	w.o.User, w.o.Account = false, me.Username
}

func (w *harness) hasNote(r service.Report, words string) bool {
	return slices.ContainsFunc(r.Notes, func(n string) bool { return strings.Contains(n, words) })
}

const profileFile = "apparmor.d/hermesd"

// The profile is installed and loaded before the service starts, only where AppArmor
// restricts user namespaces, and removed with the last service.
func TestSystemServiceInstallsAppArmorProfile(t *testing.T) {
	w := newHarness(t)
	w.asSystem()
	if r, err := w.install(service.InstallOptions{}); err != nil || r.Profile != "" || strings.Contains(w.read("calls"), "apparmor_parser") {
		t.Errorf("a machine that restricts nothing: %+v, %v", r, err)
	}
	w.restrict()
	w.put("calls", "")
	r, err := w.install(service.InstallOptions{Start: true})
	if err != nil || r.Profile != filepath.Join(w.dir, profileFile) || r.AsRoot != "" {
		t.Fatalf("%+v, %v", r, err)
	}
	for _, line := range []string{`profile hermesd "/opt/hermesd/hermesd" flags=(unconfined) {`, "  userns,"} {
		if text := w.read(profileFile); !strings.Contains(text, line+"\n") {
			t.Errorf("%q is not in\n%s", line, text)
		}
	}
	load, start := strings.Index(w.read("calls"), "apparmor_parser --replace "+r.Profile), strings.Index(w.read("calls"), "restart hermesd.service")
	if load < 0 || start < load {
		t.Errorf("calls:\n%s", w.read("calls"))
	}
	w.o.Profile = "work" // a second service with the same program
	if _, err := w.install(service.InstallOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := w.service().Uninstall(t.Context(), false); err != nil || !strings.Contains(w.read(profileFile), "userns") {
		t.Errorf("the profile of the other service is gone (%v)", err)
	}
	w.o.Profile = ""
	if err := w.service().Uninstall(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(r.Profile); err == nil || !strings.Contains(w.read("calls"), "apparmor_parser --remove") {
		t.Errorf("the profile is still there; calls:\n%s", w.read("calls"))
	}
}

// A user may not install the profile: the commands for root are printed.
func TestUserServicePrintsCommandsForAppArmorProfile(t *testing.T) {
	w := newHarness(t)
	w.restrict()
	r, err := w.install(service.InstallOptions{})
	if err != nil || r.Profile != "" || !w.hasNote(r, "only root") {
		t.Fatalf("%+v, %v", r, err)
	}
	path := filepath.Join(w.dir, profileFile)
	if _, err := os.Stat(path); err == nil {
		t.Error("the profile is written")
	}
	// What is printed has the effect that it should have.
	w.put("sudo", "#!/bin/sh\nexec \"$@\"\n")
	w.put("hermesd", "#!/bin/sh\n")
	if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("sh", "-ec", r.AsRoot).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s\n%s", err, r.AsRoot, out)
	}
	want, err := service.AppArmorProfile(w.o.Binary)
	if err != nil || w.read(profileFile) != want || !strings.Contains(w.read("calls"), "apparmor_parser --replace "+path) {
		t.Errorf("%v: got\n%s", err, w.read(profileFile))
	}
	if r, err := w.install(service.InstallOptions{}); err != nil || r.AsRoot != "" || r.Profile != path {
		t.Errorf("once it is there: %+v, %v", r, err)
	}
}

// A profile that cannot be installed does not keep the service from being installed.
func TestFailedAppArmorProfileIsNoted(t *testing.T) {
	w := newHarness(t)
	w.asSystem()
	w.restrict()
	w.put("deny", "--replace\n")
	w.put("says", "AppArmor parser error: syntax error")
	if r, err := w.install(service.InstallOptions{Start: true}); err != nil || !r.Started || r.Profile != "" || !w.hasNote(r, "syntax error") {
		t.Errorf("it cannot be loaded: %+v, %v", r, err)
	}
	w.put("deny", "")
	w.put(profileFile, "profile hermesd /usr/bin/other {}\n")
	if r, err := w.install(service.InstallOptions{}); err != nil || !w.hasNote(r, "--force") || w.read(profileFile) != "profile hermesd /usr/bin/other {}\n" {
		t.Errorf("one of somebody else: %+v, %v", r, err)
	}
	if err := w.service().Uninstall(t.Context(), false); err != nil || w.read(profileFile) == "" {
		t.Errorf("one of somebody else is removed (%v)", err)
	}
}

// The profile has valid syntax, also for unusual paths. A parser before version 4 does
// not know the rule userns: there all the rest is checked.
func TestAppArmorProfileSyntax(t *testing.T) {
	parser, err := exec.LookPath("apparmor_parser")
	if err != nil {
		t.Skip("not tried here: there is no apparmor_parser")
	}
	version, err := exec.Command(parser, "--version").Output()
	if err != nil {
		t.Skip("not tried here:", err)
	}
	first, _, _ := strings.Cut(string(version), "\n")
	words := strings.Fields(first)
	isOld := len(words) == 0 || strings.HasPrefix(words[len(words)-1], "2.") || strings.HasPrefix(words[len(words)-1], "3.")
	for _, binary := range []string{"/usr/local/bin/hermesd", `/opt/a b/[x]{y}*?^@"\z/hermesd`} {
		text, err := service.AppArmorProfile(binary)
		if err != nil {
			t.Fatal(err)
		}
		if isOld {
			text = strings.NewReplacer("abi <abi/4.0>,\n", "", "  userns,\n", "").Replace(text)
		}
		path := filepath.Join(t.TempDir(), "hermesd")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command(parser, "--skip-kernel-load", "--skip-cache", "--skip-read-cache", path).CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s\n%s", binary, err, out, text)
		}
	}
	if _, err := service.AppArmorProfile("hermesd"); err == nil {
		t.Error("a relative path is accepted")
	}
	if isOld {
		t.Skipf("not tried here: userns and abi 4.0, which %s does not know", first)
	}
}
