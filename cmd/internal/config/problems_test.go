package config_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"hermesd/cmd/internal/config"
)

// wrong lists invalid documents with their problems.
var wrong = []struct{ name, yaml, want string }{
	{"unknown key", "model:\n  defualt: x\n", "config.yaml:2:3: model.defualt: unknown key; did you mean default?"},
	{"unknown key at the top", "gatway:\n  max_queued_messages: 3\n", "config.yaml:1:1: gatway: unknown key; did you mean gateway?"},
	{"unknown key unlike any", "access:\n  xyzzy: 1\n", "config.yaml:2:3: access.xyzzy: unknown key; known here: allow_all, allow_from, owners"},
	{"dashes and case", "Group-Sessions-Per-User: true\n", "config.yaml:1:1: Group-Sessions-Per-User: unknown key; did you mean group_sessions_per_user?"},
	{"unknown platform", "platforms: {telegramm: {}}\n", "config.yaml:1:13: platforms.telegramm: unknown key; did you mean telegram?"},
	{"unknown key of an account", "telegram: {accounts: {a: {tokken: x}}}\n", "config.yaml:1:27: platforms.telegram.accounts.a.tokken: unknown key; did you mean token?"},
	{"unknown key of a list", "fallback_providers:\n- modell: x\n", "config.yaml:2:3: fallback_providers[0].modell: unknown key; did you mean model?"},
	{"no accounts in accounts", "telegram: {accounts: {a: {accounts: {}}}}\n", "config.yaml:1:27: platforms.telegram.accounts.a.accounts: unknown key; known here: allow_admin_from, allow_all, allow_bots, allow_from, allowed_channels, allowed_chats, allowed_topics, api_url, bots_require_inline_mention, bots_require_mention, channel_prompts, dm_policy, …"},

	{"bool", "streaming: {enabled: maybe}\n", `config.yaml:1:22: streaming.enabled: want true or false, not "maybe"`},
	{"whole number", "agent:\n  max_turns: many\n", `config.yaml:2:14: agent.max_turns: want a whole number, not "many"`},
	{"fraction", "agent: {max_turns: 1.5}\n", `config.yaml:1:20: agent.max_turns: want a whole number, not "1.5"`},
	{"octal", "gateway: {max_queued_messages: 0100}\n", `config.yaml:1:32: gateway.max_queued_messages: want a whole number, not "0100"`},
	{"hexadecimal", "gateway: {max_queued_messages: 0x10}\n", `config.yaml:1:32: gateway.max_queued_messages: want a whole number, not "0x10"`},
	{"too large for a number", "gateway: {max_queued_messages: 99999999999999999999}\n", "config.yaml:1:32: gateway.max_queued_messages: want a whole number, not this value"},
	{"time", "backlog: {max_age: 1d}\n", `config.yaml:1:20: backlog.max_age: want a time such as 30s, 5m or 1h30m, or a number of seconds, not "1d"`},
	{"time, too long", "backlog: {max_age: 1e300}\n", `config.yaml:1:20: backlog.max_age: want a time such as 30s, 5m or 1h30m, or a number of seconds, not "1e300"`},
	{"negative time", "backlog: {max_age: -1}\n", "config.yaml:1:20: backlog.max_age: out of range: not negative"},
	{"out of range", "agent: {max_turns: 1001}\n", "config.yaml:1:20: agent.max_turns: out of range: from 1 to 1000"},
	{"out of range, above", "session_reset: {at_hour: 24}\n", "config.yaml:1:26: session_reset.at_hour: out of range: from 0 to 23"},
	{"time out of range", "streaming: {edit_interval: 0.1}\n", "config.yaml:1:28: streaming.edit_interval: out of range: from 200ms to 1m"},
	{"row of the table of commands", "approvals:\n  commands:\n  - 'lint :read'\n  - 'lint :read fast'\n", "config.yaml:4:5: approvals.commands[1]: row \"lint :read fast\": unknown word \"fast\" after the kind"},
	{"choice", "model: {provider: openia}\n", "config.yaml:1:19: model.provider: want one of auto, " + strings.Join(config.ServiceName("").Choices(), ", ") + `, not "openia"; did you mean openai?`},
	{"choice, unlike any", "logging: {format: xml}\n", `config.yaml:1:19: logging.format: want one of console, json, not "xml"`},
	{"section instead of text", "timezone: {a: b}\n", "config.yaml:1:11: timezone: want a text, not a section of keys"},
	{"list instead of text", "timezone: [a]\n", "config.yaml:1:11: timezone: want a text, not a list"},
	{"text instead of section", "gateway: fast\n", "config.yaml:1:10: gateway: want a section of keys, not a text"},
	{"list instead of section", "gateway: []\n", "config.yaml:1:10: gateway: want a section of keys, not a list"},
	{"number instead of document", "42\n", "config.yaml:1:1: want a section of keys, not a number"},
	{"list as document", "- a\n", "config.yaml:1:1: want a section of keys, not a list"},
	{"section in a list", "access: {owners: [{a: b}]}\n", "config.yaml:1:19: access.owners[0]: want a text, not a section of keys"},
	{"section instead of list", "access: {owners: {a: b}}\n", "config.yaml:1:18: access.owners: want a list, not a section of keys"},
	{"text instead of list of sections", "fallback_providers: demo\n", "config.yaml:1:21: fallback_providers: want a list of sections, not a text"},
	{"text in a list of sections", "fallback_providers: [demo]\n", "config.yaml:1:22: fallback_providers[0]: want a section of keys, not a text"},
	{"list instead of pairs", "telegram: {channel_prompts: [a]}\n", "config.yaml:1:29: platforms.telegram.channel_prompts: want a section of keys, not a list"},
	{"section in pairs", "telegram: {channel_prompts: {a: {}}}\n", "config.yaml:1:33: platforms.telegram.channel_prompts.a: want a text, not a section of keys"},
	{"name of an account", "telegram: {accounts: {Work!: {}}}\n", "config.yaml:1:23: platforms.telegram.accounts.(a key that is not shown): a name here is 1 to 32 of a-z 0-9 _ - and begins with a letter or digit"},

	{"twice", "timezone: UTC\nlogging:\n  file: a\n  file: b\ntimezone: UTC\n", "config.yaml:4:3: logging.file: this key stands twice; it stands on line 3 already\nconfig.yaml:5:1: timezone: this key stands twice; it stands on line 1 already"},
	{"twice, by an alias", "agent:\n  system_prompt: a\n  ephemeral_system_prompt: b\n", "config.yaml:3:28: agent.ephemeral_system_prompt: this is set twice; it is set on line 2 already, maybe under another name"},
	{"twice, in another place", "telegram: {token: a}\nplatforms: {telegram: {token: b}}\n", "config.yaml:2:31: platforms.telegram.token: this is set twice; it is set on line 1 already, maybe under another name"},
	{"second document", "timezone: UTC\n---\ntimezone: UTC\n", "config.yaml:2:1: a second document begins here (---); a configuration is one document"},
	{"second document, empty", "timezone: UTC\n---\n", "config.yaml:2:1: a second document begins here (---); a configuration is one document"},
	{"second document, broken", "timezone: UTC\n---\n[", "config.yaml:3:1: this is not YAML: did not find expected node content"},
	{"not UTF-8", "timezone: UTC\nmodel: \"ä\xff\"\n", "config.yaml:2:10: the file is not UTF-8 text"},
	{"UTF-16", "\xff\xfet\x00", "config.yaml:1:1: the file is not UTF-8 text"},
	{"control character", "timezone: UTC\nmodel: a\x00b\n", "config.yaml:2:9: there is a control character here"},
	{"syntax", "model:\n  default: [a\n  provider: x\n", "config.yaml:2:3: this is not YAML: did not find expected ',' or ']'"},
	{"tabs", "model:\n\tdefault: a\n", "config.yaml:2:2: this is not YAML: found character that cannot start any token"},
	{"two colons", "model: a: b\n", "config.yaml:1:1: this is not YAML: mapping values are not allowed in this context"},
	{"list as key", "? [a]\n: b\n", "config.yaml:1:3: a key must be a plain word, not a list"},
	{"tag", "timezone: !secret UTC\n", "config.yaml:1:11: timezone: tags (!) mean nothing here; a value that begins with ! needs quotes"},
	{"only an anchor", "telegram: {token: &abc }\n", "config.yaml:1:19: platforms.telegram.token: there is only an anchor (&) here; a value that begins with & needs quotes"},
	{"no such anchor", "timezone: UTC\ntelegram:\n  token: *nosuchsecret\n", "config.yaml:1:1: this is not YAML: unknown anchor referenced"},

	{"no such variable", "logging:\n  file: ${NO_SUCH_VARIABLE}\n", "config.yaml:2:9: logging.file: the variable NO_SUCH_VARIABLE is not set; set it in the environment or in .env, or write ${NO_SUCH_VARIABLE:-default}"},
	{"open variable", "timezone: ${X\n", "config.yaml:1:11: timezone: ${ has no closing brace; write $${ for the characters themselves"},
	{"bad variable", "timezone: ${a b}\n", "config.yaml:1:11: timezone: ${…} needs the name of a variable, or NAME:-default; write $${ for the characters themselves"},
	{"variable in a list", "access: {owners: [1, '${NO_SUCH_VARIABLE}']}\n", "config.yaml:1:22: access.owners[1]: the variable NO_SUCH_VARIABLE is not set; set it in the environment or in .env, or write ${NO_SUCH_VARIABLE:-default}"},

	{"zone", "timezone: Europe/Atlantis\n", "config.yaml:1:11: timezone: there is no such time zone; want a name such as Europe/Berlin or UTC"},
	{"user name", "telegram:\n  allow_from:\n  - 1\n  - '@anna'\n", "config.yaml:4:5: platforms.telegram.allow_from[1]: \"@anna\" is a user name, which can change hands: use the numeric id; the log and `hermesd why` show it when that person writes to the bot"},
	{"chat among people", "telegram: {allow_from: -100123}\n", "config.yaml:1:24: platforms.telegram.allow_from: -100123 is the id of a chat, not of a person: it belongs into allowed_chats"},
	{"user name among owners", "access: {owners: [anna]}\n", "config.yaml:1:19: access.owners[0]: \"anna\" is a user name, which can change hands: use the numeric id; the log and `hermesd why` show it when that person writes to the bot"},
	{"everybody as owner", "access: {owners: ['*']}\n", "config.yaml:1:19: access.owners[0]: not everybody can be an owner"},
	{"webhook without secret", "telegram: {token: '1:x', webhook_url: 'https://h/x'}\n", "config.yaml:1:39: platforms.telegram.webhook_url: webhook_secret is needed too: without it anybody could send messages in the platform's name"},
	{"on without token", "telegram:\n  enabled: true\n", "config.yaml:2:12: platforms.telegram.enabled: it is switched on but has no token: set TELEGRAM_BOT_TOKEN in .env, or token here"},
	{"space in a token", "telegram: {token: '1:x y'}\n", "config.yaml:1:19: platforms.telegram.token: there is a space or a control character in it"},
	{"address", "telegram: {api_url: localhost}\n", "config.yaml:1:21: platforms.telegram.api_url: want a URL such as https://host"},
	{"scheme", "telegram: {api_url: 'ftp://h'}\n", "config.yaml:1:21: platforms.telegram.api_url: want a URL that begins with http:// or https://"},
	{"pattern", "telegram: {mention_patterns: [ok, '(?=x)']}\n", "config.yaml:1:35: platforms.telegram.mention_patterns[1]: this is not a regular expression of RE2, which has no look-ahead and no back-references"},
	{"rate", "telegram: {rate_limit: fast}\n", "config.yaml:1:24: platforms.telegram.rate_limit.per_account: invalid rate \"fast\": want a number from 1 to 10000, a slash and a duration, such as 20/1m"},
	{"listen", "telegram: {webhook_listen: here}\n", "config.yaml:1:28: platforms.telegram.webhook_listen: want an address and a port, such as 127.0.0.1:8443"},

	{"custom without address", "model: {provider: custom, default: m}\n", "config.yaml:1:19: model.base_url: the provider custom needs an address: up to and including /v1"},
	{"no usual model", "model: {provider: ollama}\n", "config.yaml:1:19: model.default: ollama has no usual model: name one"},
	{"OpenAI without /v1", "model: {default: m, base_url: 'http://localhost:8000/'}\n", "config.yaml:1:31: model.base_url: an OpenAI-compatible address goes up to and including /v1"},
	{"Anthropic with /v1", "model: {base_url: 'https://api.anthropic.com/v1'}\n", "config.yaml:1:19: model.base_url: an Anthropic address stands without /v1"},
	{"whole path", "model: {default: m, base_url: 'http://h/v1/chat/completions'}\n", "config.yaml:1:31: model.base_url: leave out what stands behind /v1: hermesd adds it"},
	{"key in the address", "model: {default: m, base_url: 'http://u:p@h/v1'}\n", "config.yaml:1:31: model.base_url: a key does not belong into an address: set api_key"},
	{"query in the address", "model: {default: m, base_url: 'http://h/v1?key=x'}\n", "config.yaml:1:31: model.base_url: want an address without ? and #"},
	{"whose key", "model: {default: m, api_key: abcdefghijk}\n", "config.yaml:1:18: model.provider: nothing says whose key this is: set provider"},
	{"a kind of chat that is none", "reset_by_type: {dms: {mode: idle}}\n", "config.yaml:1:17: reset_by_type.dms: want one of dm, group, thread, channel"},
	{"a rule for a platform that is none", "reset_by_platform: {slack: {mode: sometimes}}\n", "config.yaml:1:35: reset_by_platform.slack.mode: want one of none, idle, daily, both, not \"sometimes\""},
	{"searxng without an address", "web: {search: {provider: searxng}}\n", "config.yaml:1:26: web.search.provider: searxng needs web.search.base_url: where the instance is, such as http://127.0.0.1:8888"},
	{"a search without a key", "web: {search: {provider: brave}}\n", "config.yaml:1:26: web.search.api_key: brave needs a key: set BRAVE_API_KEY in .env"},
	{"a key in the address of a voice", "stt: {base_url: 'https://a:b@example.com/v1'}\n", "config.yaml:1:17: stt.base_url: want an address without a name, a password, ? and #: a key belongs into api_key"},
	{"owner package", "agent: {name: \"a\\nb\"}\n", "config.yaml:1:15: agent: agent.name must be one line"},
}

