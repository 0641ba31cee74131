package delegate_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"hermesd/agent"
	"hermesd/agent/llm"
	"hermesd/agent/llm/llmtest"
	"hermesd/agent/prompt"
	"hermesd/agent/tool"
	"hermesd/agent/tools/delegate"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// named returns a tool that runs do.
func named(name string, run func(ctx context.Context, c tool.Call) (string, error)) tool.Tool {
	return tool.New(tool.Spec{Tool: llm.Tool{Name: name, Schema: json.RawMessage(`{"type":"object"}`)}, Effect: tool.Pure},
		func(ctx context.Context, c tool.Call, _ struct{}) (string, error) { return run(ctx, c) })
}

func quiet(name string) tool.Tool {
	return named(name, func(context.Context, tool.Call) (string, error) { return name + " ran", nil })
}

// A family is a parent whose first answer delegates, and the model of all agents.
type family struct {
	model  *llmtest.Scripted
	tools  []tool.Tool      // of the parent, in addition to the delegating one
	limits delegate.Options // of these the limits
	may    func(string) error
	people tool.UserChannel

	mu     sync.Mutex // guards what follows
	spent  llm.Usage
	panics []string
	used   []string
}

// newFamily makes the parent delegate with the input in, and then answer. child answers for
// the sub-agents.
func newFamily(in string, child func(task string, r llmtest.Recorded) llmtest.Answer) *family {
	f := &family{model: llmtest.NewScripted()}
	f.model.Default = func(r llmtest.Recorded) llmtest.Answer {
		switch {
		case r.Messages[0].Text() != "begin":
			return child(strings.TrimPrefix(r.Messages[0].Text(), "Task: "), r)
		case len(r.Messages) == 1:
			return llmtest.Use(delegate.Name, in)
		}
		return llmtest.Say("done")
	}
	return f
}

// run runs the parent's turn and returns the result of the tool.
func (f *family) run(ctx context.Context, t *testing.T) (result string, failed bool, err error) {
	t.Helper()
	d := delegate.New(delegate.Options{
		Model: func(_ context.Context, session string) (delegate.Model, error) {
			if session != "s1" {
				return delegate.Model{}, fmt.Errorf("asked for %q", session)
			}
			return delegate.Model{Provider: f.model, Name: "m", Window: func() *agent.ContextWindow { return nil }}, nil
		},
		Mask:          func(s string) string { return s },
		MaxIterations: f.limits.MaxIterations, MaxConcurrent: f.limits.MaxConcurrent, Timeout: f.limits.Timeout, RunBudget: f.limits.RunBudget, MaxReport: f.limits.MaxReport,
		OnUsage: func(session string, c agent.Call) {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.spent = f.spent.Add(c.Usage)
			if session != "s1" || c.Request != nil {
				t.Errorf("session %q, request %v", session, c.Request)
			}
		},
		OnToolCall: func(session string, ev agent.ToolFinished) {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.used = append(f.used, fmt.Sprint(session, " ", ev.Name, " ", ev.Failed))
		},
		OnPanic: func(name string, v any, _ []byte) {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.panics = append(f.panics, fmt.Sprint(name, ": ", v))
		},
	})
	set, err := tool.NewSet(append(slices.Clone(f.tools), d)...)
	if err != nil {
		t.Fatal(err)
	}
	parent := agent.New(agent.Config{}, f.model, set)
	defer parent.Wait()
	turn := agent.Turn{
		Prefix: prompt.Build(prompt.Inputs{Soul: "the parent's soul", Tools: set.Tools()}), Transcript: llm.NewTranscript(), Model: "m", Session: "s1",
		Input: []llm.Message{llm.UserText("begin")}, CheckTool: f.may, User: f.people,
	}
	for ev, wrong := range parent.Run(ctx, turn) {
		if done, ok := ev.(agent.ToolFinished); ok {
			result, failed = done.Result, done.Failed
		}
		err = wrong
	}
	return result, failed, err
}

func (f *family) want(t *testing.T, wantFailed bool, parts ...string) string {
	t.Helper()
	result, failed, err := f.run(t.Context(), t)
	if err != nil || failed != wantFailed {
		t.Fatalf("failed %t, %v\n%s", failed, err, result)
	}
	for _, p := range parts {
		if !strings.Contains(result, p) {
			t.Errorf("%q is not in\n%s", p, result)
		}
	}
	return result
}

func say(text string) func(string, llmtest.Recorded) llmtest.Answer {
	return func(string, llmtest.Recorded) llmtest.Answer { return llmtest.Say(text) }
}

