package spawn_test

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"hermesd/internal/spawn"
)

// canary is the content of what a command must not read.
const canary = "canary-7d1f0c"

// allVariable is set to "all" where every combination of mechanism and account must be
// tried.
const allVariable = "HERMESD_SANDBOX_TESTS"

// notTried reports a combination that this machine cannot provide.
func notTried(t *testing.T, reason any) {
	t.Helper()
	if os.Getenv(allVariable) == "all" {
		t.Fatal("not tried here:", reason)
	}
	t.Skip("not tried here:", reason)
}

// Escapes are tried in the sandbox by this program itself; see attacks. The test then
// verifies from outside that nothing was reached.
func TestEscapes(t *testing.T) {
	t.Parallel()
	forEachBackend(t, func(t *testing.T, m spawn.Mechanism, network bool) {
		g := newVictim(t, m, network)
		r := g.attack(t, "")
		var results []attackResult
		if err := json.Unmarshal(r.Head, &results); err != nil {
			t.Fatalf("%v, %v: %s%s", err, r.Cause, r.Head, r.Tail)
		}
		for _, a := range results {
			if a.Reached {
				t.Errorf("%s succeeded", a.Name)
			}
		}
		if len(results) < len(attacks()) {
			t.Errorf("%d of %d attacks were tried", len(results), len(attacks()))
		}
		g.verify(t)
		g.attack(t, "signals") // may end the attacker itself
		g.verify(t)
	})
}

// TestEscapesAsOrdinaryUser tries the escapes again as an unprivileged user.
func TestEscapesAsOrdinaryUser(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("takes seconds")
	}
	if os.Getuid() != 0 {
		notTried(t, "only root can become somebody else")
	}
	out, err := runAsNobody(t, "^TestEscapes$|^TestNoNetwork|^TestEscapeBySymlinkRace|^TestHelperIgnoresVariables|^TestDailyCommands")
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	for line := range strings.Lines(string(out)) {
		if strings.Contains(line, "not tried here") {
			t.Log(strings.TrimSpace(line))
		}
	}
}

// forEachBackend calls f for each mechanism, with and without network.
func forEachBackend(t *testing.T, f func(t *testing.T, m spawn.Mechanism, network bool)) {
	t.Helper()
	for _, m := range []spawn.Mechanism{spawn.Bubblewrap, spawn.Namespaces, spawn.Landlock} {
		for _, network := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/network=%v", m, network), func(t *testing.T) {
				t.Parallel()
				f(t, m, network)
			})
		}
	}
}

// A victim is what attacks try to reach.
type victim struct {
	ground
	targets
	terminal  *os.File // its other side
	listeners []*net.UnixListener
	sibling   *exec.Cmd
}

// Targets are told to the attacker.
type targets struct {
	Phase     string
	Workspace string
	Files     []string // with the canary
	Sockets   []string
	Terminal  string
	Shared    string
	Key       int // of a System V segment
	Segment   int
	Queue     string
	Sibling   int // process of the same account
	Daemon    int // this process
	Landlock  bool
	Network   bool
	Addresses []string // TCP, of all interfaces of this machine
}

// newVictim creates a sandbox and the targets around it.
func newVictim(t *testing.T, m spawn.Mechanism, network bool) *victim {
	t.Helper()
	top := real(t, t.TempDir())
	v := &victim{ground: ground{home: filepath.Join(top, "home"), outside: filepath.Join(top, "outside")}}
	v.workspace, v.secret = filepath.Join(v.home, "workspace"), filepath.Join(v.home, "store.db")
	for _, d := range []string{v.workspace, v.outside} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	v.targets = targets{
		Workspace: v.workspace, Files: []string{v.secret, filepath.Join(v.outside, "file")}, Daemon: os.Getpid(), Landlock: m == spawn.Landlock, Network: network,
		Sockets: []string{filepath.Join(v.home, "hermesd.sock"), filepath.Join(v.outside, "sock"), "@hermesd-escape-" + strconv.FormatInt(time.Now().UnixNano(), 36)},
	}
	for _, f := range v.Files {
		if err := os.WriteFile(f, []byte(canary), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	box, err := spawn.OpenBackend(t.Context(), m, spawn.Policy{Write: []string{v.workspace}, Hide: []string{v.home}, Read: []string{executable(t)}, Network: network})
	if err != nil {
		notTried(t, err)
	}
	v.box = box
	v.listen(t)
	v.shareMemory(t)
	v.sibling = exec.CommandContext(t.Context(), "sleep", "1000")
	v.sibling.Env = []string{"CANARY=" + canary}
	v.sibling.Dir = v.outside
	if err := v.sibling.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = v.sibling.Process.Kill()
		_ = v.sibling.Wait() // an error, because it was killed
	})
	v.Sibling = v.sibling.Process.Pid
	return v
}

func executable(t *testing.T) string {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return real(t, exe)
}

