package config_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"hermesd/cmd/internal/config"
)

// TestFormerKeys shows that keys that were renamed work under their old names,
// with a warning that names the new one.
func TestFormerKeys(t *testing.T) {
	for _, c := range []struct {
		yaml string
		get  func(c *config.Config) any
		want any
		warn string
	}{
		{"gateway: {max_waiting: 7}", func(c *config.Config) any { return c.Gateway.MaxQueuedMessages }, 7,
			"config.yaml:1:11: gateway.max_waiting: this key is called max_queued_messages now; the old name still works\n"},
		{"gateway: {cache_bytes: 9}", func(c *config.Config) any { return c.Gateway.TranscriptCacheBytes }, int64(9),
			"config.yaml:1:11: gateway.cache_bytes: this key is called transcript_cache_bytes now; the old name still works\n"},
		{"model: {provider: demo, demo_pause: 3ms}", func(c *config.Config) any { return c.Model.DemoDelay }, 3 * time.Millisecond,
			"config.yaml:1:25: model.demo_pause: this key is called demo_delay now; the old name still works\n"},
		{"platforms: {slack: {rate: 30/1m}}", func(c *config.Config) any { return c.Platforms.Slack.RateLimit }, config.RateLimit{PerAccount: "30/1m"},
			"config.yaml:1:21: platforms.slack.rate: this key is called rate_limit now; the old name still works\n"},
		{"platforms: {slack: {rate_limit: {account: 30/1m, chat: 1/s}}}", func(c *config.Config) any { return c.Platforms.Slack.RateLimit },
			config.RateLimit{PerAccount: "30/1m", PerChat: "1/s"},
			"config.yaml:1:34: platforms.slack.rate_limit.account: this key is called per_account now; the old name still works\n" +
				"config.yaml:1:50: platforms.slack.rate_limit.chat: this key is called per_chat now; the old name still works\n"},
		{"terminal: {sandbox: require}", func(c *config.Config) any { return c.Terminal.Sandbox }, "auto",
			"config.yaml:1:21: terminal.sandbox: the value require is called auto now; the old one still works\n"},
	} {
		cfg, r := setup{yaml: c.yaml}.good(t)
		if diff := cmp.Diff(c.want, c.get(cfg)); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", c.yaml, diff)
		}
		if diff := cmp.Diff(c.warn, texts(r.Warnings)); diff != "" {
			t.Errorf("%s: warnings (-want +got)\n%s", c.yaml, diff)
		}
	}
	// Both names at once are an error, as two aliases are.
	if got, want := (setup{yaml: "gateway: {max_waiting: 7, max_queued_messages: 8}"}).problems(t),
		"config.yaml:1:48: gateway.max_queued_messages: this is set twice; it is set on line 1 already, maybe under another name\n"; got != want {
		t.Errorf("%s", got)
	}
}
