package config_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"hermesd/adapters/telegram"
	"hermesd/cmd/internal/config"
	"hermesd/cmd/internal/config/yamlconf"
	"hermesd/gateway/chat"
	"hermesd/gateway/outbox"
	"hermesd/internal/secret"
)

func TestNothingConfigured(t *testing.T) {
	home := filepath.Join(t.TempDir(), "not", "there")
	c, r, err := config.Load(config.Options{Home: home, Env: func(string) (string, bool) { return "", false }})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Warnings) > 0 || r.File != "" || r.Missing != filepath.Join(home, "config.yaml") || r.Home != home {
		t.Errorf("report %+v", r)
	}
	if r.Model.Provider != "demo" || r.Model.Reason == "" {
		t.Errorf("model %+v, want the demo with a reason", r.Model)
	}
	if len(c.Accounts()) != 0 || c.UnauthorizedDMBehavior != "pair" || c.Gateway.MaxConcurrentTurns != 64 || c.Gateway.TranscriptCacheBytes != 8<<20 ||
		c.Gateway.TurnTimeout != 30*time.Minute || c.Backlog.MaxAge != 24*time.Hour || !c.GroupSessionsPerUser || c.ThreadSessionsPerUser ||
		c.Platforms.Telegram.Adapter.RequireMention || !c.Platforms.Discord.Adapter.RequireMention || !c.Platforms.Slack.Adapter.RequireMention || c.Agent.MaxTurns != 90 {
		t.Errorf("defaults differ: %+v", c)
	}
}

func TestEmptyFilesAreFine(t *testing.T) {
	want, _ := setup{}.good(t)
	for _, y := range []string{"", "\n\n", "# only a comment\n", "---\n", "null\n", "{}\n", "model:\nplatforms:\n  telegram:\n", "fallback_providers:\ntimezone: ~\n", "\xef\xbb\xbftimezone:\n"} {
		c, r := setup{yaml: y}.good(t)
		if d := cmp.Diff(want, c); d != "" {
			t.Errorf("%q changes the defaults:\n%s", y, d)
		}
		if len(r.Warnings) > 0 {
			t.Errorf("%q warns: %v", y, r.Warnings)
		}
	}
}

func TestValues(t *testing.T) {
	c, _ := setup{
		env: map[string]string{"WORD": "queue", "EMPTY": "", "INNER": "abc${WORD}$$: [x", "N": "7"},
		yaml: `
model: llama3
fallback_providers:
  - {provider: openrouter, model: a/b, api_key: sk-or-12345678}
  - provider: ollama
    model: qwen
agent:
  system_prompt: |
    $5 is $$5, ${EMPTY:-nothing} is ${UNSET_ONE:-}.
  max_turns: ${N}
prompt_caching: {cache_ttl: 1h}
timezone: Europe/Berlin
display: {busy_input_mode: "${WORD}", tool_progress: off}
streaming: {enabled: no, edit_interval: 0.8}
gateway: {drain_timeout: 90, turn_timeout: 1h30m, max_queued_messages: 1_000, restart_notice: "false"}
session_reset: {mode: both, idle_minutes: 5, at_hour: 0}
access: {owners: [123456789], allow_from: "1, 2,3"}
telegram:
  token: 1:x
  home_channel: -1001234567890
  allow_from: [42, "43", telegram:44]
  channel_prompts: {-100: one, "two words": "${INNER}", 3: 4}
  rate_limit: 20/1m
`}.good(t)
	want, _ := setup{}.good(t)
	want.Model.Default = "llama3"
	want.FallbackProviders = []config.Fallback{{Provider: "openrouter", Model: "a/b", APIKey: "sk-or-12345678"}, {Provider: "ollama", Model: "qwen"}}
	want.Agent.EphemeralSystemPrompt = "$5 is $5, nothing is .\n"
	want.Agent.MaxTurns = 7
	want.PromptCaching.CacheTTL = "1h"
	want.Timezone = "Europe/Berlin"
	want.Display.BusyInputMode, want.Display.ToolProgress = "queue", "off"
	want.Streaming = config.Streaming{EditInterval: 800 * time.Millisecond}
	want.Gateway.DrainTimeout, want.Gateway.TurnTimeout, want.Gateway.MaxQueuedMessages, want.Gateway.RestartNotice = 90*time.Second, 90*time.Minute, 1000, false
	want.SessionReset = config.SessionReset{Mode: "both", IdleMinutes: 5}
	want.Access.Owners, want.Access.AllowFrom = []string{"123456789"}, []string{"1", "2", "3"}
	tg := &want.Platforms.Telegram
	tg.Enabled, tg.Adapter.Token, tg.HomeChannel, tg.AllowFrom = true, "1:x", "-1001234567890", []string{"42", "43", "telegram:44"}
	tg.Adapter.ChatPrompts = map[string]string{"-100": "one", "two words": "abc${WORD}$$: [x", "3": "4"}
	tg.RateLimit.PerAccount = "20/1m"
	if d := cmp.Diff(want, c); d != "" {
		t.Error("the configuration differs (-want +got):\n" + d)
	}
	if got := c.Ceilings()[chat.Account{Platform: chat.Telegram}]; got.PerAccount != (outbox.Rate{N: 20, Per: time.Minute}) {
		t.Errorf("ceiling %+v", got)
	}
	if c.Location().String() != "Europe/Berlin" {
		t.Errorf("location %v", c.Location())
	}
}

