// Package delegate implements the tool with which a model delegates tasks to sub-agents.
//
// A sub-agent is a run of an agent.Agent with an empty transcript, its own prompt and
// budget, and those tools of its parent that can be delegated. It has the permissions of
// the actor of the parent's turn, and its approval requests go to the same user. It ends
// with its parent; the call returns when all sub-agents have ended.
//
//	call ─► task 1 ─► agent.Run ─► report ─┐
//	     ─► task 2 ─► agent.Run ─► report ─┼─► one result
//	     ─► task 3 ─► agent.Run ─► error  ─┘
//
// Nothing of a sub-agent is recorded, and it may have effects that must not be repeated:
// after a crash the call does not run again, and the model is told that its outcome is
// unknown.
package delegate

import (
	"cmp"
	"context"
	"embed"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"hermesd/agent"
	"hermesd/agent/llm"
	"hermesd/agent/prompt"
	"hermesd/agent/tool"
)

// Name is the name of the tool.
const Name = "delegate_task"

//go:embed delegate_task.md delegate_task.json
var texts embed.FS

//go:embed child.md
var childPrompt string

const (
	maxTasks             = 3
	maxText              = 50_000 // characters of a goal and its context
	maxReport            = 20_000 // characters of one report
	defaultMaxIterations = 50     // model calls of one sub-agent
)

// excludedTools returns the tools that sub-agents never get: those that reach people, those
// with effects that outlive the task, and this one.
func excludedTools() []string {
	return append([]string{Name, "clarify", "send_message", "cronjob"}, tool.Toolsets()["memory"]...)
}

// A Model is the model that the sub-agents of a session use.
type Model struct {
	Provider  llm.Provider
	Name      string
	Effort    string
	CacheTTL  string
	MaxTokens int
	// Window returns a new context window for one sub-agent, which keeps its context within
	// the limit of the model; nil if compression is off.
	Window func() *agent.ContextWindow
}

// Options are the dependencies of the tool. All functions are set.
type Options struct {
	// Model returns the model of the session.
	Model func(ctx context.Context, session string) (Model, error)
	// OnUsage is called for each model call of a sub-agent, so that it is accounted to the
	// session. It is called from several goroutines, and before the tool call returns. The
	// Request of the call is nil.
	OnUsage func(session string, c agent.Call)
	// OnToolCall is called after each tool call of a sub-agent, under the same conditions
	// as OnUsage.
	OnToolCall func(session string, ev agent.ToolFinished)
	// Mask hides secrets in what the model of a sub-agent reads.
	Mask func(string) string
	// MaxIterations limits the model calls of one sub-agent; 0: 50.
	MaxIterations int
	// MaxConcurrent limits the sub-agents of one call that run at once; 0: 3.
	MaxConcurrent int
	// Timeout limits the time of one sub-agent, which is then stopped; 0: no limit.
	Timeout time.Duration
	// RunBudget is agent.Config.RunBudget of the sub-agents.
	RunBudget time.Duration
	// MaxReport limits the characters of one report; 0, or more than 20,000: 20,000.
	MaxReport int
	// OnPanic is called for a panic of a sub-agent or one of its tools, as with
	// agent.OnPanic.
	OnPanic func(name string, value any, stack []byte)
}

// New returns the tool.
func New(o Options) tool.Tool {
	o.MaxIterations = cmp.Or(max(o.MaxIterations, 0), defaultMaxIterations)
	o.MaxConcurrent = cmp.Or(max(o.MaxConcurrent, 0), maxTasks)
	o.MaxReport = min(cmp.Or(max(o.MaxReport, 0), maxReport), maxReport)
	return tool.New(tool.Spec{
		Tool:   tool.Definition(texts, Name),
		Effect: tool.AtMostOnce,
	}, delegation{o}.run)
}

type delegation struct{ o Options }

type input struct {
	Goal          string   `json:"goal"`
	Context       string   `json:"context"`
	Toolsets      []string `json:"toolsets"`
	Tasks         []task   `json:"tasks"`
	MaxIterations int      `json:"max_iterations"`
}

type task struct {
	Goal     string   `json:"goal"`
	Context  string   `json:"context"`
	Toolsets []string `json:"toolsets"`
}

