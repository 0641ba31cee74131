//go:build unix

package terminal_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap"

	"hermesd/agent/tool"
	"hermesd/agent/tools/terminal"
	"hermesd/internal/secret"
	"hermesd/internal/spawn"
)

func TestMain(m *testing.M) {
	if os.Getenv(listenVariable) != "" {
		serve()
		return
	}
	goleak.VerifyTestMain(m)
}

// A bench is a terminal under test with its dependencies.
type bench struct {
	t         *testing.T
	term      *terminal.Terminal
	workspace string
	set       tool.Set
	people    tool.UserChannel
}

// An approver answers approval requests.
type approver func(context.Context, tool.ApprovalRequest) error

func (approver) Ask(ctx context.Context, q tool.Question) (tool.Answer, error) {
	return tool.Unattended{}.Ask(ctx, q)
}

func (approver) Send(ctx context.Context, m tool.Message) (string, error) {
	return tool.Unattended{}.Send(ctx, m)
}

func (a approver) Approve(ctx context.Context, r tool.ApprovalRequest) error { return a(ctx, r) }

// guard is a simple command policy based on words.
func guard(_ context.Context, r terminal.PolicyRequest) terminal.PolicyResult {
	switch command := r.Command; {
	case strings.Contains(command, "mkfs"):
		return terminal.PolicyResult{Blocked: "it formats a disk"}
	case strings.Contains(command, "rm -r"):
		return terminal.PolicyResult{Reasons: []string{"it deletes folders"}, Shapes: []string{"delete"}}
	}
	return terminal.PolicyResult{}
}

func open(t *testing.T, change func(*terminal.Options)) *bench {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{t: t, workspace: filepath.Join(dir, "workspace"), people: tool.Unattended{}}
	if err := os.MkdirAll(filepath.Join(b.workspace, "sub"), 0o700); err != nil {
		t.Fatal(err)
	}
	o := terminal.Options{
		Workspace: b.workspace, Policy: guard, Secrets: &secret.Masker{}, Spill: filepath.Join(dir, "spill"),
		Folder: func(string) string { return "" }, Sandbox: func() (*spawn.Sandbox, error) { return nil, nil },
	}
	if change != nil {
		change(&o)
	}
	if b.term, err = terminal.New(o, zap.NewNop()); err != nil {
		t.Fatal(err)
	}
	if b.set, err = tool.NewSet(b.term.Tools()...); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.term.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return b
}

type args map[string]any

// call uses a tool in a session and returns the result that the model reads.
func (b *bench) call(ctx context.Context, session, name string, in args) string {
	b.t.Helper()
	raw, err := json.Marshal(in)
	if err != nil {
		b.t.Fatal(err)
	}
	tl, ok := b.set.Lookup(name)
	if !ok {
		b.t.Fatalf("there is no tool %s", name)
	}
	out, err := tl.Run(ctx, tool.Call{ID: "1", Session: session, Input: raw, User: b.people})
	if err != nil {
		return "error: " + err.Error()
	}
	return out
}

func (b *bench) terminal(in args) string {
	b.t.Helper()
	return b.call(b.t.Context(), "s", "terminal", in)
}

func (b *bench) process(in args) string {
	b.t.Helper()
	return b.call(b.t.Context(), "s", "process", in)
}

func (b *bench) exists(name string) bool {
	_, err := os.Stat(filepath.Join(b.workspace, name))
	return err == nil
}

// took matches durations, which differ between runs.
var took = regexp.MustCompile(`\d+(\.\d+)?(ms|s|µs)\b`)

func timeless(s string) string { return took.ReplaceAllString(s, "T") }

