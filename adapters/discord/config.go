package discord

import (
	"fmt"
	"regexp"
	"strings"

	"hermesd/adapters/discord/internal/apiclient"
	"hermesd/adapters/discord/internal/inbound"
	"hermesd/adapters/internal/transport"
	"hermesd/internal/secret"
)

// Config is the configuration of one account: a bot and which messages it
// answers. Only Token is required. The zero value of a boolean is not replaced
// by its default, so the caller must apply the defaults in the tags.
type Config struct {
	Token   secret.Value `yaml:"token" doc:"The bot's token, as the developer portal gave it."`
	BaseURL string       `yaml:"api_url" default:"https://discord.com" doc:"Address of the API server."`
	Proxy   secret.Value `yaml:"proxy" doc:"Proxy for this account (http, https or socks5 URL); empty: HTTPS_PROXY of the environment."`

	RequireMention    bool              `yaml:"require_mention" default:"true" doc:"In guilds, answer only when mentioned or replied to."`
	FreeResponseChats []string          `yaml:"free_response_chats" doc:"Ids of channels in which everything is answered although require_mention is set; * is all."`
	AllowedChats      []string          `yaml:"allowed_chats" doc:"Ids of the channels that are listened to; empty: all."`
	IgnoredChats      []string          `yaml:"ignored_channels" doc:"Ids of channels that are never listened to."`
	MentionPatterns   []string          `yaml:"mention_patterns" doc:"Regular expressions (RE2, any case) that count as a mention."`
	NativeMentions    []string          `yaml:"native_mention_only_channels" doc:"Ids of channels in which mention_patterns do not count."`
	ChatPrompts       map[string]string `yaml:"channel_prompts" doc:"Extra prompt per channel id."`

	StrictMention bool     `yaml:"thread_require_mention" default:"false" doc:"In threads too, answer only when mentioned."`
	AutoThread    bool     `yaml:"auto_thread" default:"true" doc:"A mention in a channel opens a thread, which is a conversation of its own."`
	AllowMentions []string `yaml:"allow_mentions" doc:"What answers may ping besides people: everyone, roles. nobody: not even people; no_reply: not the person whom an answer quotes."`
	Reactions     bool     `yaml:"reactions" default:"true" doc:"Mark people's messages with what has become of them."`
}

// withDefaults returns c with empty fields set to their defaults.
func (c Config) withDefaults() Config {
	if c.BaseURL == "" {
		c.BaseURL = apiclient.Origin
	}
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
	_, err := inbound.NewRules(c.settings())
	return err
}

// settings returns the settings of the conversion.
func (c Config) settings() inbound.Settings {
	return inbound.Settings{
		RequireMention: c.RequireMention, Strict: c.StrictMention, AutoThread: c.AutoThread, Free: c.FreeResponseChats,
		Allowed: c.AllowedChats, Ignored: c.IgnoredChats, Patterns: c.MentionPatterns, Native: c.NativeMentions, Prompts: c.ChatPrompts,
	}
}
