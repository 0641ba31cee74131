package config_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hermesd/cmd/internal/config"
)

func TestProvider(t *testing.T) {
	const a, o, r = "ANTHROPIC_API_KEY", "OPENAI_API_KEY", "OPENROUTER_API_KEY"
	keys := func(names ...string) map[string]string {
		m := map[string]string{}
		for _, n := range names {
			m[n] = "key-of-" + n
		}
		return m
	}
	type endpoint struct{ provider, model, url, key, reason string }
	for _, c := range []struct {
		name, yaml string
		env        map[string]string
		want       endpoint
		warning    string
	}{
		{name: "nothing", want: endpoint{"demo", "demo", "", "", "no key and no model.base_url are set"}},
		{name: "anthropic key", env: keys(a), want: endpoint{"anthropic", "claude-opus-4-6", "https://api.anthropic.com", "key-of-" + a, a + " is set"}},
		{name: "openrouter key", env: keys(r), want: endpoint{"openrouter", "anthropic/claude-opus-4.6", "https://openrouter.ai/api/v1", "key-of-" + r, r + " is set"}},
		{name: "openai key", env: keys(o), yaml: "model: gpt-x", want: endpoint{"openai", "gpt-x", "https://api.openai.com/v1", "key-of-" + o, o + " is set"}},
		{name: "all keys", env: keys(a, o, r), want: endpoint{"anthropic", "claude-opus-4-6", "https://api.anthropic.com", "key-of-" + a, a + " is set"}},
		{name: "all keys, model of openai", env: keys(a, o, r), yaml: "model: gpt-x", want: endpoint{"openai", "gpt-x", "https://api.openai.com/v1", "key-of-" + o, o + " is set"}},
		{name: "all keys, model of openrouter", env: keys(a, o, r), yaml: "model: meta/llama", want: endpoint{"openrouter", "meta/llama", "https://openrouter.ai/api/v1", "key-of-" + r, r + " is set"}},
		{name: "model in openrouter's form, anthropic key", env: keys(a), yaml: "model: anthropic/claude-x", want: endpoint{"anthropic", "claude-x", "https://api.anthropic.com", "key-of-" + a, a + " is set"}},
		{name: "model in openrouter's form, openrouter key", env: keys(r), yaml: "model: anthropic/claude-x", want: endpoint{"openrouter", "anthropic/claude-x", "https://openrouter.ai/api/v1", "key-of-" + r, r + " is set"}},
		{name: "model in openrouter's form, openai key", env: keys(o), yaml: "model: anthropic/claude-x", want: endpoint{"demo", "demo", "", "", "no key"}, warning: "set ANTHROPIC_API_KEY or OPENROUTER_API_KEY in .env"},
		{name: "key that does not fit the model", env: keys(o), yaml: "model: claude-x", want: endpoint{"demo", "demo", "", "", "no key"}, warning: "model.default: no key fits this model, so the built-in demo model answers; set ANTHROPIC_API_KEY"},
		{name: "named provider", env: keys(a, o), yaml: "model: {provider: openai, default: m}", want: endpoint{"openai", "m", "https://api.openai.com/v1", "key-of-" + o, "model.provider"}},
		{name: "named provider without a key", yaml: "model: {provider: anthropic}", want: endpoint{"anthropic", "claude-opus-4-6", "https://api.anthropic.com", "", "model.provider"}, warning: "model.api_key: there is no key for anthropic: set ANTHROPIC_API_KEY in .env"},
		{name: "key in the file goes first", env: keys(a), yaml: "model: {provider: anthropic, api_key: own-key-1}", want: endpoint{"anthropic", "claude-opus-4-6", "https://api.anthropic.com", "own-key-1", "model.provider"}},
		{name: "key in the file tells", yaml: "model: {api_key: sk-or-abc}", want: endpoint{"openrouter", "anthropic/claude-opus-4.6", "https://openrouter.ai/api/v1", "sk-or-abc", "model.api_key"}},
		{name: "demo by its name", yaml: "model: demo", want: endpoint{"demo", "demo", "", "", "model names it"}},
		{name: "demo by its name though there is a key", env: keys(a), yaml: "model: {default: Demo}", want: endpoint{"demo", "demo", "", "", "model names it"}},
		{name: "demo though there is a key", env: keys(a), yaml: "model: {provider: demo}", want: endpoint{"demo", "demo", "", "", "model.provider"}},
		{name: "ollama", yaml: "model: {provider: ollama, default: m}", want: endpoint{"ollama", "m", "http://127.0.0.1:11434/v1", "", "model.provider"}},
		{name: "custom", yaml: "model: {provider: custom, default: m, base_url: 'http://10.0.0.1:8000/v1/', api_key: abcdefgh}", want: endpoint{"custom", "m", "http://10.0.0.1:8000/v1", "abcdefgh", "model.provider"}},
		{name: "address of anthropic", env: keys(a), yaml: "model: {base_url: 'https://api.anthropic.com/'}", want: endpoint{"anthropic", "claude-opus-4-6", "https://api.anthropic.com", "key-of-" + a, "model.base_url"}},
		{name: "address in anthropic's form", yaml: "model: {default: m, base_url: 'https://h.example/api/anthropic'}", want: endpoint{"anthropic", "m", "https://h.example/api/anthropic", "", "model.base_url"}},
		{name: "address of openrouter", env: keys(r), yaml: "model: {base_url: 'https://openrouter.ai/api/v1'}", want: endpoint{"openrouter", "anthropic/claude-opus-4.6", "https://openrouter.ai/api/v1", "key-of-" + r, "model.base_url"}},
		{name: "address of ollama", yaml: "model: {default: m, base_url: 'http://localhost:11434/v1'}", want: endpoint{"ollama", "m", "http://localhost:11434/v1", "", "model.base_url"}},
		{name: "somebody's address gets no key of ours", env: keys(a, o, r), yaml: "model: {default: m, base_url: 'https://api.openai.com.evil.example/v1'}", want: endpoint{"custom", "m", "https://api.openai.com.evil.example/v1", "", "model.base_url"}},
		{name: "unusual path", yaml: "model: {default: m, base_url: 'https://h.example/llm'}", want: endpoint{"custom", "m", "https://h.example/llm", "", "model.base_url"}, warning: "usually ends in /v1"},
		{name: "key in the clear", yaml: "model: {default: m, base_url: 'http://h.example/v1', api_key: abcdefgh}", want: endpoint{"custom", "m", "http://h.example/v1", "abcdefgh", "model.base_url"}, warning: "unencrypted"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, rep := setup{yaml: c.yaml, env: c.env}.good(t)
			m := rep.Model
			got := endpoint{m.Provider, m.Model, m.BaseURL, m.APIKey.Reveal(), m.Reason}
			if !strings.HasPrefix(got.reason, c.want.reason) {
				t.Errorf("reason %q, want %q", got.reason, c.want.reason)
			}
			got.reason = c.want.reason
			if got != c.want {
				t.Errorf("got  %+v\nwant %+v", got, c.want)
			}
			if w := texts(rep.Warnings); !strings.Contains(w, c.warning) || c.warning == "" && w != "" {
				t.Errorf("warnings %q, want %q", w, c.warning)
			}
			if s := m.String(); m.APIKey != "" && strings.Contains(s, m.APIKey.Reveal()) || !strings.Contains(s, m.Provider) {
				t.Errorf("the line at start: %q", s)
			}
		})
	}
}