func TestCommandResults(t *testing.T) {
	t.Parallel()
	b := open(t, nil)
	for line, want := range map[string]string{
		"echo out; echo err >&2; exit 3": "out\nerr\n\n[exit code 3 after T]",
		"true":                           "(no output)\n\n[exit code 0 after T]",
		"cat":                            "(no output)\n\n[exit code 0 after T]", // stdin is empty
		"kill -9 $$":                     "(no output)\n\n[exit code 137 after T: a signal ended it: killed]",
		`printf '\033[1;31mred\033[0m \033]0;title\007plain\n'`: "red plain\n\n[exit code 0 after T]",
		`printf '10%%\r50%%\r100%%\ndone\r\n'`:                  "100%\ndone\n\n[exit code 0 after T]",
		`printf 'a\0b\n'`:                                       "a␀b\n\n[exit code 0 after T]",
		`printf 'caf\351 \303\251\n'`:                           "caf\uFFFD é\n\n[exit code 0 after T]",
		"head -c 3000 /dev/urandom":                             "(3000 bytes that are no text; write them into a file to work with them)\n\n[exit code 0 after T]",
		"sleep 100 & echo started":                              "started\n\n[exit code 0 after T]",
	} {
		if got := timeless(b.terminal(args{"command": line})); got != want {
			t.Errorf("%s: got %q, want %q", line, got, want)
		}
	}
	if got := b.terminal(args{"command": "pwd", "workdir": "sub"}); !strings.HasPrefix(got, b.workspace+"/sub\n") {
		t.Errorf("got %q", got)
	}
}