// A written threshold holds as it is; the minimum of tokens is for the default.
func TestWrittenThresholdHasNoMinimum(t *testing.T) {
	for y, want := range map[string]struct {
		threshold float64
		minimum   int
	}{
		"":                               {0.5, 64_000},
		"compression: {threshold: 0.25}": {0.25, 0},
		"compression: {threshold: 0.0}":  {0, 0},
		"compression: {threshold: 1}":    {1, 0},
		"compression: {threshold: 0.25, min_threshold_tokens: 9000}": {0.25, 9000},
		"compression: {target_ratio: 0.3}":                           {0.5, 64_000},
	} {
		c, _ := setup{yaml: y}.good(t)
		if c.Compression.Threshold != want.threshold || c.Compression.MinThresholdTokens != want.minimum {
			t.Errorf("%q: %+v", y, c.Compression)
		}
	}
}

func TestSettingsThatExceedTheContextAreWarnedOf(t *testing.T) {
	for y, want := range map[string]string{
		"compression: {threshold: 0.86}": "config.yaml:1:26: compression.threshold: a request may then have more than 85 % of the context",
		"compression: {enabled: false}":  "config.yaml:1:24: compression.enabled: nothing keeps a conversation within the context",
		"compression: {threshold: 0.85}": "",
	} {
		_, r := setup{yaml: y}.good(t)
		if got := texts(r.Warnings); !strings.HasPrefix(got, want) || want == "" && got != "" {
			t.Errorf("%q warns:\n%s", y, got)
		}
	}
}

func TestOrderOfSources(t *testing.T) {
	s := setup{
		yaml:   "agent: {max_turns: 11}\naccess: {allow_from: [1]}\n",
		dotenv: "HERMES_MAX_ITERATIONS=22\nGATEWAY_ALLOWED_USERS=2\n",
		env:    map[string]string{"HERMES_MAX_ITERATIONS": "33", "GATEWAY_ALLOWED_USERS": ""},
		flags:  map[string]string{"agent.max_turns": "44"},
	}
	for _, step := range []struct {
		less   func()
		turns  int
		origin string
	}{
		{func() {}, 44, "flag agent.max_turns"},
		{func() { s.flags = nil }, 33, "environment HERMES_MAX_ITERATIONS"},
		{func() { s.env = nil }, 22, ".env HERMES_MAX_ITERATIONS"},
		{func() { s.dotenv = "" }, 11, "config.yaml:1:20"},
		{func() { s.yaml = "" }, 90, "default"},
	} {
		step.less()
		c, r := s.good(t)
		origin := strings.TrimPrefix(r.Origins["agent.max_turns"].String(), r.Home+"/")
		if c.Agent.MaxTurns != step.turns || origin != step.origin {
			t.Errorf("max_turns %d from %q, want %d from %q", c.Agent.MaxTurns, origin, step.turns, step.origin)
		}
	}
	// An empty variable counts as unset, but it hides the one in .env.
	c, _ := setup{yaml: "access: {allow_from: [1]}", dotenv: "GATEWAY_ALLOWED_USERS=2", env: map[string]string{"GATEWAY_ALLOWED_USERS": ""}}.good(t)
	if d := cmp.Diff([]string{"1"}, c.Access.AllowFrom); d != "" {
		t.Error("allow_from differs:\n" + d)
	}
}

