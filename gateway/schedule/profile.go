package schedule

import (
	_ "embed"

	"hermesd/gateway/chat"
)

//go:embed hint.md
var hint string

// Profile returns the facts about the platform of scheduled runs that other packages need.
func Profile() chat.Profile {
	return chat.Profile{
		Platform: chat.Cron, Name: "scheduled prompts",
		KindOf: chat.AlwaysGroup, Person: chat.IDForm{Valid: chat.IsWord, Is: "id"},
		Unattended: true, Hint: hint,
	}
}
