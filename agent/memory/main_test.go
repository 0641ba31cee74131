package memory_test

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"hermesd/agent/memory"
)

// TestMain is also the main function of child processes: MEMORY_CHILD selects
// what one does.
func TestMain(m *testing.M) {
	switch os.Getenv("MEMORY_CHILD") {
	case "write":
		os.Exit(childWrites())
	case "full":
		os.Exit(childWithoutRoom())
	}
	goleak.VerifyTestMain(m)
}

// childWrites adds a hundred entries, and prints those that were accepted.
func childWrites() int {
	s := memory.New(memory.Config{Dir: os.Getenv("MEMORY_DIR"), NotesLimit: 1 << 19})
	for i := range 100 {
		entry := "process " + os.Getenv("MEMORY_ID") + " entry " + strconv.Itoa(i)
		r := s.Add(context.Background(), memory.Notes, entry)
		for !r.Success && strings.Contains(r.Error, "another process has held") { // on a busy machine
			r = s.Add(context.Background(), memory.Notes, entry)
		}
		if !r.Success {
			fmt.Fprintln(os.Stderr, r.Error)
			return 1
		}
		fmt.Fprintln(os.Stdout, entry)
	}
	return 0
}

// childWithoutRoom may write at most 100 bytes to a file, as on a full disk.
func childWithoutRoom() int {
	signal.Ignore(syscall.SIGXFSZ)
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: 100, Max: 100}); err != nil {
		return 3
	}
	r := memory.New(memory.Config{Dir: os.Getenv("MEMORY_DIR")}).Add(context.Background(), memory.Notes, os.Getenv("MEMORY_TEXT"))
	fmt.Fprint(os.Stdout, r.Error)
	if r.Success {
		return 1
	}
	return 0
}
