package terminal

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"hermesd/agent/tool"
	"hermesd/internal/shorten"
	"hermesd/internal/spawn"
)

type processInput struct {
	Action  string `json:"action"`
	ID      string `json:"id"`
	Data    string `json:"data"`
	Enter   *bool  `json:"enter"`
	Timeout int    `json:"timeout"`
}

func (t *Terminal) process(ctx context.Context, c tool.Call, in processInput) (string, error) {
	if in.Action == "list" {
		return t.list(c.Session), nil
	}
	j, err := t.find(c.Session, in.ID)
	if err != nil {
		return "", err
	}
	switch in.Action {
	case "poll":
		return t.poll(j), nil
	case "log":
		return t.fullLog(j), nil
	case "wait":
		return t.wait(ctx, j, in.Timeout)
	case "write":
		return t.write(ctx, c, j, in)
	case "close":
		j.run.CloseInput()
		return fmt.Sprintf("%s is told that nothing more is typed.", j.id), nil
	case "kill":
		j.run.Stop(spawn.ErrKilled)
		select {
		case <-j.run.Done():
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
		return t.poll(j), nil
	}
	return "", fmt.Errorf("there is no action %q; use list, poll, log, wait, write, close or kill", in.Action)
}

// wait polls after the job has ended or the timeout has passed.
func (t *Terminal) wait(ctx context.Context, j *job, seconds int) (string, error) {
	limit := defaultWait
	switch most := int(t.o.MaxTimeout / time.Second); {
	case seconds < 0 || seconds > most:
		return "", fmt.Errorf("the timeout of wait is between 1 and %d seconds", most)
	case seconds > 0:
		limit = time.Duration(seconds) * time.Second
	}
	over := time.NewTimer(min(limit, t.o.MaxTimeout))
	defer over.Stop()
	select {
	case <-j.run.Done():
	case <-over.C:
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
	return t.poll(j), nil
}

// write types into a job. The process may be a shell: the text of a line is classified as a
// whole, even if it is typed in pieces.
func (t *Terminal) write(ctx context.Context, c tool.Call, j *job, in processInput) (string, error) {
	data := in.Data
	if in.Enter == nil || *in.Enter {
		data += "\n"
	}
	if data == "" {
		return "", errors.New("there is nothing to type")
	}
	select {
	case j.typing <- struct{}{}:
		defer func() { <-j.typing }()
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
	line := j.pendingLine + data
	if len(line) > maxCommand {
		return "", fmt.Errorf("a line has more than %d KiB", maxCommand>>10)
	}
	if strings.TrimSpace(line) != "" {
		v, err := t.authorize(ctx, c, PolicyRequest{Command: line, Dir: j.dir, Session: c.Session, Network: j.network.shared}, []string{fmt.Sprintf("typed into %s: %s", j.id, shorten.Line(j.command, 120))})
		switch {
		case err != nil:
			return "", err
		case v.NoNetwork && j.network.shared:
			return "", fmt.Errorf("it was not typed: it may run only without network, and %s has the network", j.id)
		}
	}
	timed, cancel := context.WithTimeoutCause(ctx, writeTimeout, errors.New("it does not read what is typed, and takes no more"))
	defer cancel()
	if err := j.run.Write(timed, []byte(data)); err != nil {
		return "", fmt.Errorf("%s: %w", j.id, err)
	}
	j.pendingLine = incompleteLine(line)
	return fmt.Sprintf("%d bytes are typed into %s; poll shows what it answers.", len(data), j.id), nil
}

// incompleteLine returns the part of typed text that belongs to an incomplete line: the last
// line, if it has no line end, and the lines before it that end in a backslash.
func incompleteLine(s string) string {
	lines := strings.SplitAfter(s, "\n") // the last is empty after a line end
	from := len(lines) - 1
	for from > 0 && strings.HasSuffix(lines[from-1], "\\\n") {
		from--
	}
	return strings.Join(lines[from:], "")
}