func (d delegation) run(ctx context.Context, c tool.Call, in input) (string, error) {
	tasks, err := in.taskList()
	if err != nil {
		return "", err
	}
	o := d.o
	if in.MaxIterations > 0 {
		o.MaxIterations = min(o.MaxIterations, in.MaxIterations)
	}
	available := delegableTools(c)
	model, err := d.o.Model(ctx, c.Session)
	if err != nil {
		return "", fmt.Errorf("no model can be asked: %w", err)
	}
	children := make([]*child, len(tasks))
	for i, t := range tasks { // all are created before one starts: an invalid task costs nothing
		set, err := selectTools(available, t.Toolsets)
		if err != nil {
			return "", fmt.Errorf("task %d: %w", i+1, err)
		}
		children[i] = newChild(o, c, model, set, t)
	}
	var wg sync.WaitGroup                         // children; all end before the call returns
	slots := make(chan struct{}, o.MaxConcurrent) // one token for each child that runs
	for _, k := range children {
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			k.run(ctx)
		})
	}
	wg.Wait()
	if ctx.Err() != nil {
		return "", fmt.Errorf("the sub-agents were stopped: %w", context.Cause(ctx))
	}
	return report(children)
}

// taskList returns the tasks of a call, or an error if they are invalid.
func (in input) taskList() ([]task, error) {
	tasks := in.Tasks
	switch {
	case len(tasks) == 0:
		tasks = []task{{in.Goal, in.Context, in.Toolsets}}
	case strings.TrimSpace(in.Goal) != "":
		return nil, errors.New("give either a goal or tasks, not both")
	case len(tasks) > maxTasks:
		return nil, fmt.Errorf("there are %d tasks; the most is %d", len(tasks), maxTasks)
	}
	for i, t := range tasks {
		switch {
		case strings.TrimSpace(t.Goal) == "":
			return nil, fmt.Errorf("task %d has no goal", i+1)
		case utf8.RuneCountInString(t.Goal)+utf8.RuneCountInString(t.Context) > maxText:
			return nil, fmt.Errorf("task %d has more than %d characters; write the context to a file and name it", i+1, maxText)
		}
	}
	return tasks, nil
}

// delegableTools returns the tools of the turn that can be delegated.
func delegableTools(c tool.Call) tool.Set {
	excluded := excludedTools()
	return c.Tools.Filter(func(name string) bool {
		return !slices.Contains(excluded, name) && (c.CheckTool == nil || c.CheckTool(name) == nil)
	})
}

// selectTools returns the tools of available that names selects; all if names is empty.
func selectTools(available tool.Set, names []string) (tool.Set, error) {
	have := available.Names()
	for _, n := range names {
		if !slices.Contains(have, n) {
			return tool.Set{}, fmt.Errorf("the tool %q cannot be given away; these can: %s", n, strings.Join(have, ", "))
		}
	}
	return available.Filter(func(name string) bool { return len(names) == 0 || slices.Contains(names, name) }), nil
}

// report combines the results of the tasks into one text. It returns an error if none of
// them was completed.
func report(children []*child) (string, error) {
	var b strings.Builder
	failed := 0
	for i, k := range children {
		if i > 0 {
			b.WriteString("\n\n")
		}
		if len(children) > 1 {
			fmt.Fprintf(&b, "Task %d: ", i+1)
		}
		b.WriteString(k.summary())
		if k.err != nil {
			failed++
		}
	}
	if failed == len(children) {
		return b.String(), errors.New("no sub-agent came to the end of its task")
	}
	return b.String(), nil
}

// A child is one sub-agent and its result. run sets the result fields.
type child struct {
	o     Options
	agent *agent.Agent
	turn  agent.Turn

	text       string // its final report
	lastText   string // its last text, if there is no report
	overBudget bool   // its budget is used up
	calls      int
	tools      int
	took       time.Duration
	err        error
}

// approvals is the channel of a sub-agent: it cannot reach users except to request an approval.
type approvals struct {
	tool.Unattended
	people tool.UserChannel
}

