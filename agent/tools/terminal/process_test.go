//go:build unix

package terminal_test

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/zap"

	"hermesd/agent/tool"
	"hermesd/agent/tools/terminal"
	"hermesd/internal/spawn"
)

// shows polls until the output contains word.
func (b *bench) shows(id, word string) string {
	b.t.Helper()
	all := ""
	for began := time.Now(); time.Since(began) < 2*time.Minute; <-time.After(5 * time.Millisecond) {
		all += b.process(args{"action": "poll", "id": id})
		if strings.Contains(all, word) {
			return all
		}
	}
	b.t.Fatalf("%q does not come; got %q", word, all)
	return ""
}

func TestProcessInBackground(t *testing.T) {
	t.Parallel()
	b := open(t, nil)
	if got := b.process(args{"action": "list"}); got != "This conversation has no background processes." {
		t.Errorf("got %q", got)
	}
	got := b.terminal(args{"command": "echo ready; while read -r x; do echo got $x; done; exit 5", "background": true})
	if got != "p1 runs in the background; use the process tool with this id" {
		t.Fatalf("got %q", got)
	}
	b.shows("p1", "ready")
	if got := b.process(args{"action": "list"}); !strings.HasPrefix(got, "p1  [runs for ") || !strings.Contains(got, "echo ready") {
		t.Errorf("got %q", got)
	}
	if got := b.process(args{"action": "write", "id": "p1", "data": "one"}); !strings.HasPrefix(got, "4 bytes are typed into p1") {
		t.Errorf("got %q", got)
	}
	if got := b.shows("p1", "got one"); strings.Contains(got, "ready") {
		t.Errorf("what was shown is shown again: %q", got)
	}
	b.process(args{"action": "write", "id": "p1", "data": "tw", "enter": false})
	b.process(args{"action": "write", "id": "p1", "data": "o"})
	b.shows("p1", "got two")
	if got := b.process(args{"action": "wait", "id": "p1", "timeout": 1}); !strings.Contains(got, "(no output)\n\n[runs for ") {
		t.Errorf("got %q", got)
	}
	b.process(args{"action": "close", "id": "p1"})
	if got := timeless(b.process(args{"action": "wait", "id": "p1"})); got != "(no output)\n\n[exit code 5 after T]" {
		t.Errorf("got %q", got)
	}
	if got := timeless(b.process(args{"action": "log", "id": "p1"})); got != "ready\ngot one\ngot two\n\n[exit code 5 after T]" {
		t.Errorf("got %q", got)
	}
	if got := b.process(args{"action": "list"}); !strings.HasPrefix(got, "p1  [exit code 5 after ") {
		t.Errorf("got %q", got)
	}
	if got := b.process(args{"action": "write", "id": "p1", "data": "x"}); !strings.Contains(got, "it takes no input") {
		t.Errorf("got %q", got)
	}
	if got := timeless(b.terminal(args{"command": "echo at once; exit 1", "background": true})); !strings.Contains(got, "p2") {
		t.Errorf("got %q", got)
	}
	if got := b.process(args{"action": "dance", "id": "p2"}); !strings.Contains(got, `there is no action "dance"`) {
		t.Errorf("got %q", got)
	}
	if got := b.process(args{"action": "wait", "id": "p2", "timeout": 601}); !strings.Contains(got, "between 1 and 600") {
		t.Errorf("got %q", got)
	}
}

func TestProcessBelongsToSession(t *testing.T) {
	t.Parallel()
	b := open(t, nil)
	b.terminal(args{"command": "sleep 1000", "background": true})
	other := func(in args) string { return b.call(t.Context(), "other", "process", in) }
	if got := other(args{"action": "list"}); got != "This conversation has no background processes." {
		t.Errorf("got %q", got)
	}
	for _, action := range []string{"poll", "log", "wait", "write", "close", "kill"} {
		if got := other(args{"action": action, "id": "p1", "data": "x"}); !strings.Contains(got, `this conversation has no process "p1"`) {
			t.Errorf("%s: got %q", action, got)
		}
	}
	if n := b.term.Background("s"); n != 1 {
		t.Errorf("%d run", n)
	}
	b.call(t.Context(), "other", "terminal", args{"command": "sleep 1000", "background": true})
	b.term.EndSession("s")
	if got := b.process(args{"action": "list"}); got != "This conversation has no background processes." {
		t.Errorf("got %q", got)
	}
	if got := other(args{"action": "poll", "id": "p2"}); !strings.Contains(got, "runs for") {
		t.Errorf("the other session: %q", got)
	}
}

