package main

import (
	"context"
	"errors"
	"flag"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"hermesd/cmd/internal/admin"
)

// TestMain allows more parallel tests than processors, since the tests mostly wait.
func TestMain(m *testing.M) {
	testscript.Main(testRun{m}, programs)
}

// programs are on the PATH of the tests.
var programs = map[string]func(){"hermesd": main}

// testRun sets the flag when testscript has determined that this is not a command.
type testRun struct{ *testing.M }

func (r testRun) Run() int {
	flag.Parse()
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	return r.M.Run()
}

// TestScripts runs the command line as users do. In addition to the standard
// commands there are:
//
//	exits CODE COMMAND...   the command ends with that exit code
//	ready                   waits until the daemon of this home answers
//	found WORD              waits until a search finds WORD
func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir: filepath.Join("testdata", "script"), RequireExplicitExec: true, RequireUniqueNames: true,
		Setup: func(e *testscript.Env) error {
			e.Setenv("HERMES_HOME", filepath.Join(e.WorkDir, "home"))
			e.Setenv("NO_COLOR", "1")
			e.Setenv("GORACE", "atexit_sleep_ms=0") // each command is a process
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": exits, "ready": ready, "found": found},
	})
}

func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	err = ts.Exec(args[1], args[2:]...)
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		got = exit.ExitCode()
	case err != nil:
		ts.Fatalf("%v", err)
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

func found(ts *testscript.TestScript, _ bool, args []string) {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(patience); time.Now().Before(end); <-tick.C {
		if ts.Exec("hermesd", "sessions", "search", args[0]) == nil && !strings.Contains(ts.ReadFile("stdout"), "Nothing was found") {
			return
		}
	}
	ts.Fatalf("%s is not found", args[0])
}

func ready(ts *testscript.TestScript, _ bool, _ []string) {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(patience); time.Now().Before(end); <-tick.C {
		c, err := admin.Dial(context.Background(), ts.Getenv("HERMES_HOME"))
		if err != nil {
			continue // a process would find this out at a much higher cost
		}
		_ = c.Close(context.Background()) // it was not asked
		if ts.Exec("hermesd", "status") == nil {
			return
		}
	}
	ts.Fatalf("the daemon does not answer")
}
