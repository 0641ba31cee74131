package config_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/jsonschema-go/jsonschema"
	"go.yaml.in/yaml/v3"

	"hermesd/cmd/internal/config"
)

// To update the file: hermesd config example >config.example.yaml
func TestExampleFileIsComplete(t *testing.T) {
	want := config.Example()
	file := filepath.Join("..", "..", "..", "config.example.yaml")
	if os.Getenv("UPDATE_EXAMPLE") != "" {
		if err := os.WriteFile(file, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), string(got)); d != "" {
		t.Error("config.example.yaml is not what the structs say (-want +got); run with UPDATE_EXAMPLE=1:\n" + d)
	}
}

var commented = regexp.MustCompile(`(?m)^( *)#([^ \n])`)

func TestExampleIsTheDefaults(t *testing.T) {
	want, wantReport := setup{}.good(t)
	c, r := setup{yaml: string(config.Example())}.good(t)
	if d := cmp.Diff(want, c); d != "" || len(r.Warnings) > 0 || len(r.Origins) > 0 {
		t.Errorf("the example as it stands is not the defaults: %v\n%s", r.Warnings, d)
	}
	live := commented.ReplaceAllString(string(config.Example()), "$1$2")
	c, r = setup{yaml: live}.good(t)
	if d := cmp.Diff(want, c); d != "" || len(r.Warnings) > 0 {
		t.Errorf("the example with every key taken over is not the defaults: %v\n%s", r.Warnings, d)
	}
	for _, s := range config.Settings(c, r) {
		if !strings.Contains(s.Origin, "config.yaml:") {
			t.Errorf("the example does not have %s: it comes from %s", s.Key, s.Origin)
		}
	}
	if a, b := len(config.Settings(want, wantReport)), len(r.Origins); b < a {
		t.Errorf("%d keys are set by the example, of %d", b, a)
	}
}

func TestEveryKeyIsExplained(t *testing.T) {
	lines := strings.Split(string(config.Example()), "\n")
	n := 0
	for i, line := range lines {
		key := strings.TrimSpace(line)
		if !strings.HasPrefix(key, "#") || strings.HasPrefix(key, "# ") || key == "#" {
			continue
		}
		n++
		doc, ok := strings.CutPrefix(strings.TrimSpace(lines[i-1]), "# ")
		if doc = strings.TrimSpace(doc); !ok || len(doc) < 8 || len(doc) > 260 || strings.HasPrefix(doc, "(") || !strings.ContainsAny(doc[len(doc)-1:], ".)") {
			t.Errorf("line %d: the key %s is not explained in one line: %q", i+1, key, doc)
		}
	}
	if n < 100 {
		t.Errorf("only %d keys were found", n)
	}
}

func TestSchema(t *testing.T) {
	b, err := config.Schema()
	if err != nil {
		t.Fatal(err)
	}
	again, err := config.Schema()
	if err != nil || !bytes.Equal(b, again) {
		t.Errorf("the schema is not always the same: %v", err)
	}
	var s jsonschema.Schema
	if err := json.Unmarshal(b, &s); err != nil {
		t.Fatal(err)
	}
	rs, err := s.Resolve(&jsonschema.ResolveOptions{ValidateDefaults: true})
	if err != nil {
		t.Fatal(err)
	}
	valid := func(doc string) error {
		var v any
		if err := yaml.Unmarshal([]byte(doc), &v); err != nil {
			t.Fatal(err)
		}
		if v == nil {
			v = map[string]any{}
		}
		return rs.Validate(v)
	}
	for _, doc := range []string{
		"", string(config.Example()), commented.ReplaceAllString(string(config.Example()), "$1$2"),
		"model: llama3", "model: {default: x, api_key_file: y}", "agent: {system_prompt: x}", "streaming: {enabled: '${X}', edit_interval: 0.8}", "gateway: {drain_timeout: 90}",
		"access: {owners: 1}", "access: {owners: [1, '2']}", "platforms: {telegram: {rate_limit: 20/1m, accounts: {work: {token: x}}, channel_prompts: {a: 1}}}", "display: {tool_progress: false}",
		"gateway: {max_waiting: 5, cache_bytes: 0}", "platforms: {telegram: {rate: {account: 20/1m}}}",
		"fallback_providers: [{provider: ollama, model: m}]",
	} {
		if err := valid(doc); err != nil {
			t.Errorf("the schema refuses %.40q: %v", doc, err)
		}
	}
	for _, doc := range []string{
		"nope: 1", "agent: {max_turns: 0}", "agent: {max_turns: many}", "model: {provider: x}", "platforms: {telegram: {accounts: {'A B': {}}}}", "platforms: {telegram: {nope: 1}}",
		"gateway: []", "fallback_providers: [{nope: 1}]", "session_reset: {at_hour: 24}", "streaming: {enabled: maybe}", "timezone: [a]",
	} {
		if err := valid(doc); err == nil {
			t.Errorf("the schema takes %q", doc)
		}
	}
}

func TestShow(t *testing.T) {
	home := t.TempDir()
	c, r := setup{
		home:   home,
		dotenv: "ANTHROPIC_API_KEY=sk-ant-the-real-key\n",
		env:    map[string]string{"TELEGRAM_ALLOWED_USERS": "1,2", "TELEGRAM_BOT_TOKEN": "8123456789:secret-token"},
		yaml:   "agent:\n  name: \"A: #b\"\n  system_message: |\n    two\n    lines sk-ant-the-real-key\ntelegram:\n  channel_prompts: {b: 'x, y', a: z}\n  accounts: {work: {token: 2:second-token}}\n",
		flags:  map[string]string{"logging.level": "debug"},
	}.good(t)
	var b bytes.Buffer
	if err := config.Show(&b, c, r); err != nil {
		t.Fatal(err)
	}
	got := regexp.MustCompile(` +# `).ReplaceAllString(strings.ReplaceAll(b.String(), home, "HOME"), " # ")
	for _, want := range []string{
		"# home: HOME\n# file: HOME/config.yaml\n# model: anthropic claude-opus-4-6 (ANTHROPIC_API_KEY is set)\n",
		"\nagent.name: \"A: #b\" # HOME/config.yaml:2:9\n",
		"\nagent.system_message: \"two\\nlines <secret>\\n\" # HOME/config.yaml:3:19\n",
		"\nplatforms.telegram.enabled: true # token\n",
		"\nplatforms.telegram.token: <secret> # environment TELEGRAM_BOT_TOKEN\n",
		"\nplatforms.telegram.allow_from: [\"1\", \"2\"] # environment TELEGRAM_ALLOWED_USERS\n",
		"\nplatforms.telegram.channel_prompts: {a: z, b: \"x, y\"} # HOME/config.yaml:7:20\n",
		"\nplatforms.telegram.accounts.work.token: <secret> # HOME/config.yaml:8:28\n",
		"\nplatforms.telegram.accounts.work.reply_to_mode: first # platform\n",
		"\nlogging.level: debug # flag logging.level\n",
		"\ngateway.turn_timeout: 30m # default\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("not shown: %q", want)
		}
	}
	for _, s := range []string{"sk-ant-the-real-key", "secret-token", "second-token"} {
		if strings.Contains(got, s) {
			t.Errorf("%s is shown", s)
		}
	}
	if b, err := json.Marshal(config.Settings(c, r)); err != nil || bytes.Contains(b, []byte("second-token")) || bytes.Contains(b, []byte("secret-token")) {
		t.Errorf("settings as JSON show a secret, or: %v", err)
	}
	if t.Failed() {
		t.Log(got)
	}
}
