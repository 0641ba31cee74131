package discord_test

import (
	"errors"
	"strings"
	"testing"

	"go.uber.org/zap"

	"hermesd/adapters/discord"
	"hermesd/gateway/chat"
	"hermesd/internal/secret"
)

func TestSettingsThatCannotWorkAreSaidSo(t *testing.T) {
	const good = "MTAw.GsimXY.secret-part"
	for _, c := range []struct {
		name   string
		change func(*discord.Config)
		has    string // "": it is fine
	}{
		{"nothing but a token", func(*discord.Config) {}, ""},
		{"no token", func(c *discord.Config) { c.Token = "" }, "token: missing"},
		{"a token with its word", func(c *discord.Config) { c.Token = "Bot " + good }, "leave out the word Bot"},
		{"another kind of token", func(c *discord.Config) { c.Token = "123456:secret-part" }, "token: this is not"},
		{"a token with a line feed", func(c *discord.Config) { c.Token = good + "\n" }, "token: this is not"},
		{"an address without a host", func(c *discord.Config) { c.BaseURL = "discord.com" }, "api_url"},
		{"an address of another kind", func(c *discord.Config) { c.BaseURL = "ftp://discord.com" }, "api_url"},
		{"a proxy", func(c *discord.Config) { c.Proxy = "socks5://user:secret-part@proxy:1080" }, ""},
		{"a proxy of another kind", func(c *discord.Config) { c.Proxy = "ftp://user:secret-part@proxy" }, "proxy"},
		{"a channel's name", func(c *discord.Config) { c.AllowedChats = []string{"#general"} }, "allowed_chats"},
		{"all channels are free", func(c *discord.Config) { c.FreeResponseChats = []string{"*"} }, ""},
		{"all channels are ignored", func(c *discord.Config) { c.IgnoredChats = []string{"*"} }, "ignored_channels"},
		{"a pattern that is none", func(c *discord.Config) { c.MentionPatterns = []string{"("} }, "mention_patterns"},
		{"pings", func(c *discord.Config) { c.AllowMentions = []string{"everyone", "roles"} }, ""},
		{"pings of another kind", func(c *discord.Config) { c.AllowMentions = []string{"here"} }, "allow_mentions"},
	} {
		cfg := discord.Config{Token: good}
		c.change(&cfg)
		_, err := discord.New(cfg, discord.Options{Memory: newMemory(), Log: zap.NewNop()})
		var ce *chat.ConfigError
		switch {
		case c.has == "" && err != nil:
			t.Errorf("%s: %v", c.name, err)
		case c.has != "" && (!errors.As(err, &ce) || ce.Platform != chat.Discord || !strings.Contains(ce.Reason, c.has)):
			t.Errorf("%s: %v, want %q", c.name, err, c.has)
		case err != nil && strings.Contains(err.Error(), "secret-part"):
			t.Errorf("%s: the error shows a secret: %v", c.name, err)
		}
	}
	if s := (discord.Config{Token: secret.Value(good)}); strings.Contains(s.Token.String(), "secret-part") {
		t.Error("a token is shown")
	}
}

func TestFeatures(t *testing.T) {
	a, err := discord.New(discord.Config{Token: "a.b.c"}, discord.Options{Memory: newMemory(), Log: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	f := a.Capabilities()
	if f.MaxTextSize != 2000 || f.RawMarkdown || !f.CanFind || f.EditInterval <= 0 {
		t.Errorf("%+v", f)
	}
	for text, want := range map[string]int{"abc": 3, "é漢😀": 3, "a*b": 4} {
		if got := f.TextSize(chat.PlainText(text)); got != want {
			t.Errorf("size of %q is %d, want %d", text, got, want)
		}
	}
}
