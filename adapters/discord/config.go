package discord

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"

	"hermesd/adapters/discord/internal/apiclient"
	"hermesd/adapters/discord/internal/inbound"
	"hermesd/adapters/internal/mention"
	"hermesd/adapters/internal/transport"
	"hermesd/internal/secret"
)

// Config is the configuration of one account: a bot and which messages it
// answers. Only Token is required.
type Config struct {
	Token   secret.Value
	BaseURL string       // of the API server; "": https://discord.com
	Proxy   secret.Value // http, https or socks5 URL; "": HTTPS_PROXY of the environment

	RequireMention    bool              // in guilds, answer only when mentioned or replied to
	FreeResponseChats []string          // IDs of channels in which everything is answered; * is all
	AllowedChats      []string          // IDs of channels whose messages are processed; empty: all
	IgnoredChats      []string          // IDs of channels whose messages are never processed
	MentionPatterns   []string          // RE2, any case; each counts as a mention
	NativeMentions    []string          // IDs of channels in which MentionPatterns do not count
	ChatPrompts       map[string]string // extra prompt by channel ID

	StrictMention bool     // require a mention in threads too
	AutoThread    bool     // a mention in a channel starts a thread
	AllowMentions []string // what answers may mention besides users: everyone, roles; or nobody, no_reply
	Reactions     bool     // mark messages with what became of them
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
