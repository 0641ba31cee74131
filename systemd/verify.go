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

// ErrNoVerifier is returned by Verify if systemd-analyze is not installed.
var ErrNoVerifier = errors.New("systemd: systemd-analyze not found")

// A VerifyReport is the result of systemd-analyze verify for a unit file.
type VerifyReport struct {
	// Unknown lists the directives that this version of the service manager does not
	// know: candidates for Settings.Without.
	Unknown []string
	// Problems lists the other findings, one line each.
	Problems []string
}

// Verify checks the unit file at path with systemd-analyze. Findings are no error.
func Verify(ctx context.Context, path string, user bool) (VerifyReport, error) {
	tool, err := exec.LookPath("systemd-analyze")
	if err != nil {
		return VerifyReport{}, ErrNoVerifier
	}
	args := []string{"verify", path}
	env := append(os.Environ(), "SYSTEMD_LOG_LEVEL=warning", "SYSTEMD_LOG_COLOR=0", "LC_ALL=C")
	if user {
		args = append([]string{"--user"}, args...)
		if os.Getenv("XDG_RUNTIME_DIR") == "" { // required by systemd-analyze although not used
			env = append(env, "XDG_RUNTIME_DIR="+os.TempDir())
		}
	}
	cmd := exec.CommandContext(ctx, tool, args...)
	cmd.Env = env
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err = cmd.Run()
	v := parseFindings(out.String())
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

// parseFindings parses the output of systemd-analyze.
func parseFindings(out string) VerifyReport {
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
