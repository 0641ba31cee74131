package spawn

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"syscall"
)

// The first arguments with which this program runs as the sandbox helper.
const (
	helperArg     = "__sandbox"
	roleSupervise = "supervise"
	roleEnter     = "enter"
	roleSelfTest  = "self-test"
)

// The descriptors of the helper: the read end of a pipe, and the helperRequest. The command
// may run while the write end of the pipe is open.
const (
	lifeFD    = 3
	requestFD = 4
)

// The exit codes of the helper if the command cannot run.
const (
	exitBroken = 125
	exitDenied = 126
)

// A helperRequest is the configuration of the sandbox helper, passed as JSON in a file in
// memory: arguments and the environment of a process can be read by others, and the
// environment of the command must not affect the helper.
type helperRequest struct {
	Path      string    `json:"path"`
	Argv      []string  `json:"argv"`
	Env       []string  `json:"env"`
	Dir       string    `json:"dir"`
	Wall      Mechanism `json:"wall"`
	ABI       int       `json:"abi"`
	Bwrap     string    `json:"bwrap,omitempty"`
	OwnPIDs   bool      `json:"own_pids"` // the supervisor is the first process of its namespaces
	Network   bool      `json:"network"`
	Places    []place   `json:"places"`
	Processes int       `json:"processes"`
	FileSize  int64     `json:"file_size,omitempty"`
	Nice      int       `json:"nice"`
}

// init runs the sandbox helper and does not return if this process was started as one. A
// package is initialized when those that it imports are, which is before most others of
// the program: their initialization takes longer than the helper itself.
func init() {
	if len(os.Args) < 3 || os.Args[1] != helperArg {
		return
	}
	// Exits without the work that os.Exit does for a whole program.
	if os.Args[2] == roleSelfTest && len(os.Args) == 4 {
		syscall.Exit(selfTest(os.Args[3]))
	}
	e, err := readRequest()
	if err != nil {
		syscall.Exit(reportFailure(err))
	}
	if os.Args[2] == roleEnter {
		syscall.Exit(enter(e))
	}
	syscall.Exit(supervise(e))
}

func readRequest() (e helperRequest, err error) {
	f := os.NewFile(requestFD, "request") // stays open: the next role reads it too
	raw, err := io.ReadAll(io.NewSectionReader(f, 0, 1<<30))
	if err != nil {
		return e, err
	}
	return e, json.Unmarshal(raw, &e)
}

// reportFailure reports why the command does not run. It writes to the command's output,
// the only channel that it has.
func reportFailure(err error) int {
	fmt.Fprintln(os.Stderr, "hermesd: the sandbox cannot be set up:", err)
	return exitBroken
}
