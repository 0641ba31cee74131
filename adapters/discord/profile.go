package discord

import (
	"cmp"
	_ "embed"
	"fmt"
	"net/http"

	"hermesd/adapters/discord/internal/apiclient"
	"hermesd/gateway/chat"
	"hermesd/internal/lazyregexp"
	"hermesd/internal/secret"
)

//go:embed hint.md
var hint string

var userID = lazyregexp.New(`^[0-9]{1,20}$`)

// Profile returns the facts about Discord that other packages need.
func Profile() chat.Profile {
	return chat.Profile{
		Platform: chat.Discord, Name: "Discord",
		KindOf: chat.AlwaysGroup, Person: chat.IDForm{Valid: func(id string) bool { return userID().MatchString(id) }, Is: "numeric id", Find: "Settings, Advanced, Developer Mode; then Copy User ID in your own menu.", Like: "1098765432109876543"},
		Pairing: true, Unasked: true, FullMenu: true, ShowIDs: true,
		Note: "Note: what you see of Discord is what you are sent. You cannot search its history, pin or delete messages, or manage channels, roles and members: do not promise it.",
		Steps: "1. https://discord.com/developers/applications: New Application. Under Bot: Reset Token, and keep it.\n" +
			"2. There, under Privileged Gateway Intents: switch on Message Content Intent.\n" +
			"3. Under OAuth2, URL Generator: the scopes bot and applications.commands. The permissions, and an\n" +
			"   address that has them all: docs/platforms.md; once the token is tried it is shown here.",
		Secrets:  []chat.Secret{{Key: "token", Env: "DISCORD_BOT_TOKEN", Is: "token", Title: "Bot token", Check: func(v secret.Value) error { return Config{Token: v}.Validate() }}},
		Endpoint: apiclient.Origin + "/api/v10/gateway", Hint: hint, Try: tryToken,
	}
}

// InviteURL is the URL that adds a bot to a server; %s is the application ID.
const InviteURL = apiclient.Origin + "/oauth2/authorize?client_id=%s&scope=bot+applications.commands&permissions=309237746752"

func tryToken(base string, secrets map[string]secret.Value, ask chat.Ask) (string, error) {
	header := map[string]string{
		"Authorization": "Bot " + secrets["token"].Reveal(),
		"User-Agent":    "DiscordBot (hermesd, 1)", // required by Discord
	}
	var me struct{ ID, Username string }
	if err := ask(http.MethodGet, cmp.Or(base, apiclient.Origin)+"/api/v10/users/@me", header, &me); err != nil {
		return "", err
	}
	return fmt.Sprintf("It is the token of %s. Bring it into your server with\n"+InviteURL, me.Username, me.ID), nil
}