// Approve implements tool.UserChannel.
func (a approvals) Approve(ctx context.Context, r tool.ApprovalRequest) error {
	return a.people.Approve(ctx, r) //nolint:wrapcheck // the text is for the model
}

// errTimeout is the cause of the end of a sub-agent that took too long.
var errTimeout = errors.New("its time is used up")

func newChild(o Options, c tool.Call, m Model, set tool.Set, t task) *child {
	k := &child{o: o}
	k.agent = agent.New(agent.Config{MaxTurns: o.MaxIterations, RunBudget: o.RunBudget}, m.Provider, set, agent.OnPanic(o.OnPanic), agent.MaskSecrets(o.Mask))
	k.turn = agent.Turn{
		// No context files, no memories, no persona: it gets its task and nothing else.
		Prefix: prompt.Build(prompt.Inputs{Soul: strings.TrimSpace(childPrompt), Tools: set.Tools(), Model: m.Name}),
		Model:  m.Name, Effort: m.Effort, CacheTTL: m.CacheTTL, MaxTokens: m.MaxTokens,
		Transcript: llm.NewTranscript(), Session: c.Session, Input: []llm.Message{k.agent.MaskMessage(llm.UserText(t.text()))},
		ContextWindow: m.Window(), CheckTool: c.CheckTool,
		User: approvals{people: c.User},
	}
	return k
}

// text returns the message that the sub-agent gets.
func (t task) text() string {
	text := "Task: " + strings.TrimSpace(t.Goal)
	if c := strings.TrimSpace(t.Context); c != "" {
		text += "\n\nWhat you must know:\n" + c
	}
	return prompt.EscapeTags(text)
}

// run runs the sub-agent to its end, and returns when nothing of it is running. It recovers
// panics of the sub-agent.
func (k *child) run(ctx context.Context) {
	began := time.Now()
	if k.o.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, k.o.Timeout, errTimeout)
		defer cancel()
	}
	defer k.agent.Wait()
	defer func() {
		if v := recover(); v != nil {
			k.o.OnPanic(Name, v, debug.Stack())
			k.err = errors.New("it failed inside; it may have done part of its work")
		}
		k.took = time.Since(began)
	}()
	for ev, err := range k.agent.Run(ctx, k.turn) {
		if err != nil {
			k.err = err
			return
		}
		k.handle(ev)
	}
}

func (k *child) handle(ev agent.Event) {
	switch ev := ev.(type) {
	case agent.Call:
		k.calls++
		ev.Request = nil // its prefix is not the session's
		k.o.OnUsage(k.turn.Session, ev)
	case agent.Text:
		k.lastText += string(ev)
	case agent.Retracted:
		k.lastText = ""
	case agent.ToolCall:
		k.tools++
		k.lastText = ""
	case agent.ToolFinished:
		k.o.OnToolCall(k.turn.Session, ev)
	case agent.Final:
		k.text, k.overBudget = ev.Text, ev.OverBudget
	}
}

func (k *child) summary() string {
	status := "completed"
	switch {
	case k.err != nil:
		status = "failed"
	case k.overBudget:
		status = "stopped, its budget is used up"
	}
	head := fmt.Sprintf("%s (%s, %d model calls, %d tool calls)", status, k.took.Round(100*time.Millisecond), k.calls, k.tools)
	text := k.text
	if k.err != nil {
		text = "Error: " + describeError(k.err)
		if said := strings.TrimSpace(k.lastText); said != "" {
			text += "\nIt had said: " + said
		}
	}
	return head + "\n" + tool.Truncate(text, k.o.MaxReport)
}

func describeError(err error) string {
	var le *llm.Error
	switch {
	case errors.As(err, &le):
		return fmt.Sprintf("the model could not be asked (%s)", le.Class)
	case errors.Is(err, agent.ErrEmpty):
		return "the model answered with nothing"
	case errors.Is(err, agent.ErrBudget):
		return "its budget is used up"
	case errors.Is(err, errTimeout):
		return errTimeout.Error()
	case errors.Is(err, agent.ErrInvalidCalls):
		return "it kept calling tools in a way that cannot be run"
	case errors.As(err, new(*agent.RefusedError)):
		return "the model declined to do it"
	}
	return err.Error()
}