func TestProblems(t *testing.T) {
	for _, c := range wrong {
		t.Run(c.name, func(t *testing.T) {
			if d := cmp.Diff(c.want+"\n", setup{yaml: c.yaml}.problems(t)); d != "" {
				t.Error("problems differ (-want +got):\n" + d)
			}
		})
	}
}

// All problems are reported at once, in the order of the file.
func TestAllProblemsAtOnce(t *testing.T) {
	got := setup{
		yaml:   "acces: 1\nagent: {max_turns: x, name: ok}\ntimezone: Nowhere\ntelegram:\n  allow_from: [anna]\n  rate: x\nlogging: {level: loud}\n",
		dotenv: "\nDISCORD_REQUIRE_MENTION=perhaps\n",
		env:    map[string]string{"SLACK_ALLOWED_USERS": "bob"},
		flags:  map[string]string{"logging.format": "xml", "no.such": "1"},
	}.problems(t)
	want := []string{
		".env:2:1: DISCORD_REQUIRE_MENTION: want true", "config.yaml:1:1: acces: unknown key; did you mean access?", "config.yaml:2:20: agent.max_turns", "config.yaml:3:11: timezone", "config.yaml:5:16: platforms.telegram.allow_from[0]",
		"config.yaml:6:9: platforms.telegram.rate", "config.yaml:7:18: logging.level", "environment: SLACK_ALLOWED_USERS: \"bob\" is a user name", "flag: logging.format: want one of", "flag: no.such: unknown key",
	}
	lines := strings.Split(strings.TrimSpace(got), "\n")
	if len(lines) != len(want) {
		t.Fatalf("%d problems, want %d:\n%s", len(lines), len(want), got)
	}
	for i, w := range want {
		if !strings.HasPrefix(lines[i], w) {
			t.Errorf("problem %d is %q, want %q", i, lines[i], w)
		}
	}
}

