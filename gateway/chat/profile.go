package chat

import (
	"maps"
	"slices"
	"strings"

	"hermesd/internal/secret"
)

// A Profile holds what packages other than the adapter need to know about a platform. All
// functions are set.
type Profile struct {
	Platform Platform
	Name     string // as people write it

	// KeyScope: Address.Scope is part of session keys, and IDs of people are unique only
	// within a scope.
	KeyScope bool
	// KindOf returns the kind of a chat of which only the ID is known.
	KindOf func(id string) Kind
	Person IDForm // of people

	// OwnerRule is the name of the rule by which everyone who reaches the adapter is an
	// owner; "": access is checked.
	OwnerRule string
	Pairing   bool // strangers can get a pairing code
	Unasked   bool // a message that answers no other message can be sent
	FullMenu  bool // commands that are not in the menu cannot be entered
	// Unattended: nobody answers a question there, or reads a notice, while a turn runs.
	Unattended bool
	// Answers: who writes gets the answer, or at once the error of the store.
	Answers bool

	Steps    string   // how the operator gets the secrets
	Secrets  []Secret // the first one identifies the account
	Endpoint string   // public address that a test of the network asks
	// Try asks the platform whose secrets these are, and returns a text for the operator. base
	// is its configured address without a slash at its end; "": the public one. Its error may
	// contain secrets. It is set if there are Secrets.
	Try func(base string, secrets map[string]secret.Value, ask Ask) (string, error)

	Hint   string // for the frozen prompt: what the platform can show; its bytes must not change
	Note   string // for the overlay: what the model cannot do there; one line
	Source string // for the overlay: where messages come from; "": the kind and the name of the chat

	ShowIDs      bool // the overlay contains the ID of the sender, by which people are mentioned
	HashIDs      bool // privacy.redact_pii applies to IDs in the overlay
	ClientPrompt bool // Inbound.Prompt is the system message of the client, not of the operator
}

// An IDForm describes the IDs of people on a platform.
type IDForm struct {
	Valid func(id string) bool
	Is    string // what an ID is called, such as "numeric id"
	Find  string // where people find theirs
	Like  string // an example
}

// A Secret is a credential that each account of a platform needs.
type Secret struct {
	Key   string // of the section of the platform
	Env   string // the variable of the environment that sets it
	Is    string // such as "token"
	Title string // in set-up, as a title, such as "Bot token"
	// Check checks the form. The error is written for the operator, and may begin with
	// Key.
	Check func(secret.Value) error
}

// An Ask sends one request and decodes the JSON of the answer into to. Its error says what
// the server answered.
type Ask func(method, url string, header map[string]string, to any) error

// Profiles are the profiles of the platforms of the program.
type Profiles map[Platform]Profile

// ProfilesOf returns the given profiles by platform.
func ProfilesOf(all ...Profile) Profiles {
	ps := make(Profiles)
	for _, p := range all {
		ps[p.Platform] = p
	}
	return ps
}

// Of returns the profile of p. A platform that is not in ps, such as that of an address
// stored by another version, has one without properties: access is checked, and nothing is
// sent there unasked.
func (ps Profiles) Of(p Platform) Profile {
	if profile, ok := ps[p]; ok {
		return profile
	}
	return Profile{Platform: p, Name: string(p), KindOf: AlwaysGroup, Person: IDForm{Valid: IsWord, Is: "id"}, ShowIDs: true}
}

// Which returns the platforms whose profiles have a property, sorted.
func (ps Profiles) Which(has func(Profile) bool) []Platform {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(ps)), func(p Platform) bool { return !has(ps[p]) })
}

// AlwaysGroup is the KindOf of platforms whose chat IDs do not show the kind of the chat.
func AlwaysGroup(string) Kind { return Group }

// IsWord reports whether id is not empty and contains no white space.
func IsWord(id string) bool { return id != "" && !strings.ContainsAny(id, " \t\r\n") }