func TestVariables(t *testing.T) {
	c, r := setup{env: map[string]string{
		"TELEGRAM_BOT_TOKEN": "1:abc", "TELEGRAM_ALLOWED_USERS": "5, 6", "TELEGRAM_ALLOW_ALL_USERS": "1", "TELEGRAM_HOME_CHANNEL": "-100",
		"DISCORD_BOT_TOKEN": "d-token", "DISCORD_ALLOWED_USERS": "7", "SLACK_BOT_TOKEN": "xoxb-token", "SLACK_APP_TOKEN": "xapp-token", "SLACK_ALLOWED_USERS": "U01ABC",
		"GATEWAY_ALLOWED_USERS": "8", "GATEWAY_ALLOW_ALL_USERS": "yes", "HERMES_EPHEMERAL_SYSTEM_PROMPT": "${not expanded}", "HERMES_TIMEZONE": "UTC",
		"TELEGRAM_WEBHOOK_URL": "https://example.org/hook", "TELEGRAM_WEBHOOK_SECRET": "hook-secret", "TELEGRAM_REPLY_TO_MODE": "off", "TERMINAL_CWD": "/srv",
	}}.good(t)
	tg := c.Platforms.Telegram
	if !tg.Enabled || tg.Adapter.Token != "1:abc" || !cmp.Equal(tg.AllowFrom, []string{"5", "6"}) || !tg.AllowAll || tg.HomeChannel != "-100" ||
		tg.Adapter.WebhookURL != "https://example.org/hook" || tg.Adapter.WebhookSecret != "hook-secret" || tg.ReplyToMode != "off" {
		t.Errorf("telegram %+v", tg)
	}
	if d, s := c.Platforms.Discord, c.Platforms.Slack; !d.Enabled || d.Adapter.Token != "d-token" || !s.Enabled || s.Adapter.Token != "xoxb-token" || s.Adapter.AppToken != "xapp-token" || !cmp.Equal(s.AllowFrom, []string{"U01ABC"}) {
		t.Errorf("discord %+v, slack %+v", d, s)
	}
	if !cmp.Equal(c.Access.AllowFrom, []string{"8"}) || !c.Access.AllowAll || c.Agent.EphemeralSystemPrompt != "${not expanded}" || c.Timezone != "UTC" || c.Workspace(r.Home) != "/srv" {
		t.Errorf("configuration %+v", c)
	}
	got := texts(r.Warnings)
	for _, want := range []string{"environment: GATEWAY_ALLOW_ALL_USERS: everybody on every platform", "environment: TELEGRAM_ALLOW_ALL_USERS: everybody on telegram"} {
		if !strings.Contains(got, want) {
			t.Errorf("no warning %q in:\n%s", want, got)
		}
	}
}

func TestTokenSwitchesOn(t *testing.T) {
	env := map[string]string{"TELEGRAM_BOT_TOKEN": "1:abc"}
	one := chat.Account{Platform: chat.Telegram}
	work := chat.Account{Platform: chat.Telegram, Name: "work"}
	for _, c := range []struct {
		name, yaml string
		env        map[string]string
		want       []chat.Account
	}{
		{"nothing", "", nil, nil},
		{"token", "", env, []chat.Account{one}},
		{"token, switched off", "telegram: {enabled: false}", env, nil},
		{"accounts only", "telegram: {enabled: true, accounts: {work: {token: '2:x'}}}", nil, []chat.Account{work}},
		{"both", "telegram: {accounts: {work: {token: '2:x'}, off: {token: '3:x', enabled: false}, empty: }}", env, []chat.Account{one, work}},
		{"all switched off", "telegram: {enabled: false, accounts: {work: {token: '2:x'}}}", env, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg, _ := setup{yaml: c.yaml, env: c.env}.good(t)
			got := cfg.Accounts()
			for _, a := range c.want {
				if _, ok := got[a]; !ok {
					t.Errorf("%v is not connected", a)
				}
			}
			if len(got) != len(c.want) {
				t.Errorf("%d accounts are connected, want %d", len(got), len(c.want))
			}
		})
	}
}

