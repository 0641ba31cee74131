package app_test

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"hermesd/cmd/internal/admin"
)

// unasked is the configuration with which commands run without approvals.
const unasked = "approvals:\n  mode: off\n"

// controlSocket returns the path of the control socket of the running daemon.
func (w *harness) controlSocket() string {
	w.Helper()
	if raw, err := os.ReadFile(w.path(admin.PathName)); err == nil {
		return strings.TrimSpace(string(raw))
	}
	return w.path(admin.SocketName)
}

// A model that follows injected instructions tries to control the daemon, and to read what
// commands must not see, and nobody is asked: only the sandbox prevents it.
func TestSandboxedCommandDoesNotReachTheDaemon(t *testing.T) {
	t.Parallel()
	curl, err := exec.LookPath("curl")
	if err != nil {
		t.Skip("not tried here:", err)
	}
	w := newHarness(t, fault{config: onlyOwner + unasked, telegram: "allow_all: true", sandboxed: true})
	w.writeFile("hidden.txt", "canary-of-the-home")
	w.start()
	w.waitConnected()
	socket := w.controlSocket()
	// From outside, the request works: the attack below does not fail for another reason.
	out, err := exec.CommandContext(t.Context(), curl, "-sS", "--unix-socket", socket, "http://hermesd/sessions").CombinedOutput()
	if err != nil || !strings.HasPrefix(string(out), "[") && !strings.HasPrefix(string(out), "{") {
		t.Fatalf("the control socket answers %q, %v", out, err)
	}
	for _, request := range []string{"http://x/sessions", "-X POST http://x/pairing/approve?code=ABCDEFGH", "-X POST http://x/attach", "http://x/search?q=a"} {
		said := w.askBot(use("terminal", `{"command":"curl -sS --unix-socket `+socket+" '"+strings.ReplaceAll(request, " http", "' 'http")+`'; echo answer=$?"}`), "result: ", "answer=")
		if strings.Contains(said, "answer=0") {
			t.Errorf("%s: a command reached the control socket: %s", request, said)
		}
	}
	if said := w.askBot(use("terminal", `{"command":"cat ../hidden.txt ../config.yaml; ls -A ..; echo answer=$?"}`), "result: ", "answer="); strings.Contains(said, "canary-of-the-home") || strings.Contains(said, "owners") || strings.Contains(said, "hidden.txt\n") {
		t.Errorf("a command read the home: %s", said)
	}
	w.stop()
}

// Sockets of services, terminals and shared memory of the machine are out of reach.
func TestSandboxedCommandDoesNotReachTheMachine(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("not tried here:", err)
	}
	w := newHarness(t, fault{config: onlyOwner + unasked, telegram: "allow_all: true", sandboxed: true})
	service := filepath.Join(w.home, "..", "service.sock") // as /run/docker.sock is
	l, err := net.Listen("unix", service)
	if err != nil {
		t.Skip("not tried here:", err)
	}
	defer l.Close()
	shared := "/dev/shm/hermesd-test-" + strconv.Itoa(os.Getpid())
	w.must(os.WriteFile(shared, []byte("canary-of-the-memory"), 0o600))
	defer os.Remove(shared)
	terminal, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	w.must(err)
	defer terminal.Close()
	n, err := unix.IoctlGetInt(int(terminal.Fd()), unix.TIOCGPTN)
	w.must(err)
	w.must(unix.IoctlSetPointerInt(int(terminal.Fd()), unix.TIOCSPTLCK, 0))
	w.start()
	w.waitConnected()
	if said := w.askBot(use("terminal", `{"command":"curl -sS --max-time 5 --unix-socket `+service+` http://x/; echo answer=$?"}`), "result: ", "answer="); strings.Contains(said, "answer=0") || strings.Contains(said, "answer=28") {
		t.Errorf("a command reached a service: %s", said)
	}
	if said := w.askBot(use("terminal", `{"command":"cat `+shared+`; echo answer=$?"}`), "result: ", "answer="); strings.Contains(said, "canary-of-the-memory") {
		t.Errorf("a command read shared memory: %s", said)
	}
	w.askBot(use("terminal", `{"command":"echo taken | tee /dev/pts/`+strconv.Itoa(n)+`; echo answer=$?"}`), "result: ", "answer=")
	if waiting, err := unix.IoctlGetInt(int(terminal.Fd()), unix.TIOCINQ); err != nil || waiting > 0 {
		t.Errorf("a command wrote %d bytes to a terminal, %v", waiting, err)
	}
	w.stop()
}
