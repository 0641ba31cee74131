package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"hermesd/internal/daemontest"
	"hermesd/internal/sim/llm"
)

// marked returns the ids of the processes with mark in their command line.
func marked(t *testing.T, mark string) (ids []int) {
	t.Helper()
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range lines {
		id, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if raw, wrong := os.ReadFile(path); err == nil && wrong == nil && bytes.Contains(raw, []byte(mark)) {
			ids = append(ids, id)
		}
	}
	return ids
}

// commanding is a model that runs the command in a message that begins with "run",
// and answers with its output.
func commanding(r llm.Request) llm.Reply {
	command, ok := strings.CutPrefix(r.Newest(), "run ")
	switch {
	case len(r.Results()) > 0:
		return llm.Reply{Text: "result: " + r.Results()[0].Text}
	case ok:
		return llm.Reply{Calls: []llm.Call{{Name: "terminal", Args: fmt.Sprintf(`{"command":%q}`, command)}}}
	}
	return llm.Echo(r)
}

// TestTheDeathOfTheDaemonWhileACommandRuns kills the daemon with SIGKILL. In a
// sandbox all processes of the command end, including those that left its session;
// without a sandbox they continue until they are killed. The user is notified in
// both cases.
func TestTheDeathOfTheDaemonWhileACommandRuns(t *testing.T) {
	for i, tt := range []struct {
		sandbox string
		stays   bool
	}{{"auto", false}, {"off", true}} {
		t.Run(tt.sandbox, func(t *testing.T) {
			t.Parallel()
			bin, err := exec.LookPath("hermesd")
			if err != nil {
				t.Fatal(err)
			}
			out := &buffer{}
			r, err := daemontest.New(daemontest.Options{
				Binary: bin, Home: filepath.Join(t.TempDir(), "home"), People: 1, Out: out, Model: llm.Options{Reply: commanding},
				Config: "terminal:\n  sandbox: " + tt.sandbox + "\n",
			})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(r.Close)
			if err := r.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			if tt.sandbox == "auto" && strings.Contains(out.String(), "The agent has no terminal") {
				t.Skip(out.String())
			}
			mark := fmt.Sprintf("7%d.%d", os.Getpid(), i)
			t.Cleanup(func() {
				for _, id := range marked(t, mark) {
					_ = syscall.Kill(id, syscall.SIGKILL) // it may have ended
				}
			})
			r.Direct[0].Say(r.People[0], fmt.Sprintf("run setsid sleep %s & sleep %s", mark, mark))
			until(t, "both run", func() bool { return len(marked(t, "sleep\x00"+mark)) == 2 })
			r.Kill()
			if tt.stays {
				if len(marked(t, "sleep\x00"+mark)) != 2 {
					t.Error("somebody has ended them: docs/terminal.md says that nobody does")
				}
			} else {
				until(t, "nothing of it runs", func() bool { return len(marked(t, mark)) == 0 })
			}
			if err := r.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			until(t, "the person is told", func() bool {
				for _, m := range r.Direct[0].FromBots() {
					if strings.Contains(m.Text, "result: ") && strings.Contains(m.Text, "unknown") {
						return true
					}
				}
				return false
			})
		})
	}
}
