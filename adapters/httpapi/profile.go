package httpapi

import (
	_ "embed"

	"hermesd/gateway/chat"
)

//go:embed hint.md
var hint string

// Profile returns the facts about the HTTP API that other packages need. Only the
// operator and those who have the key from the operator can use it.
func Profile() chat.Profile {
	return chat.Profile{
		Platform: chat.HTTP, Name: "HTTP API",
		KindOf: chat.AlwaysGroup, Person: chat.IDForm{Valid: chat.IsWord, Is: "id"},
		OwnerRule: "http_key", ClientPrompt: true,
		Unattended: true, Answers: true, Hint: hint,
	}
}
