package spawn_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"hermesd/internal/spawn"
)

// dailyCommands are command lines that must work in every sandbox, by the program that
// they need.
var dailyCommands = []struct{ program, line string }{
	{"git", `git init -q r && cd r && git config user.email a@b.c && git config user.name a && echo x >f && git add f && git commit -qm first && git log --oneline | grep first`},
	{"node", `node -e 'const c=require("child_process");c.exec("echo child",(e,o)=>{if(e||o.trim()!="child")process.exit(1);require("fs").writeFileSync("n","x")})' && test -s n`},
	{"npm", `mkdir -p n1 && cd n1 && npm init -y >/dev/null && test -s package.json && npm --version`},
	{"python3", `python3 -c '
import asyncio,socket
async def main():
    p = await asyncio.create_subprocess_exec("echo", "child", stdout=asyncio.subprocess.PIPE)
    assert (await p.communicate())[0] == b"child\n"
asyncio.run(main())
a, b = socket.socketpair()
a.send(b"x"); assert b.recv(1) == b"x"
'`},
	// A library without imports: a program would compile the run-time system first.
	{"go", `mkdir -p g && cd g && printf 'module g\n\ngo 1.20\n' >go.mod && printf 'package g\n\nfunc F() int { return 1 }\n' >g.go && GOFLAGS=-mod=mod GOTOOLCHAIN=local GOPROXY=off go build . && go version && gofmt -l .`},
	{"getent", `getent passwd root | grep ^root:`},
	{"sh", `test -s /etc/resolv.conf`},
	{"sh", `test -n "$(TZ=Europe/Berlin date)" && ls /usr/share/zoneinfo >/dev/null`},
	{"openssl", `test -n "$(ls /etc/ssl/certs)" && head -c 20 /etc/ssl/certs/ca-certificates.crt`},
	{"sh", `echo x >/tmp/t || echo x >$TMPDIR/t; sleep 0.01 & wait; mkfifo p; (echo x >p &) ; cat p; ln -s f l; chmod +x p`},
}

// namespaceCommands work with a root directory of their own.
var namespaceCommands = []struct{ program, line string }{
	{"python3", `python3 -c '
import multiprocessing
def f(x): return x * x
if __name__ == "__main__":
    with multiprocessing.Pool(2) as p: assert p.map(f, [1, 2, 3]) == [1, 4, 9]
'`},
	{"gdb", `cp /bin/true t && gdb -q -batch -ex 'set startup-with-shell off' -ex 'set breakpoint pending on' -ex 'break exit' -ex run -ex bt ./t 2>&1 | tee g.log; grep -q 'Breakpoint 1, ' g.log`},
	{"script", `script -qc 'test -t 0 && echo a terminal' /dev/null | grep 'a terminal'`},
	{"sh", `test "$(ls -A ..)" = "$(basename "$PWD")"`},
	{"sh", `! ls /root /home /run /var /boot /srv 2>/dev/null | grep -q .`},
}