func TestProcessLimits(t *testing.T) {
	t.Parallel()
	b := open(t, func(o *terminal.Options) { o.Jobs, o.SessionJobs = 3, 2 })
	start := func(session string) string {
		return b.call(t.Context(), session, "terminal", args{"command": "sleep 1000", "background": true})
	}
	for i, want := range []string{"p1 runs", "p2 runs", "2 processes of this conversation run"} {
		if got := start("a"); !strings.Contains(got, want) {
			t.Errorf("%d: got %q", i, got)
		}
	}
	for i, want := range []string{"p3 runs", "3 processes run in the background, which is the most"} {
		if got := start("b"); !strings.Contains(got, want) {
			t.Errorf("%d: got %q", i, got)
		}
	}
	if got := b.call(t.Context(), "a", "process", args{"action": "kill", "id": "p1"}); !strings.Contains(got, "it was ended on request") {
		t.Errorf("got %q", got)
	}
	if got := start("a"); !strings.Contains(got, "p4 runs") {
		t.Errorf("got %q", got)
	}
}

// A process may be a shell, so typed text is classified like a command, as the line that it
// becomes.
func TestTypedInputIsEvaluated(t *testing.T) {
	t.Parallel()
	b := open(t, nil)
	b.terminal(args{"command": "sh", "background": true})
	typed := func(data string, enter bool) string {
		return b.process(args{"action": "write", "id": "p1", "data": data, "enter": enter})
	}
	if got := typed("rm -r sub", true); !strings.Contains(got, "it was not run, because it needs an approval") {
		t.Errorf("got %q", got)
	}
	typed("echo safe; rm ", false)
	if got := typed("-r sub", true); !strings.Contains(got, "it was not run, because it needs an approval") {
		t.Errorf("in pieces: %q", got)
	}
	if got := typed("mkfs", true); !strings.Contains(got, "never is") {
		t.Errorf("got %q", got)
	}
	typed("nothing", true) // ends the incomplete line
	var asked []tool.ApprovalRequest
	b.people = approver(func(_ context.Context, r tool.ApprovalRequest) error {
		asked = append(asked, r)
		return nil
	})
	typed("rm \\", true)
	typed("-r sub; echo removed", true)
	if len(asked) != 0 {
		t.Errorf("asked were %+v", asked) // the words are not adjacent: the test policy does not match
	}
	typed("mkdir -p sub; rm -r sub; echo gone", true)
	if len(asked) != 1 || asked[0].Command != "mkdir -p sub; rm -r sub; echo gone\n" || asked[0].Reasons[0] != "typed into p1: sh" {
		t.Errorf("asked were %+v", asked)
	}
	b.shows("p1", "gone")
	if b.exists("sub") {
		t.Error("what was agreed to was not done")
	}
}

func TestTypedLineContinuations(t *testing.T) {
	t.Parallel()
	var judged []string
	b := open(t, func(o *terminal.Options) {
		o.Policy = func(_ context.Context, r terminal.PolicyRequest) terminal.PolicyResult {
			judged = append(judged, r.Command)
			return terminal.PolicyResult{}
		}
	})
	b.terminal(args{"command": "cat", "background": true})
	for _, data := range []string{"a \\", "b \\", "c", "d"} {
		b.process(args{"action": "write", "id": "p1", "data": data})
	}
	want := []string{"cat", "a \\\n", "a \\\nb \\\n", "a \\\nb \\\nc\n", "d\n"}
	if strings.Join(judged, "|") != strings.Join(want, "|") {
		t.Errorf("judged were %q", judged)
	}
}

