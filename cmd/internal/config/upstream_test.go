package config_test

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"hermesd/cmd/internal/config"
)

// anyName matches what stands for any name in the list of upstream's keys.
var anyName = regexp.MustCompile(`<[^>]*>`)

// instance returns a path of the list with names in place of <x>.
func instance(path string) string {
	return anyName.ReplaceAllStringFunc(path, func(s string) string {
		switch s {
		case "<platform>":
			return "telegram"
		case "<channel_id>", "<chat_id>":
			return "1234"
		}
		return "x"
	})
}

// nested returns a document with one key.
func nested(path string, value any) map[string]any {
	parts := strings.Split(path, ".")
	for i := len(parts) - 1; i >= 0; i-- {
		name, list := strings.CutSuffix(parts[i], "[]")
		if list {
			value = []any{value}
		}
		value = map[string]any{name: value}
	}
	return value.(map[string]any)
}

// merge adds the keys of b to a, which has precedence.
func merge(a, b map[string]any) map[string]any {
	for k, v := range b {
		now, ok := a[k]
		in, isMap := v.(map[string]any)
		have, haveMap := now.(map[string]any)
		switch {
		case !ok:
			a[k] = v
		case isMap && haveMap:
			a[k] = merge(have, in)
		}
		if list, ok := v.([]any); ok {
			if old, ok := now.([]any); ok && len(old) == 1 && len(list) == 1 {
				if o, ok := old[0].(map[string]any); ok {
					merge(o, list[0].(map[string]any))
				}
			}
		}
	}
	return a
}

// upstreamDefaults returns the defaults of upstream's keys that are known.
func upstreamDefaults(t *testing.T) map[string]any {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", "upstream-defaults.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var m map[string]any
	if err := yaml.Unmarshal(data, &m); err != nil {
		t.Fatal(err)
	}
	return m
}

// lookup returns the value at a path of a document.
func lookup(m any, parts []string) (any, bool) {
	for _, p := range parts {
		in, ok := m.(map[string]any)
		if !ok {
			return nil, false
		}
		if m, ok = in[p]; !ok {
			return nil, false
		}
	}
	return m, true
}

