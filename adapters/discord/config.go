package discord

import (
	"cmp"
	_ "embed"
	"fmt"
	"net/http"
	"regexp"
	"strings"

	"hermesd/adapters/discord/internal/apiclient"
	"hermesd/adapters/discord/internal/inbound"
	"hermesd/adapters/internal/mention"
	"hermesd/adapters/internal/transport"
	"hermesd/gateway/chat"
	"hermesd/internal/lazyregexp"
	"hermesd/internal/secret"
)

// Config is the configuration of one account: a bot and which messages it
// answers. Only Token is required.
type Config struct {
	Token   secret.Value `yaml:"token" env:"BOT_TOKEN" own:"true" doc:"The bot's token; DISCORD_BOT_TOKEN."`
	BaseURL string       `yaml:"api_url" doc:"Address of the platform's API; empty: the public one."`
	Proxy   secret.Value `yaml:"proxy" env:"PROXY" doc:"Proxy (http, https or socks5 URL); empty: HTTPS_PROXY of the environment."`

	RequireMention    bool              `yaml:"require_mention" env:"REQUIRE_MENTION" default:"true" doc:"In groups, answer only when mentioned or replied to."`
	FreeResponseChats []string          `yaml:"free_response_chats" alias:"free_response_channels" doc:"Ids of groups in which everything is answered although require_mention is set."`
	AllowedChats      []string          `yaml:"allowed_chats" env:"ALLOWED_CHANNELS" alias:"allowed_channels" own:"true" doc:"IDs of the groups the bot reads; empty: all. This key does not grant access."`
	IgnoredChats      []string          `yaml:"ignored_chats" env:"IGNORED_CHANNELS" alias:"ignored_channels" own:"true" doc:"IDs of the channels that are never read."`
	MentionPatterns   []string          `yaml:"mention_patterns" doc:"Regular expressions (RE2, any case) that count as a mention."`
	NativeMentions    []string          `yaml:"native_mention_only_chats" alias:"native_mention_only_channels" own:"true" doc:"Ids of groups in which mention_patterns do not count: only a mention by the platform does."`
	ChatPrompts       map[string]string `yaml:"channel_prompts" doc:"Extra prompt by id of the chat or thread; used from the next turn on."`

	StrictMention bool     `yaml:"thread_require_mention" env:"THREAD_REQUIRE_MENTION" default:"false" doc:"In threads too, answer only when mentioned."`
	AutoThread    bool     `yaml:"auto_thread" default:"true" doc:"A mention in a channel opens a thread, which is a conversation of its own."`
	AllowMentions []string `yaml:"allow_mentions" doc:"What answers may ping in addition to users: everyone, roles. nobody: not even users; no_reply: not the author whom an answer quotes."`
	Reactions     bool     `yaml:"reactions" default:"true" doc:"Mark people's messages with what has become of them."`
}

// withDefaults returns c with empty fields set to their defaults.
func (c Config) withDefaults() Config {
	c.BaseURL = cmp.Or(c.BaseURL, apiclient.Origin)
	c.BaseURL = strings.TrimRight(c.BaseURL, "/")
	return c
}

var tokenForm = regexp.MustCompile(`^[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+$`)

// Validate returns the first invalid setting as an error written for the
// operator. The error names the key and never contains a secret.
func (c Config) Validate() error {
	c = c.withDefaults()
	switch {
	case c.Token == "":
		return fmt.Errorf("token: missing; set it to the bot's token from the developer portal (DISCORD_BOT_TOKEN)")
	case strings.HasPrefix(c.Token.Reveal(), "Bot "):
		return fmt.Errorf("token: leave out the word Bot before it; check DISCORD_BOT_TOKEN")
	case !tokenForm.MatchString(c.Token.Reveal()):
		return fmt.Errorf("token: this is not a bot token, which has three parts with dots between them; check DISCORD_BOT_TOKEN")
	}
	if err := transport.CheckURL(c.BaseURL, "http", "https"); err != nil {
		return fmt.Errorf("api_url: %w", err)
	}
	if err := transport.CheckProxy(c.Proxy); err != nil {
		return err
	}
	for _, l := range []struct {
		key string
		ids []string
	}{{"free_response_chats", c.FreeResponseChats}, {"allowed_chats", c.AllowedChats}, {"ignored_channels", c.IgnoredChats}} {
		for _, id := range l.ids {
			if _, ok := inbound.Snowflake(id); !ok && (id != "*" || l.key != "free_response_chats") {
				return fmt.Errorf("%s: %q is not a channel id (a number such as 1098765432109876543; Copy Channel ID in developer mode)", l.key, id)
			}
		}
	}
	for _, m := range c.AllowMentions {
		if m != pingEveryone && m != pingRoles && m != pingNobody && m != pingNoReply {
			return fmt.Errorf("allow_mentions: %q is none of everyone, roles, nobody and no_reply", m)
		}
	}
	_, err := mention.NewRules(c.settings())
	return err
}

func (c Config) settings() mention.Settings {
	return mention.Settings{
		RequireMention: c.RequireMention, Strict: c.StrictMention, AutoThread: c.AutoThread, Free: c.FreeResponseChats,
		Allowed: c.AllowedChats, Ignored: c.IgnoredChats, Patterns: c.MentionPatterns, Native: c.NativeMentions, Prompts: c.ChatPrompts,
	}
}

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
