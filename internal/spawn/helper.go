package spawn

import (
	"encoding/json"
	"fmt"
	"os"
	"syscall"
)

// The first arguments with which this program runs as the sandbox helper.
const (
	helperArg     = "__sandbox"
	roleSupervise = "supervise"
	roleEnter     = "enter"
)

// The exit codes of the helper if the command cannot run.
const (
	exitBroken = 125
	exitDenied = 126
)

// A helperRequest is the configuration of the sandbox helper, passed as JSON.
type helperRequest struct {
	Path      string     `json:"path"`
	Argv      []string   `json:"argv"`
	Dir       string     `json:"dir"`
	Wall      Mechanism  `json:"wall"`
	Bwrap     string     `json:"bwrap,omitempty"`
	Fenced    bool       `json:"fenced"`
	Network   bool       `json:"network"`
	Places    []pathRule `json:"places"`
	Temp      string     `json:"temp"`
	Processes int        `json:"processes"`
	Memory    int64      `json:"memory,omitempty"`
}

// Main runs the sandbox helper and does not return if this process was started as one;
// otherwise it does nothing. Every program that starts processes in a Sandbox must call
// it before anything else.
func Main() {
	if len(os.Args) != 4 || os.Args[1] != helperArg {
		return
	}
	// Exits without the work that os.Exit does for a whole program.
	var e helperRequest
	if err := json.Unmarshal([]byte(os.Args[3]), &e); err != nil {
		syscall.Exit(reportFailure(err))
	}
	if os.Args[2] == roleEnter {
		syscall.Exit(enter(e))
	}
	syscall.Exit(supervise(e))
}

// reportFailure reports why the command does not run. It writes to the command's output,
// the only channel that it has.
func reportFailure(err error) int {
	fmt.Fprintln(os.Stderr, "hermesd: the sandbox cannot be set up:", err)
	return exitBroken
}
