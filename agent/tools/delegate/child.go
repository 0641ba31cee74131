package delegate

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"time"

	"hermesd/agent"
	"hermesd/agent/llm"
	"hermesd/agent/prompt"
	"hermesd/agent/tool"
)

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
		CheckTool: c.CheckTool,
		// It cannot reach users except to request an approval.
		User: tool.UserChannel{Approve: c.User.Approve},
	}
	if m.Window != nil {
		k.turn.ContextWindow = m.Window()
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

// handle processes one event of the run.
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

// summary returns the result of the task for the parent.
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

// describeError describes an error of a run for the model.
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
	}
	var refused *agent.RefusedError
	if errors.As(err, &refused) {
		return "the model declined to do it"
	}
	return err.Error()
}
