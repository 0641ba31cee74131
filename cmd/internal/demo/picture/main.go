// Command picture runs `hermesd demo --exit` and makes docs/demo.svg, the picture in
// README.md, from its output. It is used by `make picture`, in the root of the
// repository.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// command is the command whose output the picture shows.
const command = "go run ./cmd/hermesd demo --exit"

func main() {
	out := flag.String("out", filepath.Join("docs", "demo.svg"), "the file to write")
	flag.Parse()
	if err := run(*out); err != nil {
		fmt.Fprintln(os.Stderr, "picture:", err)
		os.Exit(1)
	}
}

func run(path string) error {
	args := strings.Fields(command)
	cmd := exec.Command(args[0], args[1:]...)
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, os.Stderr
	// The output is a pipe, which has no colors unless they are demanded.
	cmd.Env = append(os.Environ(), "CLICOLOR_FORCE=1", "NO_COLOR=", "TERM=xterm")
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w", command, err)
	}
	lines, err := excerpt(output.String())
	if err != nil {
		return err
	}
	svg, err := render(append([]string{"\x1b[2m$\x1b[m " + command}, lines...))
	if err != nil {
		return err
	}
	return os.WriteFile(path, svg, 0o644)
}