// An invalid value that is overridden is not a problem.
func TestOverriddenValueMayBeWrongLater(t *testing.T) {
	got := setup{yaml: "telegram: {allow_from: [anna]}\n", env: map[string]string{"TELEGRAM_ALLOWED_USERS": "bob,1"}}.problems(t)
	if want := "environment: TELEGRAM_ALLOWED_USERS: \"bob\""; !strings.HasPrefix(got, want) || strings.Contains(got, "anna") {
		t.Errorf("problems:\n%s", got)
	}
	setup{yaml: "telegram: {allow_from: [anna]}\n", env: map[string]string{"TELEGRAM_ALLOWED_USERS": "1"}}.good(t)
}

func TestUpstreamKeysAreWarnings(t *testing.T) {
	c, r := setup{yaml: `_config_version: 8
toolsets: [hermes-cli]
agent: {tool_use_enforcement: auto, gateway_timeout: 1200, restart_drain_timeout: 60}
whatsapp: {enabled: true}
memory: {nudge_interval: 10}
telegram: {reactions: true, extra: {a: b}}
platforms: {signal: {token: x}, discord: {auto_thread: false}}
display: {personality: kawaii, tool_progress: false}
browser: {inactivity_timeout: 120, nested: {anything: goes}}
`}.good(t)
	want := `config.yaml:1:1: Hermes has this key, hermesd does not: it has no effect: _config_version
config.yaml:4:1: whatsapp: Hermes has this key, hermesd does not: it has no effect: enabled; hermesd has no adapter for it
config.yaml:6:12: platforms.telegram: Hermes has these keys, hermesd does not: they have no effect: extra.a, reactions
config.yaml:7:13: platforms.signal: Hermes has this key, hermesd does not: it has no effect: token; hermesd has no adapter for it
config.yaml:8:11: display: Hermes has this key, hermesd does not: it has no effect: personality
config.yaml:9:1: browser: Hermes has these keys, hermesd does not: they have no effect: inactivity_timeout, nested
`
	if d := cmp.Diff(want, texts(r.Warnings)); d != "" {
		t.Error("warnings differ (-want +got):\n" + d)
	}
	if c.Gateway.TurnTimeout.Minutes() != 20 || c.Gateway.DrainTimeout.Seconds() != 60 || c.Display.ToolProgress != "off" {
		t.Errorf("upstream's names are not read: %+v %+v", c.Gateway, c.Display)
	}
}