// An account inherits the behavior of its platform, but not secrets and access
// rules.
func TestAccountsTakeOver(t *testing.T) {
	c, r := setup{
		env: map[string]string{"TELEGRAM_REPLY_TO_MODE": "all"},
		yaml: `
telegram:
  token: "1:x"
  require_mention: true
  allow_from: [1]
  webhook_url: https://example.org
  webhook_secret: abcdefgh
  rate_limit: {per_account: 30/s}
  accounts:
    work: {token: "2:x", require_mention: false, rate_limit: {per_chat: 1/s}}
`}.good(t)
	a := c.Platforms.Telegram.Accounts["work"]
	want := config.Login[telegram.Config]{
		Enabled: true, Adapter: telegram.Config{Token: "2:x", WebhookListen: "127.0.0.1:8443"},
		Common: config.Common{AllowBots: "none", ReplyToMode: "all", RateLimit: config.RateLimit{PerAccount: "30/s", PerChat: "1/s"}},
	}
	if d := cmp.Diff(want, a); d != "" {
		t.Error("the account differs (-want +got):\n" + d)
	}
	if o := r.Origins["platforms.telegram.accounts.work.reply_to_mode"]; o.Kind != yamlconf.FromParent {
		t.Errorf("reply_to_mode comes from %v", o)
	}
}

func TestSecretFiles(t *testing.T) {
	home := t.TempDir()
	write(t, filepath.Join(home, "token"), "  1:from-a-file\n")
	write(t, filepath.Join(home, "open"), "open-secret-1")
	write(t, filepath.Join(home, "empty"), "\n")
	if err := os.Chmod(filepath.Join(home, "open"), 0o644); err != nil {
		t.Fatal(err)
	}
	c, r := setup{home: home, yaml: "telegram: {token_file: token}\nmodel: {default: m, provider: openai, api_key_file: " + home + "/open}\n"}.good(t)
	if c.Platforms.Telegram.Adapter.Token != "1:from-a-file" || c.Model.APIKey != "open-secret-1" {
		t.Errorf("secrets %q and %q", c.Platforms.Telegram.Adapter.Token.Reveal(), c.Model.APIKey.Reveal())
	}
	if got := texts(r.Warnings); !strings.Contains(got, "config.yaml:2:53: model.api_key_file: others can read this file") || strings.Contains(got, "token_file") {
		t.Errorf("warnings:\n%s", got)
	}
	got := setup{home: home, yaml: "telegram: {token_file: none}\nmodel: {api_key_file: empty, default_file: x}\nslack: {token: a, token_file: token}\n"}.problems(t)
	want := `config.yaml:1:24: platforms.telegram.token_file: the file cannot be read: no such file or directory
config.yaml:2:23: model.api_key_file: the file is empty
config.yaml:3:16: platforms.slack.enabled: it is switched on but has no app token, which Socket Mode needs: set SLACK_APP_TOKEN in .env, or app_token here
config.yaml:3:31: platforms.slack.token: this is set twice; it is set on line 3 already, maybe under another name
`
	if got != want {
		t.Errorf("problems:\n%swant:\n%s", got, want)
	}
}

func TestNamedFileMustExist(t *testing.T) {
	dir := t.TempDir()
	env := func(string) (string, bool) { return "", false }
	_, _, err := config.Load(config.Options{Home: dir, File: filepath.Join(dir, "other.yaml"), Env: env})
	if err == nil || !strings.Contains(err.Error(), "other.yaml: the file cannot be read: no such file") {
		t.Errorf("error %v", err)
	}
	write(t, filepath.Join(dir, "other.yaml"), "timezone: UTC")
	c, r, err := config.Load(config.Options{Home: dir, File: filepath.Join(dir, "other.yaml"), Env: env})
	if err != nil || c.Timezone != "UTC" || r.File != filepath.Join(dir, "other.yaml") {
		t.Errorf("%v, %+v", err, r)
	}
	_, _, err = config.Load(config.Options{Home: dir, File: dir, Env: env})
	if err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("a directory as file: %v", err)
	}
	write(t, filepath.Join(dir, "large.yaml"), strings.Repeat("#", 1<<20+1))
	_, _, err = config.Load(config.Options{Home: dir, File: filepath.Join(dir, "large.yaml"), Env: env})
	if err == nil || !strings.Contains(err.Error(), "larger than") {
		t.Errorf("a large file: %v", err)
	}
}