func TestFallbacks(t *testing.T) {
	_, r := setup{
		env:  map[string]string{"ANTHROPIC_API_KEY": "key-a", "OPENAI_API_KEY": "key-o"},
		yaml: "fallback_providers:\n- {model: gpt-x}\n- {provider: ollama, model: m, base_url: 'http://10.0.0.5:11434/v1'}\n- {provider: demo}\n",
	}.good(t)
	var got []string
	for _, f := range append([]config.Endpoint{r.Model}, r.Fallbacks...) {
		got = append(got, f.Provider+" "+f.Model+" "+f.BaseURL+" "+f.APIKey.Reveal())
	}
	want := "anthropic claude-opus-4-6 https://api.anthropic.com key-a|openai gpt-x https://api.openai.com/v1 key-o|ollama m http://10.0.0.5:11434/v1 |demo demo  "
	if strings.Join(got, "|") != want {
		t.Errorf("got  %s\nwant %s", strings.Join(got, "|"), want)
	}
}

func TestServersOfOnesOwnAreKnownByTheirAddress(t *testing.T) {
	c, r := setup{
		yaml: "model: {provider: custom, default: m, base_url: 'http://10.0.0.5:8000/v1'}\n" +
			"fallback_providers:\n- {provider: custom, model: n, base_url: 'http://10.0.0.6/v1', api_key: mine-0123456789, context_length: 65536}\n- {provider: ollama, model: o}\n" +
			"custom_providers:\n- {name: rack, base_url: 'http://10.0.0.5:8000/v1/', api_key: rack-0123456789, models: {m: {context_length: 32768}}}\n" +
			"- {name: attic, base_url: 'http://10.0.0.6/v1', api_key: attic-0123456789, models: {n: {context_length: 16384}}, api_mode: chat}\n",
	}.good(t)
	if w := texts(r.Warnings); !strings.Contains(w, "custom_providers: Hermes has this key, hermesd does not: it has no effect: [1].api_mode") {
		t.Errorf("what has no effect is not told: %s", w)
	}
	var got []string
	for _, e := range append([]config.Endpoint{r.Model}, r.Fallbacks...) {
		got = append(got, fmt.Sprint(e.Model, " ", e.APIKey.Reveal(), " ", c.ContextOf(e), " ", e.Reason))
	}
	want := "m rack-0123456789 32768 model.provider, rack|n mine-0123456789 65536 fallback_providers[0].provider, attic|o  0 fallback_providers[1].provider"
	if strings.Join(got, "|") != want {
		t.Errorf("got  %s\nwant %s", strings.Join(got, "|"), want)
	}
}

