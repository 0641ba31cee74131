package setup

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"hermesd/adapters/discord"
	"hermesd/adapters/slack"
	"hermesd/adapters/telegram"
	"hermesd/cmd/internal/config"
	allplatforms "hermesd/cmd/internal/platforms"
	"hermesd/gateway/access"
	"hermesd/gateway/chat"
	"hermesd/internal/secret"
)

// Answers are the values chosen in a setup. Nil and missing entries leave the
// setting unchanged.
type Answers struct {
	Model     *Model
	Platforms map[chat.Platform]Login
	Workspace *string
}

// A Model selects the main model.
type Model struct {
	Provider string
	Name     string       // "" for the provider's default
	BaseURL  string       // "" for the provider's own
	Key      secret.Value // "" keeps the existing one
}

// A Login holds the tokens of a bot and its owners.
type Login struct {
	Token    secret.Value // "" keeps the existing one
	AppToken secret.Value // Slack only; "" keeps the existing one
	Owners   []string     // empty keeps the existing ones
}

// A platform is a platform that can be set up, with its texts.
type platform struct {
	name        chat.Platform
	label       string
	steps       string // how to get the tokens and permissions
	token, app  string // labels of its tokens; app is "" except for Slack
	id, example string // where to find a user ID, and an example
}

// InviteURL is the URL that adds a Discord bot to a server; %s is the application
// ID.
const InviteURL = "https://discord.com/oauth2/authorize?client_id=%s&scope=bot+applications.commands&permissions=309237746752"

func platforms() []platform {
	return []platform{
		{
			name: chat.Telegram, label: "Telegram", token: "Bot token", example: "123456789",
			steps: "1. Open https://t.me/BotFather and send /newbot: it gives you the token.\n" +
				"2. For groups: /setprivacy, Disable, if the bot shall read what does not mention it.",
			id: "@userinfobot tells it.",
		},
		{
			name: chat.Discord, label: "Discord", token: "Bot token", example: "1098765432109876543",
			steps: "1. https://discord.com/developers/applications: New Application. Under Bot: Reset Token, and keep it.\n" +
				"2. There, under Privileged Gateway Intents: switch on Message Content Intent.\n" +
				"3. Under OAuth2, URL Generator: the scopes bot and applications.commands. The permissions, and an\n" +
				"   address that has them all: docs/platforms.md; once the token is tried it is shown here.",
			id: "Settings, Advanced, Developer Mode; then Copy User ID in your own menu.",
		},
		{
			name: chat.Slack, label: "Slack", token: "Bot token (xoxb-…)", app: "App token (xapp-…)", example: "U0123456789",
			steps: "1. https://api.slack.com/apps: Create New App, From a manifest; `hermesd setup --slack-manifest` prints it.\n" +
				"   It holds the scopes and events, and switches Socket Mode on.\n" +
				"2. Basic Information, App-Level Tokens: Generate, with the scope connections:write: the app token.\n" +
				"3. Install App, Install to Workspace: the bot token.\n" +
				"4. Invite the bot to the channels in which it shall answer.",
			id: "In your profile: ⋮, Copy member ID.",
		},
	}
}

// Placeholders for the token that a check ignores.
const (
	anyBotToken = "xoxb-0"
	anyAppToken = "xapp-0"
)

// checkToken checks the form of a platform's token.
func checkToken(p chat.Platform, token secret.Value) error {
	switch p {
	case chat.Telegram:
		return withoutKey(telegram.Config{Token: token}.Validate())
	case chat.Discord:
		return withoutKey(discord.Config{Token: token}.Validate())
	}
	return withoutKey(slack.Config{Token: token, AppToken: anyAppToken}.Validate())
}

// checkAppToken checks the form of Slack's app token.
func checkAppToken(token secret.Value) error {
	return withoutKey(slack.Config{Token: anyBotToken, AppToken: token}.Validate())
}

// withoutKey removes the name of the key from an adapter's error.
func withoutKey(err error) error {
	if err == nil {
		return nil
	}
	s := strings.TrimPrefix(strings.TrimPrefix(err.Error(), "token: "), "app_token: ")
	return fmt.Errorf("%s", s)
}

func checkOwners(p chat.Platform, ids []string) error {
	for _, id := range ids {
		if id == "*" {
			return fmt.Errorf("not everybody can be an owner")
		}
		if err := access.CheckID(allplatforms.Profiles(), p, id); err != nil {
			return err //nolint:wrapcheck // shown to the user
		}
	}
	return nil
}

// Split returns the entries of a list separated by commas, semicolons or white
// space.
func Split(s string) []string {
	return strings.FieldsFunc(s, func(r rune) bool { return r == ',' || r == ' ' || r == '\t' || r == '\n' || r == ';' })
}

// checkURL checks the form of a model's base URL.
func checkURL(s string) error {
	u, err := url.Parse(s)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || strings.ContainsAny(s, " \t\r\n") {
		return fmt.Errorf("want an address such as http://127.0.0.1:8000/v1")
	}
	return nil
}

// checkLine checks a value that must be one line of text.
func checkLine(s string) error {
	if strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return fmt.Errorf("there is a control character in it")
	}
	return nil
}

// checkKey checks the form of an API key.
func checkKey(s string) error {
	if strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
		return fmt.Errorf("there is a space or a control character in it")
	}
	return nil
}

// service returns the known settings of a provider, and whether there are any.
func service(name string) (config.Service, bool) {
	all := config.Services()
	i := slices.IndexFunc(all, func(s config.Service) bool { return s.Name == name })
	if i < 0 {
		return config.Service{}, false
	}
	return all[i], true
}
