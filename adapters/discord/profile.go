package discord

import (
	_ "embed"

	"hermesd/gateway/chat"
	"hermesd/internal/lazyregexp"
)

//go:embed hint.md
var hint string

var userID = lazyregexp.New(`^[0-9]{1,20}$`)

// Profile returns the facts about Discord that other packages need.
func Profile() chat.Profile {
	return chat.Profile{
		Platform: chat.Discord, Name: "Discord",
		KindOf: chat.AlwaysGroup, Person: chat.IDForm{Valid: func(id string) bool { return userID().MatchString(id) }, Is: "numeric id"},
		Pairing: true, Unasked: true, FullMenu: true, ShowIDs: true,
		Note: "Note: what you see of Discord is what you are sent. You cannot search its history, pin or delete messages, or manage channels, roles and members: do not promise it.",
		Hint: hint,
	}
}
