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
	"hermesd/gateway/access"
	"hermesd/gateway/chat"
	"hermesd/internal/secret"
)

// Answers are what was chosen. What is left out stays as it is.
type Answers struct {
	Model     *Model
	Platforms map[chat.Platform]Login
	Workspace *string
}

// A Model says who answers.
type Model struct {
	Provider string
	Name     string       // "": the provider's usual one
	BaseURL  string       // "": the provider's own
	Key      secret.Value // "": the one that is there
}

// A Login is one bot, and who owns it.
type Login struct {
	Token    secret.Value // "": the one that is there
	AppToken secret.Value // Slack only; likewise
	Owners   []string     // none: those that are there
}

// A platform is one that can be set up, in the words in which it is.
type platform struct {
	name        chat.Platform
	label       string
	steps       string // where its tokens come from, and what they must be allowed
	token, app  string // names of its tokens; app is "" but for Slack
	id, example string // where a person's id is found, and how one looks
}

// InviteURL is the address at which a Discord bot is brought into a server; %s is
// its application's id.
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

// placeholders stand for the token that a check does not look at.
const (
	anyBotToken = "xoxb-0"
	anyAppToken = "xapp-0"
)

// checkToken says what is wrong with the form of a platform's token.
func checkToken(p chat.Platform, token secret.Value) error {
	switch p {
	case chat.Telegram:
		return said(telegram.Config{Token: token}.Validate())
	case chat.Discord:
		return said(discord.Config{Token: token}.Validate())
	}
	return said(slack.Config{Token: token, AppToken: anyAppToken}.Validate())
}

// checkAppToken says what is wrong with the form of Slack's other token.
func checkAppToken(token secret.Value) error {
	return said(slack.Config{Token: anyBotToken, AppToken: token}.Validate())
}

// said leaves the name of a key out of an adapter's words.
func said(err error) error {
	if err == nil {
		return nil
	}
	s := strings.TrimPrefix(strings.TrimPrefix(err.Error(), "token: "), "app_token: ")
	return fmt.Errorf("%s", s)
}

// checkOwners says what is wrong with a list of owners.
func checkOwners(p chat.Platform, ids []string) error {
	for _, id := range ids {
		if id == "*" {
			return fmt.Errorf("not everybody can be an owner")
		}
		if err := access.CheckID(p, id); err != nil {
			return err //nolint:wrapcheck // it is for the person
		}
	}
	return nil
}

// Split returns the entries of a list that was typed with commas or spaces.
func Split(s string) []string {
	return strings.FieldsFunc(s, func(r rune) bool { return r == ',' || r == ' ' || r == '\t' || r == '\n' || r == ';' })
}

// checkURL says what is wrong with a model's address, as far as it stands alone.
func checkURL(s string) error {
	u, err := url.Parse(s)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || strings.ContainsAny(s, " \t\r\n") {
		return fmt.Errorf("want an address such as http://127.0.0.1:8000/v1")
	}
	return nil
}

// checkLine says what is wrong with a value that must be one line of text.
func checkLine(s string) error {
	if strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return fmt.Errorf("there is a control character in it")
	}
	return nil
}

// checkKey says what is wrong with the form of a key.
func checkKey(s string) error {
	if strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
		return fmt.Errorf("there is a space or a control character in it")
	}
	return nil
}

// service returns what is known of a provider.
func service(name string) (config.Service, bool) {
	all := config.Services()
	i := slices.IndexFunc(all, func(s config.Service) bool { return s.Name == name })
	if i < 0 {
		return config.Service{}, false
	}
	return all[i], true
}
