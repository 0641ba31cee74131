package plugin_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"hermesd/agent"
	"hermesd/agent/engine/plugin"
	"hermesd/agent/llm"
)

func TestAGoodEngine(t *testing.T) {
	h := newHost(t, 2*time.Minute, "good")
	e := newEngine(h, "s")
	if e.Name() != "rogue" || e.ShouldCompress(999) || !e.ShouldCompress(1000) || e.Status().Threshold != 1000 {
		t.Errorf("the threshold is %+v", e.Status())
	}
	v := longView()
	p, err := e.Compress(t.Context(), v)
	if err != nil {
		t.Fatal(err)
	}
	want := []llm.Message{v.Messages[0], v.Messages[1], llm.UserText("in short"), llm.AssistantText("ok"), v.Messages[18], v.Messages[19]}
	if d := cmp.Diff(want, p.Messages); d != "" { // with the raw bytes of what stayed
		t.Error(d)
	}
	if p.From != 2 || p.To != 18 || p.After >= p.Before || p.Explanation != "" {
		t.Errorf("the pass is %+v", p)
	}
	if n, _ := h.Failures(); n != 0 {
		t.Errorf("%d failures", n)
	}
	again := h.New(plugin.Options{Session: "s", Fallback: builtin(agent.Limits{Window: 8000}), State: e.State()})
	if s := again.Status(); s.Passes != 1 || s.Archived != 16 || string(again.State()) != string(e.State()) || !strings.Contains(string(e.State()), `"own":{"n":1}`) {
		t.Errorf("after a restart: %+v, %s", s, again.State())
	}
}

// For any misbehavior of the program the compaction is made, the user is told
// why, and no process of the program remains.
func TestTheBuiltInEngineStepsIn(t *testing.T) {
	t.Parallel()
	for mode, want := range map[string]string{
		"hang":               "it did not answer in time",
		"mute":               "start: it did not answer in time",
		"version":            "start: it speaks version 2 of the protocol, not 1",
		"die":                "it ended; its last words: out of luck (exit status 3)",
		"flood":              "it wrote 101 lines that answer nothing",
		"endless line":       "it wrote a line of more than 8 MiB",
		"error":              "it says: my model is away (-32000)",
		`"nonsense"`:         "its answer to compress cannot be read",
		`{"from":2,"to":20}`: "its answer does not fit: it archives the newest message of the user",
		`{"from":2,"to":99}`: "it archives 2 to 99 of 20 messages",
		`{"from":-1,"to":4}`: "it archives -1 to 4 of 20 messages",
		`{"from":4,"to":4}`:  "it archives 4 to 4 of 20 messages",
		`{"from":3,"to":4}`:  "the new transcript is not legal",
		`{"from":2,"to":4,"replace":[{"role":"user","blocks":[{"type":"tool_result","id":"x","text":"y"}]},{"role":"assistant","blocks":[{"type":"text","text":"z"}]}]}`:                     "the new transcript is not legal",
		`{"from":2,"to":4,"replace":[{"role":"user","blocks":[{"type":"text","text":"` + strings.Repeat("long ", 5000) + `"}]},{"role":"assistant","blocks":[{"type":"text","text":"z"}]}]}`: "tokens would become",
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			timeout := 2 * time.Minute
			if mode == "hang" || mode == "mute" {
				timeout = 300 * time.Millisecond
			}
			h := newHost(t, timeout, mode)
			e, v := newEngine(h, "s"), longView()
			p, err := e.Compress(t.Context(), v)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.HasPrefix(p.Explanation, "The context engine rogue failed (") || !strings.Contains(p.Explanation, want) || !strings.Contains(p.Explanation, "; compressor stepped in for this pass.") {
				t.Errorf("people read: %s", p.Explanation)
			}
			if err := llm.ValidateMessages(p.Messages); err != nil || len(p.Messages) >= len(v.Messages) {
				t.Errorf("the pass is not one: %v", err)
			}
			if n, last := h.Failures(); n != 1 || !strings.Contains(last.Error(), want) || !strings.Contains(e.Status().Last, "1 failures of rogue") {
				t.Errorf("%d failures, the last %v; %+v", n, last, e.Status())
			}
		})
	}
}

// The built-in engine steps in when a request is above the limit and the program leaves
// too much, or does nothing.
func TestTheLimitIsKept(t *testing.T) {
	t.Parallel()
	for mode, want := range map[string]string{goodAnswer(strings.Repeat("long ", 500)): "tokens are left, and the limit is 1500", "rest": "too short"} {
		e, v := newEngine(newHost(t, 2*time.Minute, mode), "s"), longView()
		v.Limit, v.Force, v.WithoutModel = 1500, true, true
		p, err := e.Compress(t.Context(), v)
		if err != nil || p.After > 1500 || p.After == 0 || !strings.Contains(p.Explanation, want) {
			t.Errorf("%.20s: %d tokens are left, %q, %v", mode, p.After, p.Explanation, err)
		}
	}
}

func TestAMissingProgram(t *testing.T) {
	h := plugin.NewHost(plugin.Manifest{Name: "rogue", Command: []string{"./not-there"}, Timeout: time.Second, Dir: t.TempDir()}, nopLogger())
	defer h.Close()
	e := newEngine(h, "s")
	if !e.ShouldCompress(4000) || e.ShouldCompress(3999) {
		t.Error("the threshold is not that of the built-in engine")
	}
	p, err := e.Compress(t.Context(), longView())
	if err != nil || !strings.Contains(p.Explanation, "it failed before and is tried again later") {
		t.Errorf("got %q, %v", p.Explanation, err)
	}
}

