package plugin_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"hermesd/agent"
	"hermesd/agent/engine/enginetest"
	"hermesd/agent/engine/plugin"
	"hermesd/agent/llm"
)

// buildExample builds the example engine in a directory like an operator's.
func buildExample(t testing.TB) plugin.Manifest {
	t.Helper()
	source := filepath.Join("..", "..", "..", "docs", "examples", "engine")
	dir := filepath.Join(t.TempDir(), "example")
	manifest, err := os.ReadFile(filepath.Join(source, "plugin.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(dir, "plugin.yaml"), string(manifest))
	cmd := exec.CommandContext(t.Context(), "go", "build", "-o", filepath.Join(dir, "engine"), ".")
	cmd.Dir = source
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	m, err := plugin.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestTheExample(t *testing.T) {
	t.Parallel()
	h := plugin.NewHost(buildExample(t), nopLogger())
	defer h.Close()
	e, v := newEngine(h, "s"), longView()
	if e.ShouldCompress(3999) || !e.ShouldCompress(4000) {
		t.Error("it is not due at half of the window")
	}
	p, err := e.Compress(t.Context(), v)
	if err != nil || p.Explanation != "" {
		t.Fatalf("%q, %v", p.Explanation, err)
	}
	if s := p.Messages[p.From].Text(); !strings.HasPrefix(s, "[Summary 1 of what was said before. The user asked, in order:\n- question 1 words") {
		t.Errorf("got %s", s)
	}
	v.Messages = append(p.Messages, longView().Messages...)
	if p, err = e.Compress(t.Context(), v); err != nil || !strings.HasPrefix(p.Messages[p.From].Text(), "[Summary 2 ") {
		t.Errorf("its state was not kept: %+v, %v", p, err)
	}
	v.Messages = v.Messages[:2]
	if _, err := e.Compress(t.Context(), v); !errors.Is(err, agent.ErrCoolingDown) {
		t.Errorf("a short conversation: %v", err)
	}
	if n, last := h.Failures(); n != 0 {
		t.Errorf("%d failures: %v", n, last)
	}
}

// Messages that are not archived stay unchanged, for any conversation, with the
// program and with the built-in engine.
func TestTheExampleOnAnyConversation(t *testing.T) {
	t.Parallel()
	h := plugin.NewHost(buildExample(t), nopLogger())
	defer h.Close()
	made := 0
	check := func(t *rapid.T) {
		ms := enginetest.Legal().Draw(t, "conversation")
		p, err := newEngine(h, "s").Compress(t.Context(), agent.ContextView{Messages: ms})
		if errors.Is(err, agent.ErrCoolingDown) || err != nil && strings.Contains(err.Error(), "larger") {
			return
		}
		if err == nil {
			err = llm.ValidateMessages(p.Messages)
		}
		if err != nil {
			t.Fatal(err)
		}
		tail := ms[p.To:]
		if !equalLists(p.Messages[:p.From], ms[:p.From]) || !equalLists(p.Messages[len(p.Messages)-len(tail):], tail) || p.After >= p.Before {
			t.Fatalf("the pass has changed what it did not archive: %+v", p)
		}
		if p.Explanation == "" {
			made++
		}
	}
	for range 5 { // with few conversations in a round, few of them may be long enough for a pass
		if rapid.Check(t, check); made >= 10 || t.Failed() {
			break
		}
	}
	if made < 10 {
		t.Errorf("the program made %d passes only", made)
	}
}

func equalLists(a, b []llm.Message) bool {
	return len(a) == len(b) && (len(a) == 0 || reflect.DeepEqual(a, b))
}

// With a program that cannot start, the engine passes the suite of the built-in
// engine.
func TestSuiteBehindADeadProgram(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes six seconds")
	}
	t.Parallel()
	h := plugin.NewHost(plugin.Manifest{Name: "dead", Command: []string{"./not-there"}, Dir: t.TempDir()}, nopLogger())
	defer h.Close()
	enginetest.Suite(t, func(s enginetest.Setup) agent.Engine {
		return h.New(plugin.Options{Session: "s", Limits: s.Limits, State: s.State, Fallback: builtinFor(s)})
	})
}
