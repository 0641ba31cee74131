// Package access checks whether the sender of an event is authorized, and with which
// level.
//
// Every event passes Checker.Check before anything acts on it. Its inbox entry holds the
// Grant, which only this package can create, so that code with unchecked input does not
// compile. Issuing pairing codes is implemented in package pairing.
package access

import (
	"encoding/json"

	"hermesd/gateway/chat"
)

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

// A Grant proves that Check, or the operator, authorized a principal. The zero Grant is invalid. Its JSON is
// that of the principal: a Grant that was read from a store says who was authorized then,
// and is not valid.
type Grant struct {
	principal Principal
	rule      string
}

// OperatorGrant returns the grant of p, in whose name the operator of the machine has made
// a scheduled prompt. It must not be used for events that platforms deliver.
func OperatorGrant(p Principal) Grant { return Grant{p, "operator"} }

// Principal returns the authorized principal.
func (g Grant) Principal() Principal { return g.principal }

// Rule returns the name of the rule that authorized the principal.
func (g Grant) Rule() string { return g.rule }

// Valid reports whether the grant was made in this process.
func (g Grant) Valid() bool { return g.rule != "" }

// AtMost returns g with a level of at most max.
func (g Grant) AtMost(max Level) Grant {
	g.principal.Level = min(g.principal.Level, max)
	return g
}

// MarshalJSON encodes the principal.
func (g Grant) MarshalJSON() ([]byte, error) { return json.Marshal(g.principal) }

// UnmarshalJSON decodes the principal of a grant that is not valid.
func (g *Grant) UnmarshalJSON(text []byte) error {
	g.rule = ""
	return json.Unmarshal(text, &g.principal)
}

// ToolLevel returns the level that a tool requires. It is checked for the actor at each
// call, because the tools of a session are the same for all its users. A tool that is
// not in the table requires an owner.
func ToolLevel(name string) Level {
	if l, ok := ToolLevels()[name]; ok {
		return l
	}
	return Owner
}

// ToolLevels returns the tools by name, with the table of ToolLevel.
func ToolLevels() map[string]Level {
	return map[string]Level{
		"todo":           Guest,
		"skills_list":    Guest,
		"skill_view":     Guest,
		"clarify":        Guest,
		"read_file":      Member,
		"search_files":   Member,
		"session_search": Guest,
		"lcm_grep":       Guest,
		"lcm_describe":   Guest,
		"lcm_expand":     Guest,
		"web_extract":    Member,
		"web_search":     Member,
		"delegate_task":  Member,
		"cronjob":        Member,
		"send_message":   Owner,
		"write_file":     Owner,
		"patch":          Owner,
		"terminal":       Owner,
		"process":        Owner,
		"memory":         Owner,
		"skill_manage":   Owner,
	}
}
