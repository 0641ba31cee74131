package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"hermesd/cmd/internal/admin"
	"hermesd/internal/daemontest"
	"hermesd/internal/sim/llm"
)

// refusal is in the error of each refused command line.
const refusal = "may not use the control socket"

func init() { programs["hand-over"] = handOver }

// handOver is a program that connects the control socket, starts a process that inherits
// the connection and sends a message over it, and ends without waiting for it.
func handOver() {
	if os.Getenv("HAND_OVER") != "" {
		c := os.NewFile(3, "connection")
		body := fmt.Sprintf(`{"to":%q,"text":%q}`, os.Args[2], os.Args[3])
		_, _ = fmt.Fprintf(c, "POST /send HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
		_, _ = io.Copy(os.Stdout, c) // the test looks at the output
		fmt.Println("over")
		return
	}
	c, err := net.Dial("unix", os.Args[1])
	if err != nil {
		panic(err)
	}
	f, err := c.(*net.UnixConn).File()
	if err != nil {
		panic(err)
	}
	cmd := exec.Command(os.Args[0], os.Args[1:]...)
	cmd.Env, cmd.ExtraFiles, cmd.Stdout = append(os.Environ(), "HAND_OVER=1"), []*os.File{f}, os.Stdout
	if err := cmd.Start(); err != nil {
		panic(err)
	}
}

// A guarded is a daemon whose agent runs commands without a sandbox and without approval.
type guarded struct {
	*testing.T
	*daemontest.Rig
	out    *buffer
	target string // the chat of the person
	dir    string // for files of commands
}

func newGuarded(t *testing.T) *guarded {
	t.Helper()
	bin, err := exec.LookPath("hermesd")
	if err != nil {
		t.Fatal(err)
	}
	g := &guarded{T: t, out: &buffer{}, dir: t.TempDir()}
	g.Rig, err = daemontest.New(daemontest.Options{
		Binary: bin, Home: filepath.Join(t.TempDir(), "home"), People: 1, Out: g.out, Model: llm.Options{Reply: g.reply},
		Config: "terminal:\n  sandbox: off\napprovals:\n  mode: off\ndisplay:\n  tool_progress: 'off'\n",
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Close)
	if err := g.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.Stop(patience); err != nil { // ends the commands in the background; a killed daemon leaves them
			t.Error(err)
		}
	})
	g.target = fmt.Sprintf("telegram:%d", g.Direct[0].ID())
	return g
}

// reply is a model that runs commands like commanding, and after "background" in the
// background.
func (g *guarded) reply(r llm.Request) llm.Reply {
	if command, ok := strings.CutPrefix(r.Newest(), "background "); ok && len(r.Results()) == 0 {
		return llm.Reply{Calls: []llm.Call{{Name: "terminal", Args: fmt.Sprintf(`{"command":%q,"background":true}`, command)}}}
	}
	return commanding(r)
}

// expand replaces $SEND by a command line that sends a message to the person, and the
// names of the directory, the home and the chat.
func (g *guarded) expand(command string) string {
	return strings.NewReplacer("$SEND", "hermesd --home "+g.Home()+" send "+g.target, "$SOCKET", filepath.Join(g.Home(), admin.SocketName),
		"$HOME_DIR", g.Home(), "$TARGET", g.target, "$DIR", g.dir).Replace(command)
}

// say sends a message that lets the agent run a command, and waits for the result.
func (g *guarded) say(text string) {
	g.Helper()
	before := len(g.Direct[0].FromBots())
	g.Direct[0].Say(g.People[0], g.expand(text))
	until(g.T, "the result of "+text, func() bool { return g.seen(before, "result: ") })
}

// seen reports whether the person has got a message with the words after the first n.
func (g *guarded) seen(n int, words string) bool {
	for _, m := range g.Direct[0].FromBots()[n:] {
		if strings.Contains(m.Text, words) {
			return true
		}
	}
	return false
}

// waitOutput waits until a file of a command contains "over" and returns its content.
func (g *guarded) waitOutput(name string) (said string) {
	g.Helper()
	until(g.T, "the output of the command", func() bool {
		raw, err := os.ReadFile(filepath.Join(g.dir, name))
		said = string(raw)
		return err == nil && strings.Contains(said, "over\n")
	})
	return said
}

// run runs a command line as an operator does.
func (g *guarded) run(args ...string) string {
	g.Helper()
	out, err := exec.CommandContext(g.Context(), "hermesd", append([]string{"--home", g.Home()}, args...)...).CombinedOutput()
	if err != nil {
		g.Errorf("hermesd %q: %v: %s", args, err, out)
	}
	return string(out)
}

