package crashtest_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"hermesd/internal/daemontest"
)

// programDir is the directory of the daemon that all tests kill.
var programDir string

func TestMain(m *testing.M) {
	var err error
	if programDir, err = os.MkdirTemp("", "hermesd-crashtest-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		if err := os.RemoveAll(programDir); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		os.Exit(code)
	}))
}

var build = sync.OnceValues(func() (string, error) { return daemontest.Build(context.Background(), programDir) })

// program returns the path of the daemon, which is built once.
func program(t *testing.T) string {
	t.Helper()
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("the go tool, which builds the daemon, is not there")
	}
	bin, err := build()
	if err != nil {
		t.Fatal(err)
	}
	return bin
}
