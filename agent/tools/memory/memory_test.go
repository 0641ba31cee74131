package memory_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"hermesd/agent/llm"
	store "hermesd/agent/memory"
	"hermesd/agent/tool"
	"hermesd/agent/tools/memory"
)

// A talk is a transcript in which the tool is used as by an agent.
type talk struct {
	t    *testing.T
	tool tool.Tool
	log  *llm.Transcript
	id   int
}

func newTalk(t *testing.T, o memory.Options) (*talk, *store.Store) {
	t.Helper()
	s := store.New(store.Config{Dir: filepath.Join(t.TempDir(), "memories"), NotesLimit: 100, UserLimit: 50})
	return &talk{t: t, tool: memory.New(s, o), log: llm.NewTranscript(llm.UserText("go"))}, s
}

// call makes one call in one answer of the model, and returns the result.
func (k *talk) call(in string) string {
	k.t.Helper()
	k.id++
	use := llm.Block{Type: llm.ToolUse, ID: fmt.Sprint("c", k.id), Name: memory.Name, Input: json.RawMessage(in)}
	k.log.Append(llm.Message{Role: llm.Assistant, Blocks: []llm.Block{use}})
	got, err := k.tool.Run(k.t.Context(), tool.Call{ID: use.ID, Input: use.Input, Session: "s1", Transcript: k.log})
	if err != nil {
		got = "Error: " + err.Error()
	}
	k.log.Append(llm.Message{Role: llm.User, Blocks: []llm.Block{{Type: llm.ToolResult, ID: use.ID, Text: got, Failed: err != nil}}})
	return got
}

func TestMemorySpec(t *testing.T) {
	k, _ := newTalk(t, memory.Options{})
	if _, err := tool.NewSet(k.tool); err != nil {
		t.Error(err)
	}
	s := k.tool.Spec()
	if s.Effect != tool.Idempotent || s.Parallel || !strings.Contains(s.Description, "above 80 % consolidate") {
		t.Errorf("%+v", s)
	}
	if strings.Contains(string(s.Schema), `"read"`) {
		t.Error("there is an action read")
	}
}

func TestMemoryActions(t *testing.T) {
	k, _ := newTalk(t, memory.Options{})
	for _, step := range []struct{ in, want string }{
		{`{"action":"add","content":"runs <Debian> 12"}`, `{"success":true,"message":"Entry added.","target":"memory","entries":["runs <Debian> 12"],"usage":"16% — 16/100 chars","entry_count":1}`},
		{`{"action":"add","target":"user","content":"likes tea"}`, `{"success":true,"message":"Entry added.","target":"user","entries":["likes tea"],"usage":"18% — 9/50 chars","entry_count":1}`},
		{`{"action":"add","target":"user","content":"likes tea"}`, `{"success":true,"message":"Entry already exists (no duplicate added).","target":"user","entries":["likes tea"],"usage":"18% — 9/50 chars","entry_count":1}`},
		{`{"action":"replace","target":"user","old_text":"tea","content":"likes mate"}`, `{"success":true,"message":"Entry replaced.","target":"user","entries":["likes mate"],"usage":"20% — 10/50 chars","entry_count":1}`},
		{`{"target":"memory","operations":[{"action":"remove","old_text":"Debian"},{"action":"add","content":"Arch"}]}`, `{"success":true,"message":"Applied 2 operations.","target":"memory","entries":["Arch"],"usage":"4% — 4/100 chars","entry_count":1}`},
		{`{"action":"remove","old_text":"nothing"}`, `{"success":false,"error":"No entry matched 'nothing'.","current_entries":["Arch"]}`},
		{`{"action":"read"}`, `{"success":false,"error":"Unknown action \"read\". Use add, replace or remove."}`},
		{`{"action":"add","operations":[]}`, `{"success":false,"error":"Give either action or operations, not both."}`},
		{`{"action":"add","target":"soul","content":"x"}`, `{"success":false,"done":true,"error":"there is no store \"soul\"; use memory or user."}`},
		{`{"action":["add"]}`, `Error: the argument "action" does not take a array`},
	} {
		if got := k.call(step.in); got != step.want {
			t.Errorf("%s\n got %s\nwant %s", step.in, got, step.want)
		}
	}
}

func TestMemoryFinalAfterThreeFailures(t *testing.T) {
	k, _ := newTalk(t, memory.Options{})
	long := `{"action":"add","content":"` + strings.Repeat("x", 101) + `"}`
	final := func(s string) bool {
		return strings.HasPrefix(s, `{"success":false,"done":true,"error":"Memory is full`)
	}
	for i := range 3 {
		if got := k.call(long); final(got) || !strings.Contains(got, "Adding this entry (101 chars) would exceed the limit") {
			t.Errorf("attempt %d: %s", i+1, got)
		}
	}
	for range 2 {
		if got := k.call(long); !final(got) {
			t.Errorf("got %s", got)
		}
	}
	if got := k.call(`{"action":"add","content":"short"}`); !strings.HasPrefix(got, `{"success":true`) {
		t.Errorf("what fits is taken: %s", got)
	}
	if got := k.call(long); final(got) {
		t.Errorf("a success begins again: %s", got)
	}
	k.call(long)
	k.call(long)
	k.log.Append(llm.Message{Role: llm.Assistant, Blocks: []llm.Block{{Type: llm.Text, Text: "done"}}}, llm.UserText("again"))
	if got := k.call(long); final(got) {
		t.Errorf("a turn begins again: %s", got)
	}
}

func TestMemoryDeniedStore(t *testing.T) {
	k, s := newTalk(t, memory.Options{Allow: func(_ context.Context, session string, target store.Target) error {
		if session == "s1" && target == store.User {
			return errors.New("several people speak here")
		}
		return nil
	}})
	want := `{"success":false,"done":true,"error":"The store user cannot be used in this conversation: several people speak here. Do not try again."}`
	if got := k.call(`{"action":"add","target":"user","content":"x"}`); got != want {
		t.Errorf("got %s", got)
	}
	if e, err := s.Entries(store.User); len(e) > 0 || err != nil {
		t.Errorf("it was written: %v %v", e, err)
	}
	if got := k.call(`{"action":"add","content":"x"}`); !strings.HasPrefix(got, `{"success":true`) {
		t.Errorf("got %s", got)
	}
}

func TestMemoryDisabledStore(t *testing.T) {
	o := memory.Options{Targets: []store.Target{store.User}}
	k, _ := newTalk(t, o)
	if got := k.call(`{"action":"add","content":"x"}`); got != `{"success":false,"done":true,"error":"The store memory is switched off here. Do not try again."}` {
		t.Errorf("got %s", got)
	}
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
