//go:build linux

package spawn_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hermesd/internal/spawn"
)

// A ground is a test environment for a sandbox: a workspace inside a hidden home.
type ground struct {
	home, workspace, secret, outside string
	box                              *spawn.Sandbox
}

// enclose opens the best sandbox of the machine, or skips the test.
func enclose(t *testing.T, change func(*spawn.Policy, *ground)) ground {
	t.Helper()
	top := real(t, t.TempDir())
	g := ground{home: filepath.Join(top, "home"), outside: filepath.Join(top, "outside")}
	g.workspace, g.secret = filepath.Join(g.home, "workspace"), filepath.Join(g.home, "store.db")
	for _, d := range []string{g.workspace, g.outside} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range []string{g.secret, filepath.Join(g.outside, "file")} {
		if err := os.WriteFile(f, []byte("canary"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p := spawn.Policy{Write: []string{g.workspace}, Hide: []string{g.home}}
	if change != nil {
		change(&p, &g)
	}
	box, err := spawn.Open(t.Context(), spawn.Auto, p)
	if errors.Is(err, spawn.ErrNoSandbox) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	g.box = box
	return g
}

func (g ground) run(t *testing.T, line string) spawn.Result {
	t.Helper()
	return run(t, spawn.Command{Shell: line, Dir: g.workspace, Sandbox: g.box})
}

func TestTheSandboxKeepsToItsPolicy(t *testing.T) {
	t.Parallel()
	g := enclose(t, nil)
	t.Log(g.box.Status())
	rights := "0000000000000000" // none; for root those for files, IDs and processes
	if os.Getuid() == 0 {
		rights = "00000000000004fb"
	}
	var lines, want []string
	for line, allowed := range map[string]bool{
		"echo x > new && cat new && mkdir d && mv new d/ && rm -r d": true,
		"echo x > $TMPDIR/t && rm $TMPDIR/t":                         true,
		"ls /usr/bin > /dev/null && cat /etc/passwd > /dev/null":     true,
		"cat <(echo x)":                                                 true,
		"echo x 2>/dev/null | cat > /dev/null":                          true,
		"cat " + g.secret:                                               false,
		"grep -q 'CapEff:.*" + rights + "' /proc/self/status":           true,
		"cat ../store.db":                                               false,
		"cat " + g.outside + "/file":                                    false,
		"echo x > " + g.outside + "/file":                               false,
		"echo x >> " + g.secret:                                         false,
		"rm " + g.secret:                                                false,
		"mv " + g.secret + " " + g.home + "/gone":                       false,
		"ln -s " + g.secret + " s && cat s":                             false,
		"ln " + g.secret + " hard && cat hard":                          false,
		"touch /etc/hermesd-test":                                       false,
		"test -s /etc/shadow && cat /etc/shadow":                        false,
		"mount -t tmpfs x " + g.workspace:                               false,
		"cat /proc/" + fmt.Sprint(os.Getpid()) + "/environ | grep -q .": false,
	} {
		lines, want = append(lines, line), append(want, map[bool]string{true: "yes", false: "no"}[allowed])
	}
	var script strings.Builder
	for _, line := range lines {
		fmt.Fprintf(&script, "if (%s) >out 2>&1; then echo yes; else echo no; fi; grep canary out\n", line)
	}
	r := g.run(t, script.String())
	got := strings.Fields(string(r.Head))
	if len(got) != len(want) {
		t.Fatalf("got %q", r.Head)
	}
	for i, line := range lines {
		if got[i] != want[i] {
			t.Errorf("%s: got %s", line, got[i])
		}
	}
	for _, f := range []string{g.secret, filepath.Join(g.outside, "file")} {
		if raw, err := os.ReadFile(f); err != nil || string(raw) != "canary" {
			t.Errorf("%s is %q, %v", f, raw, err)
		}
	}
}

func TestWhatIsHiddenInsideWhatIsSeenIsHidden(t *testing.T) {
	t.Parallel()
	g := enclose(t, func(p *spawn.Policy, g *ground) {
		p.Read = []string{filepath.Dir(g.home)} // contains the home, which contains the workspace
	})
	r := g.run(t, "exec 2>/dev/null; cat "+g.outside+"/file; echo; cat "+g.secret+"; rm -rf "+g.secret+"; echo x > w && cat "+g.workspace+"/w; "+
		"(echo x > "+g.home+"/new) || echo no; (echo x > "+g.outside+"/new) || echo no; ls "+g.home)
	if got, want := string(r.Head), "canary\nx\nno\nno\nworkspace\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if raw, err := os.ReadFile(g.secret); err != nil || string(raw) != "canary" {
		t.Errorf("the secret is %q, %v", raw, err)
	}
}

func TestWithoutNetworkNobodyIsReached(t *testing.T) {
	t.Parallel()
	l, stop := listen(t)
	defer stop()
	closed := enclose(t, nil)
	open := enclose(t, func(p *spawn.Policy, _ *ground) { p.Network = true })
	line := "exec 3<>/dev/tcp/127.0.0.1/" + l
	bash := func(g ground) spawn.Result {
		return run(t, spawn.Command{Shell: line, Interpreter: "bash", Dir: g.workspace, Sandbox: g.box})
	}
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip(err)
	}
	if r := bash(open); r.Code != 0 {
		t.Errorf("with a network: %s", r.Head)
	}
	if r := bash(closed); r.Code == 0 {
		t.Error("without a network somebody was reached")
	}
}

func TestNothingEscapesASandbox(t *testing.T) {
	t.Parallel()
	fenced := enclose(t, nil)
	grounds := map[string]ground{"with": fenced}
	if box, err := spawn.OpenBackend(t.Context(), spawn.Landlock, spawn.Policy{Write: []string{fenced.workspace}, Hide: []string{fenced.home}}); err == nil {
		unfenced := fenced
		unfenced.box = box
		grounds["without"] = unfenced
	} else {
		t.Log("not tried here:", err)
	}
	for name, g := range grounds {
		mark := fmt.Sprint("7", os.Getpid(), time.Now().UnixNano()%1000)
		if r := g.run(t, "setsid sleep "+mark+" & (setsid sleep "+mark+" &) ; echo done"); r.OutputHeldOpen || r.Code != 0 {
			t.Errorf("%s a name space: got %+v", name, r)
		}
		p, err := spawn.Start(t.Context(), spawn.Command{
			Shell: "trap '' TERM; setsid sh -c 'trap \"\" TERM; setsid sleep " + mark + " & sleep " + mark + "; sleep " + mark + "' & echo ready; wait; sleep " + mark,
			Dir:   g.workspace, Sandbox: g.box, Grace: 20 * time.Millisecond, Timeout: patience,
		})
		if err != nil {
			t.Fatal(err)
		}
		until(t, p, "ready")
		if r := p.Kill(nil); r.OutputHeldOpen {
			t.Errorf("%s a name space something holds the output", name)
		}
		none(t, mark)
	}
	if fenced.box.Status().Mechanism != spawn.Landlock { // without isolation the command below would hit other processes
		mark := fmt.Sprint("9", os.Getpid(), time.Now().UnixNano()%1000)
		fenced.run(t, "setsid sleep "+mark+" & kill -9 $PPID; kill -9 -1")
		none(t, mark)
		fenced.run(t, "true")
	}
}

// running returns the processes whose command line contains mark, except this one.
func running(mark string) (out []string) {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, f := range files {
		if raw, err := os.ReadFile(f); err == nil && strings.Contains(string(raw), mark) && f != fmt.Sprintf("/proc/%d/cmdline", os.Getpid()) {
			out = append(out, f)
		}
	}
	return out
}

// none waits until there is no process with mark.
func none(t *testing.T, mark string) {
	t.Helper()
	for began := time.Now(); ; <-time.After(5 * time.Millisecond) {
		left := running(mark)
		if len(left) == 0 {
			return
		}
		if time.Since(began) > patience {
			t.Fatalf("%d processes go on: %v", len(left), left)
		}
	}
}

// The bomb doubles at most nine times, so that it does not take down a machine without
// process limit. In a sandbox with process limit it does not get that far, and in any
// sandbox it has ended when the command has.
func TestAForkBombEndsWithItsCommand(t *testing.T) {
	t.Parallel()
	most := 60
	if os.Getuid() == 0 {
		most = 301 // the minimum
	}
	g := enclose(t, func(p *spawn.Policy, _ *ground) { p.Processes = most })
	mark := fmt.Sprint("bomb", os.Getpid())
	bomb := ": " + mark + `; mkfifo p; f() { echo x; if [ $1 -lt 9 ]; then f $(($1+1)) & f $(($1+1)) & fi; read x <p; }; f 0; read x <p`
	p, err := spawn.Start(t.Context(), spawn.Command{Shell: bomb, Interpreter: "sh", Dir: g.workspace, Sandbox: g.box, Timeout: patience, Grace: -1})
	if err != nil {
		t.Fatal(err)
	}
	if st := g.box.Status(); st.Bound != "" {
		until(t, p, "fork") // the shell reports that fork fails
	} else {
		until(t, p, strings.Repeat("x\n", 100))
	}
	p.Stop(spawn.ErrTimeout) // like the timer
	r := p.Wait()
	if !errors.Is(r.Cause, spawn.ErrTimeout) || r.OutputHeldOpen {
		t.Errorf("got %v, %s", r.Cause, r.Head)
	}
	if n := strings.Count(string(r.Head), "x\n"); g.box.Status().Bound != "" && n > most {
		t.Errorf("%d shells, although: %s", n, g.box.Status())
	}
	none(t, mark)
	t.Log(g.box.Status())
}

func TestTheDeathOfTheDaemonEndsTheSandbox(t *testing.T) {
	t.Parallel()
	if dir := os.Getenv("SPAWN_TEST_DAEMON"); dir != "" {
		box, err := spawn.Open(t.Context(), spawn.Require, spawn.Policy{Write: []string{dir}})
		if err != nil {
			t.Fatal(err)
		}
		_, err = spawn.Run(t.Context(), spawn.Command{Shell: "echo > ready; setsid sleep " + os.Getenv("MARK") + "; sleep 1000", Dir: dir, Sandbox: box})
		t.Fatal("it ended", err)
	}
	g := enclose(t, nil)
	mark := fmt.Sprint("8", os.Getpid(), time.Now().UnixNano()%1000)
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestTheDeathOfTheDaemonEndsTheSandbox$")
	cmd.Env = append(os.Environ(), "SPAWN_TEST_DAEMON="+g.workspace, "MARK="+mark)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for began := time.Now(); ; <-time.After(5 * time.Millisecond) {
		if _, err := os.Stat(filepath.Join(g.workspace, "ready")); err == nil && len(running(mark)) > 0 {
			break
		}
		if time.Since(began) > patience {
			t.Fatal("it does not begin")
		}
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait() // an error, because it was killed
	none(t, mark)
}

func TestTheEnvironmentIsTrueInside(t *testing.T) {
	g := enclose(t, nil)
	t.Setenv("HOME", g.home)
	t.Setenv("PATH", g.outside+":"+os.Getenv("PATH")+":/no/such/folder:"+g.workspace)
	tool := filepath.Join(g.outside, "ls") // found by a shell, but not executable
	if err := os.WriteFile(tool, []byte("#!/bin/sh\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	r := g.run(t, "echo $HOME $TMPDIR; cd ~ && ls > list && cat list; echo $PATH")
	lines := strings.Split(string(r.Head), "\n")
	if len(lines) != 4 || lines[0] != g.workspace+" "+g.workspace || lines[1] != "list" {
		t.Fatalf("got %q", r.Head)
	}
	if strings.Contains(lines[2], g.outside) || strings.Contains(lines[2], "/no/such") || !strings.HasSuffix(lines[2], "/bin:"+g.workspace) {
		t.Errorf("PATH is %s", lines[2])
	}
}

// If nothing can be probed no mechanism works.
func TestWithoutASandboxItIsSaid(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", filepath.Join(dir, "none"))
	p := spawn.Policy{Write: []string{dir}}
	for _, mode := range []spawn.Mode{spawn.Auto, spawn.Require} {
		if _, err := spawn.Open(t.Context(), mode, p); !errors.Is(err, spawn.ErrNoSandbox) || !strings.Contains(err.Error(), "install bubblewrap") {
			t.Errorf("%s: got %v", mode, err)
		}
	}
}

func TestModes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	off, err := spawn.Open(t.Context(), spawn.Off, spawn.Policy{})
	if err != nil || off.Status().Mechanism != spawn.None || !strings.Contains(off.Status().String(), "without a sandbox") {
		t.Errorf("off: %v, %v", off.Status(), err)
	}
	if r := run(t, spawn.Command{Shell: "echo free", Sandbox: off}); text(t, r) != "free\n" {
		t.Errorf("off: got %+v", r)
	}
	for want, p := range map[string]spawn.Policy{
		"no folder that may be written":            {},
		"x is not an absolute path":                {Write: []string{"x"}},
		"no such file":                             {Write: []string{filepath.Join(dir, "none")}},
		"/ is no folder that can be given away":    {Write: []string{"/"}},
		dir + " is to be hidden and to be written": {Write: []string{dir}, Hide: []string{dir}},
	} {
		if _, err := spawn.Open(t.Context(), spawn.Auto, p); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	if _, err := spawn.Open(t.Context(), "maybe", spawn.Policy{}); err == nil {
		t.Error("an unknown mode is taken")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := spawn.Open(ctx, spawn.Auto, spawn.Policy{Write: []string{dir}}); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end: %v", err)
	}
}

// Runs the tests again under another account, because an unprivileged user has fewer
// rights than root.
func TestAsAnOrdinaryUser(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 || testing.Short() {
		t.Skip("only root can become somebody else")
	}
	out, err := runAsNobody(t, "^Test(TheSandboxKeeps|AForkBomb)")
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	for line := range strings.Lines(string(out)) {
		if strings.Contains(line, "commands run") {
			t.Log(strings.TrimSpace(line))
		}
	}
}

// listen accepts all connections, and returns the port.
func listen(t *testing.T) (port string, stop func()) {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_ = c.Close()
		}
	}()
	_, port, err = net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port, func() { _ = l.Close(); <-done }
}