func TestCloseEndsAllProcesses(t *testing.T) {
	t.Parallel()
	b := open(t, func(o *terminal.Options) { o.Grace = 50 * time.Millisecond })
	b.terminal(args{"command": "trap '' TERM; echo $$ >> pids; sleep 1000 & echo $! >> pids; echo ready; while :; do sleep 1000; done", "background": true})
	b.shows("p1", "ready")
	late, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("no time left"))
	if err := b.term.Close(late); err == nil || !strings.Contains(err.Error(), "no time left") {
		t.Errorf("got %v", err)
	}
	if err := b.term.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(filepath.Join(b.workspace, "pids"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range strings.Fields(string(raw)) {
		pid, err := strconv.Atoi(f)
		if err != nil {
			t.Fatal(err)
		}
		for began := time.Now(); ; <-time.After(5 * time.Millisecond) {
			stat, err := os.ReadFile("/proc/" + f + "/stat")
			if syscall.Kill(pid, 0) != nil || err == nil && strings.Contains(string(stat), ") Z ") {
				break
			}
			if time.Since(began) > 2*time.Minute {
				t.Fatalf("process %d goes on", pid)
			}
		}
	}
	if got := b.terminal(args{"command": "sleep 1000", "background": true}); !strings.Contains(got, "the daemon stops") {
		t.Errorf("got %q", got)
	}
	if got := b.process(args{"action": "poll", "id": "p1"}); !strings.Contains(got, "the daemon stops") {
		t.Errorf("got %q", got)
	}
}

func TestProcessListDropsEnded(t *testing.T) {
	t.Parallel()
	b := open(t, nil)
	for range 40 {
		b.terminal(args{"command": "true", "background": true})
		b.process(args{"action": "wait", "id": "p1"}) // some of them
	}
	list := strings.Split(b.process(args{"action": "list"}), "\n")
	if len(list) > 34 || !strings.HasPrefix(list[len(list)-1], "p40 ") {
		t.Errorf("%d are listed, the last is %q", len(list), list[len(list)-1])
	}
}

func TestProcessOutlivesTurn(t *testing.T) {
	t.Parallel()
	b := open(t, nil)
	b.terminal(args{"command": "sleep 1000", "background": true})
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("the person wants something else"))
	for _, in := range []args{{"action": "wait", "id": "p1"}, {"action": "write", "id": "p1", "data": "x"}} {
		if got := b.call(ctx, "s", "process", in); !strings.Contains(got, "the person wants something else") {
			t.Errorf("%v: got %q", in, got)
		}
	}
	if n := b.term.Background("s"); n != 1 {
		t.Errorf("%d run", n)
	}
	if _, err := terminal.New(terminal.Options{}, zap.NewNop()); err == nil {
		t.Error("nothing is enough")
	}
}

// A command canceled while the sandbox is created would belong to a conversation that has
// ended.
func TestCommandNotStartedAfterCancel(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	b := open(t, func(o *terminal.Options) {
		o.Sandbox = func() (*spawn.Sandbox, error) { cancel(errors.New("/new")); return nil, nil }
	})
	if got := b.call(ctx, "s", "terminal", args{"command": "touch ran; sleep 600", "background": true}); got != "error: /new" {
		t.Errorf("got %q", got)
	}
	if n := b.term.Background("s"); n != 0 {
		t.Errorf("%d processes run", n)
	}
	if _, err := os.Stat(filepath.Join(b.workspace, "ran")); err == nil {
		t.Error("it has begun")
	}
}

// A port on which this process listens is none of a session's, whatever its own processes do.
func TestListeningPortsAreThoseOfTheSession(t *testing.T) {
	t.Parallel()
	b := open(t, nil)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if got := b.term.ListeningPorts("s"); len(got) > 0 {
		t.Errorf("without processes: %v", got)
	}
	b.terminal(args{"command": "echo ready; read -r x", "background": true})
	b.shows("p1", "ready")
	for _, session := range []string{"s", "another"} {
		if got := b.term.ListeningPorts(session); len(got) > 0 {
			t.Errorf("%s: %v", session, got)
		}
	}
}
