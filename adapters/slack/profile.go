package slack

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

var userID = lazyregexp.New(`^[UWB][A-Z0-9]{2,31}$`)

// Profile returns the facts about Slack that other packages need.
func Profile() chat.Profile {
	return chat.Profile{
		Platform: chat.Slack, Name: "Slack", KeyScope: true,
		KindOf: chat.AlwaysGroup, Person: chat.IDForm{Valid: func(id string) bool { return userID().MatchString(id) }, Is: "member id (U…)", Find: "In your profile: ⋮, Copy member ID.", Like: "U0123456789"},
		Pairing: true, Unasked: true, ShowIDs: true,
		Note: "Note: what you see of Slack is what you are sent. You cannot search its history, pin or delete messages, or manage channels and members: do not promise it.",
		Steps: "1. https://api.slack.com/apps: Create New App, From a manifest; `hermesd setup --slack-manifest` prints it.\n" +
			"   It holds the scopes and events, and switches Socket Mode on.\n" +
			"2. Basic Information, App-Level Tokens: Generate, with the scope connections:write: the app token.\n" +
			"3. Install App, Install to Workspace: the bot token.\n" +
			"4. Invite the bot to the channels in which it shall answer.",
		Secrets: []chat.Secret{
			{Key: "token", Env: "SLACK_BOT_TOKEN", Is: "token", Title: "Bot token (xoxb-…)", Check: func(v secret.Value) error { return Config{Token: v, AppToken: "xapp-0"}.Validate() }},
			{Key: "app_token", Env: "SLACK_APP_TOKEN", Is: "app token, which Socket Mode needs", Title: "App token (xapp-…)", Check: func(v secret.Value) error { return Config{Token: "xoxb-0", AppToken: v}.Validate() }},
		},
		Endpoint: defaultAPIURL + "api.test", Hint: hint, Try: tryTokens,
	}
}

func tryTokens(base string, secrets map[string]secret.Value, ask chat.Ask) (string, error) {
	var me struct {
		OK                bool
		Error, Team, User string
	}
	for _, c := range []struct {
		method, what string
		token        secret.Value
	}{{"apps.connections.open", "app token", secrets["app_token"]}, {"auth.test", "bot token", secrets["token"]}} {
		url := strings.TrimRight(cmp.Or(base, defaultAPIURL), "/") + "/" + c.method
		if err := ask(http.MethodPost, url, map[string]string{"Authorization": "Bearer " + c.token.Reveal()}, &me); err != nil {
			return "", fmt.Errorf("the %s: %w", c.what, err)
		}
		if !me.OK {
			return "", fmt.Errorf("the %s is refused by Slack: %s", c.what, explainError(me.Error))
		}
	}
	return fmt.Sprintf("The tokens are those of %s in %s.", me.User, me.Team), nil
}

// explainError returns Slack's error code and what to do about it.
func explainError(code string) string {
	switch code {
	case "invalid_auth", "not_authed":
		return code + ": it is not a token of an app; copy it again"
	case "token_revoked", "account_inactive", "token_expired":
		return code + ": make a new one"
	case "missing_scope", "not_allowed_token_type":
		return code + ": the app token needs the scope connections:write"
	}
	return code
}
