// Package tool says what a tool is, and holds the set that an agent may use.
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

// An Effect says what running a tool twice would do; it decides what happens
// to a call that was under way when the process died.
type Effect string

// The effects. After a crash, pure and idempotent calls run again; a call that
// may happen only once does not: the model is told that its outcome is unknown.
const (
	Pure       Effect = "pure"
	Idempotent Effect = "idempotent"
	AtMostOnce Effect = "once"
)

// A Spec describes a tool.
type Spec struct {
	llm.Tool
	Effect Effect
	// Parallel says that calls may run beside other parallel calls.
	Parallel bool
	// MaxResult is the most characters of a result; 0 is DefaultCap.
	MaxResult int
}

// DefaultMaxResult is the most characters of a tool's result.
const DefaultMaxResult = 100_000

// A Call is one use of a tool.
type Call struct {
	ID         string
	Input      json.RawMessage // valid JSON, an object
	Session    string          // id of the session
	Transcript *llm.Transcript // to be read only; what was said so far
	User       UserChannel     // of the turn
	// CheckTool says why a tool may not be used in the turn, nil if it may; a nil May
	// allows all. A tool that has others run in its name asks it for them.
	CheckTool func(tool string) error
}

// A Tool can be used by a model. Run is called from several goroutines.
type Tool interface {
	Spec() Spec
	// Run returns the result as the model reads it. An error is a result too:
	// its text is told to the model.
	Run(ctx context.Context, c Call) (string, error)
}

// A Set is a fixed set of tools, ordered by name.
type Set struct{ tools []Tool }

var validName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

// NewSet returns the set of tools. It refuses names and schemas that a provider
// would refuse, so that one bad tool cannot fail every turn.
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

// Tools returns what a model is told about the set, in order.
func (s Set) Tools() []llm.Tool {
	out := make([]llm.Tool, len(s.tools))
	for i, t := range s.tools {
		out[i] = t.Spec().Tool
	}
	return out
}

// Names returns the names in the set, in order.
func (s Set) Names() []string {
	out := make([]string, len(s.tools))
	for i, t := range s.tools {
		out[i] = t.Spec().Name
	}
	return out
}
