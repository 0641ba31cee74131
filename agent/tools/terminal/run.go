package terminal

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

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
	if in.Workdir == "" && t.o.Folder != nil {
		in.Workdir = t.o.Folder(c.Session)
	}
	dir, err := t.resolveDir(in.Workdir)
	if err != nil {
		return "", err
	}
	var box *spawn.Sandbox
	if t.o.Sandbox != nil { // before anybody is asked for approval
		if box, err = t.o.Sandbox(); err != nil {
			return "", fmt.Errorf("the command was not run: %w", err)
		}
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
	if !t.o.AnyFolder && (err != nil || rel == ".." || strings.HasPrefix(rel, ".."+string(filepath.Separator))) {
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
	v := t.o.Policy(ctx, r)
	switch {
	case ctx.Err() != nil:
		return v, context.Cause(ctx)
	case v.Blocked != "":
		return v, fmt.Errorf("it was not run, and never is: %s. Do not try to get around this; say what you need, so that a person can do it", v.Blocked)
	case len(v.Reasons) == 0:
		return v, nil
	}
	err := c.User.RequestApproval(ctx, tool.ApprovalRequest{Tool: Name, Command: r.Command, Reasons: append(about, v.Reasons...), Shapes: v.Shapes})
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
