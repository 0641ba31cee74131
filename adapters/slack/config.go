package slack

import (
	"cmp"
	_ "embed"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"hermesd/adapters/internal/mention"
	"hermesd/adapters/internal/transport"
	"hermesd/adapters/slack/internal/inbound"
	"hermesd/gateway/chat"
	"hermesd/gateway/i18n"
	"hermesd/internal/lazyregexp"
	"hermesd/internal/secret"
)

// Config is the configuration of one account: an app in one workspace, and which
// messages it answers. Only the tokens are required.
type Config struct {
	Token    secret.Value `yaml:"token" env:"BOT_TOKEN" own:"true" doc:"The bot's token; SLACK_BOT_TOKEN."`
	AppToken secret.Value `yaml:"app_token" env:"APP_TOKEN" own:"true" doc:"Token for Socket Mode (xapp-…); SLACK_APP_TOKEN."`
	APIURL   string       `yaml:"api_url" doc:"Address of the platform's API; empty: the public one."`
	Proxy    secret.Value `yaml:"proxy" env:"PROXY" doc:"Proxy (http, https or socks5 URL); empty: HTTPS_PROXY of the environment."`

	RequireMention    bool              `yaml:"require_mention" env:"REQUIRE_MENTION" default:"true" doc:"In groups, answer only when mentioned or replied to."`
	StrictMention     bool              `yaml:"strict_mention" env:"STRICT_MENTION" default:"false" doc:"In threads too, answer only when mentioned."`
	ThreadMention     bool              `yaml:"thread_require_mention" env:"THREAD_REQUIRE_MENTION" default:"false" doc:"In threads too, answer only when mentioned."`
	MentionChats      []string          `yaml:"require_mention_channels" env:"REQUIRE_MENTION_CHANNELS" own:"true" doc:"Ids of channels in which a mention is required whatever else is set."`
	IgnoreOthers      bool              `yaml:"ignore_other_user_mentions" env:"IGNORE_OTHER_USER_MENTIONS" default:"false" doc:"A message that begins with a mention of somebody else is not for the bot."`
	ReplyInThread     bool              `yaml:"reply_in_thread" default:"true" doc:"A mention in a channel opens a thread, which is a conversation of its own."`
	FreeResponseChats []string          `yaml:"free_response_chats" alias:"free_response_channels" doc:"Ids of groups in which everything is answered although require_mention is set."`
	AllowedChats      []string          `yaml:"allowed_chats" env:"ALLOWED_CHANNELS" alias:"allowed_channels" own:"true" doc:"IDs of the groups the bot reads; empty: all. This key does not grant access."`
	IgnoredChats      []string          `yaml:"ignored_chats" env:"IGNORED_CHANNELS" alias:"ignored_channels" own:"true" doc:"IDs of the channels that are never read."`
	MentionPatterns   []string          `yaml:"mention_patterns" doc:"Regular expressions (RE2, any case) that count as a mention."`
	NativeMentions    []string          `yaml:"native_mention_only_chats" env:"NATIVE_MENTION_ONLY_CHANNELS" alias:"native_mention_only_channels" own:"true" doc:"Ids of groups in which mention_patterns do not count: only a mention by the platform does."`
	ChatPrompts       map[string]string `yaml:"channel_prompts" doc:"Extra prompt by id of the chat or thread; used from the next turn on."`
	Reactions         bool              `yaml:"reactions" default:"true" doc:"Mark people's messages with what has become of them."`
}

const defaultAPIURL = "https://slack.com/api/"

// withDefaults returns c with empty fields set to their defaults.
func (c Config) withDefaults() Config {
	c.APIURL = cmp.Or(c.APIURL, defaultAPIURL)
	c.APIURL = strings.TrimRight(c.APIURL, "/") + "/"
	return c
}

var (
	botToken    = regexp.MustCompile(`^xoxb-[A-Za-z0-9-]+$`)
	appToken    = regexp.MustCompile(`^xapp-[A-Za-z0-9-]+$`)
	channelForm = regexp.MustCompile(`^[CDG][A-Z0-9]{1,32}$`)
)

