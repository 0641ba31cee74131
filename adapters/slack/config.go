package slack

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"hermesd/adapters/internal/transport"
	"hermesd/adapters/slack/internal/inbound"
	"hermesd/internal/secret"
)

// Config is the configuration of one account: an app in one workspace, and which
// messages it answers. Only the tokens are required.
type Config struct {
	Token    secret.Value `yaml:"token" doc:"The bot token (xoxb-…) of the app in the workspace."`
	AppToken secret.Value `yaml:"app_token" doc:"The app-level token (xapp-…) with connections:write, for Socket Mode."`
	APIURL   string       `yaml:"api_url" default:"https://slack.com/api/" doc:"Address of the Web API."`
	Proxy    secret.Value `yaml:"proxy" doc:"Proxy for this account (http, https or socks5 URL); empty: HTTPS_PROXY of the environment."`

	RequireMention    bool              `yaml:"require_mention" default:"true" doc:"In channels, answer only when mentioned, or in a thread in which the bot takes part."`
	StrictMention     bool              `yaml:"strict_mention" default:"false" doc:"In threads too, answer only when mentioned."`
	MentionChats      []string          `yaml:"require_mention_channels" doc:"Ids of channels in which a mention is required whatever else is set."`
	IgnoreOthers      bool              `yaml:"ignore_other_user_mentions" default:"false" doc:"A message that begins with a mention of somebody else is not for the bot."`
	ReplyInThread     bool              `yaml:"reply_in_thread" default:"true" doc:"A message to the bot in a channel opens a thread, which is a conversation of its own."`
	FreeResponseChats []string          `yaml:"free_response_chats" doc:"Ids of channels in which everything is answered."`
	AllowedChats      []string          `yaml:"allowed_chats" doc:"Ids of the channels that are listened to; empty: all."`
	IgnoredChats      []string          `yaml:"ignored_chats" doc:"Ids of channels that are never listened to."`
	MentionPatterns   []string          `yaml:"mention_patterns" doc:"Regular expressions (RE2, any case) that count as a mention."`
	NativeMentions    []string          `yaml:"native_mention_only_channels" doc:"Ids of channels in which mention_patterns do not count."`
	ChatPrompts       map[string]string `yaml:"channel_prompts" doc:"Extra prompt per channel id."`
	Reactions         bool              `yaml:"reactions" default:"true" doc:"Mark people's messages with what has become of them."`
}

const defaultAPIURL = "https://slack.com/api/"

// withDefaults returns c with empty fields set to their defaults.
func (c Config) withDefaults() Config {
	if c.APIURL == "" {
		c.APIURL = defaultAPIURL
	}
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

// settings returns the settings of the conversion.
func (c Config) settings(commands []string) inbound.Settings {
	return inbound.Settings{
		Always: c.MentionChats, NotToOthers: c.IgnoreOthers, RequireMention: c.RequireMention, Strict: c.StrictMention, InThread: c.ReplyInThread,
		Free: c.FreeResponseChats, Allowed: c.AllowedChats, Ignored: c.IgnoredChats,
		Patterns: c.MentionPatterns, Native: c.NativeMentions, Prompts: c.ChatPrompts, Commands: commands,
	}
}
