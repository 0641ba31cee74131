// Package tool defines the interface of tools that a model can call, what a call carries,
// and Set, the fixed list of tools of an agent. It also truncates and summarizes inputs and
// results. The tools themselves are in agent/tools; which of them a turn may use is decided
// by the caller.
package tool

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"

	"hermesd/agent/llm"
)

// An Effect says what a second run of the same call would do. It decides what happens to a
// call that was running when the process died.
type Effect string

// The effects. After a crash, pure and idempotent calls run again. A call that may run at
// most once does not: the model is told that its outcome is unknown.
const (
	Pure       Effect = "pure"
	Idempotent Effect = "idempotent"
	AtMostOnce Effect = "once"
)

// A Spec describes a tool.
type Spec struct {
	llm.Tool
	Effect Effect
	// Parallel reports whether calls may run at the same time as other parallel calls.
	Parallel bool
	// MaxResult is the maximum length of a result in characters; 0 means DefaultMaxResult.
	MaxResult int
}

// DefaultMaxResult is the maximum length of a result, in characters, of tools that set no
// limit.
const DefaultMaxResult = 100_000

// A Call is one use of a tool.
type Call struct {
	ID         string
	Input      json.RawMessage // valid JSON, an object
	Session    string          // session ID
	Transcript *llm.Transcript // read-only; the messages so far
	// Replaced returns a message that a compaction of the running turn has replaced, by its
	// number in the whole transcript. Such messages are stored when the turn ends; a nil
	// Replaced has none.
	Replaced func(row int) (m llm.Message, ok bool)
	User     UserChannel // reaches the user of the turn
	// CheckTool returns why a tool may not be used in the turn, nil if it may. A nil
	// CheckTool allows all tools. A tool that runs other tools in its name calls it for
	// each of them.
	CheckTool func(tool string) error
}

// A Tool can be called by a model. Its methods may be called from several goroutines.
type Tool interface {
	Spec() Spec
	// Run returns the result as the model reads it. An error is a result too: the model
	// reads its text.
	Run(ctx context.Context, c Call) (string, error)
}

// A Set is a fixed set of tools, ordered by name.
type Set struct{ tools []Tool }

var validName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

// NewSet returns the set of tools. It rejects duplicate names, and names and schemas that a
// provider would reject, so that one bad tool cannot fail every turn.
func NewSet(tools ...Tool) (Set, error) {
	tools = slices.Clone(tools)
	slices.SortFunc(tools, func(a, b Tool) int { return cmp.Compare(a.Spec().Name, b.Spec().Name) })
	for i, t := range tools {
		s := t.Spec()
		var object struct {
			Type string `json:"type"`
		}
		switch {
		case !validName.MatchString(s.Name):
			return Set{}, fmt.Errorf("tool: name %q is not valid", s.Name)
		case i > 0 && tools[i-1].Spec().Name == s.Name:
			return Set{}, fmt.Errorf("tool: two tools are called %q", s.Name)
		case json.Unmarshal(s.Schema, &object) != nil || object.Type != "object":
			return Set{}, fmt.Errorf("tool: the schema of %s is not a JSON Schema of an object", s.Name)
		}
	}
	return Set{tools}, nil
}

// Lookup returns the tool called name.
func (s Set) Lookup(name string) (Tool, bool) {
	i, ok := slices.BinarySearchFunc(s.tools, name, func(t Tool, n string) int { return cmp.Compare(t.Spec().Name, n) })
	if !ok {
		return nil, false
	}
	return s.tools[i], true
}

// Tools returns the definitions that are sent to the model, ordered by name.
func (s Set) Tools() []llm.Tool {
	out := make([]llm.Tool, len(s.tools))
	for i, t := range s.tools {
		out[i] = t.Spec().Tool
	}
	return out
}

// Names returns the names of the tools, in order.
func (s Set) Names() []string {
	out := make([]string, len(s.tools))
	for i, t := range s.tools {
		out[i] = t.Spec().Name
	}
	return out
}
