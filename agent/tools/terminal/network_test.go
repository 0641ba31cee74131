//go:build unix

package terminal_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"hermesd/agent/tools/terminal"
	"hermesd/internal/spawn"
)

// listenVariable makes this program a server on the loopback; see serve.
const listenVariable = "TERMINAL_TEST_LISTEN"

// serve listens on the loopback, prints the port, and waits for the end of its input.
func serve() {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Printf("port %d\n", l.Addr().(*net.TCPAddr).Port)
	_, _ = io.Copy(io.Discard, os.Stdin)
}

// openOffline opens a terminal with a sandbox that has a network or none. Commands run
// without network unless they ask for it.
func openOffline(t *testing.T, network bool) (b *bench, box *spawn.Sandbox, requests *[]terminal.PolicyRequest) {
	t.Helper()
	workspace, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	box, err = spawn.Open(t.Context(), spawn.Auto, spawn.Policy{Write: []string{workspace}, Read: []string{executable(t)}, Network: network})
	if errors.Is(err, spawn.ErrNoSandbox) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	requests = new([]terminal.PolicyRequest)
	b = open(t, func(o *terminal.Options) {
		o.Workspace, o.Shell, o.Sandbox = workspace, "bash", func() (*spawn.Sandbox, error) { return box, nil }
		o.Policy = func(_ context.Context, r terminal.PolicyRequest) terminal.PolicyResult {
			*requests = append(*requests, r)
			return terminal.PolicyResult{NoNetwork: !r.Network || strings.Contains(r.Command, "never")}
		}
	})
	return b, box, requests
}

func executable(t *testing.T) string {
	t.Helper()
	exe, err := os.Executable()
	if err == nil {
		exe, err = filepath.EvalSymlinks(exe)
	}
	if err != nil {
		t.Fatal(err)
	}
	return exe
}

const networkNote = `[it ran without network; to ask a user for the network, set "network" to true]`

func TestCommandWithoutNetwork(t *testing.T) {
	t.Parallel()
	b, _, _ := openOffline(t, true)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	dial := fmt.Sprintf("exec 2>/dev/null 3<>/dev/tcp/127.0.0.1/%d", l.Addr().(*net.TCPAddr).Port)
	if got := timeless(b.terminal(args{"command": dial})); got != "(no output)\n\n[exit code 1 after T]\n"+networkNote {
		t.Errorf("without network: %q", got)
	}
	if got := timeless(b.terminal(args{"command": dial, "network": true})); got != "(no output)\n\n[exit code 0 after T]" {
		t.Errorf("with network: %q", got)
	}
	for line, in := range map[string]args{
		"a success":              {"command": "true"},
		"a failure with network": {"command": "false", "network": true},
	} {
		if got := b.terminal(in); strings.Contains(got, "without network") {
			t.Errorf("%s: %q", line, got)
		}
	}
	b.terminal(args{"command": "read -r x; exit 3", "background": true})
	b.process(args{"action": "close", "id": "p1"})
	if got := timeless(b.process(args{"action": "wait", "id": "p1"})); got != "(no output)\n\n[exit code 3 after T]\n"+networkNote {
		t.Errorf("in the background: %q", got)
	}
}

// A process that is ended on request has not failed; one that its timeout ends may have waited
// for the network.
func TestNetworkNoteOnlyForFailures(t *testing.T) {
	t.Parallel()
	b, _, _ := openOffline(t, true)
	b.terminal(args{"command": "sleep 1000", "background": true})
	if got := b.process(args{"action": "kill", "id": "p1"}); strings.Contains(got, networkNote) {
		t.Errorf("on request: %q", got)
	}
	if got := b.terminal(args{"command": "sleep 1000", "timeout": 1}); !strings.Contains(got, networkNote) {
		t.Errorf("timeout: %q", got)
	}
}

// Where the operator gives no network nobody can be asked for it.
func TestNetworkNoteOnlyIfItCanBeAskedFor(t *testing.T) {
	t.Parallel()
	b, _, _ := openOffline(t, false)
	if got := timeless(b.terminal(args{"command": "false"})); got != "(no output)\n\n[exit code 1 after T]" {
		t.Errorf("got %q", got)
	}
}

func TestCommandWithoutNetworkNeedsSandbox(t *testing.T) {
	t.Parallel()
	b := open(t, func(o *terminal.Options) {
		o.Policy = func(context.Context, terminal.PolicyRequest) terminal.PolicyResult {
			return terminal.PolicyResult{NoNetwork: true}
		}
	})
	for _, background := range []bool{true, false} {
		if got := b.terminal(args{"command": "touch ran", "background": background}); !strings.Contains(got, "the command was not run: it cannot be run without network") || b.exists("ran") {
			t.Errorf("got %q", got)
		}
	}
}

// A process keeps the network with which it was started, whatever is typed into it.
func TestProcessKeepsItsNetwork(t *testing.T) {
	t.Parallel()
	b, _, requests := openOffline(t, true)
	if got := b.terminal(args{"command": "bash", "background": true}); got != "p1 runs in the background without network, so that other commands cannot reach its ports; use the process tool with this id" {
		t.Errorf("got %q", got)
	}
	if got := b.terminal(args{"command": "bash", "background": true, "network": true}); got != "p2 runs in the background; use the process tool with this id" {
		t.Errorf("got %q", got)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	dial := fmt.Sprintf("(exec 2>/dev/null 3<>/dev/tcp/127.0.0.1/%d); echo status $?", l.Addr().(*net.TCPAddr).Port)
	for id, want := range map[string]string{"p1": "status 1", "p2": "status 0"} {
		b.process(args{"action": "write", "id": id, "data": dial})
		b.shows(id, want)
		if r := (*requests)[len(*requests)-1]; r.Command != dial+"\n" || r.Network != (id == "p2") {
			t.Errorf("%s: judged was %+v", id, r)
		}
	}
	if got := b.process(args{"action": "write", "id": "p2", "data": "echo never"}); !strings.Contains(got, "it was not typed: it may run only without network, and p2 has the network") {
		t.Errorf("got %q", got)
	}
	b.process(args{"action": "write", "id": "p1", "data": "echo never; exit 2"})
	if got := timeless(b.process(args{"action": "wait", "id": "p1"})); got != "never\n\n[exit code 2 after T]\n"+networkNote {
		t.Errorf("got %q", got)
	}
}

func TestListeningPortsOfProcessesWithoutNetwork(t *testing.T) {
	t.Parallel()
	b, box, _ := openOffline(t, true)
	server := fmt.Sprintf("%s=1 exec %s", listenVariable, executable(t))
	port := func(in args) uint16 {
		in["command"], in["background"] = server, true
		id, _, _ := strings.Cut(b.terminal(in), " ")
		n, err := strconv.ParseUint(regexp.MustCompile(`port (\d+)`).FindStringSubmatch(b.shows(id, "port ") + "port 0")[1], 10, 16)
		if err != nil {
			t.Fatal(err)
		}
		return uint16(n)
	}
	if !box.Status().Full() {
		t.Skip("without network there is no loopback either")
	}
	own := port(args{})
	if got := b.term.ListeningPorts("s"); len(got) > 0 {
		t.Errorf("without network: %d listens, got %v", own, got)
	}
	shared := port(args{"network": true})
	if got := b.term.ListeningPorts("s"); len(got) != 1 || got[0] != shared {
		t.Errorf("with network: %d listens, got %v", shared, got)
	}
}