func TestAnchorsAndMergeKeys(t *testing.T) {
	c, _ := setup{yaml: `
platforms:
  telegram: &common
    token: &t "1:shared"
    require_mention: yes
    allow_from: &people [1, 2]
  discord:
    <<: *common
    require_mention: no
  slack:
    <<: [{reply_to_mode: all}, *common]
    token: *t
    app_token: x
    allow_from: [U012AB]
`}.good(t)
	d, s := c.Platforms.Discord, c.Platforms.Slack
	if d.Adapter.Token != "1:shared" || d.Adapter.RequireMention || !cmp.Equal(d.AllowFrom, []string{"1", "2"}) {
		t.Errorf("discord %+v", d)
	}
	if s.Adapter.Token != "1:shared" || !s.Adapter.RequireMention || s.ReplyToMode != "all" {
		t.Errorf("slack %+v", s)
	}
}

// Aliases cannot make a small file large.
func TestAliasesAreBounded(t *testing.T) {
	var bomb strings.Builder
	bomb.WriteString("telegram:\n  channel_prompts:\n    a: &a0 {x: y}\n")
	for i := range 30 {
		fmt.Fprintf(&bomb, "    b%d: &a%d {<<: [*a%d, *a%d, *a%d, *a%d, *a%d, *a%d], k%d: v}\n", i, i+1, i, i, i, i, i, i, i)
	}
	bomb.WriteString("discord:\n  channel_prompts: *a30\n")
	got := setup{yaml: bomb.String()}.problems(t)
	if !strings.Contains(got, "too large") && !strings.Contains(got, "too deep") {
		t.Errorf("problems:\n%s", got)
	}
	for _, y := range []string{"&a {<<: *a, timezone: UTC}\n", "display: &d\n  <<: [*d, *d]\n", "access: {owners: &o [*o]}\n", "telegram: &t\n  accounts: {x: *t}\n", "telegram: {mention_patterns: &a [*a, *a, *a]}\nplatforms: {telegram: {mention_patterns: &b [*b, *b, *b]}}\n"} {
		if _, _, err := (setup{yaml: y}).load(t); err == nil {
			t.Errorf("%q holds itself and is taken", y)
		}
	}
}

