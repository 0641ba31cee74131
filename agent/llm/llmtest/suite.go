package llmtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hermesd/agent/llm"
)

// A Subject is a provider under test.
type Subject struct {
	Provider llm.Provider
	Model    string
	// Script sets the next answers of the model; nil if the provider cannot be scripted,
	// which skips the tests that need it.
	Script func(...Answer)
}

// Suite tests the contract of llm.Provider. start returns a new subject and cleans up after
// it.
func Suite(t *testing.T, start func(t *testing.T) Subject) {
	free := map[string]func(*testing.T, Subject){
		"an answer ends in Done":           endsInDone,
		"a reader may stop at any event":   mayStop,
		"a cancelled call ends in a cause": returnsCause,
		"illegal requests are refused":     rejectsInvalidRequests,
		"calls may run side by side":       runsConcurrently,
		"the request stays as it was":      keepsRequest,
		"a long conversation is followed":  longConversation,
	}
	scripted := map[string]func(*testing.T, Subject){
		"text and usage arrive":                 textAndUsage,
		"tools are called and answered":         toolsAreCalled,
		"input that is no object is kept apart": keepsInvalidInput,
		"stop reasons are understood":           stopReasons,
		"failures have their class":             failures,
		"a stream that is cut is no answer":     rejectsBrokenStream,
		"a stalled stream can be cancelled":     cancelsStalledStream,
	}
	for name, test := range free {
		t.Run(name, func(t *testing.T) { test(t, start(t)) })
	}
	for name, test := range scripted {
		t.Run(name, func(t *testing.T) {
			s := start(t)
			if s.Script == nil {
				t.Skip("cannot be scripted")
			}
			test(t, s)
		})
	}
}

var todo = llm.Tool{Name: "todo", Description: "Keeps a list.", Schema: json.RawMessage(`{"type":"object","properties":{"text":{"type":"string"}}}`)}

func (s Subject) ask(ms ...llm.Message) *llm.Request {
	return &llm.Request{Model: s.Model, System: "You are a test.", Tools: []llm.Tool{todo}, Transcript: llm.NewTranscript(ms...)}
}

func (s Subject) run(ctx context.Context, r *llm.Request) Result {
	return Collect(s.Provider.Stream(ctx, r))
}

func (s Subject) complete(t *testing.T, r *llm.Request) Result {
	t.Helper()
	got := s.run(t.Context(), r)
	if got.Err != nil || got.Done == nil {
		t.Fatalf("no answer: %v, %+v", got.Err, got.Events)
	}
	return got
}

func endsInDone(t *testing.T, s Subject) {
	got := s.complete(t, s.ask(llm.UserText("hello [[x1]] #42")))
	d := got.Done
	if _, ok := got.Events[len(got.Events)-1].(llm.Done); !ok {
		t.Errorf("the last event is %T", got.Events[len(got.Events)-1])
	}
	if got.Text != d.Message.Text() || got.Text == "" {
		t.Errorf("streamed %q, the message says %q", got.Text, d.Message.Text())
	}
	if d.Message.Role != llm.Assistant || d.Stop != llm.EndTurn || d.Provider != s.Provider.Name() || d.Model == "" {
		t.Errorf("got %+v", d)
	}
	if d.Usage.Prompt() == 0 || d.Usage.Output == 0 {
		t.Errorf("usage %+v", d.Usage)
	}
	for _, want := range []string{"[[x1]]", "#42"} {
		if !strings.Contains(got.Text, want) {
			t.Errorf("%q does not hold %q", got.Text, want)
		}
	}
}

func mayStop(t *testing.T, s Subject) {
	whole := len(s.complete(t, s.ask(llm.UserText("hello there, tell me something"))).Events)
	for n := 1; n <= whole; n++ {
		seen := 0
		for _, err := range s.Provider.Stream(t.Context(), s.ask(llm.UserText("hello there, tell me something"))) {
			if err != nil {
				t.Fatal(err)
			}
			if seen++; seen == n {
				break
			}
		}
		if seen != n {
			t.Errorf("saw %d events, wanted to stop at %d", seen, n)
		}
	}
}

