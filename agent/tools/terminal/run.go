package terminal

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"
	"go.uber.org/zap"

	"hermesd/agent/tool"
	"hermesd/internal/spawn"
)

type runInput struct {
	Command    string `json:"command"`
	Background bool   `json:"background"`
	Timeout    int    `json:"timeout"`
	Workdir    string `json:"workdir"`
	Network    bool   `json:"network"`
}

func (t *Terminal) run(ctx context.Context, c tool.Call, in runInput) (string, error) {
	switch {
	case strings.TrimSpace(in.Command) == "":
		return "", errors.New("the command is empty")
	case len(in.Command) > maxCommand:
		return "", fmt.Errorf("the command has more than %d KiB; write it into a file and run that", maxCommand>>10)
	case strings.ContainsRune(in.Command, 0):
		return "", errors.New("the command holds a NUL, which no command can hold")
	}
	limit, err := t.timeout(in)
	if err != nil {
		return "", err
	}
	if in.Workdir == "" {
		in.Workdir = t.o.Folder(c.Session)
	}
	dir, err := t.resolveDir(in.Workdir)
	if err != nil {
		return "", err
	}
	box, err := t.o.Sandbox() // before anybody is asked for approval
	if err != nil {
		return "", fmt.Errorf("the command was not run: %w", err)
	}
	v, err := t.authorize(ctx, c, PolicyRequest{Command: in.Command, Dir: dir, Session: c.Session, Network: in.Network}, nil)
	if err != nil {
		return "", err
	}
	if again, err := t.resolveDir(in.Workdir); err != nil || again != dir {
		return "", fmt.Errorf("the folder %s is not what it was when the command was judged; it was not run", in.Workdir)
	}
	cmd := spawn.Command{
		Shell: in.Command, Interpreter: t.o.Shell, Dir: dir, PassEnv: t.o.EnvPassthrough, Env: []string{"TERM=dumb", "PAGER=cat", "GIT_PAGER=cat", "GIT_TERMINAL_PROMPT=0"},
		Timeout: limit, Grace: t.o.Grace, MaxKept: 4 * t.o.MaxOutput, Spill: t.o.Spill, KeepFree: keepFree, Sandbox: box, NoNetwork: v.NoNetwork, Untrusted: true,
	}
	t.prune()
	if ctx.Err() != nil { // ended while directory and sandbox were checked
		return "", context.Cause(ctx)
	}
	if in.Background {
		return t.background(c, cmd, networkOf(box, v))
	}
	r, err := spawn.Run(ctx, cmd)
	if err != nil {
		return "", fmt.Errorf("the command was not run: %w", err)
	}
	return t.report(r, limit, networkOf(box, v)), nil
}

// timeout returns the time limit of the command, 0 for none.
func (t *Terminal) timeout(in runInput) (time.Duration, error) {
	asked := time.Duration(in.Timeout) * time.Second
	switch {
	case in.Timeout < 0:
		return 0, errors.New("the timeout is less than nothing")
	case in.Background && (asked > maxJobTime || in.Timeout > int(maxJobTime/time.Second)):
		return 0, fmt.Errorf("the timeout is more than %d seconds; leave it out for none", int(maxJobTime.Seconds()))
	case in.Background:
		return asked, nil
	case in.Timeout > int(t.o.MaxTimeout/time.Second):
		return 0, fmt.Errorf("the timeout is more than %d seconds; run it in the background instead", int(t.o.MaxTimeout.Seconds()))
	case in.Timeout == 0:
		return t.o.Timeout, nil
	}
	return asked, nil
}