func TestReadableFilesAreWarnedOf(t *testing.T) {
	home := t.TempDir()
	s := setup{home: home, yaml: "timezone: UTC\n", dotenv: "A=b\n"}
	if _, r := s.good(t); len(r.Warnings) > 0 {
		t.Errorf("warnings:\n%s", texts(r.Warnings))
	}
	for _, f := range []string{"config.yaml", ".env"} {
		if err := os.Chmod(filepath.Join(home, f), 0o640); err != nil {
			t.Fatal(err)
		}
	}
	_, r := s.good(t)
	if got := texts(r.Warnings); !strings.HasPrefix(got, ".env: others can read this file") || strings.Contains(got, "config.yaml") {
		t.Errorf("warnings without a secret in config.yaml:\n%s", got)
	}
	for _, s.yaml = range []string{"telegram: {token: '1:x'}\n", "TELEGRAM_BOT_TOKEN: '1:x'\n"} {
		_, r = s.good(t)
		if got := texts(r.Warnings); !strings.Contains(got, "config.yaml: others can read this file, and the secrets in it") {
			t.Errorf("warnings with a secret in config.yaml:\n%s", got)
		}
	}
}

// Many problems are reported in limited time and space.
func TestErrorIsBounded(t *testing.T) {
	var y strings.Builder
	y.WriteString("access:\n")
	for i := range 500 {
		fmt.Fprintf(&y, "  zz%d: 1\n", i)
	}
	_, _, err := setup{yaml: y.String()}.load(t)
	if got := strings.Count(err.Error(), "\n"); got != 50 || !strings.HasSuffix(err.Error(), "and 450 more") {
		t.Errorf("%d lines: …%s", got, err.Error()[len(err.Error())-60:])
	}
}