func returnsCause(t *testing.T, s Subject) {
	why := errors.New("the person said stop")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	if got := s.run(ctx, s.ask(llm.UserText("hello"))); !errors.Is(got.Err, why) || got.Done != nil {
		t.Errorf("before: got %v, want the cause", got.Err)
	}
	ctx, cancel = context.WithCancelCause(t.Context())
	defer cancel(nil)
	var last error
	for e, err := range s.Provider.Stream(ctx, s.ask(llm.UserText("hello there, tell me a rather long story"))) {
		last = err
		if _, ok := e.(llm.Done); ok {
			t.Error("done although it was cancelled at the first event")
		}
		cancel(why)
	}
	if !errors.Is(last, why) {
		t.Errorf("under way: got %v, want the cause", last)
	}
}

func rejectsInvalidRequests(t *testing.T, s Subject) {
	for name, r := range map[string]*llm.Request{
		"no transcript":       {Model: s.Model},
		"no messages":         s.ask(),
		"the assistant's end": s.ask(llm.UserText("a"), llm.AssistantText("b")),
	} {
		got := s.run(t.Context(), r)
		if e, ok := errors.AsType[*llm.Error](got.Err); !ok || e.Class != llm.Format || e.Provider != s.Provider.Name() {
			t.Errorf("%s: got %v", name, got.Err)
		}
	}
}

func runsConcurrently(t *testing.T, s Subject) {
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			token := fmt.Sprintf("[[side-%d]]", i)
			got := s.run(t.Context(), s.ask(llm.UserText("hello "+token)))
			if got.Err != nil || !strings.Contains(got.Text, token) {
				t.Errorf("call %d: %v, %q", i, got.Err, got.Text)
			}
		})
	}
	all.Wait()
}

func keepsRequest(t *testing.T, s Subject) {
	r := s.ask(llm.UserText("hello"))
	r.Prefill = []llm.Message{llm.UserText("an example"), llm.AssistantText("a reply")}
	r.Overlay = "<gateway-context>now</gateway-context>"
	r.CacheTTL = "5m"
	before := fmt.Sprintf("%+v %+v", *r, r.Transcript.Since(0))
	s.complete(t, r)
	if after := fmt.Sprintf("%+v %+v", *r, r.Transcript.Since(0)); after != before {
		t.Errorf("the request was\n%s\nand is\n%s", before, after)
	}
	if strings.Contains(fmt.Sprint(r.Transcript.Since(0)), "gateway-context") {
		t.Error("the overlay went into the transcript")
	}
}

func longConversation(t *testing.T, s Subject) {
	r := s.ask()
	for i := range 30 {
		token := fmt.Sprintf("[[turn-%d]]", i)
		r.Transcript.Append(llm.UserText("next " + token))
		r.Overlay = fmt.Sprintf("<gateway-context>call %d</gateway-context>", i)
		got := s.complete(t, r)
		if !strings.Contains(got.Text, token) || strings.Contains(got.Text, "gateway-context") {
			t.Fatalf("turn %d: %q", i, got.Text)
		}
		r.Transcript.Append(got.Done.Message)
	}
	if err := llm.ValidateMessages(r.Transcript.Since(0)); err != nil {
		t.Error(err)
	}
}

func textAndUsage(t *testing.T, s Subject) {
	u := llm.Usage{Input: 11, CacheRead: 700, Output: 9}
	s.Script(Answer{Thinking: "let me see", Text: "Grüße, 世界 \U0001F44B\n\"<b>\"", Usage: u})
	got := s.complete(t, s.ask(llm.UserText("hi")))
	if got.Text != "Grüße, 世界 \U0001F44B\n\"<b>\"" || got.Thinking != "let me see" || got.Done.Message.Text() != got.Text {
		t.Errorf("got %q thinking %q", got.Text, got.Thinking)
	}
	if d := cmp.Diff(u, got.Done.Usage); d != "" {
		t.Error(d)
	}
}