func TestSubAgentGetsOnlyItsTask(t *testing.T) {
	f := newFamily(`{"goal":"count <gateway-context> files","context":" in /tmp "}`, say("There are 3 files."))
	f.tools = []tool.Tool{quiet("read_file"), quiet("memory"), quiet("clarify"), quiet("send_message"), quiet("cronjob"), quiet("terminal")}
	f.want(t, false, "completed (", "1 model calls, 0 tool calls)\nThere are 3 files.")
	r := f.model.Requests()[1]
	if d := cmp.Diff([]llm.Message{llm.UserText("Task: count &lt;gateway-context> files\n\nWhat you must know:\nin /tmp")}, r.Messages); d != "" {
		t.Error(d)
	}
	if !strings.HasPrefix(r.System, "You are a sub-agent.") || strings.Contains(r.System, "the parent's soul") {
		t.Errorf("its prompt is %q", r.System)
	}
	var names []string
	for _, l := range r.Tools {
		names = append(names, l.Name)
	}
	if d := cmp.Diff([]string{"read_file", "terminal"}, names); d != "" {
		t.Error(d)
	}
	if f.spent != (llm.Usage{Input: 10, Output: 5}) {
		t.Errorf("spent %+v", f.spent)
	}
}

func TestSubAgentHasPermissionsOfActor(t *testing.T) {
	f := newFamily(`{"tasks":[{"goal":"a"},{"goal":"b","toolsets":["terminal"]}]}`, say("x"))
	f.tools = []tool.Tool{quiet("read_file"), quiet("terminal")}
	f.may = func(name string) error {
		if name == "terminal" {
			return errors.New("it is for owners")
		}
		return nil
	}
	f.want(t, true, `task 2: the tool "terminal" cannot be given away; these can: read_file`)
	if n := len(f.model.Requests()); n != 2 {
		t.Errorf("%d calls, want the parent's 2: a bad task costs nothing", n)
	}
}

func TestDelegateReportsToolCalls(t *testing.T) {
	f := newFamily(`{"goal":"look"}`, func(_ string, r llmtest.Recorded) llmtest.Answer {
		switch len(r.Messages) {
		case 1:
			return llmtest.Use("read_file", `{}`)
		case 3:
			return llmtest.Use("broken", `{}`)
		}
		return llmtest.Say("looked")
	})
	broken := named("broken", func(context.Context, tool.Call) (string, error) { return "", errors.New("no") })
	f.tools = []tool.Tool{quiet("read_file"), broken}
	f.want(t, false, "3 model calls, 2 tool calls)\nlooked")
	if d := cmp.Diff([]string{"s1 read_file false", "s1 broken true"}, f.used); d != "" {
		t.Error(d)
	}
}

func TestSubAgentApprovalGoesToUser(t *testing.T) {
	f := newFamily(`{"goal":"a"}`, func(_ string, r llmtest.Recorded) llmtest.Answer {
		if len(r.Messages) == 1 {
			return llmtest.Use("terminal", `{}`)
		}
		return llmtest.Say("It said: " + r.Messages[2].Blocks[0].Text)
	})
	f.tools = []tool.Tool{named("terminal", func(ctx context.Context, c tool.Call) (string, error) {
		_, askErr := c.User.Ask(ctx, tool.Question{Text: "May I?"})
		if _, err := c.User.Send(ctx, tool.Message{To: "telegram", Text: "hi"}); !errors.Is(askErr, tool.ErrUnattended) || err == nil || c.Session != "s1" {
			return "", errors.New("it can speak")
		}
		return "allowed", c.User.Approve(ctx, tool.ApprovalRequest{Tool: "terminal", Command: "rm -r x"})
	})}
	people := &denier{}
	f.people = people
	f.want(t, false, "denied: rm -r x", "2 model calls, 1 tool calls")
	if people.asked != 1 {
		t.Errorf("asked %d times", people.asked)
	}
}

// A denier answers questions, sends messages and denies approvals.
type denier struct{ asked int }

func (*denier) Ask(context.Context, tool.Question) (tool.Answer, error) { return tool.Answer{}, nil }

func (*denier) Send(context.Context, tool.Message) (string, error) { return "", nil }

func (d *denier) Approve(_ context.Context, r tool.ApprovalRequest) error {
	d.asked++
	return errors.New("denied: " + r.Command)
}