// resolveDir returns the real path of the directory that the model calls dir.
func (t *Terminal) resolveDir(dir string) (string, error) {
	if strings.ContainsRune(dir, 0) {
		return "", errors.New("the workdir holds a character that no path can hold")
	}
	path := dir
	if !filepath.IsAbs(path) {
		path = filepath.Join(t.o.Workspace, path)
	}
	path, err := filepath.EvalSymlinks(path)
	switch {
	case err != nil && dir == "":
		return "", fmt.Errorf("the workspace is gone: %w; a person must look after that", err)
	case err != nil:
		return "", fmt.Errorf("there is no folder %s: %w", dir, errors.Unwrap(err))
	}
	rel, err := filepath.Rel(t.o.Workspace, path)
	if err != nil || !filepath.IsLocal(rel) {
		return "", fmt.Errorf("%s is outside the workspace; commands run only inside", dir)
	}
	if info, err := os.Stat(path); err != nil || !info.IsDir() {
		return "", fmt.Errorf("%s is no folder", dir)
	}
	return path, nil
}

// authorize returns the classification of a command that may run: the policy allows it, or
// a user has approved exactly this command. If it may not run, authorize returns an error.
func (t *Terminal) authorize(ctx context.Context, c tool.Call, r PolicyRequest, about []string) (PolicyResult, error) {
	r.ListeningPorts = func() []uint16 { return t.ListeningPorts(c.Session) }
	v := t.o.Policy(ctx, r)
	switch {
	case ctx.Err() != nil:
		return v, context.Cause(ctx)
	case v.Blocked != "":
		return v, fmt.Errorf("it was not run, and never is: %s. Do not try to get around this; say what you need, so that a person can do it", v.Blocked)
	case len(v.Reasons) == 0:
		return v, nil
	}
	err := c.User.Approve(ctx, tool.ApprovalRequest{Tool: Name, Command: r.Command, Reasons: append(about, v.Reasons...), Shapes: v.Shapes})
	if err != nil {
		return v, fmt.Errorf("it was not run, because it needs an approval (%s) and has none: %w", strings.Join(v.Reasons, "; "), err)
	}
	return v, nil
}

// prune removes old output files.
func (t *Terminal) prune() {
	if t.o.Spill == "" {
		return
	}
	if err := spawn.Prune(t.o.Spill, spillAge, spillTotal); err != nil {
		t.log.Warn("cannot remove old command output", zap.Error(err))
	}
}

// A network says how a command is connected.
type network struct {
	shared bool   // it shares the network of this machine
	note   string // for the result if the command fails; "": none
}

// networkOf returns the network of a command with this classification in box.
func networkOf(box *spawn.Sandbox, v PolicyResult) network {
	open := box.Status().Net == ""
	if open && v.NoNetwork {
		return network{note: `it ran without network; to ask a user for the network, set "network" to true`}
	}
	return network{shared: open}
}

// notes returns notes for the result of a command that has ended. A command that somebody
// has ended has not failed.
func (n network) notes(r spawn.Result) []string {
	ended := r.Cause != nil && !errors.Is(r.Cause, spawn.ErrTimeout)
	if r.Code == 0 || n.note == "" || ended {
		return nil
	}
	return []string{n.note}
}

func (t *Terminal) report(r spawn.Result, limit time.Duration, n network) string {
	notes := append([]string{describeEnd(r, limit)}, n.notes(r)...)
	if r.OutputHeldOpen {
		notes = append(notes, "something that it started goes on outside of its reach and holds its output open")
	}
	return t.compose(r.Output, append(notes, t.spillNotes(r.Output)...))
}

func describeEnd(r spawn.Result, limit time.Duration) string {
	took := r.Took.Round(time.Millisecond)
	if took > time.Minute {
		took = r.Took.Round(time.Second)
	}
	all := ", and all that it had started was ended with it"
	switch {
	case errors.Is(r.Cause, spawn.ErrTimeout):
		return fmt.Sprintf("ended: it took longer than its timeout of %v%s; give it more time, or run it in the background", limit, all)
	case errors.Is(r.Cause, spawn.ErrFlood):
		return fmt.Sprintf("ended: it wrote more than %d MiB%s; let it write less, or into a file", spawn.DefaultMost>>20, all)
	case errors.Is(r.Cause, spawn.ErrDisk):
		return fmt.Sprintf("ended after %v: %v%s; delete files that are not needed, or write less", took, r.Cause, all)
	case r.Cause != nil:
		return fmt.Sprintf("ended after %v: %v%s", took, r.Cause, all)
	case r.Signal != "":
		return fmt.Sprintf("exit code %d after %v: a signal ended it: %s", r.Code, took, r.Signal)
	}
	return fmt.Sprintf("exit code %d after %v", r.Code, took)
}