// Validate returns the first invalid setting as an error written for the
// operator. The error names the key and never contains a secret.
func (c Config) Validate() error {
	c = c.withDefaults()
	for _, t := range []struct {
		key, env, kind, where string
		value, other          secret.Value
		form, otherForm       *regexp.Regexp
	}{
		{"token", "SLACK_BOT_TOKEN", "bot token, which begins with xoxb-", "OAuth & Permissions", c.Token, c.AppToken, botToken, appToken},
		{"app_token", "SLACK_APP_TOKEN", "app-level token, which begins with xapp-", "Basic Information", c.AppToken, c.Token, appToken, botToken},
	} {
		switch v := t.value.Reveal(); {
		case v == "":
			return fmt.Errorf("%s: missing; set it to the %s; it is under %s of the app (%s)", t.key, t.kind, t.where, t.env)
		case t.otherForm.MatchString(v):
			return fmt.Errorf("%s: this is the other kind of token; it takes the %s; check %s", t.key, t.kind, t.env)
		case !t.form.MatchString(v):
			return fmt.Errorf("%s: this is not a %s; check %s", t.key, t.kind, t.env)
		}
	}
	if err := transport.CheckURL(c.APIURL, "http", "https"); err != nil {
		return fmt.Errorf("api_url: %w", err)
	}
	if err := transport.CheckProxy(c.Proxy); err != nil {
		return err
	}
	for _, l := range []struct {
		key string
		ids []string
	}{
		{"free_response_chats", c.FreeResponseChats}, {"allowed_chats", c.AllowedChats}, {"ignored_chats", c.IgnoredChats},
	} {
		if i := slices.IndexFunc(l.ids, func(id string) bool { return !channelForm.MatchString(id) }); i >= 0 {
			return fmt.Errorf("%s: %q is not a channel id (such as C0123456789; it stands at the end of the channel's details)", l.key, l.ids[i])
		}
	}
	_, err := inbound.NewRules(c.settings(nil))
	return err
}

func (c Config) settings(commands []string) inbound.Settings {
	return inbound.Settings{Settings: mention.Settings{
		RequireMention: c.RequireMention, Strict: c.StrictMention || c.ThreadMention, AutoThread: c.ReplyInThread,
		Free: c.FreeResponseChats, Allowed: c.AllowedChats, Ignored: c.IgnoredChats,
		Patterns: c.MentionPatterns, Native: c.NativeMentions, Prompts: c.ChatPrompts,
	}, Always: c.MentionChats, NotToOthers: c.IgnoreOthers, Commands: commands}
}

// manifestCommands is the maximum number of slash commands of an app.
const manifestCommands = 50

// object is one object of a manifest. The library's types omit false values, for
// which Slack then uses defaults of its own.
type object = map[string]any

// Manifest returns, as JSON, the manifest of an app that supports all functions
// of the adapter. It is pasted where a new app is created "from a manifest".
// Slack stores an app's commands only there. say translates the texts. Commands
// whose names Slack reserves are omitted; all of them work after /hermes.
func Manifest(commands []chat.CommandInfo, say i18n.Printer) string {
	out, err := json.MarshalIndent(object{
		"display_information": object{"name": "Hermes", "description": say.T("Your agent")},
		"features": object{
			"app_home":       object{"home_tab_enabled": false, "messages_tab_enabled": true, "messages_tab_read_only_enabled": false},
			"bot_user":       object{"display_name": "hermes", "always_online": true},
			"slash_commands": slashCommands(commands, say),
		},
		"oauth_config": object{"scopes": object{"bot": scopes()}},
		"settings": object{
			"event_subscriptions":    object{"bot_events": []string{"app_mention", "message.channels", "message.groups", "message.im", "message.mpim"}},
			"interactivity":          object{"is_enabled": true},
			"org_deploy_enabled":     false,
			"socket_mode_enabled":    true,
			"token_rotation_enabled": false,
		},
	}, "", "  ")
	if err != nil { // all its values can be encoded
		return fmt.Sprintf("%q", err)
	}
	return string(out)
}

func slashCommands(commands []chat.CommandInfo, say i18n.Printer) []object {
	out := []object{{"command": inbound.General, "description": say.T("Ask, or give any command"), "usage_hint": say.T("[command or question]"), "should_escape": false}}
	seen := map[string]bool{inbound.General: true}
	for _, c := range commands {
		name := "/" + strings.ToLower(strings.TrimPrefix(c.Name, "/"))
		if seen[name] || reserved(name) || name == "/" || len(name) > 32 || strings.ContainsAny(name, " \t") || len(out) == manifestCommands {
			continue
		}
		seen[name] = true
		help := cmp.Or(strings.Join(strings.Fields(c.Help), " "), name)
		out = append(out, object{"command": name, "description": cut(help, 100), "should_escape": false})
	}
	return out
}

func reserved(name string) bool {
	return slices.Contains(strings.Fields(`/active /apps /archive /away /call /canvas /collapse /dm /dnd /expand /feed
		/feedback /files /help /huddle /invite /invite_people /join /keys /leave /list /me /msg /mute /open /part /people
		/pref /prefs /rename /remind /remove /search /shortcuts /shrug /star /status /todo /topic /unarchive /who /workflow`), name)
}

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
