package telegram

import (
	"cmp"
	_ "embed"
	"fmt"
	"net/http"
	"strings"

	"hermesd/gateway/chat"
	"hermesd/internal/lazyregexp"
	"hermesd/internal/secret"
)

//go:embed hint.md
var hint string

var userID = lazyregexp.New(`^[0-9]{1,20}$`)

// Profile returns the facts about Telegram that other packages need.
func Profile() chat.Profile {
	return chat.Profile{
		Platform: chat.Telegram, Name: "Telegram",
		KindOf: kindOf, Person: chat.IDForm{Valid: func(id string) bool { return userID().MatchString(id) }, Is: "numeric id", Find: "@userinfobot tells it.", Like: "123456789"},
		Pairing: true, Unasked: true, ShowIDs: true, HashIDs: true,
		Steps: "1. Open https://t.me/BotFather and send /newbot: it gives you the token.\n" +
			"2. For groups: /setprivacy, Disable, if the bot shall read what does not mention it.",
		Secrets:  []chat.Secret{{Key: "token", Env: "TELEGRAM_BOT_TOKEN", Is: "token", Title: "Bot token", Check: func(v secret.Value) error { return Config{Token: v}.Validate() }}},
		Endpoint: defaultBaseURL, Hint: hint, Try: tryToken,
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

func tryToken(base string, secrets map[string]secret.Value, ask chat.Ask) (string, error) {
	var me struct {
		Result struct {
			Username string
			Reads    bool `json:"can_read_all_group_messages"`
		}
	}
	if err := ask(http.MethodGet, cmp.Or(base, defaultBaseURL)+"/bot"+secrets["token"].Reveal()+"/getMe", nil, &me); err != nil {
		return "", err
	}
	if me.Result.Reads {
		return fmt.Sprintf("It is the token of @%s, which reads all messages of its groups.", me.Result.Username), nil
	}
	return fmt.Sprintf("It is the token of @%s. In groups it sees only what mentions it (/setprivacy changes that).", me.Result.Username), nil
}