func TestResolveHome(t *testing.T) {
	wd, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ flag, env, want string }{
		{"", "", "/home/anna/.hermes"},
		{"", "/srv/hermes", "/srv/hermes"},
		{"/flag", "/srv/hermes", "/flag"},
		{"~/h", "", "/home/anna/h"},
		{"~", "", "/home/anna"},
		{"", "~/h/../k/", "/home/anna/k"},
		{"rel", "", filepath.Join(wd, "rel")},
	} {
		got, err := config.ResolveHome(c.flag, func(n string) (string, bool) {
			v := map[string]string{"HOME": "/home/anna", "HERMES_HOME": c.env}[n]
			return v, v != ""
		})
		if err != nil || got != c.want {
			t.Errorf("home of %+v is %q, %v", c, got, err)
		}
	}
}

func TestSecretsAreKnownToTheMasker(t *testing.T) {
	secrets := []string{"1:telegram-token", "sk-ant-fallback-key", "hook-secret-value", "2:second-token", "socks5://u:proxy-pass@h:1", "sk-or-in-the-environment", "sk-in-dotenv-only"}
	_, r := setup{
		env: map[string]string{"OPENROUTER_API_KEY": secrets[5]}, dotenv: "OPENAI_API_KEY=" + secrets[6],
		yaml: `
fallback_providers: [{api_key: sk-ant-fallback-key}]
telegram: {token: "1:telegram-token", webhook_url: "https://h", webhook_secret: hook-secret-value, proxy: "socks5://u:proxy-pass@h:1", accounts: {b: {token: "2:second-token"}}}
`}.good(t)
	for _, s := range secrets {
		if got := r.Secrets.Mask("x " + s + " y"); strings.Contains(got, s) {
			t.Errorf("%s is not masked", secret.Value(s).Reveal())
		}
	}
}

// Variables of .env that hermesd does not know, and those that commands get, are
// secrets unless they are numbers, or words under a name that says nothing of a secret.
func TestUnknownVariablesAreSecrets(t *testing.T) {
	const long = "x7Qm2Zp9-k4W1"
	for _, c := range []struct {
		name, value string
		secret      bool
	}{
		{"DATABASE_URL", "postgres://app:hunterpass@db/app", true},
		{"SOMETHING", long, true},
		{"GITHUB_TOKEN", "ghp_" + long, true},
		{"DB_PASSWORD", "sunshines", true},
		{"WEBHOOK", "https://hooks.example.org/services/T02AB3C/x9Yz8w7Q", true},
		{"SMTP", "me@example.org:sunshines", true},
		{"DEBUG", "true", false},
		{"WORKERS", "1", false},
		{"SHORT", "x7Qm2Zp", false},
		{"NODE_ENV", "production", false},
		{"AWS_REGION", "eu-central-1", false},
		{"DATA_DIR", "/srv/my-app/data", false},
		{"OLLAMA_HOST", "http://localhost:11434/v1", false},
		{"CONTACT", "me@example.org", false},
		{"MAX_TOKENS", "100000000", false},
		{"RELEASED", "2026-11-27", false},
		{"PATH", "/opt/x7Qm2Zp9k4W1/bin", false},
		{"LANG", "x7Qm2Zp9k4W1", false},
		{"TELEGRAM_HOME_CHANNEL", "telegram:x7Qm2Zp9k4W1", false}, // known, and no secret
		{"MODEL_NAME", "model-x7Qm2Zp9", false},                   // used as an ordinary setting
	} {
		text := "before " + c.value + " after"
		_, dot := setup{dotenv: c.name + "=" + c.value, yaml: "model: {provider: anthropic, default: model-x7Qm2Zp9, api_key: sk-ant-1234567890}"}.good(t)
		_, passed := setup{env: map[string]string{c.name: c.value}, yaml: "model: {provider: anthropic, default: model-x7Qm2Zp9, api_key: sk-ant-1234567890}\nterminal: {env_passthrough: [" + c.name + "]}"}.good(t)
		_, other := setup{env: map[string]string{c.name: c.value}}.good(t)
		want := text
		if c.secret {
			want = "before <secret> after"
		}
		for from, got := range map[string]string{"in .env": dot.Secrets.Mask(text), "passed": passed.Secrets.Mask(text)} {
			if got != want {
				t.Errorf("%s=%s, %s: %q, want %q", c.name, c.value, from, got, want)
			}
		}
		if got := other.Secrets.Mask(text); got != text {
			t.Errorf("%s=%s, in the environment and not passed: %q", c.name, c.value, got)
		}
	}
}