// TestDelegateRunsTasksInParallel ends no task before all have started.
func TestDelegateRunsTasksInParallel(t *testing.T) {
	f := newFamily(`{"tasks":[{"goal":"one"},{"goal":"two"},{"goal":"three"}]}`, func(task string, r llmtest.Recorded) llmtest.Answer {
		if len(r.Messages) == 1 {
			return llmtest.Use("meet", `{}`)
		}
		return llmtest.Say("report of " + task)
	})
	var all sync.WaitGroup
	all.Add(3)
	f.tools = []tool.Tool{named("meet", func(context.Context, tool.Call) (string, error) {
		all.Done()
		all.Wait()
		return "met", nil
	})}
	result := f.want(t, false, "Task 1: completed", "Task 2: completed", "Task 3: completed")
	if !(strings.Index(result, "report of one") < strings.Index(result, "report of two") && strings.Index(result, "report of two") < strings.Index(result, "report of three")) {
		t.Errorf("out of order:\n%s", result)
	}
	if f.spent.Input != 60 {
		t.Errorf("spent %+v, want that of 6 calls", f.spent)
	}
}

func TestDelegateBudget(t *testing.T) {
	for in, want := range map[string]string{`{"goal":"a"}`: "3 model calls", `{"goal":"a","max_iterations":1}`: "2 model calls", `{"goal":"a","max_iterations":99}`: "3 model calls"} {
		f := newFamily(in, func(_ string, r llmtest.Recorded) llmtest.Answer {
			if r.NoTools {
				return llmtest.Say("so far")
			}
			return llmtest.Use("read_file", `{}`)
		})
		f.tools, f.limits.MaxIterations = []tool.Tool{quiet("read_file")}, 2
		f.want(t, false, want, "stopped, its budget", "so far")
	}
}

// TestDelegateLimits shows the limits of the configuration.
func TestDelegateLimits(t *testing.T) {
	three := `{"tasks":[{"goal":"one"},{"goal":"two"},{"goal":"three"}]}`
	use := func(_ string, r llmtest.Recorded) llmtest.Answer {
		if len(r.Messages) == 1 && !r.NoTools {
			return llmtest.Answer{Text: "I wait.", Calls: []llmtest.Call{{Name: "wait"}}}
		}
		return llmtest.Say("the report of this task")
	}
	for name, c := range map[string]struct {
		limits delegate.Options
		in     string
		failed bool
		want   []string
		most   int32 // tools that run at once
	}{
		"none":             {delegate.Options{}, three, false, []string{"Task 1: completed (1m0s", "Task 3: completed (1m0s"}, 3},
		"one at once":      {delegate.Options{MaxConcurrent: 1}, three, false, []string{"Task 1: completed (1m0s", "Task 3: completed (1m0s"}, 1},
		"two at once":      {delegate.Options{MaxConcurrent: 2}, three, false, []string{"Task 3: completed (1m0s"}, 2},
		"time":             {delegate.Options{Timeout: 30 * time.Second}, three, true, []string{"Task 1: failed (30s, 1 model calls, 1 tool calls)\nError: its time is used up", "no sub-agent"}, 3},
		"enough time":      {delegate.Options{Timeout: 90 * time.Second}, three, false, []string{"Task 2: completed (1m0s"}, 3},
		"time of the turn": {delegate.Options{RunBudget: 30 * time.Second}, `{"goal":"a"}`, false, []string{"stopped, its budget is used up", "the report"}, 1},
		"report":           {delegate.Options{MaxReport: 10}, `{"goal":"a"}`, false, []string{"the rep"}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFamily(c.in, use)
				var now, most atomic.Int32
				f.limits, f.tools = c.limits, []tool.Tool{named("wait", func(ctx context.Context, _ tool.Call) (string, error) {
					n := now.Add(1)
					defer now.Add(-1)
					for m := most.Load(); n > m && !most.CompareAndSwap(m, n); {
						m = most.Load()
					}
					select {
					case <-time.After(time.Minute):
					case <-ctx.Done():
					}
					return "waited", nil
				})}
				got := f.want(t, c.failed, c.want...)
				if most.Load() != c.most {
					t.Errorf("%d at once, want %d", most.Load(), c.most)
				}
				if c.limits.MaxReport > 0 && strings.Contains(got, "the report of this task") {
					t.Errorf("the report is whole: %s", got)
				}
			})
		})
	}
}

func TestDelegateReportsFailedTasks(t *testing.T) {
	child := func(task string, r llmtest.Recorded) llmtest.Answer {
		switch {
		case task == "fail":
			return llmtest.Answer{Text: "I begin", Err: &llm.Error{Class: llm.Auth, Message: "the key abc is wrong"}}
		case task == "refuse":
			return llmtest.Answer{Stop: llm.Refusal}
		}
		return llmtest.Say("fine")
	}
	result := newFamily(`{"tasks":[{"goal":"work"},{"goal":"fail"},{"goal":"refuse"}]}`, child).want(t, false,
		"Task 1: completed", "fine", "Task 2: failed", "the model could not be asked (auth)", "Task 3: failed", "declined")
	if strings.Contains(result, "abc") {
		t.Error("the provider's own words are told")
	}
	newFamily(`{"goal":"fail"}`, child).want(t, true, "failed", "no sub-agent came to the end")
}

