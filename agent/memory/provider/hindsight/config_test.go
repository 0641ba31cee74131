package hindsight_test

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"hermesd/agent/memory/provider"
	"hermesd/agent/memory/provider/hindsight"
	sim "hermesd/internal/sim/memory/hindsight"
)

func TestConfiguration(t *testing.T) {
	keyed := map[string]string{"HINDSIGHT_API_KEY": key}
	for _, test := range []struct {
		name, file, legacy string
		env                map[string]string
		err                string // a part of it
		warnings           []string
		bank, body         string // of a recall
		mode, place        string
	}{
		{name: "nothing", err: "set HINDSIGHT_API_KEY"},
		{name: "key", env: keyed, bank: "hermes", body: `"budget":"mid"`, mode: "cloud", place: "https://api.hindsight.vectorize.io"},
		{name: "environment", env: map[string]string{"HINDSIGHT_API_KEY": key, "HINDSIGHT_MODE": "local_external", "HINDSIGHT_BANK_ID": "b", "HINDSIGHT_BUDGET": "low"}, bank: "b", body: `"budget":"low"`, mode: "local_external", place: "http://localhost:8888"},
		{name: "URL without a key", env: map[string]string{"HINDSIGHT_API_URL": "http://memory.test/"}, bank: "hermes", body: `"query"`, mode: "cloud", place: "http://memory.test"},
		{name: "file", file: `{"apiKey":"` + key + `","bank_id":"f","recall_budget":"high"}`, legacy: `{"bank_id":"l"}`, env: map[string]string{"HINDSIGHT_BANK_ID": "e", "HINDSIGHT_BUDGET": "low", "HINDSIGHT_MODE": "local_embedded"}, bank: "f", body: `"budget":"high"`, mode: "cloud"},
		{name: "file without a bank", file: `{"api_key":"` + key + `","budget":"huge"}`, env: map[string]string{"HINDSIGHT_BANK_ID": "e", "HINDSIGHT_BUDGET": "low"}, bank: "hermes", body: `"budget":"mid"`, mode: "cloud"},
		{name: "legacy file", legacy: `{"banks":{"hermes":{"bankId":"old","budget":"low","enabled":true}},"timeout":60}`, env: keyed, bank: "old", body: `"budget":"low"`, mode: "cloud"},
		{name: "template", file: `{"bank_id_template":"{profile}-{workspace}-{platform}-{user}--{session}"}`, env: keyed, bank: "default-hermes-telegram-8439114563-20261128_000000_abc", body: `"query"`, mode: "cloud"},
		{name: "unknown placeholder", file: `{"bank_id_template":"x-{team}","bank_id":"b"}`, env: keyed, bank: "b", body: `"query"`, mode: "cloud"},
		{name: "what upstream's wizard writes", file: `{"mode":"local_external","api_url":"http://10.0.0.1:8888","bank_id":"hermes","recall_budget":"mid","timeout":120,"idle_timeout":300,"recall_indicator":true,"llm_model":"x","profile":"hermes","bank_mission":"","retain_every_n_turns":1}`, bank: "hermes", body: `"query"`, mode: "local_external", place: "http://10.0.0.1:8888"},
		{name: "no effect", file: `{"bank_mission":"m","retain_every_n_turns":3,"recall_document_tags":["a"],"hosts":1,"recall_simple_max_words":0}`, env: keyed, bank: "hermes", body: `"query"`, mode: "cloud",
			warnings: []string{"retain_every_n_turns has no effect", "bank_mission has no effect", "recall_document_tags has no effect", `"hosts" is unknown`}},
		{name: "mode unknown", file: `{"mode":"hybrid"}`, env: keyed, bank: "hermes", body: `"query"`, mode: "cloud", warnings: []string{`mode "hybrid" is unknown`}},
		{name: "embedded", file: `{"mode":"local_embedded","llm_provider":"openai"}`, env: keyed, err: "Hindsight mode local_embedded is a Python daemon"},
		{name: "embedded by its old name", file: `{"mode":"local"}`, err: "Hindsight mode local_embedded is a Python daemon"},
		{name: "not JSON", file: `{"mode"`, env: keyed, err: "config.json is not a JSON object"},
		{name: "URL", env: map[string]string{"HINDSIGHT_API_URL": "localhost:8888"}, err: "is not an http or https URL"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := sim.New(sim.Options{})
			t.Cleanup(s.Close)
			env := map[string]string{"HOME": t.TempDir()}
			for k, v := range test.env {
				env[k] = v
			}
			if test.legacy != "" {
				write(t, filepath.Join(env["HOME"], ".hindsight", "config.json"), test.legacy)
			}
			src := source(t, test.file, env)
			src.HTTP = s.Client()
			p, warnings, err := hindsight.Open(src)
			if !slices.EqualFunc(warnings, test.warnings, strings.Contains) {
				t.Errorf("warnings %q", warnings)
			}
			if test.err != "" {
				if err == nil || !strings.Contains(err.Error(), test.err) || strings.Contains(test.err, "embedded") != errors.Is(err, provider.ErrImpossible) {
					t.Errorf("error %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if a := p.About(); len(s.Calls()) != 0 || a.Mode != test.mode || test.place != "" && a.Place != test.place {
				t.Errorf("%d calls, about %+v", len(s.Calls()), a)
			}
			texts(t, p, owner, "tea")
			if c := s.Calls()[0]; c.Path != "/v1/default/banks/"+test.bank+"/memories/recall" || !strings.Contains(string(c.Body), test.body) {
				t.Errorf("%s %s", c.Path, c.Body)
			}
		})
	}
}

func TestModes(t *testing.T) {
	for _, test := range []struct {
		file                    string
		noRecall, noTools, wait bool
	}{
		{`{}`, false, false, false},
		{`{"memory_mode":"context","recall_sync":true}`, false, true, true},
		{`{"memory_mode":"tools"}`, true, false, false},
		{`{"auto_recall":false}`, true, false, false},
	} {
		_, p := start(t, sim.Options{}, test.file)
		a := p.About()
		if a.NoRecall != test.noRecall || a.NoTools != test.noTools || a.Wait != test.wait || a.NoTools != (len(a.Tools) == 0) || a.NoTools == strings.Contains(a.Header, "hindsight_recall") {
			t.Errorf("%s: %+v", test.file, a)
		}
	}
}

func TestStoresNoTurnsWithoutAutoRetain(t *testing.T) {
	s, p := start(t, sim.Options{}, `{"auto_retain":"false"}`)
	e := provider.Event{Kind: provider.Turn, Scope: owner, Messages: []provider.Message{{Role: "user", Text: "tea"}}}
	if r := sync(t, p, e); r != (provider.Receipt{}) || !synced(t, p, e, r) || len(s.Calls()) != 0 {
		t.Errorf("receipt %+v, %d calls", r, len(s.Calls()))
	}
}

func TestScopesOfObservations(t *testing.T) {
	for file, want := range map[string]string{
		`"combined"`:           `"combined"`,
		`["a","b"]`:            `[["a","b"]]`,
		`[["a"],["b","c"],[]]`: `[["a"],["b","c"]]`,
		`"[[\"a\"]]"`:          `[["a"]]`,
		`"other"`:              ``,
		`{"a":1}`:              ``,
		`[]`:                   ``,
	} {
		s, p := start(t, sim.Options{}, `{"observation_scopes":`+file+`}`)
		sync(t, p, provider.Event{Kind: provider.Added, Scope: owner, Fact: provider.Fact{Target: "memory", Text: "tea"}})
		body := last(t, s, bank+"/memories")
		if _, got, ok := strings.Cut(body, `"observation_scopes":`); ok != (want != "") || !strings.HasPrefix(got, want) {
			t.Errorf("%s: %s", file, body)
		}
	}
}
