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

// A child is one sub-agent and what came of it. run fills the fields below it.
type child struct {
	o     Options
	agent *agent.Agent
	turn  agent.Turn

	text  string // its report
	said  string // what it said last, where there is no report
	over  bool   // its budget was used up
	calls int
	tools int
	took  time.Duration
	err   error
}

func newChild(o Options, c tool.Call, m Model, set tool.Set, t task) *child {
	k := &child{o: o}
	k.agent = agent.New(agent.Config{MaxTurns: o.MaxIterations}, m.Provider, set, agent.OnPanic(o.OnPanic))
	k.turn = agent.Turn{
		// No context files, no memories, no persona: it knows its task and nothing else.
		Prefix: prompt.Build(prompt.Inputs{Soul: strings.TrimSpace(childPrompt), Tools: set.Tools(), Model: m.Name}),
		Model:  m.Name, Effort: m.Effort, CacheTTL: m.CacheTTL, MaxTokens: m.MaxTokens,
		Transcript: llm.NewTranscript(), Session: c.Session, Input: []llm.Message{llm.UserText(t.text())},
		CheckTool: c.CheckTool,
		// It cannot ask or tell people anything; what is dangerous they must allow.
		User: tool.UserChannel{Approve: c.User.Approve},
	}
	if m.Window != nil {
		k.turn.ContextWindow = m.Window()
	}
	return k
}

// text is what the sub-agent reads.
func (t task) text() string {
	text := "Task: " + strings.TrimSpace(t.Goal)
	if c := strings.TrimSpace(t.Context); c != "" {
		text += "\n\nWhat you must know:\n" + c
	}
	return prompt.EscapeTags(text)
}

// run runs the sub-agent to its end, and returns when nothing of it runs any
// more. It is the wall at which its panic ends.
func (k *child) run(ctx context.Context) {
	began := time.Now()
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
		k.take(ev)
	}
}

// take takes up what happens.
func (k *child) take(ev agent.Event) {
	switch ev := ev.(type) {
	case agent.Call:
		k.calls++
		ev.Request = nil // its prefix is not the session's
		k.o.OnUsage(k.turn.Session, ev)
	case agent.Text:
		k.said += string(ev)
	case agent.Retracted:
		k.said = ""
	case agent.ToolCall:
		k.tools++
		k.said = ""
	case agent.ToolFinished:
		k.o.OnToolCall(k.turn.Session, ev)
	case agent.Final:
		k.text, k.over = ev.Text, ev.OverBudget
	}
}

// account tells the parent what came of the task.
func (k *child) account() string {
	status := "completed"
	switch {
	case k.err != nil:
		status = "failed"
	case k.over:
		status = "stopped, its budget of model calls is used up"
	}
	head := fmt.Sprintf("%s (%s, %d model calls, %d tool calls)", status, k.took.Round(100*time.Millisecond), k.calls, k.tools)
	text := k.text
	if k.err != nil {
		text = "Error: " + plain(k.err)
		if said := strings.TrimSpace(k.said); said != "" {
			text += "\nIt had said: " + said
		}
	}
	return head + "\n" + tool.Truncate(text, maxReport)
}

// plain says an error of a run in words for a model.
func plain(err error) string {
	var le *llm.Error
	switch {
	case errors.As(err, &le):
		return fmt.Sprintf("the model could not be asked (%s)", le.Class)
	case errors.Is(err, agent.ErrEmpty):
		return "the model answered with nothing"
	case errors.Is(err, agent.ErrBudget):
		return "its budget of model calls is used up"
	case errors.Is(err, agent.ErrInvalidCalls):
		return "it kept calling tools in a way that cannot be run"
	}
	var refused *agent.RefusedError
	if errors.As(err, &refused) {
		return "the model declined to do it"
	}
	return err.Error()
}
