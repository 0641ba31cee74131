package systemd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
)

// ErrNoVerifier is returned by Verify where there is no systemd-analyze.
var ErrNoVerifier = errors.New("systemd: there is no systemd-analyze here")

// A VerifyReport is what the service manager's own check says about a unit file.
type VerifyReport struct {
	// Unknown are the directives that this version of the manager does not
	// know: candidates for Settings.Without.
	Unknown []string
	// Problems are its other findings, a line each.
	Problems []string
}

// Verify lets systemd-analyze check the unit file at path.
func Verify(ctx context.Context, path string, user bool) (VerifyReport, error) {
	tool, err := exec.LookPath("systemd-analyze")
	if err != nil {
		return VerifyReport{}, ErrNoVerifier
	}
	args := []string{"verify", path}
	env := append(os.Environ(), "SYSTEMD_LOG_LEVEL=warning", "SYSTEMD_LOG_COLOR=0", "LC_ALL=C")
	if user {
		args = append([]string{"--user"}, args...)
		if os.Getenv("XDG_RUNTIME_DIR") == "" { // it wants one, though it needs none
			env = append(env, "XDG_RUNTIME_DIR="+os.TempDir())
		}
	}
	cmd := exec.CommandContext(ctx, tool, args...)
	cmd.Env = env
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err = cmd.Run()
	v := read(out.String())
	var failed *exec.ExitError
	if err != nil && !errors.As(err, &failed) {
		return VerifyReport{}, fmt.Errorf("verify unit file: %w", err)
	}
	if failed != nil && len(v.Unknown) == 0 && len(v.Problems) == 0 {
		return VerifyReport{}, fmt.Errorf("verify unit file: %w", err)
	}
	return v, nil
}

var unknownKey = regexp.MustCompile(`Unknown (?:key name|key|lvalue) '([A-Za-z]+)'`)

// read sorts the lines that systemd-analyze writes.
func read(out string) VerifyReport {
	var v VerifyReport
	for line := range strings.Lines(out) {
		line = strings.TrimSpace(line)
		m := unknownKey.FindStringSubmatch(line)
		switch {
		case line == "":
		case m == nil:
			v.Problems = append(v.Problems, line)
		case !slices.Contains(v.Unknown, m[1]):
			v.Unknown = append(v.Unknown, m[1])
		}
	}
	return v
}
