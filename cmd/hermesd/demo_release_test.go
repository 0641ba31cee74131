package main

import (
	"bufio"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
)

// TestReleasedDemoStartsItsProgram builds hermesd as a release does.
func TestReleasedDemoStartsItsProgram(t *testing.T) {
	t.Parallel()
	if testing.Short() || runtime.GOOS == "windows" {
		t.Skip("builds a program, and runs a script")
	}
	dir, other := t.TempDir(), t.TempDir()
	program := filepath.Join(dir, "hermesd")
	build := exec.CommandContext(t.Context(), "go", "build", "-tags", "release", "-ldflags", "-s -w", "-o", program, ".")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	resolved, err := filepath.EvalSymlinks(program)
	if err != nil {
		t.Fatal(err)
	}
	demo := func(args ...string) (string, int) {
		cmd := exec.CommandContext(t.Context(), program, append([]string{"demo"}, args...)...)
		cmd.Env = append(os.Environ(), "PATH="+other+":/usr/bin:/bin")
		out, err := cmd.CombinedOutput()
		var ended *exec.ExitError
		if err != nil && !errors.As(err, &ended) {
			t.Fatal(err)
		}
		return string(out), cmd.ProcessState.ExitCode()
	}
	if out, code := demo("--exit"); code != exitFailed || !strings.Contains(out, "take it from the archive of this release") || !strings.Contains(out, filepath.Dir(resolved)) {
		t.Errorf("without hermesd-demo: exit code %d, %s", code, out)
	}
	for _, at := range []string{other, dir} { // first only on PATH, then also next to hermesd
		script := "#!/bin/sh\necho \"" + at + ": $*\"\nexit 7\n"
		if err := os.WriteFile(filepath.Join(at, "hermesd-demo"), []byte(script), 0o700); err != nil {
			t.Fatal(err)
		}
		if out, code := demo("--exit"); code != 7 || out != at+": --daemon "+resolved+" --exit\n" {
			t.Errorf("exit code %d, %s", code, out)
		}
	}
	if out, _ := demo(); out != dir+": --daemon "+resolved+"\n" {
		t.Errorf("without --exit: %s", out)
	}
	script := "#!/bin/sh\ntrap 'exit 0' INT\necho ready\nread line\nexit 8\n"
	if err := os.WriteFile(filepath.Join(dir, "hermesd-demo"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	requireEndsBySignal(t, exec.CommandContext(t.Context(), program, "demo"))
}

// requireEndsBySignal starts a program, waits for its first line, sends it SIGTERM and
// waits for it to end without an error.
func requireEndsBySignal(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	_, err := cmd.StdinPipe() // stays open until the program has ended
	out, err2 := cmd.StdoutPipe()
	if err := errors.Join(err, err2, cmd.Start()); err != nil {
		t.Fatal(err)
	}
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Error(err)
	}
	if err := errors.Join(cmd.Process.Signal(syscall.SIGTERM), cmd.Wait()); err != nil {
		t.Errorf("after a signal: %v", err)
	}
}
