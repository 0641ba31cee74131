package slack

import (
	_ "embed"

	"hermesd/gateway/chat"
	"hermesd/internal/lazyregexp"
)

//go:embed hint.md
var hint string

var userID = lazyregexp.New(`^[UWB][A-Z0-9]{2,31}$`)

// Profile returns the facts about Slack that other packages need.
func Profile() chat.Profile {
	return chat.Profile{
		Platform: chat.Slack, Name: "Slack", KeyScope: true,
		KindOf: chat.AlwaysGroup, Person: chat.IDForm{Valid: func(id string) bool { return userID().MatchString(id) }, Is: "member id (U…)"},
		Pairing: true, Unasked: true, ShowIDs: true,
		Note: "Note: what you see of Slack is what you are sent. You cannot search its history, pin or delete messages, or manage channels and members: do not promise it.",
		Hint: hint,
	}
}
