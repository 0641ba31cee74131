package telegram

import (
	"cmp"
	_ "embed"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"hermesd/adapters/internal/mention"
	"hermesd/adapters/internal/transport"
	"hermesd/gateway/chat"
	"hermesd/internal/lazyregexp"
	"hermesd/internal/secret"
)

// Config is the configuration of one account: a bot and how it receives updates.
// Only Token is required.
type Config struct {
	Token   secret.Value `yaml:"token" env:"BOT_TOKEN" own:"true" doc:"The bot's token; TELEGRAM_BOT_TOKEN."`
	BaseURL string       `yaml:"api_url" doc:"Address of the platform's API; empty: the public one."`
	Proxy   secret.Value `yaml:"proxy" env:"PROXY" doc:"Proxy (http, https or socks5 URL); empty: HTTPS_PROXY of the environment."`

	WebhookURL    string       `yaml:"webhook_url" env:"WEBHOOK_URL" own:"true" doc:"Public address at which the platform delivers messages; empty: they are fetched."`
	WebhookSecret secret.Value `yaml:"webhook_secret" env:"WEBHOOK_SECRET" own:"true" doc:"Secret that comes with each delivery; needed with webhook_url."`
	WebhookListen string       `yaml:"webhook_listen" default:"127.0.0.1:8443" own:"true" doc:"Where the webhook listens; its path is that of webhook_url."`

	RequireMention    bool              `yaml:"require_mention" env:"REQUIRE_MENTION" default:"false" doc:"In groups, answer only when mentioned or replied to."`
	FreeResponseChats []string          `yaml:"free_response_chats" alias:"free_response_channels" doc:"Ids of groups in which everything is answered although require_mention is set."`
	AllowedChats      []string          `yaml:"allowed_chats" env:"ALLOWED_CHATS" alias:"allowed_channels" own:"true" doc:"IDs of the groups the bot reads; empty: all. This key does not grant access."`
	MentionPatterns   []string          `yaml:"mention_patterns" doc:"Regular expressions (RE2, any case) that count as a mention."`
	NativeMentions    []string          `yaml:"native_mention_only_chats" alias:"native_mention_only_channels" own:"true" doc:"Ids of groups in which mention_patterns do not count: only a mention by the platform does."`
	ChatPrompts       map[string]string `yaml:"channel_prompts" doc:"Extra prompt by id of the chat or thread; used from the next turn on."`
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
	tokenForm  = lazyregexp.New(`^[0-9]+:[A-Za-z0-9_-]+$`)
	secretForm = lazyregexp.New(`^[A-Za-z0-9_-]{1,256}$`)
)

// Validate returns the first invalid setting as an error written for the
// operator. The error names the key and never contains a secret.
func (c Config) Validate() error {
	c = c.withDefaults()
	if c.Token == "" {
		return fmt.Errorf("token: missing; set it to what @BotFather gave you (TELEGRAM_BOT_TOKEN)")
	}
	if !tokenForm().MatchString(c.Token.Reveal()) {
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
	if !secretForm().MatchString(c.WebhookSecret.Reveal()) {
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

//go:embed hint.md
var hint string

var userID = lazyregexp.New(`^[0-9]{1,20}$`)

// Profile returns the facts about Telegram that other packages need.
func Profile() chat.Profile {
	return chat.Profile{
		Platform: chat.Telegram, Name: "Telegram",
		KindOf: kindOf, Person: chat.IDForm{Valid: func(id string) bool { return userID().MatchString(id) }, Is: "numeric id", Find: "@userinfobot tells it.", Like: "123456789"},
		Pairing: true, Unasked: true, ShowIDs: true, HashIDs: true,
		Steps: "1. Open https://t.me/BotFather and send /newbot: it gives you the token.\n" +
			"2. For groups: /setprivacy, Disable, if the bot shall read what does not mention it.",
		Secrets:  []chat.Secret{{Key: "token", Env: "TELEGRAM_BOT_TOKEN", Is: "token", Title: "Bot token", Check: func(v secret.Value) error { return Config{Token: v}.Validate() }}},
		Endpoint: defaultBaseURL, Hint: hint, Try: tryToken,
	}
}

// kindOf returns the kind of the chat with an ID: those of groups and channels are
// negative.
func kindOf(id string) chat.Kind {
	if strings.HasPrefix(id, "-") {
		return chat.Group
	}
	return chat.DM
}

func tryToken(base string, secrets map[string]secret.Value, ask chat.Ask) (string, error) {
	var me struct {
		Result struct {
			Username string
			Reads    bool `json:"can_read_all_group_messages"`
		}
	}
	if err := ask(http.MethodGet, cmp.Or(base, defaultBaseURL)+"/bot"+secrets["token"].Reveal()+"/getMe", nil, &me); err != nil {
		return "", err
	}
	if me.Result.Reads {
		return fmt.Sprintf("It is the token of @%s, which reads all messages of its groups.", me.Result.Username), nil
	}
	return fmt.Sprintf("It is the token of @%s. In groups it sees only what mentions it (/setprivacy changes that).", me.Result.Username), nil
}