func TestOneWithoutAThreshold(t *testing.T) {
	e := newEngine(newHost(t, 2*time.Minute, "no threshold"), "s")
	if !e.ShouldCompress(4000) || e.ShouldCompress(3999) {
		t.Error("the threshold is not that of the built-in engine")
	}
	if p, err := e.Compress(t.Context(), longView()); err != nil || p.Explanation != "" {
		t.Errorf("got %q, %v", p.Explanation, err)
	}
}

func TestSomeNoiseIsForgiven(t *testing.T) {
	h := newHost(t, 2*time.Minute, "garbage")
	p, err := newEngine(h, "s").Compress(t.Context(), longView())
	if n, _ := h.Failures(); err != nil || p.Explanation != "" || n != 0 {
		t.Errorf("got %q, %v, %d failures", p.Explanation, err, n)
	}
}

func TestAnswersInAnotherOrder(t *testing.T) {
	h := newHost(t, 2*time.Minute, "swap")
	var g sync.WaitGroup
	for _, id := range []string{"one", "two"} {
		g.Go(func() {
			p, err := newEngine(h, id).Compress(t.Context(), longView())
			if err != nil || len(p.Messages) < 3 || p.Messages[2].Text() != "for "+id {
				t.Errorf("%s: got %+v, %v", id, p.Explanation, err)
			}
		})
	}
	g.Wait()
}

func TestARestIsNoFailure(t *testing.T) {
	h := newHost(t, 2*time.Minute, "rest")
	_, err := newEngine(h, "s").Compress(t.Context(), longView())
	if n, _ := h.Failures(); !errors.Is(err, agent.ErrCoolingDown) || !strings.Contains(err.Error(), "too short") || n != 0 {
		t.Errorf("got %v, %d failures", err, n)
	}
}

func TestCallerMayCancel(t *testing.T) {
	t.Parallel()
	h := newHost(t, time.Minute, "hang")
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err := newEngine(h, "s").Compress(ctx, longView())
	if n, _ := h.Failures(); !errors.Is(err, context.DeadlineExceeded) || n != 0 {
		t.Errorf("got %v, %d failures", err, n)
	}
}

func TestAProgramIsStartedAgainAfterARest(t *testing.T) {
	h := newHost(t, 2*time.Minute, "die once", filepath.Join(t.TempDir(), "died"))
	e := newEngine(h, "s")
	for _, want := range []string{"it ended", "it failed before and is tried again later"} {
		p, err := e.Compress(t.Context(), longView())
		if err != nil || !strings.Contains(p.Explanation, want) {
			t.Errorf("got %q, %v; want %s", p.Explanation, err, want)
		}
	}
	h.Wake()
	p, err := e.Compress(t.Context(), longView())
	if n, _ := h.Failures(); err != nil || p.Explanation != "" || n != 1 {
		t.Errorf("got %q, %v, %d failures", p.Explanation, err, n)
	}
}

func TestTheProgramIsToldOfItsSession(t *testing.T) {
	file := filepath.Join(t.TempDir(), "told")
	h := newHost(t, 2*time.Minute, "log", file)
	e := newEngine(h, "s")
	e.Update(llm.Usage{Input: 1}) // not running: not delivered
	e.ShouldCompress(1)
	e.Update(llm.Usage{Input: 7})
	e.Reset()
	e.Limits(agent.Limits{Model: "n", Window: 100})
	e.End()
	if _, err := e.Compress(t.Context(), longView()); err != nil { // after them in the pipe
		t.Fatal(err)
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var methods []string
	for _, l := range strings.Split(strings.TrimSpace(string(raw)), "\n") {
		var m struct {
			Method string
			Params struct{ Session string }
		}
		if err := json.Unmarshal([]byte(l), &m); err != nil || m.Params.Session != "s" {
			t.Errorf("%s: %v", l, err)
		}
		methods = append(methods, m.Method)
	}
	if d := cmp.Diff([]string{"update", "reset", "end"}, methods); d != "" {
		t.Error(d)
	}
}

func TestSecretsAreNotInItsEnvironment(t *testing.T) {
	t.Setenv("ANTHROPIC_API_KEY", "canary")
	file := filepath.Join(t.TempDir(), "env")
	h := plugin.NewHost(plugin.Manifest{Name: "rogue", Command: []string{"sh", "-c", "env > " + file}, Timeout: 2 * time.Minute, Dir: t.TempDir()}, nopLogger())
	defer h.Close()
	if _, err := newEngine(h, "s").Compress(t.Context(), longView()); err != nil {
		t.Fatal(err)
	}
	if raw, err := os.ReadFile(file); err != nil || strings.Contains(string(raw), "canary") || !strings.Contains(string(raw), "PATH=") {
		t.Errorf("got %s, %v", raw, err)
	}
}

func TestAClosedHost(t *testing.T) {
	h := newHost(t, time.Second, "good")
	e := newEngine(h, "s")
	h.Close()
	p, err := e.Compress(t.Context(), longView())
	if err != nil || !strings.Contains(p.Explanation, "the engine was ended") {
		t.Errorf("got %q, %v", p.Explanation, err)
	}
}
