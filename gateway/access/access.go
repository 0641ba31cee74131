// Package access decides who may speak.
//
// Every event passes Check before anything acts on it. Functions that act take
// a Grant, which only this package can make, so that unchecked input does not
// compile.
package access

import "hermesd/gateway/chat"

// A Level is what a principal may do.
type Level int

// The levels, each including those before it.
const (
	Nobody Level = iota
	Guest
	Member
	Owner
)

func (l Level) String() string { return [...]string{"nobody", "guest", "member", "owner"}[l] }

// A Principal is who acts: an immutable id on a platform.
type Principal struct {
	Platform chat.Platform `json:"p"`
	ID       string        `json:"id"`
	Level    Level         `json:"l"`
}

// A Grant proves that a principal was checked.
type Grant struct {
	principal Principal
	rule      string
}

// Principal returns whom the grant is for.
func (g Grant) Principal() Principal { return g.principal }

// Rule names the rule that let the principal in.
func (g Grant) Rule() string { return g.rule }

// Valid reports whether Check made the grant.
func (g Grant) Valid() bool { return g.rule != "" }