// No message shows a secret, wherever it was put by mistake.
func TestMessagesShowNoSecrets(t *testing.T) {
	for _, s := range []string{"sk-ant-api03-Abcdefghijklmnopqrstuvwxyz0123456789", "8123456789:AAHfiqksKZ8WmR2zMNIq7dV0OCYAJ", "xoxb-123456789012-abcdefABCDEF", "correct horse battery staple"} {
		for _, y := range []string{
			"model: {provider: %q}", "agent: {max_turns: %q}", "streaming: {enabled: %q}", "backlog: {max_age: %q}", "timezone: %q", "access: {owners: [%q]}",
			"telegram: {allow_from: %q, api_url: %q, proxy: %q, rate_limit: %q, mention_patterns: ['(%[1]s'], webhook_listen: %q}", "%q: 1", "telegram: {%q: 1}", "telegram: {accounts: {%q: {}}}",
			"telegram: {token: %s x: y}", "model: {base_url: %q, default: m}", "telegram: *%s", "telegram: {token: 'a b%s'}", "telegram: {channel_prompts: {%q: []}}", "timezone: !%s x", "telegram: {token: '${%s}'}", "model: {api_key: %q, base_url: 'x'}",
		} {
			for i := range 2 {
				y := y
				if i == 1 {
					y = strings.ReplaceAll(y, "%q", "%s")
				}
				args := make([]any, strings.Count(y, "%")-strings.Count(y, "%[1]s"))
				for i := range args {
					args[i] = s
				}
				doc := fmt.Sprintf(y, args...)
				c, r, err := setup{yaml: doc}.load(t)
				said := texts(r.Warnings)
				if err != nil {
					said += err.Error()
				}
				if c != nil {
					continue // it is in a valid place
				}
				if strings.Contains(said, s) || strings.Contains(said, s[6:]) {
					t.Errorf("%q shows the secret:\n%s", doc, said)
				}
			}
		}
	}
}

