package llmtest_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"hermesd/agent/llm"
	"hermesd/agent/llm/llmtest"
)

func ask(text string) *llm.Request {
	return &llm.Request{Model: "m", Transcript: llm.NewTranscript(llm.UserText(text))}
}

func TestScriptedAnswersInOrder(t *testing.T) {
	s := llmtest.NewScripted(llmtest.Say("hello"), llmtest.Use("read", `{"p":1}`), llmtest.Use("read", `{"p":`), llmtest.Fail(llm.Overloaded))
	got := llmtest.Collect(s.Stream(t.Context(), ask("one")))
	if got.Err != nil || got.Text != "hello" || got.Done == nil || got.Done.Stop != llm.EndTurn {
		t.Errorf("first answer: %+v", got)
	}
	got = llmtest.Collect(s.Stream(t.Context(), ask("two")))
	want := []llm.Block{{Type: llm.ToolUse, ID: "call_1", Name: "read", Input: []byte(`{"p":1}`)}}
	if got.Done == nil || got.Done.Stop != llm.CallTools {
		t.Fatalf("second answer: %+v", got)
	}
	if d := cmp.Diff(want, got.Done.Message.Blocks); d != "" {
		t.Error(d)
	}
	got = llmtest.Collect(s.Stream(t.Context(), ask("three")))
	want = []llm.Block{{Type: llm.ToolUse, ID: "call_2", Name: "read", Input: []byte(`{}`), Text: `{"p":`}}
	if d := cmp.Diff(want, got.Done.Message.Blocks); d != "" {
		t.Error(d)
	}
	got = llmtest.Collect(s.Stream(t.Context(), ask("four")))
	if e, ok := errors.AsType[*llm.Error](got.Err); !ok || e.Class != llm.Overloaded || got.Done != nil {
		t.Errorf("fourth answer: %+v", got)
	}
	got = llmtest.Collect(s.Stream(t.Context(), ask("five")))
	if e, ok := errors.AsType[*llm.Error](got.Err); !ok || e.Temporary() {
		t.Errorf("beyond the script: %+v", got)
	}
	var asked []string
	for _, r := range s.Requests() {
		asked = append(asked, r.Newest())
	}
	if d := cmp.Diff([]string{"one", "two", "three", "four", "five"}, asked); d != "" {
		t.Error(d)
	}
}

func TestScriptedWaitsAndCancels(t *testing.T) {
	wait, started := make(chan struct{}), make(chan struct{})
	s := llmtest.NewScripted(llmtest.Answer{Text: "late", Wait: wait, Started: started}, llmtest.Answer{Text: "never", Wait: wait})
	res := make(chan llmtest.Result)
	go func() { res <- llmtest.Collect(s.Stream(t.Context(), ask("x"))) }()
	<-started
	if err := s.Await(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	wait <- struct{}{}
	if got := <-res; got.Text != "late" || got.Err != nil {
		t.Errorf("got %+v", got)
	}
	why := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	if got := llmtest.Collect(s.Stream(ctx, ask("y"))); !errors.Is(got.Err, why) {
		t.Errorf("got %+v, want the cause", got)
	}
	short, stop := context.WithTimeout(t.Context(), time.Millisecond)
	defer stop()
	if err := s.Await(short, 3); err == nil {
		t.Error("awaited a request that was never made")
	}
}