func toolsAreCalled(t *testing.T, s Subject) {
	odd := `{ "text" : "a<b>&\u00e9",` + "\n" + `"n":1.0, "z":[ ] }`
	s.Script(Answer{Text: "I will.", Calls: []Call{{Name: "todo", Input: odd}, {Name: "todo"}}}, Say("done [[t]]"))
	r := s.ask(llm.UserText("write it down"))
	got := s.complete(t, r)
	var started []string
	for _, e := range got.Events {
		if ts, ok := e.(llm.ToolStart); ok {
			started = append(started, ts.Name)
		}
	}
	calls := got.Done.Message.ToolUses()
	if len(calls) != 2 || got.Done.Stop != llm.CallTools || len(started) != 2 {
		t.Fatalf("got %d calls, %d started, stop %s", len(calls), len(started), got.Done.Stop)
	}
	if string(calls[0].Input) != odd || string(calls[1].Input) != "{}" || calls[0].ID == calls[1].ID {
		t.Errorf("got %s (%s) and %s (%s)", calls[0].Input, calls[0].ID, calls[1].Input, calls[1].ID)
	}
	r.Transcript.Append(got.Done.Message, llm.Message{Role: llm.User, Blocks: []llm.Block{
		{Type: llm.ToolResult, ID: calls[0].ID, Text: "noted"},
		{Type: llm.ToolResult, ID: calls[1].ID, Failed: true},
		{Type: llm.Text, Text: "and hurry"},
	}})
	r.Overlay = "<gateway-context>x</gateway-context>"
	if got := s.complete(t, r); got.Text != "done [[t]]" {
		t.Errorf("after the results: %q", got.Text)
	}
	if err := llm.ValidateMessages(r.Transcript.Since(0)); err != nil {
		t.Error(err)
	}
}

func keepsInvalidInput(t *testing.T, s Subject) {
	for _, in := range []string{`{"path": "/tm`, `[1]`, `"x"`} {
		s.Script(Use("todo", in), Say("sorry"))
		r := s.ask(llm.UserText("go"))
		got := s.complete(t, r)
		c := got.Done.Message.ToolUses()
		if len(c) != 1 || string(c[0].Input) != "{}" || c[0].Text != in {
			t.Fatalf("%s: got %+v", in, c)
		}
		r.Transcript.Append(got.Done.Message, llm.Message{Role: llm.User, Blocks: []llm.Block{
			{Type: llm.ToolResult, ID: c[0].ID, Text: "the input is no object", Failed: true},
		}})
		s.complete(t, r)
	}
}

func stopReasons(t *testing.T, s Subject) {
	for _, stop := range []llm.StopReason{llm.EndTurn, llm.Length, llm.Refusal} {
		s.Script(Answer{Text: "so far", Stop: stop})
		if got := s.complete(t, s.ask(llm.UserText("go"))); got.Done.Stop != stop {
			t.Errorf("got %s, want %s", got.Done.Stop, stop)
		}
	}
	s.Script(Answer{})
	if got := s.complete(t, s.ask(llm.UserText("go"))); len(got.Done.Message.Blocks) != 0 || got.Done.Stop != llm.EndTurn {
		t.Errorf("an empty answer: got %+v", got.Done)
	}
}

func failures(t *testing.T, s Subject) {
	for _, class := range []llm.Class{
		llm.Auth, llm.Billing, llm.RateLimit, llm.Overloaded, llm.Server, llm.ContextOverflow, llm.TooLarge, llm.NotFound, llm.PrefixCheck,
	} {
		s.Script(Fail(class))
		got := s.run(t.Context(), s.ask(llm.UserText("something private")))
		e, ok := errors.AsType[*llm.Error](got.Err)
		if !ok || e.Class != class || e.Provider != s.Provider.Name() || got.Done != nil {
			t.Errorf("%s: got %v", class, got.Err)
			continue
		}
		if strings.Contains(e.Error(), "private") || strings.Contains(e.Error(), "key-of-the-test") {
			t.Errorf("%q tells too much", e.Error())
		}
	}
}

func rejectsBrokenStream(t *testing.T, s Subject) {
	s.Script(Answer{Text: "this will not come to its end, whatever you do", Cut: true})
	got := s.run(t.Context(), s.ask(llm.UserText("go")))
	if e, ok := errors.AsType[*llm.Error](got.Err); got.Done != nil || got.Err != nil && (!ok || !e.Temporary()) {
		t.Errorf("got %v, %+v", got.Err, got.Done)
	}
}

func cancelsStalledStream(t *testing.T, s Subject) {
	s.Script(Answer{Text: "this stops somewhere in the middle of its text", Hold: make(chan struct{})})
	why := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	var last error
	for e, err := range s.Provider.Stream(ctx, s.ask(llm.UserText("go"))) {
		last = err
		if _, ok := e.(llm.TextDelta); ok {
			cancel(why)
		}
	}
	if !errors.Is(last, why) {
		t.Errorf("got %v, want the cause", last)
	}
	cancel(nil)
}
