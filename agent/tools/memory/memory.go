// Package memory implements the tool with which a model changes the memory stores. Limits,
// locking and the injection scan are in agent/memory.
package memory

import (
	"bytes"
	"context"
	"embed"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"hermesd/agent/llm"
	"hermesd/agent/memory"
	"hermesd/agent/tool"
)

// Name is the name of the tool.
const Name = "memory"

//go:embed memory.md memory.json
var texts embed.FS

// New returns the tool that changes those targets of the store s. A repeated call leaves the
// store in the same state. Refused is called for changes that were rejected for a reason that
// concerns the operator: the disk, the lock, a file that was edited outside, an injection.
func New(s *memory.Store, targets []memory.Target, refused func(memory.Target, memory.Result)) tool.Tool {
	c := changer{s, targets, refused}
	return tool.New(tool.Spec{
		Tool:   tool.Definition(texts, Name),
		Effect: tool.Idempotent,
	}, c.run)
}

type changer struct {
	store   *memory.Store
	targets []memory.Target
	refused func(memory.Target, memory.Result)
}

type input struct {
	Action     string      `json:"action"`
	Content    string      `json:"content"`
	OldText    string      `json:"old_text"`
	Target     string      `json:"target"`
	Operations []memory.Op `json:"operations"`
}

func (c changer) run(ctx context.Context, call tool.Call, in input) (string, error) {
	target, err := memory.ParseTarget(in.Target)
	switch {
	case err != nil:
		return encode(refusal("%v.", err))
	case !slices.Contains(c.targets, target):
		return encode(refusal("The store %s is switched off here. Do not try again.", target))
	}
	r := c.change(ctx, target, in)
	switch r.Reason {
	case memory.Failed, memory.Drift, memory.Injection:
		c.refused(target, r)
	}
	if r.Reason == memory.OverLimit && countFailures(call) >= maxFailures {
		r = refusal("Memory is full, and several attempts in this turn did not fit. Do not use memory again in this turn: answer the user, and say that the note was not saved.")
	}
	return encode(r)
}

func (c changer) change(ctx context.Context, t memory.Target, in input) memory.Result {
	if in.Operations != nil {
		if in.Action != "" {
			return memory.Result{Error: "Give either action or operations, not both."}
		}
		return c.store.Batch(ctx, t, in.Operations)
	}
	switch in.Action {
	case "add":
		return c.store.Add(ctx, t, in.Content)
	case "replace":
		return c.store.Replace(ctx, t, in.OldText, in.Content)
	case "remove":
		return c.store.Remove(ctx, t, in.OldText)
	}
	return memory.Result{Error: fmt.Sprintf("Unknown action %q. Use add, replace or remove.", in.Action)}
}

// refusal returns a final result: retrying cannot help.
func refusal(format string, args ...any) memory.Result {
	return memory.Result{Done: true, Error: fmt.Sprintf(format, args...)}
}

func encode(r memory.Result) (string, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(r); err != nil {
		return "", fmt.Errorf("write the answer: %w", err)
	}
	return strings.TrimSpace(b.String()), nil
}

// maxFailures is the number of changes per turn that may exceed the limit before the result
// is final.
const maxFailures = 3

// countFailures counts the calls of the turn that exceeded the limit, since the last one that
// succeeded. It reads the transcript, so the count survives a restart.
func countFailures(c tool.Call) int {
	n := 0
	if c.Transcript == nil {
		return n
	}
	for i := c.Transcript.Len() - 1; i > 0; i-- {
		m := c.Transcript.At(i)
		if m.Role != llm.User {
			continue
		}
		results := false
		for _, b := range slices.Backward(m.Blocks) {
			if b.Type != llm.ToolResult {
				continue
			}
			results = true
			if !isOwnCall(c.Transcript.At(i-1), b.ID) {
				continue
			}
			var r memory.Result
			switch err := json.Unmarshal([]byte(b.Text), &r); {
			case err == nil && r.Success:
				return n
			case err == nil && strings.Contains(r.Error, "would exceed the limit"):
				n++
			}
		}
		if !results {
			return n // the message that began the turn
		}
	}
	return n
}

func isOwnCall(m llm.Message, id string) bool {
	return slices.ContainsFunc(m.ToolUses(), func(b llm.Block) bool { return b.ID == id && b.Name == Name })
}