// TestRoutingOfModels shows which rules for the providers behind OpenRouter hold for a
// model: an entry takes the general value of each key that it leaves out.
func TestRoutingOfModels(t *testing.T) {
	c, r := setup{yaml: `
provider_routing:
  data_collection: deny
  ignore: [x]
  sort: price
  models:
    anthropic/claude-opus-4.6: {only: [anthropic], ignore: []}
    qwen3.6:27b: {order: [a, b], data_collection: allow}
`}.good(t)
	if texts(r.Warnings) != "" {
		t.Error(texts(r.Warnings))
	}
	general := config.Routing{DataCollection: "deny", Ignore: []string{"x"}, Sort: "price"}
	opus := config.Routing{DataCollection: "deny", Only: []string{"anthropic"}, Sort: "price"}
	for model, want := range map[string]config.Routing{
		"anthropic/claude-opus-4.6":            opus,
		"anthropic/claude-opus-4-6":            opus,
		"claude-opus-4.6":                      opus,
		"openrouter/anthropic/Claude-opus-4-6": opus,
		"other/claude-opus-4.6":                general,
		"anthropic/claude-opus-4.6:free":       general,
		"vendor/qwen3.6:27b":                   {DataCollection: "allow", Ignore: []string{"x"}, Order: []string{"a", "b"}, Sort: "price"},
		"":                                     general,
	} {
		if d := cmp.Diff(want, c.ProviderRouting.For(model)); d != "" {
			t.Errorf("%q: (-want +got)\n%s", model, d)
		}
	}
}

// TestNamesOfModels shows that tables of models take the names that models have.
func TestNamesOfModels(t *testing.T) {
	c, _ := setup{yaml: "custom_providers: [{name: rack, base_url: 'http://h:1/v1', models: {'Qwen/Qwen3-8B:q4.1': {context_length: 9000}}}]"}.good(t)
	if got := c.CustomProviders[0].Models["Qwen/Qwen3-8B:q4.1"].ContextLength; got != 9000 {
		t.Errorf("the context is %d", got)
	}
}

// README.md names all providers, docs/web.md those whose models get images.
func TestDocsNameProviders(t *testing.T) {
	for name, in := range map[string]func(config.Service) bool{"README.md": func(config.Service) bool { return true }, "docs/web.md": func(s config.Service) bool { return s.Vision }} {
		page, err := os.ReadFile(filepath.Join("..", "..", "..", name))
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range config.Services() {
			if in(s) && !strings.Contains(string(page), s.Name) {
				t.Errorf("%s does not name %s", name, s.Name)
			}
		}
	}
}

func TestEveryProviderIsAService(t *testing.T) {
	names := []string{"auto"}
	for _, s := range config.Services() {
		names = append(names, s.Name)
		base := s.BaseURL
		if s.Name == "custom" {
			base = "http://127.0.0.1:1/v1"
		}
		c, r := setup{yaml: "model: {provider: " + s.Name + ", default: m, base_url: '" + base + "'}\n", env: map[string]string{s.Variable: "sk-key-of-it"}}.good(t)
		if string(c.Model.Provider) != s.Name || s.Variable != "" && r.Model.APIKey != "sk-key-of-it" {
			t.Errorf("%+v gives %+v", s, r.Model)
		}
	}
	got := setup{yaml: "model: {provider: nobody}\n"}.problems(t)
	for _, name := range names {
		if !strings.Contains(got, name+",") {
			t.Errorf("%s is no provider: %s", name, got)
		}
	}
	if strings.Count(got, ",") != len(names) {
		t.Errorf("%s; services are %v", got, names)
	}
}