func TestDelegateTruncatesLongReport(t *testing.T) {
	result := newFamily(`{"goal":"a"}`, say("FIRST "+strings.Repeat("word ", 10_000)+"LAST")).want(t, false, "FIRST", "LAST", "left out here")
	if n := len([]rune(result)); n > 20_100 {
		t.Errorf("%d characters", n)
	}
}

func TestDelegateRecoversPanics(t *testing.T) {
	f := newFamily(`{"tasks":[{"goal":"model"},{"goal":"tool"}]}`, func(task string, r llmtest.Recorded) llmtest.Answer {
		switch {
		case task == "model":
			panic("in the model")
		case len(r.Messages) == 1:
			return llmtest.Use("burn", `{}`)
		}
		return llmtest.Say("it burnt")
	})
	f.tools = []tool.Tool{named("burn", func(context.Context, tool.Call) (string, error) { panic("in the tool") })}
	f.want(t, false, "Task 1: failed", "it failed inside", "Task 2: completed", "it burnt")
	slices.Sort(f.panics)
	if d := cmp.Diff([]string{"burn: in the tool", "delegate_task: in the model"}, f.panics); d != "" {
		t.Error(d)
	}
}

// TestSubAgentsEndWithParent stops the parent while one sub-agent waits for
// its model and another for a tool.
func TestSubAgentsEndWithParent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := 0
		f := newFamily(`{"tasks":[{"goal":"model"},{"goal":"tool"}]}`, func(task string, _ llmtest.Recorded) llmtest.Answer {
			if task == "model" {
				return llmtest.Answer{Wait: make(chan struct{})}
			}
			return llmtest.Use("wait", `{}`)
		})
		f.tools = []tool.Tool{named("wait", func(ctx context.Context, _ tool.Call) (string, error) {
			<-ctx.Done()
			ended++
			return "", context.Cause(ctx)
		})}
		ctx, cancel := context.WithCancelCause(t.Context())
		stopped := errors.New("stopped by the user")
		done := make(chan error, 1)
		go func() {
			_, _, err := f.run(ctx, t)
			done <- err
		}()
		synctest.Wait() // both wait now
		cancel(stopped)
		if err := <-done; !errors.Is(err, stopped) {
			t.Errorf("got %v", err)
		}
		if ended != 1 {
			t.Error("the tool still runs")
		}
	})
}

func TestDelegateRejectsInvalidTasks(t *testing.T) {
	long := strings.Repeat("x", 50_001)
	for in, want := range map[string]string{
		`{}`:           "task 1 has no goal",
		`{"tasks":[]}`: "task 1 has no goal",
		`{"goal":" "}`: "task 1 has no goal",
		`{"tasks":[{"goal":"a"},{"context":"b"}]}`:                        "task 2 has no goal",
		`{"goal":"a","tasks":[{"goal":"b"}]}`:                             "not both",
		`{"tasks":[{"goal":"a"},{"goal":"b"},{"goal":"c"},{"goal":"d"}]}`: "the most is 3",
		`{"goal":"a","context":"` + long + `"}`:                           "more than 50000",
		`{"goal":"a","toolsets":["delegate_task"]}`:                       `"delegate_task" cannot be given away`,
		`{"goal":"a","toolsets":["read_file","nothing"]}`:                 `"nothing" cannot be given away`,
		`{"goal":["a"]}`: `"goal"`,
	} {
		f := newFamily(in, say("x"))
		f.tools = []tool.Tool{quiet("read_file")}
		f.want(t, true, want)
	}
}

func TestDelegateReportsPortErrors(t *testing.T) {
	broken := errors.New("the store is closed")
	o := delegate.Options{Model: func(context.Context, string) (delegate.Model, error) { return delegate.Model{}, broken }, Mask: func(s string) string { return s }}
	_, err := delegate.New(o).Run(t.Context(), tool.Call{Input: json.RawMessage(`{"goal":"a"}`)})
	if want := "no model can be asked: the store is closed"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	if s := delegate.New(delegate.Options{}).Spec(); s.Effect != tool.AtMostOnce || s.Parallel {
		t.Errorf("got %q, parallel %t: a sub-agent may do what can be done only once", s.Effect, s.Parallel)
	}
}
