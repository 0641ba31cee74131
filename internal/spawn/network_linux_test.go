package spawn_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"hermesd/internal/spawn"
)

// What a command of each mechanism reaches with the network of its policy, and without.
func TestNoNetworkPerCommand(t *testing.T) {
	t.Parallel()
	for _, m := range []spawn.Mechanism{spawn.Bubblewrap, spawn.Namespaces, spawn.Landlock} {
		t.Run(string(m), func(t *testing.T) {
			t.Parallel()
			v := newVictim(t, m, true)
			v.Addresses = listenEverywhere(t)
			if full := v.box.Status().Full(); full != (m != spawn.Landlock) {
				t.Errorf("full: %v", full)
			}
			try := func(noNetwork bool) map[string]bool {
				v.Phase = "network"
				raw, err := json.Marshal(v.targets)
				if err != nil {
					t.Fatal(err)
				}
				r := run(t, spawn.Command{
					Argv: []string{executable(t)}, Env: []string{attackVariable + "=" + string(raw)}, Dir: v.workspace, Sandbox: v.box, NoNetwork: noNetwork,
				})
				var results []attackResult
				if err := json.Unmarshal(r.Head, &results); err != nil {
					t.Fatalf("%v: %s", err, r.Head)
				}
				reached := map[string]bool{}
				for _, a := range results {
					t.Logf("without network: %v: %s: %v, %s", noNetwork, a.Name, a.Reached, a.Err)
					reached[a.Name] = a.Reached
				}
				return reached
			}
			if got := try(true); got[hostAddress] || got[abstractSocket] || got[ownServer] != (m != spawn.Landlock) {
				t.Errorf("without network: %v", got)
			}
			if got := try(false); !got[hostAddress] || !got[ownServer] {
				t.Errorf("with network: %v", got)
			}
			v.verify(t)
		})
	}
}

// The names of networkAttempts.
const (
	hostAddress    = "an address of this machine"
	abstractSocket = "an abstract socket of this machine"
	ownServer      = "a server of the command on the loopback"
)

func networkAttempts() []attack {
	dial := func(network string) func(string) error {
		return func(addr string) error {
			c, err := net.Dial(network, addr)
			if err == nil {
				_ = c.Close()
			}
			return err
		}
	}
	return []attack{
		{hostAddress, func(t targets) error { return anyOf(t.Addresses, dial("tcp")) }},
		{abstractSocket, func(t targets) error { return dial("unix")(t.Sockets[len(t.Sockets)-1]) }},
		{ownServer, func(targets) error {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				return err
			}
			defer l.Close()
			return dial("tcp")(l.Addr().String())
		}},
	}
}

// listenEverywhere accepts TCP connections until the end of the test, and returns the
// addresses of all interfaces.
func listenEverywhere(t *testing.T) (addrs []string) {
	t.Helper()
	l, err := net.Listen("tcp", ":0")
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
	t.Cleanup(func() { _ = l.Close(); <-done })
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	all, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range all {
		if ip, ok := a.(*net.IPNet); ok && !ip.IP.IsLinkLocalUnicast() {
			addrs = append(addrs, net.JoinHostPort(ip.IP.String(), port))
		}
	}
	return addrs
}

// Without something that takes the network, a command does not start.
func TestNoNetworkWithoutSandbox(t *testing.T) {
	t.Parallel()
	off, err := spawn.Open(t.Context(), spawn.Off, spawn.Policy{})
	if err != nil {
		t.Fatal(err)
	}
	for _, box := range []*spawn.Sandbox{nil, off} {
		marker := filepath.Join(t.TempDir(), "ran")
		_, err := spawn.Run(t.Context(), spawn.Command{Shell: "echo > " + marker, Sandbox: box, NoNetwork: true})
		if err == nil || !strings.Contains(err.Error(), "without network, because there is no sandbox") {
			t.Errorf("got %v", err)
		}
		if _, err := os.Stat(marker); err == nil {
			t.Error("it ran")
		}
		if box.Status().Full() {
			t.Error("nothing is a full sandbox")
		}
	}
}

// The test runs again in a user namespace in which no network namespace can be created.
func TestNoNetworkThatCannotBeTaken(t *testing.T) {
	t.Parallel()
	if os.Getenv("SPAWN_TEST_NO_NAMESPACE") != "" {
		if err := os.WriteFile("/proc/sys/user/max_net_namespaces", []byte("0"), 0); err != nil {
			t.Skip("not tried here:", err)
		}
		for _, m := range []spawn.Mechanism{spawn.Bubblewrap, spawn.Namespaces} {
			dir := real(t, t.TempDir())
			box, err := spawn.OpenBackend(t.Context(), m, spawn.Policy{Write: []string{dir}, Network: true})
			if err != nil {
				t.Log("not tried here:", err)
				continue
			}
			s := box.Status()
			if s.Full() || s.NetReason == "" || !strings.Contains(s.String(), s.NetReason) {
				t.Errorf("%s: full: %v: %s", m, s.Full(), s)
			}
			if r := run(t, spawn.Command{Shell: "echo with", Dir: dir, Sandbox: box}); text(t, r) != "with\n" {
				t.Errorf("%s: with network: %+v", m, r)
			}
			if _, err := spawn.Run(t.Context(), spawn.Command{Shell: "echo", Dir: dir, Sandbox: box, NoNetwork: true}); err == nil || !strings.Contains(err.Error(), s.NetReason) {
				t.Errorf("%s: without network: %v", m, err)
			}
			t.Log(s)
		}
		return
	}
	cmd := exec.CommandContext(t.Context(), executable(t), "-test.run=^TestNoNetworkThatCannotBeTaken$", "-test.v")
	cmd.Env = append(os.Environ(), "SPAWN_TEST_NO_NAMESPACE=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}, GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
	}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	var ended *exec.ExitError
	switch {
	case err != nil && !errors.As(err, &ended):
		t.Skip("not tried here:", err)
	case err != nil:
		t.Errorf("%v\n%s", err, &out)
	}
	t.Log(out.String())
}
