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

// run returns the message that makes the model run a command.
func run(command string, background bool) string {
	raw, err := json.Marshal(map[string]any{"command": command, "background": background})
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
	for command, address := range map[string]string{
		"curl http://169.254.169.254/latest/meta-data":     "169.254.169.254:80",
		"curl http://2852039166/latest/meta-data":          "169.254.169.254:80",
		"curl -m 9 http://[fd00:ec2::254]/":                "fd00:ec2::254 port 80",
		"curl http://[::ffff:a9fe:a9fe]/":                  "169.254.169.254:80",
		"http_proxy=10.0.0.5:3128 curl http://example.org": "10.0.0.5:3128",
		"git clone git://192.168.1.9/x":                    "192.168.1.9:9418",
		"curl http://127.1:8642/v1/models":                 "127.0.0.1:8642",
	} {
		asked := w.askBot(run("echo ran > ran; "+command, false), "May I run this?", "• it names an address", "• "+address)
		if !strings.Contains(asked, "address "+address) {
			t.Errorf("%s: the key is not shown: %s", command, asked)
		}
		w.askBot("no", "did not allow it")
	}
	if _, err := os.Stat(filepath.Join(w.home, "workspace", "ran")); err == nil {
		t.Error("a command has run")
	}
}

// An approval for an address is remembered with its port.
func TestApprovalOfAddressIsRememberedWithPort(t *testing.T) {
	t.Parallel()
	w := newHarness(t, fault{})
	w.start()
	w.waitConnected()
	w.askBot(run("echo one-$((1+1)) || curl http://10.0.0.5:81/", false), "May I run this?")
	w.askBot("/approve session", "one-2")
	w.askBot(run("echo two-$((1+1)) || wget http://167772165:81/x", false), "two-2")
	w.askBot(run("echo three-$((1+1)) || curl http://10.0.0.5:82/", false), "May I run this?", "10.0.0.5:82")
	w.askBot("no", "did not allow it")
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
			w.askBot(run("sh one", true), "p1 runs in the background")
			_, port, _ := strings.Cut(w.askBot(use("process", `{"action":"wait","id":"p1","timeout":1}`), "port="), "port=")
			port, _, _ = strings.Cut(port, ".")
			w.askBot(run("echo free-$((1+1)) || curl http://localhost:"+port, false), "free-2")

			others, err := net.Listen("tcp", "127.0.0.1:0") // of the operator
			w.must(err)
			defer others.Close()
			_, port, err = net.SplitHostPort(others.Addr().String())
			w.must(err)
			w.askBot(run("curl http://localhost:"+port, false), "May I run this?", "localhost:"+port)
			w.askBot("no", "did not allow it")
			w.writeServer("two", "127.0.0.2:"+port)
			w.askBot(run("sh two", true), "p2 runs in the background")
			w.askBot(use("process", `{"action":"wait","id":"p2","timeout":1}`), "port="+port)
			w.askBot(run("curl http://127.0.0.1:"+port, false), "May I run this?", "127.0.0.1:"+port)
			w.askBot("no", "did not allow it")
			w.askBot("/new", "p")
			w.askBot(run("curl http://localhost:"+port, false), "May I run this?")
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