// A command of the agent has no effect over the control socket, however it connects: the
// worst case is a daemon without a sandbox.
func TestCommandsCannotUseControlSocket(t *testing.T) {
	t.Parallel()
	g := newGuarded(t)
	for name, command := range map[string]string{
		"itself":                    "run { $SEND stolen; hermesd --home $HOME_DIR pairing approve telegram ABCDEFGH; hermesd --home $HOME_DIR reload; echo over; } >$DIR/out 2>&1",
		"in its own session":        "run setsid sh -c '$SEND stolen; echo over' >$DIR/out 2>&1",
		"background":                "background { $SEND stolen; echo over; } >$DIR/out 2>&1",
		"after its parent":          "run setsid sh -c 'touch $DIR/up; until [ -e $DIR/go ]; do sleep 0.02; done; $SEND stolen; echo over' >$DIR/out 2>&1 & until [ -e $DIR/up ]; do sleep 0.02; done",
		"a child of such an orphan": "run setsid sh -c 'touch $DIR/up; until [ -e $DIR/go ]; do sleep 0.02; done; sh -c \"$SEND stolen; :\"; echo over' >$DIR/out 2>&1 & until [ -e $DIR/up ]; do sleep 0.02; done",
		"an inherited connection":   "run hand-over $SOCKET $TARGET stolen >$DIR/out 2>&1; until grep -q over $DIR/out; do sleep 0.02; done",
		"a PID namespace":           "run { unshare -Urpf $SEND stolen || unshare -pf $SEND stolen; echo over; } >$DIR/out 2>&1",
	} {
		t.Run(name, func(t *testing.T) {
			g := &guarded{T: t, Rig: g.Rig, out: g.out, target: g.target, dir: t.TempDir()}
			g.say(command)
			if err := os.WriteFile(filepath.Join(g.dir, "go"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			said := g.waitOutput("out")
			if strings.Contains(said, "unshare:") {
				t.Skip(said)
			}
			if n := strings.Count(said, refusal); n != max(1, strings.Count(command, "hermesd ")+strings.Count(command, "$SEND")) && name != "a PID namespace" || n == 0 {
				t.Errorf("the command is not refused: %s", said)
			}
		})
	}
	g.run("send", g.target, "everything before has arrived")
	until(t, "the person reads the operator's message", func() bool { return g.seen(0, "everything before has arrived") })
	if g.seen(0, "stolen") {
		t.Error("a command has sent a message")
	}
	if said := g.out.String(); strings.Count(said, "control socket refused a connection") == 0 {
		t.Errorf("the log does not say so: %s", said)
	}
}

// The operator's scripts and other processes of the machine use the control socket, also
// while commands of the agent run.
func TestOperatorUsesControlSocket(t *testing.T) {
	t.Parallel()
	g := newGuarded(t)
	mark := fmt.Sprintf("9%d.5", os.Getpid())
	t.Cleanup(func() {
		for _, id := range marked(t, "sleep\x00"+mark) {
			_ = syscall.Kill(id, syscall.SIGKILL) // it may have ended
		}
	})
	g.say("background sleep " + mark)
	g.say("run setsid sleep " + mark + " >/dev/null 2>&1 & :")

	if said := g.run("status"); !strings.Contains(said, "telegram") {
		t.Errorf("status: %s", said)
	}
	scripts := filepath.Join(g.Home(), "scripts")
	if err := os.MkdirAll(scripts, 0o700); err != nil {
		t.Fatal(err)
	}
	script := g.expand("$SEND one\n( ($SEND two; touch $DIR/done) & )\nuntil [ -e $DIR/done ]; do sleep 0.02; done\necho over\n")
	if err := os.WriteFile(filepath.Join(scripts, "tell.sh"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	g.run("cron", "create", "every 2h", "--name", "job", "--script", "tell.sh", "--no-agent", "--deliver", g.target)
	g.run("cron", "run", "job")
	for _, words := range []string{"one", "two", "over"} {
		until(t, "the script says "+words, func() bool { return g.seen(0, words) })
	}

	inside := exec.CommandContext(t.Context(), "hermesd", "--home", g.Home(), "status") // like docker exec
	inside.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: os.Getuid(), HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: os.Getgid(), HostID: os.Getgid(), Size: 1}}}
	out, err := inside.CombinedOutput()
	if errors.Is(err, os.ErrPermission) || errors.Is(err, syscall.ENOSPC) {
		t.Skipf("no PID namespace can be made here: %v", err)
	}
	if err != nil || !strings.Contains(string(out), "telegram") {
		t.Errorf("from another PID namespace: %v: %s", err, out)
	}
}

// The daemon reaps the orphans of commands.
func TestDaemonReapsOrphans(t *testing.T) {
	t.Parallel()
	g := newGuarded(t)
	g.say("run setsid sh -c 'echo $$; touch $DIR/up; until [ -e $DIR/go ]; do sleep 0.02; done; echo over' >$DIR/out 2>&1 & until [ -e $DIR/up ]; do sleep 0.02; done")
	raw, err := os.ReadFile(filepath.Join(g.dir, "out"))
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(raw)))
	if err != nil {
		t.Fatal(err)
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if client := client(t, g.Home()); err == nil {
		s, wrong := client.Status(t.Context())
		if wrong != nil || !strings.Contains(string(stat), fmt.Sprintf(" %d ", s.PID)) {
			t.Errorf("it is not a child of the daemon: %s, %v", stat, wrong)
		}
	}
	if err := os.WriteFile(filepath.Join(g.dir, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	g.waitOutput("out")
	until(t, "it is reaped", func() bool {
		_, err := os.Stat(fmt.Sprintf("/proc/%d", pid))
		return os.IsNotExist(err)
	})
}