func TestCommandErrors(t *testing.T) {
	t.Parallel()
	b := open(t, nil)
	if err := os.Symlink("/", filepath.Join(b.workspace, "away")); err != nil {
		t.Fatal(err)
	}
	for want, in := range map[string]args{
		"the command is empty":                         {"command": " \n"},
		"holds a NUL":                                  {"command": "echo \x00"},
		"more than 64 KiB":                             {"command": strings.Repeat("x", 70_000)},
		"timeout is more than 600 seconds":             {"command": "true", "timeout": 601},
		"timeout is less than nothing":                 {"command": "true", "timeout": -1},
		"timeout is more than 604800 seconds":          {"command": "true", "timeout": 1 << 40, "background": true},
		".. is outside the workspace":                  {"command": "true", "workdir": ".."},
		"/etc is outside the workspace":                {"command": "true", "workdir": "/etc"},
		"away/etc is outside the workspace":            {"command": "true", "workdir": "away/etc"},
		"there is no folder none: no such file":        {"command": "true", "workdir": "none"},
		"a character that no path can hold":            {"command": "true", "workdir": "a\x00"},
		`"timeout" does not take a number 1.5`:         {"command": "true", "timeout": 1.5},
		"error: this conversation has no process \"\"": nil,
	} {
		name := "terminal"
		if in == nil {
			name, in = "process", args{"action": "poll"}
		}
		if got := b.call(t.Context(), "s", name, in); !strings.HasPrefix(got, "error: ") || !strings.Contains(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	bare := open(t, func(o *terminal.Options) { o.Shell = "/no/such/shell" })
	if got := bare.terminal(args{"command": "true"}); !strings.Contains(got, "there is no shell /no/such/shell") {
		t.Errorf("no shell: got %q", got)
	}
	if err := os.RemoveAll(bare.workspace); err != nil {
		t.Fatal(err)
	}
	if got := bare.terminal(args{"command": "true"}); !strings.Contains(got, "the workspace is gone") {
		t.Errorf("no workspace: got %q", got)
	}
	if _, err := terminal.New(terminal.Options{Workspace: t.TempDir()}, zap.NewNop()); err == nil {
		t.Error("a terminal without a guard is made")
	}
	if _, err := terminal.New(terminal.Options{Workspace: bare.workspace, Policy: guard}, zap.NewNop()); err == nil {
		t.Error("a terminal without a workspace is made")
	}
}

func TestCommandRunsOnlyAsApproved(t *testing.T) {
	t.Parallel()
	b := open(t, nil)
	line := "  rm -rf 'sub' ;\techo \"$((1+1))\"\n"
	if got := b.terminal(args{"command": line}); !strings.Contains(got, "it was not run, because it needs an approval (it deletes folders) and has none: nobody is there") || !b.exists("sub") {
		t.Errorf("nobody there: %q", got)
	}
	if got := b.terminal(args{"command": "touch new; mkfs /dev/sda"}); !strings.Contains(got, "it was not run, and never is: it formats a disk") || b.exists("new") {
		t.Errorf("blocked: %q", got)
	}
	var asked []tool.ApprovalRequest
	answer := errors.New("the person says no")
	b.people = approver(func(_ context.Context, r tool.ApprovalRequest) error {
		asked = append(asked, r)
		return answer
	})
	if got := b.terminal(args{"command": line}); !strings.Contains(got, "the person says no") || !b.exists("sub") {
		t.Errorf("denied: %q", got)
	}
	answer = nil
	if got := timeless(b.terminal(args{"command": line})); got != "2\n\n[exit code 0 after T]" || b.exists("sub") {
		t.Errorf("agreed: %q", got)
	}
	if len(asked) != 2 || asked[1].Command != line || asked[1].Tool != "terminal" || !slices.Equal(asked[1].Shapes, []string{"delete"}) || asked[1].Reasons[0] != "it deletes folders" {
		t.Errorf("asked were %+v", asked)
	}
	if b.terminal(args{"command": "mkfs"}); len(asked) != 2 {
		t.Error("somebody was asked about what never runs")
	}
	b.people = approver(func(context.Context, tool.ApprovalRequest) error { // the directory is replaced while the user decides
		return errors.Join(os.Mkdir(filepath.Join(b.workspace, "d"), 0o700), os.Remove(filepath.Join(b.workspace, "link")), os.Symlink("d", filepath.Join(b.workspace, "link")))
	})
	if err := os.Symlink(".", filepath.Join(b.workspace, "link")); err != nil {
		t.Fatal(err)
	}
	if got := b.terminal(args{"command": "rm -r x; touch ran", "workdir": "link"}); !strings.Contains(got, "is not what it was") || b.exists("ran") || b.exists("d/ran") {
		t.Errorf("another folder: %q", got)
	}
}

func TestCommandTimeoutAndCancel(t *testing.T) {
	t.Parallel()
	b := open(t, func(o *terminal.Options) { o.Timeout = 50 * time.Millisecond })
	got := b.terminal(args{"command": "echo begun; sleep 1000 & sleep 1000"})
	if !strings.Contains(got, "ended: it took longer than its timeout of 50ms, and all that it had started was ended with it; give it more time") {
		t.Errorf("got %q", got)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	b.people = approver(func(context.Context, tool.ApprovalRequest) error {
		time.AfterFunc(50*time.Millisecond, func() { cancel(errors.New("the person wants something else")) })
		return nil
	})
	got = b.call(ctx, "s", "terminal", args{"command": "sleep 1000; rm -r x", "timeout": 600})
	if !strings.Contains(got, "the person wants something else") {
		t.Errorf("got %q", got)
	}
}

func TestOutputSpillsToFile(t *testing.T) {
	t.Parallel()
	b := open(t, func(o *terminal.Options) { o.MaxOutput = 2000 })
	got := b.terminal(args{"command": "seq 100000"})
	m := regexp.MustCompile(`\[the whole output, (\d+) bytes, is in (\S+) for a day\]`).FindStringSubmatch(got)
	if m == nil || len(got) > 3000 || !strings.HasPrefix(got, "1\n2\n") || !strings.Contains(got, "\n100000\n") || !strings.Contains(got, "is left out here") {
		t.Fatalf("got %q", got)
	}
	if raw, err := os.ReadFile(m[2]); err != nil || len(raw) != 588895 || m[1] != "588895" {
		t.Errorf("the file has %d bytes, %v", len(raw), err)
	}
	got = b.terminal(args{"command": "seq 1000"}) // fits into memory
	if len(got) > 2200 || !strings.Contains(got, "characters left out here") || strings.Contains(got, "whole output") {
		t.Errorf("got %q", got)
	}
	lossy := open(t, func(o *terminal.Options) { o.MaxOutput, o.Spill = 2000, "" })
	if got := lossy.terminal(args{"command": "seq 10000"}); !strings.Contains(got, "[the rest of the output is lost]") {
		t.Errorf("got %q", got)
	}
}

func TestCommandFloodEnds(t *testing.T) {
	t.Parallel()
	b := open(t, func(o *terminal.Options) { o.Spill = "" })
	got := b.terminal(args{"command": "yes | head -c 100000000"})
	if !strings.Contains(got, "ended: it wrote more than 64 MiB") || len(got) > 54_000 {
		t.Errorf("got %d characters: %q", len(got), got[max(0, len(got)-300):])
	}
}

func TestOutputContainsNoSecrets(t *testing.T) {
	t.Setenv("HERMES_CANARY", "canary-1")
	t.Setenv("SHOWN", "yes")
	b := open(t, func(o *terminal.Options) {
		o.EnvPassthrough = []string{"SHOWN"}
		o.Secrets = &secret.Masker{}
		o.Secrets.Add("canary-2")
	})
	got := b.terminal(args{"command": `env; printf 'can\033[1mary-2\n'`})
	if strings.Contains(got, "canary") || !strings.Contains(got, "<secret>") || !strings.Contains(got, "SHOWN=yes") {
		t.Errorf("got %q", got)
	}
	b.terminal(args{"command": "echo canary-2; sleep 1000", "background": true})
	for _, action := range []string{"list", "poll", "log", "kill"} {
		if got := b.process(args{"action": action, "id": "p1"}); strings.Contains(got, "canary") {
			t.Errorf("%s: %q", action, got)
		}
	}
}

// A secret is masked as a whole where output is truncated, and where a poll ends within it.
func TestPartOfSecretIsNotShown(t *testing.T) {
	const canary = "canary-of-a-key"
	for size := 2000; size < 2024; size++ {
		b := open(t, func(o *terminal.Options) {
			o.MaxOutput, o.Secrets = size, &secret.Masker{}
			o.Secrets.Add(canary)
		})
		if got := b.terminal(args{"command": "yes '" + canary + "' | head -1000"}); strings.Contains(got, "canary") || strings.Contains(got, "-key") || !strings.Contains(got, "left out") {
			t.Fatalf("with %d characters: %q", size, got)
		}
	}
	b := open(t, func(o *terminal.Options) {
		o.Secrets = &secret.Masker{}
		o.Secrets.Add(canary)
	})
	b.terminal(args{"command": "printf 'it is canary-'; read -r x; printf 'of-a-key\\n'; read -r x", "background": true})
	all := ""
	for !strings.Contains(all, "it is") {
		all += b.process(args{"action": "log", "id": "p1"}) + b.process(args{"action": "poll", "id": "p1"})
	}
	b.process(args{"action": "write", "id": "p1", "data": "a"})
	b.process(args{"action": "write", "id": "p1", "data": "b"})
	all += b.process(args{"action": "wait", "id": "p1"})
	if strings.Contains(all, "canary") || strings.Contains(all, "of-a-key") || !strings.Contains(all, "<secret>") {
		t.Errorf("got %q", all)
	}
}

func TestCommandRunsInSandbox(t *testing.T) {
	t.Parallel()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	secret := filepath.Join(dir, "secret")
	if err := os.WriteFile(secret, []byte("canary"), 0o600); err != nil {
		t.Fatal(err)
	}
	workspace := filepath.Join(dir, "workspace")
	if err := os.Mkdir(workspace, 0o700); err != nil {
		t.Fatal(err)
	}
	box, err := spawn.Open(t.Context(), spawn.Auto, spawn.Policy{Write: []string{workspace}, Hide: []string{dir}})
	if errors.Is(err, spawn.ErrNoSandbox) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	b := open(t, func(o *terminal.Options) {
		o.Workspace, o.Sandbox = workspace, func() (*spawn.Sandbox, error) { return box, nil }
	})
	if got := b.terminal(args{"command": "echo in > file; cat file; cat ../secret"}); !strings.HasPrefix(got, "in\n") || strings.Contains(got, "canary") || !strings.Contains(got, "exit code 1") {
		t.Errorf("got %q", got)
	}
	if got := b.terminal(args{"command": "cat ../secret; sleep 1000", "background": true}); strings.Contains(got, "canary") {
		t.Errorf("got %q", got)
	}
	if got := b.process(args{"action": "kill", "id": "p1"}); strings.Contains(got, "canary") || !strings.Contains(got, "ended") {
		t.Errorf("got %q", got)
	}
	b.terminal(args{"command": "read -r x; echo got $x; exit 4", "background": true})
	b.process(args{"action": "write", "id": "p2", "data": "this"})
	if got := timeless(b.process(args{"action": "wait", "id": "p2"})); got != "got this\n\n[exit code 4 after T]" {
		t.Errorf("got %q", got)
	}
}