func document(t *testing.T, m map[string]any) string {
	t.Helper()
	data, err := yaml.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// TestEveryKeyOfUpstreamStarts shows that no key of upstream Hermes is an error with
// upstream's default, alone, with the others of its section, or with all others.
func TestEveryKeyOfUpstreamStarts(t *testing.T) {
	defaults := upstreamDefaults(t)
	sections := make(map[string]map[string]any)
	keys := config.UpstreamKeys()
	if len(keys) < 1628 {
		t.Fatalf("%d keys", len(keys))
	}
	home := t.TempDir()
	check := func(name string, doc map[string]any) {
		t.Helper()
		text := document(t, doc)
		if _, _, err := (setup{home: home, yaml: text}).load(t); err != nil {
			t.Errorf("%s:\n%s\n%s", name, err, text)
		}
	}
	for _, key := range keys {
		path := instance(key)
		value, ok := lookup(defaults, strings.Split(path, "."))
		if !ok {
			value = ""
		}
		doc := nested(path, value)
		check(key, doc)
		if !ok { // upstream does not write it; other programs write it like this
			check(key, nested(path, nil))
		}
		top, _, _ := strings.Cut(strings.TrimSuffix(path, "[]"), ".")
		top = strings.TrimSuffix(top, "[]")
		if sections[top] == nil {
			sections[top] = make(map[string]any)
		}
		merge(sections[top], nested(path, value))
	}
	all := make(map[string]any)
	for _, top := range slices.Sorted(maps.Keys(sections)) {
		section := sections[top]
		if in, ok := defaults[top]; ok {
			section = merge(map[string]any{top: in}, section)
		}
		check(top, section)
		merge(all, section)
	}
	check("everything", all)
	check("the defaults", defaults)
}

// TestTheConfigOfUpstreamsInstallerStarts loads what a fresh installation of upstream
// Hermes has.
func TestTheConfigOfUpstreamsInstallerStarts(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("testdata", "upstream-installed.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	home := t.TempDir()
	c, r := setup{home: home, yaml: string(data), env: map[string]string{"OPENROUTER_API_KEY": "sk-or-1"}}.good(t)
	if r.Model.Provider != "openrouter" || r.Model.Model != "anthropic/claude-opus-4.6" || c.Agent.MaxTurns != 500 || c.Streaming.Enabled {
		t.Errorf("model %v, %+v", r.Model, c.Agent)
	}
	if got, want := c.Workspace(home), filepath.Join(home, "workspace"); got != want {
		t.Errorf("the tools work in %s, want %s", got, want)
	}
	sections := make(map[string]int)
	for _, w := range r.Warnings {
		sections[w.Key]++
	}
	for s, n := range sections {
		if n > 1 {
			t.Errorf("%d warnings about %s:\n%s", n, s, texts(r.Warnings))
		}
	}
	if !strings.Contains(texts(r.Warnings), "browser: Hermes has these keys, hermesd does not: they have no effect: extension_control, inactivity_timeout\n") {
		t.Errorf("warnings:\n%s", texts(r.Warnings))
	}
}

// TestFormsOfUpstream shows values that upstream Hermes writes in another form.
func TestFormsOfUpstream(t *testing.T) {
	for _, c := range []struct {
		yaml string
		get  func(c *config.Config, r config.Report) any
		want any
	}{
		{"logging: {level: WARNING}", func(c *config.Config, _ config.Report) any { return c.Logging.Level }, "warn"},
		{"agent: {personalities: {a: text, b: {description: x, system_prompt: You are b., tone: dry, style: short}}}",
			func(c *config.Config, _ config.Report) any { return c.Agent.Personalities },
			map[string]string{"a": "text", "b": "You are b.\nTone: dry\nStyle: short"}},
		{"telegram: {home_channel: {platform: telegram, chat_id: -100123, name: x, thread_id: '7'}}",
			func(c *config.Config, _ config.Report) any { return c.Platforms.Telegram.HomeChannel }, "-100123:7"},
		{"discord: {allow_mentions: {everyone: true, roles: false, users: true, replied_user: true}}",
			func(c *config.Config, _ config.Report) any { return c.Platforms.Discord.Adapter.AllowMentions }, []string{"everyone"}},
		{"agent: {max_turns: none}", func(c *config.Config, _ config.Report) any { return c.Agent.MaxTurns }, 1000},
		{"agent: {max_turns: null}", func(c *config.Config, _ config.Report) any { return c.Agent.MaxTurns }, 90},
		{"agent: {reasoning_effort: {enabled: false}}", func(c *config.Config, _ config.Report) any { return c.Agent.ReasoningEffort }, "none"},
		{"prompt_caching: {cache_ttl: false}", func(c *config.Config, _ config.Report) any { return c.PromptCaching.CacheTTL }, "off"},
		{"model: {default: {model: m, provider: custom, base_url: 'http://h:1/v1'}}", func(_ *config.Config, r config.Report) any { return r.Model.Model + " " + r.Model.BaseURL }, "m http://h:1/v1"},
		{"model: {model: m, api_base: 'http://h:1/v1'}", func(_ *config.Config, r config.Report) any { return r.Model.Model + " " + r.Model.BaseURL }, "m http://h:1/v1"},
		{"display: {language: ja}", func(c *config.Config, _ config.Report) any { return c.Display.Language }, "en"},
		{"display: {tool_progress: log}", func(c *config.Config, _ config.Report) any { return c.Display.ToolProgress }, "off"},
		{"telegram: {extra: {require_mention: true, allow_from: [7]}}",
			func(c *config.Config, _ config.Report) any { return c.Platforms.Telegram.AllowFrom }, []string{"7"}},
		{"gateway: {platforms: {telegram: {token: '1:x'}}}", func(c *config.Config, _ config.Report) any { return c.Platforms.Telegram.Adapter.Token.Reveal() }, "1:x"},
		{"fallback_model: {provider: openrouter, model: m}", func(_ *config.Config, r config.Report) any { return r.Fallbacks[0].Model }, "m"},
		{"model: {provider: nous, default: h, base_url: 'https://openrouter.ai/api/v1'}",
			func(_ *config.Config, r config.Report) any {
				return r.Model.Provider + " " + r.Model.BaseURL + " " + r.Model.APIKey.Reveal()
			}, "custom https://inference-api.nousresearch.com/v1 nk"},
		{"model: {provider: minimax, default: m}", func(_ *config.Config, r config.Report) any { return r.Model.Provider + " " + r.Model.BaseURL },
			"anthropic https://api.minimax.io/anthropic"},
		{"model: {provider: mine, default: m}\nproviders: {mine: {base_url: 'http://h:1/v1', key_env: MINE}}",
			func(_ *config.Config, r config.Report) any { return r.Model.BaseURL + " " + r.Model.APIKey.Reveal() }, "http://h:1/v1 mk"},
		{"model: {provider: lm-studio, default: m}", func(_ *config.Config, r config.Report) any { return r.Model.Provider + " " + r.Model.BaseURL }, "custom http://127.0.0.1:1234/v1"},
		{"model: {provider: Claude, default: m, api_key: abcdefgh}", func(_ *config.Config, r config.Report) any { return r.Model.Provider + " " + r.Model.Model }, "anthropic m"},
		{"model: {provider: OpenRouter, default: m}", func(_ *config.Config, r config.Report) any { return r.Model.Provider }, "openrouter"},
		{"telegram: {dm_policy: Disabled}\nslack: {reply_in_thread: true}\nagent: {reasoning_effort: HIGH}", func(c *config.Config, _ config.Report) any {
			return string(c.Platforms.Telegram.DMPolicy) + " " + string(c.Agent.ReasoningEffort)
		}, "disabled high"},
		{"model: {provider: llama.cpp, default: m, base_url: 'http://h:1/v1'}", func(_ *config.Config, r config.Report) any { return r.Model.Provider + " " + r.Model.BaseURL }, "custom http://h:1/v1"},
		{"auxiliary: {compression: {provider: github-copilot, model: m}}", func(c *config.Config, _ config.Report) any { return string(c.Auxiliary.Compression.Provider) }, "auto"},
		{"fallback_providers: [{provider: 'custom:own', model: m}]\ncustom_providers: [{name: own, base_url: 'http://h:1/v1', api_key: ok}]",
			func(_ *config.Config, r config.Report) any {
				return r.Fallbacks[0].BaseURL + " " + r.Fallbacks[0].APIKey.Reveal()
			}, "http://h:1/v1 ok"},
		{"sessions: {auto_prune: false, retention_days: 90}", func(c *config.Config, _ config.Report) any { return c.Sessions.Retention() }, 0},
		{"terminal: {cwd: .}", func(c *config.Config, _ config.Report) any { return c.Terminal.CWD }, ""},
	} {
		cfg, r := setup{yaml: c.yaml, env: map[string]string{"NOUS_API_KEY": "nk", "MINE": "mk", "MINIMAX_API_KEY": "k"}}.good(t)
		if diff := cmp.Diff(c.want, c.get(cfg, r)); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", c.yaml, diff)
		}
	}
}

// TestProvidersThatAreReadAreNotWarnedOf shows that the section providers has no effect
// only if an entry has no address.
func TestProvidersThatAreReadAreNotWarnedOf(t *testing.T) {
	for yaml, warned := range map[string]bool{
		"model: {provider: 'custom:mine', default: m}\nproviders: {mine: {base_url: 'http://h:1/v1', api_mode: chat_completions}}": false,
		"providers: {anthropic: {request_timeout_seconds: 30}}":                                                                    true,
	} {
		_, r := setup{yaml: yaml}.good(t)
		if got := texts(r.Warnings); strings.Contains(got, "providers: Hermes has this key") != warned {
			t.Errorf("%s: %s", yaml, got)
		}
	}
}

// TestVariablesAtTheTop shows that names of variables at the top of the config file are read
// as if they stood in .env, which has precedence.
func TestVariablesAtTheTop(t *testing.T) {
	const yaml = "TELEGRAM_BOT_TOKEN: '12:${PART}'\nTELEGRAM_ALLOWED_TOPICS: '7,8'\nSLACK_DISABLE_DMS: true\nTERMINAL_ENV: ssh\nNOUS_API_KEY: ${NONE}\nSKILL_REGION: eu\nHERMES_TIMEZONE: Asia/Tokyo\n"
	c, r := setup{yaml: yaml, dotenv: "PART=abcdefgh-1234\nTELEGRAM_ALLOWED_TOPICS=9\n"}.good(t)
	got := []any{c.Platforms.Telegram.Adapter.Token.Reveal(), c.Platforms.Telegram.AllowedTopics, c.Platforms.Slack.DisableDMs, c.Terminal.Enabled, r.Getenv("SKILL_REGION"), c.Timezone}
	if d := cmp.Diff([]any{"12:abcdefgh-1234", []string{"9"}, true, false, "eu", "Asia/Tokyo"}, got); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
	if o := r.Origins["platforms.telegram.token"]; o.Line != 1 || !strings.HasSuffix(o.Name, "config.yaml") {
		t.Errorf("the token is of %+v", o)
	}
	if got := texts(r.Warnings); !strings.Contains(got, "config.yaml:5:15: NOUS_API_KEY: the variable NONE is not set") || strings.Contains(got, "unknown key") {
		t.Errorf("warnings %q", got)
	}
	if got := r.Secrets.Mask("12:abcdefgh-1234"); strings.Contains(got, "abcd") {
		t.Errorf("the token is shown: %q", got)
	}
}

// TestUnknownKeys shows where a key that neither program has stops the start.
func TestUnknownKeys(t *testing.T) {
	for _, c := range []struct{ yaml, problem, warning string }{
		{"brandnew: 1", "", "config.yaml:1:1: brandnew: unknown key: it has no effect\n"},
		{"agent: {brandnew: {a: b}}", "", "config.yaml:1:9: agent.brandnew: unknown key: it has no effect\n"},
		{"fallback_providers: [{model: m}]", "", "config.yaml:1:30: fallback_providers[0]: nothing says who serves this fallback: it has no effect; set provider, base_url or api_key\n"},
		{"busy_input_mode: queue", "", "config.yaml:1:1: busy_input_mode: unknown key: it has no effect; did you mean display.busy_input_mode?\n"},
		{"browser: {brandnew: 1}", "", "config.yaml:1:1: browser: Hermes has this key, hermesd does not: it has no effect: brandnew\n"},
		{"gatewya: {}", "config.yaml:1:1: gatewya: unknown key; did you mean gateway?\n", ""},
		{"telegramm: {}", "config.yaml:1:1: telegramm: unknown key; did you mean telegram?\n", ""},
		{"streaming: {enabeld: true}", "config.yaml:1:13: streaming.enabeld: unknown key; did you mean enabled?\n", ""},
		{"access: {brandnew: 1}", "config.yaml:1:10: access.brandnew: unknown key; known here: allow_all, allow_from, owners\n", ""},
		{"approvals: {brandnew: 1}", "approvals.brandnew: unknown key; ", ""},
		{"terminal: {brandnew: 1}", "terminal.brandnew: unknown key; ", ""},
		{"platforms: {slack: {brandnew: 1}}", "platforms.slack.brandnew: unknown key; ", ""},
		{"slack: {brandnew: 1}", "platforms.slack.brandnew: unknown key; ", ""},
		{"platforms: {telegramm: {enabled: true}}", "platforms.telegramm: unknown key; did you mean telegram?", ""},
		{"terminal: {docker_image: x, container_cpu: 2}", "", "config.yaml:1:12: terminal: Hermes has these keys, hermesd does not: they have no effect: container_cpu, docker_image\n"},
	} {
		_, r, err := setup{yaml: c.yaml}.load(t)
		if (err != nil) != (c.problem != "") || err != nil && !strings.Contains(err.Error(), strings.TrimPrefix(strings.TrimSpace(c.problem), "config.yaml:")) {
			t.Errorf("%s: %v, want %q", c.yaml, err, c.problem)
		}
		if got := texts(r.Warnings); c.problem == "" && got != c.warning {
			t.Errorf("%s: warnings\n%s, want\n%s", c.yaml, got, c.warning)
		}
	}
}

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
