package telegram

import (
	"cmp"
	"fmt"
	"net"
	"regexp"
	"strconv"
	"strings"
	"time"

	"hermesd/adapters/internal/mention"
	"hermesd/adapters/internal/transport"
	"hermesd/internal/secret"
)

// Config is the configuration of one account: a bot and how it receives updates.
// Only Token is required.
type Config struct {
	Token   secret.Value
	BaseURL string       // of the Bot API server; "": https://api.telegram.org
	Proxy   secret.Value // http, https or socks5 URL; "": HTTPS_PROXY of the environment

	WebhookURL    string       // public https address; "": long polling
	WebhookSecret secret.Value // sent with each delivery; required with WebhookURL
	WebhookListen string       // "": 127.0.0.1:8443; the path is that of WebhookURL

	RequireMention    bool              // in groups, answer only when mentioned or replied to
	FreeResponseChats []string          // IDs of groups in which everything is answered
	AllowedChats      []string          // IDs of chats whose messages are processed; empty: all
	MentionPatterns   []string          // RE2, any case; each counts as a mention
	NativeMentions    []string          // IDs of groups in which MentionPatterns do not count
	ChatPrompts       map[string]string // extra prompt by chat ID
}

const (
	defaultBaseURL = "https://api.telegram.org"
	defaultListen  = "127.0.0.1:8443"
)

// pollTimeout is how long Telegram holds a poll open if there are no updates.
const pollTimeout = 30 * time.Second

// withDefaults returns c with empty fields set to their defaults.
func (c Config) withDefaults() Config {
	c.BaseURL = cmp.Or(c.BaseURL, defaultBaseURL)
	c.BaseURL = strings.TrimRight(c.BaseURL, "/")
	c.WebhookListen = cmp.Or(c.WebhookListen, defaultListen)
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
	_, err := mention.NewRules(c.settings())
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

func (c Config) settings() mention.Settings {
	return mention.Settings{
		RequireMention: c.RequireMention, Free: c.FreeResponseChats, Allowed: c.AllowedChats,
		Patterns: c.MentionPatterns, Native: c.NativeMentions, Prompts: c.ChatPrompts,
	}
}
