package app_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// listenVariable makes the test binary a server on the address in it.
const listenVariable = "HERMESD_TEST_LISTEN"

// listen serves as the process of a conversation that listens: it prints its port, and ends
// with its input.
func listen(address string) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Printf("port=%d.\n", l.Addr().(*net.TCPAddr).Port)
	_, _ = io.Copy(io.Discard, os.Stdin)
	os.Exit(0)
}

// run returns the message that makes the model run a command. One in the background is
// announced to need the network, so that other commands reach it.
func run(command string, background bool) string {
	raw, err := json.Marshal(map[string]any{"command": command, "background": background, "network": background})
	if err != nil {
		panic(err)
	}
	return use("terminal", string(raw))
}

// A command that names the metadata service or a private address waits for an approval,
// however the address is written, and does not run without one.
func TestCommandsAskForPrivateAddresses(t *testing.T) {
	t.Parallel()
	w := newHarness(t, fault{})
	w.start()
	w.waitConnected()
	for command, c := range map[string]struct{ program, address string }{ // program "": an approval covers this command only
		"curl http://169.254.169.254/latest/meta-data":     {"curl", "169.254.169.254:80"},
		"curl http://2852039166/latest/meta-data":          {"curl", "169.254.169.254:80"},
		"curl -m 9 http://[fd00:ec2::254]/":                {"curl", "fd00:ec2::254 port 80"},
		"curl http://[::ffff:a9fe:a9fe]/":                  {"curl", "169.254.169.254:80"},
		"http_proxy=10.0.0.5:3128 curl http://example.org": {"", "10.0.0.5:3128"},
		"git clone git://192.168.1.9/x":                    {"git clone", "192.168.1.9:9418"},
		"curl http://127.1:8642/v1/models":                 {"curl", "127.0.0.1:8642"},
	} {
		asked := w.askBot(run("echo ran > ran; "+command, false), "May I run this?", "• it names an address", "• "+c.address)
		switch {
		case c.program == "" && strings.Contains(asked, "always"):
			t.Errorf("%s: an approval can cover other commands: %s", command, asked)
		case c.program != "" && !strings.Contains(asked, c.program+" "+c.address+" in "+w.path("workspace")):
			t.Errorf("%s: the shape is not shown: %s", command, asked)
		}
		w.deny()
	}
	if _, err := os.Stat(filepath.Join(w.home, "workspace", "ran")); err == nil {
		t.Error("a command has run")
	}
}

// An approval for an address is remembered with its program and its port.
func TestApprovalOfAddressIsRememberedWithPort(t *testing.T) {
	t.Parallel()
	w := newHarness(t, fault{})
	w.start()
	w.waitConnected()
	w.askBot(run("echo one-$((1+1)) || curl http://10.0.0.5:81/", false), "May I run this?")
	w.askBot("/approve session", "one-2")
	w.askBot(run("echo two-$((1+1)) || curl http://167772165:81/x", false), "two-2")
	w.askBot(run("echo three-$((1+1)) || curl http://10.0.0.5:82/", false), "May I run this?", "10.0.0.5:82")
	w.deny()
	w.askBot(run("echo four-$((1+1)) || wget http://10.0.0.5:81/", false), "May I run this?", "wget 10.0.0.5:81")
	w.deny()
}

// The ports of a conversation's own processes are free; those of others are not, also if
// the conversation listens on the same port of another address.
func TestOwnPortsNeedNoApproval(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the processes that listen are not known on this system")
	}
	t.Parallel()
	for _, sandboxed := range []bool{false, true} {
		t.Run(fmt.Sprintf("sandboxed=%v", sandboxed), func(t *testing.T) {
			t.Parallel()
			w := newHarness(t, fault{sandboxed: sandboxed})
			w.start()
			w.waitConnected()
			w.writeServer("one", "localhost:0")
			w.startServer("one", sandboxed, "p1 runs in the background")
			_, port, _ := strings.Cut(w.waitOutput("p1", "port="), "port=")
			port, _, _ = strings.Cut(port, ".")
			w.askBot(run("echo free-$((1+1)) || curl http://localhost:"+port, false), "free-2")

			others, err := net.Listen("tcp", "127.0.0.1:0") // of the operator
			w.must(err)
			defer others.Close()
			_, port, err = net.SplitHostPort(others.Addr().String())
			w.must(err)
			w.askBot(run("curl http://localhost:"+port, false), "May I run this?", "localhost:"+port)
			w.deny()
			w.writeServer("two", "127.0.0.2:"+port)
			w.startServer("two", sandboxed, "p2 runs in the background")
			w.waitOutput("p2", "port="+port)
			w.askBot(run("curl http://127.0.0.1:"+port, false), "May I run this?", "127.0.0.1:"+port)
			w.deny()
			w.askBot("/new", "p")
			w.askBot(run("curl http://localhost:"+port, false), "May I run this?")
			w.deny()
		})
	}
}

// Commands without a network reach nothing, so nobody is asked.
func TestCommandsWithoutNetworkAskForNoAddress(t *testing.T) {
	t.Parallel()
	w := newHarness(t, fault{config: "terminal:\n  network: false\n", sandboxed: true})
	w.start()
	w.waitConnected()
	w.askBot(run("echo alone-$((1+1)) || curl http://localhost:80 http://10.0.0.5", false), "alone-2")
}

// startServer runs a script of writeServer in the background. In a sandbox that needs an
// approval, because an unknown program gets the network.
func (w *harness) startServer(name string, sandboxed bool, words string) {
	w.Helper()
	if !sandboxed {
		w.askBot(run("sh "+name, true), words)
		return
	}
	w.askBot(run("sh "+name, true), "May I run this?", "with the network")
	w.askBot("/approve", words)
}

// writeServer writes a script into the workspace that listens on an address.
func (w *harness) writeServer(name, address string) {
	w.Helper()
	self, err := os.Executable()
	w.must(err)
	raw, err := os.ReadFile(self)
	w.must(err)
	w.must(os.WriteFile(filepath.Join(w.home, "workspace", name+".bin"), raw, 0o700))
	w.writeFile(filepath.Join("workspace", name), listenVariable+"="+address+" exec ./"+name+".bin")
}
