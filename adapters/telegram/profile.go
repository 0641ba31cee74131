package telegram

import (
	_ "embed"
	"strings"

	"hermesd/gateway/chat"
	"hermesd/internal/lazyregexp"
)

//go:embed hint.md
var hint string

var userID = lazyregexp.New(`^[0-9]{1,20}$`)

// Profile returns the facts about Telegram that other packages need.
func Profile() chat.Profile {
	return chat.Profile{
		Platform: chat.Telegram, Name: "Telegram",
		KindOf: kindOf, Person: chat.IDForm{Valid: func(id string) bool { return userID().MatchString(id) }, Is: "numeric id"},
		Pairing: true, Unasked: true, ShowIDs: true, HashIDs: true,
		Hint: hint,
	}
}

// kindOf returns the kind of the chat with an ID: those of groups and channels are
// negative.
func kindOf(id string) chat.Kind {
	if strings.HasPrefix(id, "-") {
		return chat.Group
	}
	return chat.DM
}
