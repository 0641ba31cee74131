//go:build unix

package spawn_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"hermesd/internal/spawn"
)

// patience is longer than any operation takes on a working machine.
const patience = 2 * time.Minute

func run(t *testing.T, c spawn.Command) spawn.Result {
	t.Helper()
	if c.Timeout == 0 {
		c.Timeout = patience
	}
	r, err := spawn.Run(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// text returns the output; it fails if not all of it is in memory.
func text(t *testing.T, r spawn.Result) string {
	t.Helper()
	if r.Lost > 0 {
		t.Fatalf("%d bytes are lost", r.Lost)
	}
	return string(r.Head) + string(r.Tail)
}

func TestACommandRunsAndSaysHowItEnded(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for line, want := range map[string]struct {
		out    string
		code   int
		signal string
	}{
		`echo out; echo err >&2; echo out`: {"out\nerr\nout\n", 0, ""},
		`exit 7`:                           {"", 7, ""},
		`kill -9 $$`:                       {"", 137, "killed"},
		`pwd -P`:                           {real(t, dir) + "\n", 0, ""},
		`cat; echo end`:                    {"end\n", 0, ""}, // empty input is end of file
		`printf 'a\0b\377'`:                {"a\x00b\xff", 0, ""},
		`nosuchprogram 2>/dev/null`:        {"", 127, ""},
	} {
		r := run(t, spawn.Command{Shell: line, Dir: dir})
		if got := text(t, r); got != want.out || r.Code != want.code || r.Signal != want.signal || r.Cause != nil || r.OutputHeldOpen {
			t.Errorf("%s: got %q, %d %q, cause %v", line, got, r.Code, r.Signal, r.Cause)
		}
	}
	r, err := write(t, spawn.Command{Argv: []string{"cat"}}, strings.Repeat("0123456789", 10000))
	if got := text(t, r); err != nil || len(got) != 100_000 || r.Code != 0 {
		t.Errorf("got %d bytes of the input, %v", len(got), err)
	}
	r, err = write(t, spawn.Command{Argv: []string{"true"}}, strings.Repeat("x", 1<<20))
	if !errors.Is(err, spawn.ErrNoInput) || r.Code != 0 || r.Cause != nil {
		t.Errorf("input that nobody reads: got %v, %d, %v", err, r.Code, r.Cause)
	}
}

// write runs a command with an input and returns the error of writing it.
func write(t *testing.T, c spawn.Command, input string) (spawn.Result, error) {
	t.Helper()
	c.Input, c.Timeout = true, patience
	p, err := spawn.Start(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	err = p.Write(t.Context(), []byte(input))
	p.CloseInput()
	return p.Wait(), err
}

func real(t *testing.T, dir string) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestWhatDoesNotStartSaysWhatToDo(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	gone := filepath.Join(t.TempDir(), "gone")
	for want, c := range map[string]spawn.Command{
		"either a line for the shell or a program":           {},
		"either a line for the shell":                        {Shell: "true", Argv: []string{"true"}},
		"no shell /no/such/shell; install one":               {Shell: "true", Interpreter: "/no/such/shell"},
		"the program nosuchprogram is not there; install it": {Argv: []string{"nosuchprogram"}},
		"holds a NUL": {Shell: "true\x00; rm x"},
		"the working folder cannot be used: stat " + gone:  {Shell: "true", Dir: gone},
		"the working folder " + file + " is no folder":     {Shell: "true", Dir: file},
		"it does not start: fork/exec " + file + ": permi": {Argv: []string{file}},
	} {
		if _, err := spawn.Run(t.Context(), c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("the daemon stops")
	cancel(why)
	if _, err := spawn.Run(ctx, spawn.Command{Shell: "true"}); !errors.Is(err, why) {
		t.Errorf("after the end: got %v", err)
	}
}

func TestNoVariableOfOursLeaks(t *testing.T) {
	t.Setenv("HERMES_CANARY_TOKEN", "canary-4711")
	t.Setenv("OPENAI_API_KEY", "canary-4712")
	t.Setenv("WANTED", "yes")
	t.Setenv("LANG", "C")
	r := run(t, spawn.Command{Shell: "env; cat /proc/self/environ 2>/dev/null | tr '\\0' '\\n'", PassEnv: []string{"WANTED", "NOT_SET"}, Env: []string{"MINE=1", "LANG=C.UTF-8"}})
	out := text(t, r)
	if strings.Contains(out, "canary") {
		t.Errorf("a secret leaks: %s", out)
	}
	lines := strings.Split(out, "\n")
	for _, want := range []string{"WANTED=yes", "MINE=1", "LANG=C.UTF-8", "PATH=" + os.Getenv("PATH")} {
		if !slices.Contains(lines, want) {
			t.Errorf("%s is missing in %s", want, out)
		}
	}
	if slices.Contains(lines, "LANG=C") {
		t.Errorf("a name stands twice: %s", out)
	}
}

// pids reads the process IDs that a command wrote to file.
func pids(t *testing.T, file string) []int {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var out []int
	for _, f := range strings.Fields(string(raw)) {
		pid, err := strconv.Atoi(f)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, pid)
	}
	return out
}

// gone waits until these processes have ended or are zombies.
func gone(t *testing.T, pids ...int) {
	t.Helper()
	for _, pid := range pids {
		for began := time.Now(); ; <-time.After(5 * time.Millisecond) {
			stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
			if syscall.Kill(pid, 0) != nil || err == nil && strings.Contains(string(stat), ") Z ") {
				break
			}
			if time.Since(began) > patience {
				t.Errorf("process %d goes on", pid)
				break
			}
		}
	}
}

func TestATimeoutEndsTheWholeGroup(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, line := range map[string]string{
		"that obeys": `echo $$ >> pids; sleep 1000 & echo $! >> pids; echo ready; wait`,
		"that does not": `trap '' TERM; echo $$ >> pids; (trap '' TERM; while :; do sleep 1000; done) & echo $! >> pids; echo ready; ` +
			`while :; do sleep 1000; done`,
	} {
		p, err := spawn.Start(t.Context(), spawn.Command{Shell: line, Dir: dir, Timeout: patience, Grace: 50 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		until(t, p, "ready")
		p.Stop(spawn.ErrTimeout) // like the timer
		if r := p.Wait(); !errors.Is(r.Cause, spawn.ErrTimeout) || r.Code < 128 {
			t.Errorf("a group %s: got %v, %d", name, r.Cause, r.Code)
		}
	}
	gone(t, pids(t, filepath.Join(dir, "pids"))...)
	if r := run(t, spawn.Command{Shell: "sleep 1000", Timeout: 10 * time.Millisecond}); !errors.Is(r.Cause, spawn.ErrTimeout) {
		t.Errorf("got %v", r.Cause)
	}
}

// until waits until the output of p contains word.
func until(t *testing.T, p *spawn.Process, word string) {
	t.Helper()
	for began := time.Now(); ; <-time.After(2 * time.Millisecond) {
		data, _, _ := p.Output(0)
		if strings.Contains(string(data), word) {
			return
		}
		if time.Since(began) > patience {
			t.Fatalf("%q does not come; got %q", word, data)
		}
	}
}

func TestTheEndOfTheContextEndsIt(t *testing.T) {
	t.Parallel()
	why := errors.New("the daemon stops")
	ctx, cancel := context.WithCancelCause(t.Context())
	p, err := spawn.Start(ctx, spawn.Command{Shell: "trap 'echo tidy; exit 4' TERM; echo ready; while :; do sleep 0.01; done", Grace: patience})
	if err != nil {
		t.Fatal(err)
	}
	until(t, p, "ready")
	cancel(why)
	r := p.Wait()
	if !errors.Is(r.Cause, why) || r.Code != 4 || !strings.Contains(string(r.Head), "tidy") {
		t.Errorf("got %v, %d, %q", r.Cause, r.Code, r.Head)
	}
	if r := p.Kill(nil); !errors.Is(r.Cause, why) {
		t.Errorf("a second end changes the first: %v", r.Cause)
	}
}

func TestWhatACommandLeavesBehindEndsWithIt(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := run(t, spawn.Command{Shell: "sleep 1000 & echo $! > pids; echo done", Dir: dir})
	if r.Code != 0 || r.Cause != nil || r.OutputHeldOpen || text(t, r) != "done\n" {
		t.Errorf("got %+v", r)
	}
	gone(t, pids(t, filepath.Join(dir, "pids"))...)
}

func TestNobodyWaitsForWhatHasLeftTheGroup(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := run(t, spawn.Command{Shell: "setsid sh -c 'echo $$ > pid; mv pid pids; exec sleep 1000' & while ! test -e pids; do sleep 0.01; done; echo done", Dir: dir})
	left := pids(t, filepath.Join(dir, "pids"))
	defer syscall.Kill(left[0], syscall.SIGKILL)
	if r.Code != 0 || !r.OutputHeldOpen || text(t, r) != "done\n" {
		t.Errorf("got %+v", r)
	}
}

func TestAFloodIsCutAndItsWriterEnded(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "spill")
	r := run(t, spawn.Command{Shell: "yes", MaxKept: 1000, MaxOutput: 1 << 20, Spill: dir})
	if !errors.Is(r.Cause, spawn.ErrFlood) || r.Total != 1<<20 || len(r.Head)+len(r.Tail) != 1000 || r.Lost != 1<<20-1000 {
		t.Errorf("got %v: %d bytes, %d kept, %d lost", r.Cause, r.Total, len(r.Head)+len(r.Tail), r.Lost)
	}
	if info, err := os.Stat(r.File); err != nil || info.Size() != 1<<20 || info.Mode().Perm() != 0o600 {
		t.Errorf("the file: %v, %v", info, err)
	}
}

func TestLongOutputIsWholeInAFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := run(t, spawn.Command{Shell: "i=0; while [ $i -lt 2000 ]; do echo line $i; i=$((i+1)); done", MaxKept: 100, Spill: dir})
	raw, err := os.ReadFile(r.File)
	if err != nil || !strings.HasPrefix(string(raw), "line 0\nline 1\n") || !strings.HasSuffix(string(raw), "line 1999\n") || int64(len(raw)) != r.Total {
		t.Errorf("the file has %d of %d bytes, %v", len(raw), r.Total, err)
	}
	if string(r.Head) != string(raw[:50]) || string(r.Tail) != string(raw[len(raw)-50:]) {
		t.Errorf("kept: %q … %q", r.Head, r.Tail)
	}
	if r = run(t, spawn.Command{Shell: "echo short", Spill: dir}); r.File != "" {
		t.Errorf("short output is in %s", r.File)
	}
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	r = run(t, spawn.Command{Shell: "yes | head -n 1000", MaxKept: 100, Spill: file})
	if r.FileErr == nil || r.File != "" || r.Code != 0 || r.Total != 2000 {
		t.Errorf("no place for the file: %+v", r)
	}
}

func TestAProcessIsSpokenWith(t *testing.T) {
	t.Parallel()
	p, err := spawn.Start(t.Context(), spawn.Command{Shell: `while read -r x; do echo "got $x"; done; echo end`, Input: true, Timeout: patience})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Write(t.Context(), []byte("one\n")); err != nil {
		t.Error(err)
	}
	until(t, p, "got one\n")
	_, next, _ := p.Output(0)
	if err := p.Write(t.Context(), []byte("two\n")); err != nil {
		t.Error(err)
	}
	until(t, p, "got two\n")
	if data, _, lost := p.Output(next); string(data) != "got two\n" || lost != 0 {
		t.Errorf("since then: %q, %d", data, lost)
	}
	p.CloseInput()
	r := p.Wait()
	if text(t, r) != "got one\ngot two\nend\n" || r.Code != 0 {
		t.Errorf("got %+v", r)
	}
	if err := p.Write(t.Context(), []byte("three\n")); !errors.Is(err, spawn.ErrNoInput) {
		t.Errorf("after the end: %v", err)
	}
}

func TestAWriteThatNobodyTakesEnds(t *testing.T) {
	t.Parallel()
	p, err := spawn.Start(t.Context(), spawn.Command{Shell: "echo ready; sleep 1000", Input: true, Timeout: patience})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := p.Write(ctx, make([]byte, 1<<20)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	if r := p.Kill(nil); !errors.Is(r.Cause, spawn.ErrKilled) {
		t.Errorf("got %v", r.Cause)
	}
	without, err := spawn.Start(t.Context(), spawn.Command{Shell: "true"})
	if err != nil {
		t.Fatal(err)
	}
	if err := without.Write(t.Context(), nil); !errors.Is(err, spawn.ErrNoInput) {
		t.Errorf("got %v", err)
	}
	without.Wait()
}

func TestStreamsMayHaveTakers(t *testing.T) {
	t.Parallel()
	var out, errs strings.Builder
	r := run(t, spawn.Command{Shell: "echo out; echo err >&2", Stdout: &out, Stderr: &errs})
	if out.String() != "out\n" || errs.String() != "err\n" || r.Total != 0 {
		t.Errorf("got %q, %q, %+v", out.String(), errs.String(), r)
	}
	r = run(t, spawn.Command{Shell: "yes", Stdout: refusing{}})
	if r.Signal == "" && r.Code == 0 {
		t.Errorf("a taker that takes nothing: %+v", r)
	}
}

type refusing struct{}

func (refusing) Write([]byte) (int, error) { return 0, errors.New("enough") }

func TestOldOutputIsRemoved(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	add := func(name string, size int, age time.Duration) {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, make([]byte, size), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, time.Time{}, time.Now().Add(-age)); err != nil {
			t.Fatal(err)
		}
	}
	add("output-1.txt", 10, time.Minute)
	add("output-2.txt", 10, 2*time.Minute)
	add("output-3.txt", 10, 3*time.Minute)
	add("output-4.txt", 1, 48*time.Hour)
	add("notes.txt", 1000, 48*time.Hour)
	if err := spawn.Prune(dir, 24*time.Hour, 25); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var left []string
	for _, e := range entries {
		left = append(left, e.Name())
	}
	if want := []string{"notes.txt", "output-1.txt", "output-2.txt"}; !slices.Equal(left, want) {
		t.Errorf("left are %v", left)
	}
	if err := spawn.Prune(filepath.Join(dir, "none"), 0, 0); err != nil {
		t.Error(err)
	}
}
