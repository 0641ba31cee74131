package plugin_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"hermesd/agent/engine/plugin"
	"hermesd/agent/llm"
	"hermesd/agent/tool"
)

// toolHost runs this test binary as an engine with one tool, with preflights if
// preflight is true.
func toolHost(t *testing.T, timeout time.Duration, preflight bool, mode string) *plugin.Host {
	h := plugin.NewHost(plugin.Manifest{
		Name: "rogue", Timeout: timeout, Dir: t.TempDir(), Command: []string{os.Args[0], "be-an-engine", mode}, Preflight: preflight,
		Tools: []llm.Tool{{Name: "shelf", Description: "Looks.", Schema: json.RawMessage(`{"type":"object"}`)}},
	}, zap.NewNop())
	t.Cleanup(h.Close)
	return h
}

func TestAnEngineHasToolsOfItsOwn(t *testing.T) {
	t.Parallel()
	h := toolHost(t, 2*time.Minute, false, "good")
	e := newEngine(h, "s")
	if _, err := e.Compress(t.Context(), longView()); err != nil {
		t.Fatal(err)
	}
	states := map[string]json.RawMessage{"s": e.State(), "other": json.RawMessage(`{"engine":"lcm","own":{"not":"ours"}}`)}
	ts := h.Tools(func(_ context.Context, id string) (json.RawMessage, error) {
		if id == "broken" {
			return nil, errors.New("the disk is gone")
		}
		return states[id], nil
	})
	if set, err := tool.NewSet(ts...); err != nil || fmt.Sprint(set.Names()) != "[shelf]" || ts[0].Spec().Effect != tool.Pure {
		t.Fatalf("%v, %v", set.Names(), err)
	}
	for session, want := range map[string]string{
		"s": `shelf for s: {"row":3} after {"n":1}`, "other": `shelf for other: {"row":3} after null`, "new": `shelf for new: {"row":3} after null`,
		"broken": "the state of the context engine cannot be read: the disk is gone",
	} {
		got, err := ts[0].Run(t.Context(), tool.Call{Session: session, Input: json.RawMessage(`{"row":3}`)})
		if err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("got %s\nwant %s", got, want)
		}
	}
}

// callTool calls the tool of an engine with a timeout.
func callTool(t *testing.T, timeout time.Duration, mode string) (string, error) {
	t.Helper()
	h := toolHost(t, timeout, false, mode)
	if mode == "die" {
		h.Close()
	}
	return h.Tools(func(context.Context, string) (json.RawMessage, error) { return nil, nil })[0].Run(t.Context(), tool.Call{Session: "s", Input: json.RawMessage(`{}`)})
}

// hangingTool calls a tool that hangs. On a busy machine the engine takes longer to start.
func hangingTool(t *testing.T) (text string, err error) {
	t.Helper()
	for timeout := 300 * time.Millisecond; ; timeout *= 2 {
		if text, err = callTool(t, timeout, "hang"); err == nil || !strings.Contains(err.Error(), "start: ") {
			return text, err
		}
	}
}

func TestAToolOfAnEngineFailsInWords(t *testing.T) {
	t.Parallel()
	for mode, want := range map[string]string{
		"error": "the context engine rogue says: no such shelf", "hang": "the context engine rogue failed: it did not answer in time",
		"die": "the context engine rogue failed: ", "silent": "",
	} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			call := func() (string, error) { return callTool(t, 2*time.Minute, mode) }
			if mode == "hang" {
				call = func() (string, error) { return hangingTool(t) }
			}
			text, err := call()
			if mode == "silent" {
				if text != "(nothing)" || err != nil {
					t.Errorf("%q, %v", text, err)
				}
				return
			}
			if err == nil || !strings.HasPrefix(err.Error(), want) {
				t.Errorf("%q, %v", text, err)
			}
		})
	}
}

func TestAnEngineIsAskedBeforeATurnOnlyIfItWantsToBe(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		asks bool
		mode string
		want bool
	}{{true, "good", true}, {false, "good", false}, {true, "silent", false}, {true, "error", false}, {true, "hang", false}} {
		timeout := 2 * time.Minute
		if c.mode == "hang" {
			timeout = 2 * time.Second
		}
		h := toolHost(t, timeout, c.asks, c.mode)
		if got := newEngine(h, "s").Preflight(longView().Messages); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

func TestToolsOfAManifest(t *testing.T) {
	for text, missing := range map[string]string{
		"preflight: true\ntools:\n- name: shelf\n  description: Looks on the shelf.\n  schema: {type: object, properties: {row: {type: integer}}}\n- {name: list, description: Lists.}\n": "",
		"tools:\n- {name: Shelf, description: x}\n":                          `the name of the tool "Shelf" is not of a-z`,
		"tools:\n- {name: a, description: x}\n- {name: a, description: y}\n": "two tools are called a",
		"tools:\n- {name: a}\n":                                              "the tool a has no description",
		"tools:\n- {name: a, description: x, schema: {type: string}}\n":      "the schema of the tool a is not that of an object",
		"tools:\n" + strings.Repeat("- {name: a, description: x}\n", 17):     "there are 17 tools, more than 16",
		"tools: {a: b}\n": "plugin.yaml cannot be read",
	} {
		dir := filepath.Join(t.TempDir(), "mine")
		writeFile(t, filepath.Join(dir, "plugin.yaml"), "name: mine\ncommand: run\n"+text)
		m, err := plugin.Load(dir)
		switch {
		case missing != "" && (err == nil || !strings.Contains(err.Error(), missing)):
			t.Errorf("%s: %v", text, err)
		case missing == "" && (err != nil || !m.Preflight || len(m.Tools) != 2 || string(m.Tools[0].Schema) != `{"properties":{"row":{"type":"integer"}},"type":"object"}` || string(m.Tools[1].Schema) != `{"type":"object"}`):
			t.Errorf("%+v, %v", m, err)
		}
	}
}