func TestDailyCommands(t *testing.T) {
	t.Parallel()
	forEachBackend(t, func(t *testing.T, m spawn.Mechanism, network bool) {
		if network {
			t.Skip("the network makes no difference")
		}
		workspace := filepath.Join(real(t, t.TempDir()), "home", "workspace")
		if err := os.MkdirAll(workspace, 0o700); err != nil {
			t.Fatal(err)
		}
		box, err := spawn.OpenBackend(t.Context(), m, spawn.Policy{Write: []string{workspace}, Hide: []string{filepath.Dir(workspace)}})
		if err != nil {
			notTried(t, err)
		}
		all := dailyCommands
		if m != spawn.Landlock {
			all = append(all[:len(all):len(all)], namespaceCommands...)
		}
		for i, c := range all {
			if !slices.ContainsFunc([]string{"/usr/bin", "/bin", "/usr/local/bin", "/usr/local/go/bin"}, func(dir string) bool {
				_, err := os.Stat(filepath.Join(dir, c.program))
				return err == nil
			}) {
				t.Logf("not tried here: %s is not installed", c.program)
				continue
			}
			dir := filepath.Join(workspace, strconv.Itoa(i))
			if strings.Contains(c.line, "..") {
				dir = workspace
			} else if err := os.Mkdir(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			if r := run(t, spawn.Command{Shell: c.line, Dir: dir, Sandbox: box, Timeout: 5 * patience}); r.Code != 0 {
				t.Errorf("%s: exit code %d, %v: %s", c.line, r.Code, r.Cause, r.Head)
			}
		}
	})
}

// A command swaps a directory of the workspace with a link to the home, again and again,
// while others start in it.
func TestEscapeBySymlinkRace(t *testing.T) {
	t.Parallel()
	forEachBackend(t, func(t *testing.T, m spawn.Mechanism, network bool) {
		if network {
			t.Skip("the network makes no difference")
		}
		v := newVictim(t, m, network)
		flip, err := spawn.Start(t.Context(), spawn.Command{
			Shell: "mkdir a; ln -s .. b; echo ready; while :; do mv -T a x; mv -T b a; mv -T a b; mv -T x a; done", Dir: v.workspace, Sandbox: v.box, Timeout: patience,
		})
		if err != nil {
			t.Fatal(err)
		}
		defer flip.Kill(nil)
		until(t, flip, "ready")
		for range 20 {
			p, err := spawn.Start(t.Context(), spawn.Command{
				Shell: "cat store.db ../store.db; ls; echo x >store.db", Dir: filepath.Join(v.workspace, "a"), Sandbox: v.box, Timeout: patience,
			})
			if err != nil {
				continue // there was no directory at that moment
			}
			if r := p.Wait(); strings.Contains(string(r.Head), canary) {
				t.Fatalf("a command read %s", r.Head)
			}
		}
		v.verify(t)
	})
}

// Variables of a command must not make the helper or bubblewrap load something outside of
// the sandbox, and a program in PATH must not be taken for bubblewrap.
func TestHelperIgnoresVariables(t *testing.T) {
	compiler, err := exec.LookPath("gcc")
	if err != nil {
		t.Skip("not tried here:", err)
	}
	top := real(t, t.TempDir())
	workspace, marker := filepath.Join(top, "home", "workspace"), filepath.Join(top, "marker")
	if err := os.MkdirAll(workspace, 0o700); err != nil {
		t.Fatal(err)
	}
	write := func(name, content string, mode os.FileMode) string {
		path := filepath.Join(workspace, name)
		if err := os.WriteFile(path, []byte(content), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	source := write("evil.c", fmt.Sprintf("#include <fcntl.h>\n__attribute__((constructor)) void f(void) { open(%q, O_CREAT|O_WRONLY, 0600); open(\"loaded\", O_CREAT|O_WRONLY, 0600); }\n", marker), 0o600)
	library := filepath.Join(workspace, "evil.so")
	if out, err := exec.CommandContext(t.Context(), compiler, "-shared", "-fPIC", "-o", library, source).CombinedOutput(); err != nil {
		t.Skipf("not tried here: %v: %s", err, out)
	}
	write("bwrap", "#!/bin/sh\n: >"+marker+"\n", 0o755)
	script := write("start.sh", ": >"+marker+"\n", 0o600)
	t.Setenv("PATH", workspace+":"+os.Getenv("PATH"))
	for _, m := range []spawn.Mechanism{spawn.Bubblewrap, spawn.Namespaces, spawn.Landlock} {
		box, err := spawn.OpenBackend(t.Context(), m, spawn.Policy{Write: []string{workspace}, Hide: []string{filepath.Dir(workspace)}})
		if err != nil {
			t.Log("not tried here:", err)
			continue
		}
		r := run(t, spawn.Command{
			Shell: "ls loaded", Dir: workspace, Sandbox: box,
			Env: []string{"LD_PRELOAD=" + library, "LD_AUDIT=" + library, "LD_LIBRARY_PATH=" + workspace, "BASH_ENV=" + script, "ENV=" + script, "GODEBUG=inittrace=1"},
		})
		if !strings.Contains(string(r.Head), "loaded") {
			t.Errorf("%s: the library was not loaded inside either: %s", m, r.Head) // the test would prove nothing
		}
		if _, err := os.Stat(marker); err == nil {
			t.Fatalf("%s: a variable had an effect outside", m)
		}
	}
}

// What left the session and the group of a command does not outlive it.
func TestEscapeFromTheGroup(t *testing.T) {
	t.Parallel()
	forEachBackend(t, func(t *testing.T, m spawn.Mechanism, network bool) {
		if network {
			t.Skip("the network makes no difference")
		}
		workspace := real(t, t.TempDir())
		box, err := spawn.OpenBackend(t.Context(), m, spawn.Policy{Write: []string{workspace}})
		if err != nil {
			notTried(t, err)
		}
		mark := fmt.Sprint("6", os.Getpid(), time.Now().UnixNano()%100000)
		run(t, spawn.Command{Shell: "setsid sh -c '(setsid sleep " + mark + " &) ; exec sleep " + mark + "' & (sleep " + mark + " &); kill -9 -1", Dir: workspace, Sandbox: box})
		none(t, mark)
	})
}

// Calls of the 32-bit ABI have other numbers, and could pass a filter.
func TestEscapeByForeignABI(t *testing.T) {
	t.Parallel()
	compiler, err := exec.LookPath("gcc")
	if err != nil || runtime.GOARCH != "amd64" {
		t.Skip("not tried here: there is no compiler for it:", err)
	}
	workspace := real(t, t.TempDir())
	const program = `#include <stdio.h>
int main(void) { long r; __asm__ volatile("int $0x80" : "=a"(r) : "a"(20L) : "memory"); printf("%ld\\n", r); return 0; }
`
	if err := os.WriteFile(filepath.Join(workspace, "i386.c"), []byte(program), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), compiler, "-o", filepath.Join(workspace, "i386"), filepath.Join(workspace, "i386.c")).CombinedOutput(); err != nil {
		t.Skipf("not tried here: %v: %s", err, out)
	}
	plain := run(t, spawn.Command{Shell: "./i386", Dir: workspace})
	if plain.Code != 0 || strings.HasPrefix(string(plain.Head), "-") {
		t.Skipf("not tried here: this kernel has no 32-bit calls: %d %s", plain.Code, plain.Head)
	}
	for _, m := range []spawn.Mechanism{spawn.Bubblewrap, spawn.Namespaces, spawn.Landlock} {
		box, err := spawn.OpenBackend(t.Context(), m, spawn.Policy{Write: []string{workspace}})
		if err != nil {
			t.Log("not tried here:", err)
			continue
		}
		if r := run(t, spawn.Command{Shell: "./i386", Dir: workspace, Sandbox: box}); !strings.HasPrefix(string(r.Head), "-38") { // ENOSYS
			t.Errorf("%s: got %d %s", m, r.Code, r.Head)
		}
	}
}

// BenchmarkCommand measures a command from start to end: without a sandbox, and with each
// mechanism with and without network. The helper is hermesd itself.
func BenchmarkCommand(b *testing.B) {
	workspace, program := b.TempDir(), filepath.Join(b.TempDir(), "hermesd")
	build := exec.CommandContext(b.Context(), "go", "build", "-o", program, "hermesd/cmd/hermesd")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		b.Fatalf("%v: %s", err, out)
	}
	defer spawn.UseHelper(program)()
	command := func(b *testing.B, box *spawn.Sandbox, noNetwork bool) {
		var took []time.Duration
		for b.Loop() {
			r, err := spawn.Run(b.Context(), spawn.Command{Shell: "true", Dir: workspace, Sandbox: box, NoNetwork: noNetwork})
			if err != nil || r.Code != 0 {
				b.Fatal(err, r.Code, string(r.Head))
			}
			took = append(took, r.Took)
		}
		slices.Sort(took)
		b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
	}
	b.Run("none", func(b *testing.B) { command(b, nil, false) })
	for _, m := range []spawn.Mechanism{spawn.Bubblewrap, spawn.Namespaces, spawn.Landlock} {
		for _, noNetwork := range []bool{false, true} {
			b.Run(string(m)+map[bool]string{true: "-without-network"}[noNetwork], func(b *testing.B) {
				box, err := spawn.OpenBackend(b.Context(), m, spawn.Policy{Write: []string{workspace}, Network: true})
				if err != nil {
					b.Skip("not tried here:", err)
				}
				command(b, box, noNetwork)
			})
		}
	}
}

// A path that commands may read can be removed while the daemon runs.
func TestReadPathThatIsRemoved(t *testing.T) {
	t.Parallel()
	for _, m := range []spawn.Mechanism{spawn.Bubblewrap, spawn.Namespaces, spawn.Landlock} {
		top := real(t, t.TempDir())
		workspace, toolchain := filepath.Join(top, "workspace"), filepath.Join(top, "toolchain")
		for _, dir := range []string{workspace, toolchain} {
			if err := os.Mkdir(dir, 0o700); err != nil {
				t.Fatal(err)
			}
		}
		box, err := spawn.OpenBackend(t.Context(), m, spawn.Policy{Write: []string{workspace}, Read: []string{toolchain}})
		if err != nil {
			t.Log("not tried here:", err)
			continue
		}
		if err := os.Remove(toolchain); err != nil {
			t.Fatal(err)
		}
		if r := run(t, spawn.Command{Shell: "echo works", Dir: workspace, Sandbox: box}); text(t, r) != "works\n" {
			t.Errorf("%s: got %+v", m, r)
		}
	}
}