// spillNotes returns a note about the file with the whole output, if the output is not
// complete in the result.
func (t *Terminal) spillNotes(o spawn.Output) []string {
	switch {
	case o.File != "" && o.FileErr != nil:
		return []string{fmt.Sprintf("the beginning of the output is in %s; the rest could not be written: %v", o.File, o.FileErr)}
	case o.File != "":
		return []string{fmt.Sprintf("the whole output, %d bytes, is in %s for a day", o.Total, o.File)}
	case o.Lost > 0 && o.FileErr != nil:
		return []string{fmt.Sprintf("the rest of the output is lost: %v", o.FileErr)}
	case o.Lost > 0:
		return []string{"the rest of the output is lost"}
	}
	return nil
}

func (t *Terminal) compose(o spawn.Output, notes []string) string {
	body := cmp.Or(t.readable(o), "(no output)")
	return body + "\n\n[" + strings.Join(notes, "]\n[") + "]"
}

// readable returns output as masked text, truncated to MaxOutput.
func (t *Terminal) readable(o spawn.Output) string {
	if o.Lost == 0 {
		all := append(bytes.Clone(o.Head), o.Tail...)
		if isBinary(all) {
			return fmt.Sprintf("(%d bytes that are no text; write them into a file to work with them)", len(all))
		}
		return tool.Truncate(t.o.Secrets.Mask(clean(all)), t.o.MaxOutput)
	}
	if isBinary(o.Head) || isBinary(o.Tail) {
		return fmt.Sprintf("(%d bytes that are no text; write them into a file to work with them)", o.Total)
	}
	head, tail := []rune(t.o.Secrets.Mask(clean(o.Head))), []rune(t.o.Secrets.Mask(clean(o.Tail)))
	head = head[:min(len(head), t.o.MaxOutput*2/3)]
	tail = tail[max(0, len(tail)-t.o.MaxOutput/3):]
	return fmt.Sprintf("%s\n\n[… the middle of %d bytes is left out here …]\n\n%s", string(head), o.Total, string(tail))
}

// isBinary reports whether b is not text: more than 30 % of its first 8000 bytes are invalid
// or control characters that text does not contain.
func isBinary(b []byte) bool {
	b = b[:min(len(b), 8000)]
	bad := 0
	for rest := b; len(rest) > 0; {
		r, n := utf8.DecodeRune(rest)
		if r == utf8.RuneError && n == 1 && (len(rest) >= utf8.UTFMax || utf8.FullRune(rest)) || r < ' ' && !strings.ContainsRune("\t\n\v\f\r\b\a\x1b", r) {
			bad++
		}
		rest = rest[n:]
	}
	return bad*10 > len(b)*3
}

// clean converts terminal output to plain text: without escape sequences and control
// characters, and with only the last state of a line that was overwritten.
func clean(b []byte) string {
	s := ansi.Strip(strings.ToValidUTF8(string(b), "\uFFFD"))
	lines := strings.Split(s, "\n")
	for i, l := range lines {
		l = strings.TrimRight(l, "\r")
		lines[i] = l[strings.LastIndexByte(l, '\r')+1:]
	}
	s = strings.Map(func(r rune) rune {
		switch {
		case r == 0:
			return '␀'
		case r == '\n' || r == '\t' || !unicode.IsControl(r):
			return r
		}
		return -1
	}, strings.Join(lines, "\n"))
	return strings.TrimRight(s, "\n")
}
