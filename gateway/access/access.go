// Package access checks whether the sender of an event is authorized, and with which
// level.
//
// Every event passes Checker.Check before anything acts on it. Functions that act take
// a Grant, which only this package can create, so that code with unchecked input does
// not compile. Issuing pairing codes is implemented in package pairing.
package access

import "hermesd/gateway/chat"

// A Level is the level of permissions of a principal. The zero Level is Nobody.
type Level int

// The levels. Each includes the permissions of those before it.
const (
	Nobody Level = iota
	Guest
	Member
	Owner
)

func (l Level) String() string { return [...]string{"nobody", "guest", "member", "owner"}[l] }

// A Principal is a user, identified by an immutable ID on a platform, and their level.
type Principal struct {
	Platform chat.Platform `json:"p"`
	ID       string        `json:"id"`
	Level    Level         `json:"l"`
}

// SamePerson reports whether p and other identify the same user, of whatever level.
func (p Principal) SamePerson(other Principal) bool {
	return p.Platform == other.Platform && p.ID == other.ID
}

// A Grant proves that Check authorized a principal. The zero Grant is invalid.
type Grant struct {
	principal Principal
	rule      string
}

// Principal returns the authorized principal.
func (g Grant) Principal() Principal { return g.principal }

// Rule returns the name of the rule that authorized the principal.
func (g Grant) Rule() string { return g.rule }

// Valid reports whether Check created the grant.
func (g Grant) Valid() bool { return g.rule != "" }