// listen opens the sockets and a terminal. Nobody accepts: a connection waits, and verify
// finds it.
func (v *victim) listen(t *testing.T) {
	t.Helper()
	for _, addr := range v.Sockets {
		l, err := net.ListenUnix("unix", &net.UnixAddr{Name: addr, Net: "unix"})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		v.listeners = append(v.listeners, l)
	}
	f, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Log("not tried here: terminals:", err)
		return
	}
	t.Cleanup(func() { _ = f.Close() })
	n, err := unix.IoctlGetInt(int(f.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(f.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	v.terminal, v.Terminal = f, "/dev/pts/"+strconv.Itoa(n)
}

// shareMemory creates shared memory of three kinds.
func (v *victim) shareMemory(t *testing.T) {
	t.Helper()
	name := "hermesd-escape-" + strconv.FormatInt(time.Now().UnixNano(), 36)
	v.Shared = "/dev/shm/" + name
	if err := os.WriteFile(v.Shared, []byte(canary), 0o600); err != nil {
		t.Log("not tried here: /dev/shm:", err)
		v.Shared = ""
	}
	t.Cleanup(func() { _ = os.Remove("/dev/shm/" + name) })
	v.Key = int(uint32(time.Now().UnixNano())>>2 | 1)
	id, err := unix.SysvShmGet(v.Key, 4096, unix.IPC_CREAT|unix.IPC_EXCL|0o600)
	if err != nil {
		t.Fatal(err)
	}
	v.Segment = id
	t.Cleanup(func() { _, _ = unix.SysvShmCtl(id, unix.IPC_RMID, nil) })
	v.Queue = name
	fd, err := openQueue(name, unix.O_CREAT|unix.O_EXCL|unix.O_RDWR)
	if err != nil {
		t.Log("not tried here: message queues:", err)
		v.Queue = ""
		return
	}
	t.Cleanup(func() { _ = unix.Close(fd); unlinkQueue(name) })
}

// attack runs this program as attacker.
func (v *victim) attack(t *testing.T, phase string) spawn.Result {
	t.Helper()
	v.Phase = phase
	raw, err := json.Marshal(v.targets)
	if err != nil {
		t.Fatal(err)
	}
	return run(t, spawn.Command{
		Argv: []string{executable(t)}, Env: []string{attackVariable + "=" + string(raw)}, Dir: v.workspace, Sandbox: v.box, Timeout: patience, MaxKept: 1 << 20,
	})
}

// verify fails if something outside was reached.
func (v *victim) verify(t *testing.T) {
	t.Helper()
	for _, f := range v.Files {
		raw, err := os.ReadFile(f)
		info, e := os.Stat(f)
		if err != nil || string(raw) != canary || e != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s is %q, %v, %v", f, raw, info, err)
		}
	}
	for i, l := range v.listeners {
		if err := l.SetDeadline(time.Now()); err != nil {
			t.Fatal(err)
		}
		if c, err := l.Accept(); err == nil {
			_ = c.Close()
			t.Errorf("%s was connected to", v.Sockets[i])
		}
	}
	if v.terminal != nil {
		if n, err := unix.IoctlGetInt(int(v.terminal.Fd()), unix.TIOCINQ); err == nil && n > 0 {
			t.Errorf("%d bytes were written to the terminal", n)
		}
	}
	if err := syscall.Kill(v.Sibling, 0); err != nil {
		t.Errorf("the other process is gone: %v", err)
	}
	var limit unix.Rlimit
	if err := unix.Prlimit(v.Sibling, unix.RLIMIT_NOFILE, nil, &limit); err != nil || limit.Cur == 7 {
		t.Errorf("the limits of the other process are %v, %v", limit, err)
	}
	if names, _ := filepath.Glob(filepath.Join(v.workspace, "core*")); len(names) > 0 {
		t.Errorf("there are %v", names)
	}
}

// runAsNobody runs tests of this package under an unprivileged account.
func runAsNobody(t *testing.T, pattern string) ([]byte, error) {
	t.Helper()
	const nobody = 65534
	dir, err := os.MkdirTemp("/tmp", "spawn-user-") // every directory of the path is accessible to all
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chown(dir, nobody, nobody); err != nil {
		t.Fatal(err)
	}
	binary := filepath.Join(dir, "spawn.test")
	copyProgram(t, binary)
	cmd := exec.CommandContext(t.Context(), binary, "-test.v", "-test.run="+pattern)
	cmd.Dir, cmd.Env = dir, []string{"PATH=/usr/local/go/bin:/usr/local/bin:/usr/bin:/bin", "TMPDIR=" + dir, "HOME=" + dir, allVariable + "=" + os.Getenv(allVariable)}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	return cmd.CombinedOutput()
}

// copyProgram copies this program. A process that is started meanwhile would keep the file
// open for writing for a moment, and the copy could not be executed.
func copyProgram(t *testing.T, path string) {
	t.Helper()
	raw, err := os.ReadFile(executable(t))
	if err != nil {
		t.Fatal(err)
	}
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	if err := os.WriteFile(path, raw, 0o755); err != nil {
		t.Fatal(err)
	}
}
