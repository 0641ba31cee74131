package spawn

import (
	"encoding/json"
	"fmt"
	"os"
	"syscall"
)

// The first arguments with which the program is the inside of a sandbox.
const (
	helperArg     = "__sandbox"
	roleSupervise = "supervise"
	roleEnter     = "enter"
)

// What the inside of a sandbox exits with if the command cannot run.
const (
	exitBroken = 125
	exitDenied = 126
)

// An helperRequest is what the inside of a sandbox is told.
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

// Main does nothing, unless this process was started as the inside of a
// sandbox: then it is that, and does not return. Every program that starts
// processes in a Sandbox calls it first of all.
func Main() {
	if len(os.Args) != 4 || os.Args[1] != helperArg {
		return
	}
	// It ends without what os.Exit does for a whole program.
	var e helperRequest
	if err := json.Unmarshal([]byte(os.Args[3]), &e); err != nil {
		syscall.Exit(broken(err))
	}
	if os.Args[2] == roleEnter {
		syscall.Exit(enter(e))
	}
	syscall.Exit(supervise(e))
}

// broken says why the command is not run. The command's output is all there is
// to say it in.
func broken(err error) int {
	fmt.Fprintln(os.Stderr, "hermesd: the sandbox cannot be set up:", err)
	return exitBroken
}
