package console

import (
	_ "embed"

	"hermesd/gateway/chat"
)

//go:embed hint.md
var hint string

// Profile returns the facts about the local terminals that other packages need. Only
// the operator can open the socket that they connect to.
func Profile() chat.Profile {
	return chat.Profile{
		Platform: chat.Console, Name: "terminal",
		KindOf: chat.AlwaysGroup, Person: chat.IDForm{Valid: chat.IsWord, Is: "id"},
		OwnerRule: "console", Unasked: true, Answers: true, Source: "the terminal of the machine that runs this agent",
		Hint: hint,
	}
}