// A setup has the sources of a configuration in a test.
type setup struct {
	yaml, dotenv string
	env, flags   map[string]string
	home         string
}

func (s setup) load(t testing.TB) (*config.Config, config.Report, error) {
	t.Helper()
	if s.home == "" {
		s.home = t.TempDir()
	}
	write(t, filepath.Join(s.home, "config.yaml"), s.yaml)
	if s.dotenv != "" {
		write(t, filepath.Join(s.home, ".env"), s.dotenv)
	}
	return config.Load(config.Options{Home: s.home, Flags: s.flags, Env: func(n string) (string, bool) {
		v, ok := s.env[n]
		return v, ok
	}})
}

// good loads a configuration that must be valid.
func (s setup) good(t testing.TB) (*config.Config, config.Report) {
	t.Helper()
	c, r, err := s.load(t)
	if err != nil {
		t.Fatalf("unexpected error:\n%v", err)
	}
	return c, r
}

// problems loads an invalid configuration and returns its problems without
// directories.
func (s setup) problems(t testing.TB) string {
	t.Helper()
	c, _, err := s.load(t)
	var e *config.Error
	if !errors.As(err, &e) || c != nil {
		t.Fatalf("want problems, got %v and the configuration %v", err, c)
	}
	return texts(e.Problems)
}

func texts(ps []config.Problem) string {
	var b strings.Builder
	for _, p := range ps {
		if filepath.IsAbs(p.File) {
			p.File = filepath.Base(p.File)
		}
		b.WriteString(p.String() + "\n")
	}
	return b.String()
}

func write(t testing.TB, name, data string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(data), 0o600); err != nil {
		t.Fatal(err)
	}
}

// Any config.yaml is accepted, or each problem has a position in the file.
func FuzzLoad(f *testing.F) {
	for _, s := range []string{
		string(config.Example()), "", "---\n---\n", "model: x\nagent: {max_turns: 1}\n", "a: &a [*a]\n", "<<: {a: b}\n", "<<: [*x]\n", "? [a]\n: b\n", "model: !!binary x\n", "{", "\t", "a: |\n  b\n c",
		"telegram: &t {accounts: {a: {token: ${X:-y}}}}\nslack: *t\n", "fallback_providers: [{}, null, [], *a]\n", "%YAML 9.9\n---\na: b\n", "timezone: \"\\ud800\"\n", "access: {owners: [~, 1, [2]]}", "? \n: x\n", "{a, b, c}", "- - - a",
		"telegram: {channel_prompts: {<<: {a: b}, ? {x: y} : z}}", "model: {base_url: 'http://[::1'}", "\xff", "a:\x00", "logging: {file: &l de}\ntimezone: *l", "streaming: {edit_interval: .inf}",
	} {
		f.Add([]byte(s))
	}
	home := f.TempDir()
	f.Fuzz(func(t *testing.T, data []byte) {
		c, r, err := setup{yaml: string(data), home: home}.load(t)
		lines := 1 + strings.Count(string(data), "\n") + strings.Count(string(data), "\r") + strings.Count(string(data), "\u0085") + strings.Count(string(data), "\u2028") + strings.Count(string(data), "\u2029") // as YAML counts
		place := func(p config.Problem) {
			if p.File == "" || p.Line < 1 || p.Line > lines || p.Column < 1 || p.Text == "" || !utf8.ValidString(p.String()) {
				t.Fatalf("a problem without a place in %d lines: %+v", lines, p)
			}
		}
		var e *config.Error
		switch {
		case errors.As(err, &e):
			if len(e.Problems) == 0 || c != nil {
				t.Fatal("an error without a problem, or with a configuration")
			}
			for _, p := range e.Problems {
				place(p)
			}
		case err != nil:
			t.Fatal(err)
		default:
			if err := config.Show(io.Discard, c, r); err != nil {
				t.Fatal(err)
			}
		}
	})
}
