package telegram

import (
	"fmt"
	"net"
	"regexp"
	"strconv"
	"strings"
	"time"

	"hermesd/adapters/internal/transport"
	"hermesd/adapters/telegram/internal/inbound"
	"hermesd/internal/secret"
)

// Config is the configuration of one account: a bot and how it receives updates.
// The zero value of every field except Token means the default in its tag.
type Config struct {
	Token       secret.Value  `yaml:"token" doc:"The bot's token, as @BotFather gave it."`
	BaseURL     string        `yaml:"api_url" default:"https://api.telegram.org" doc:"Address of the Bot API server."`
	Proxy       secret.Value  `yaml:"proxy" doc:"Proxy for this account (http, https or socks5 URL); empty: HTTPS_PROXY of the environment."`
	PollTimeout time.Duration `yaml:"poll_timeout" default:"30s" range:"5s..50s" doc:"How long Telegram holds a poll open when there is nothing new."`

	WebhookURL    string       `yaml:"webhook_url" doc:"Public https address at which Telegram delivers messages; empty: long polling."`
	WebhookSecret secret.Value `yaml:"webhook_secret" doc:"Secret that Telegram sends with each delivery; required with webhook_url."`
	WebhookListen string       `yaml:"webhook_listen" default:"127.0.0.1:8443" doc:"Where the webhook listens; the path is that of webhook_url."`

	RequireMention    bool              `yaml:"require_mention" default:"false" doc:"In groups, answer only when mentioned or replied to."`
	FreeResponseChats []string          `yaml:"free_response_chats" doc:"Ids of groups in which everything is answered although require_mention is set."`
	AllowedChats      []string          `yaml:"allowed_chats" doc:"Ids of the groups and channels that are listened to; empty: all."`
	MentionPatterns   []string          `yaml:"mention_patterns" doc:"Regular expressions (RE2, any case) that count as a mention."`
	NativeMentions    []string          `yaml:"native_mention_only_chats" doc:"Ids of groups in which mention_patterns do not count."`
	ChatPrompts       map[string]string `yaml:"channel_prompts" doc:"Extra prompt per chat id."`
}

const (
	defaultBaseURL = "https://api.telegram.org"
	defaultPoll    = 30 * time.Second
	defaultListen  = "127.0.0.1:8443"
)

// withDefaults returns c with empty fields set to their defaults.
func (c Config) withDefaults() Config {
	if c.BaseURL == "" {
		c.BaseURL = defaultBaseURL
	}
	c.BaseURL = strings.TrimRight(c.BaseURL, "/")
	if c.PollTimeout == 0 {
		c.PollTimeout = defaultPoll
	}
	if c.WebhookListen == "" {
		c.WebhookListen = defaultListen
	}
	return c
}

var (
	tokenForm  = regexp.MustCompile(`^[0-9]+:[A-Za-z0-9_-]+$`)
	secretForm = regexp.MustCompile(`^[A-Za-z0-9_-]{1,256}$`)
)

// Validate returns the first invalid setting as an error written for the
// operator. The error names the key and never contains a secret.
func (c Config) Validate() error {
	c = c.withDefaults()
	if c.Token == "" {
		return fmt.Errorf("token: missing; set it to what @BotFather gave you (TELEGRAM_BOT_TOKEN)")
	}
	if !tokenForm.MatchString(c.Token.Reveal()) {
		return fmt.Errorf("token: this is not a bot token, which looks like 123456:AA-letters; check TELEGRAM_BOT_TOKEN")
	}
	if err := transport.CheckURL(c.BaseURL, "http", "https"); err != nil {
		return fmt.Errorf("api_url: %w", err)
	}
	if err := transport.CheckProxy(c.Proxy); err != nil {
		return err
	}
	if c.PollTimeout < 5*time.Second || c.PollTimeout > 50*time.Second {
		return fmt.Errorf("poll_timeout: %v is not between 5s and 50s", c.PollTimeout)
	}
	if err := c.validateWebhook(); err != nil {
		return err
	}
	for _, l := range []struct {
		key string
		ids []string
	}{{"free_response_chats", c.FreeResponseChats}, {"allowed_chats", c.AllowedChats}} {
		for _, id := range l.ids {
			if _, err := strconv.ParseInt(id, 10, 64); err != nil {
				return fmt.Errorf("%s: %q is not a chat id (a number such as -1001234567890)", l.key, id)
			}
		}
	}
	_, err := inbound.NewRules(c.settings())
	return err
}

func (c Config) validateWebhook() error {
	if c.WebhookURL == "" {
		return nil
	}
	if err := transport.CheckURL(c.WebhookURL, "https"); err != nil {
		return fmt.Errorf("webhook_url: %w", err)
	}
	if c.WebhookSecret == "" {
		return fmt.Errorf("webhook_secret: required when webhook_url is set")
	}
	if !secretForm.MatchString(c.WebhookSecret.Reveal()) {
		return fmt.Errorf("webhook_secret: must be 1 to 256 of A-Z a-z 0-9 _ -")
	}
	if _, _, err := net.SplitHostPort(c.WebhookListen); err != nil {
		return fmt.Errorf("webhook_listen: %w", err)
	}
	return nil
}

// settings returns the settings of the conversion.
func (c Config) settings() inbound.Settings {
	return inbound.Settings{
		RequireMention: c.RequireMention, Free: c.FreeResponseChats, Allowed: c.AllowedChats,
		Patterns: c.MentionPatterns, Native: c.NativeMentions, Prompts: c.ChatPrompts,
	}
}
