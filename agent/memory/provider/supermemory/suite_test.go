package supermemory_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hermesd/agent/memory/provider"
	"hermesd/agent/memory/provider/providertest"
	"hermesd/agent/memory/provider/supermemory"
	"hermesd/internal/secret"
	sim "hermesd/internal/sim/memory/supermemory"
)

var inputs = map[string]string{
	"supermemory_store":   `{"content":"I prefer tea."}`,
	"supermemory_search":  `{"query":"tea"}`,
	"supermemory_forget":  `{"query":"tea"}`,
	"supermemory_profile": `{}`,
}

func TestSuite(t *testing.T) {
	providertest.Suite(t, providertest.Options{
		Settle: 2 * time.Minute,
		Inputs: inputs,
		ByID:   map[string]string{"supermemory_forget": `{"id":"ID"}`},
		New: func(t *testing.T) providertest.Target {
			s := sim.New(sim.Options{Keys: []string{key}})
			t.Cleanup(s.Close)
			p, _, err := home{}.open(t, s)
			if err != nil {
				t.Fatal(err)
			}
			return providertest.Target{Provider: p, Server: s.Server, Key: key, Count: func(text string) (n int) {
				for _, m := range append(s.Memories("hermes"), s.Memories("hermes-telegram-77")...) {
					n += strings.Count(m.Text, text)
				}
				return n
			}}
		},
	})
}

func FuzzAnswers(f *testing.F) {
	open := func(t *testing.T, c http.RoundTripper) provider.Provider {
		env := map[string]string{"SUPERMEMORY_API_KEY": key}
		p, _, err := supermemory.Open(provider.Source{Secrets: new(secret.Masker), Home: t.TempDir(), Getenv: func(name string) string { return env[name] }, HTTP: &http.Client{Transport: c}})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	providertest.FuzzAnswers(f, open, inputs,
		`{"id":"x","status":"queued"}`,
		`{"profile":{"static":["a"],"dynamic":["b"]},"searchResults":{"results":[{"id":"1","memory":"m","similarity":0.5,"updatedAt":"2026-11-28T00:00:00Z"},{"chunk":"c"}]}}`,
		`{"memories":[{"id":"1","metadata":{"session_id":"one"}}],"pagination":{"totalPages":2}}`,
		`{"success":false}`, `{"status":"failed"}`, `{"results":[{"similarity":1e300}]}`,
	)
}

func FuzzFile(f *testing.F) {
	providertest.FuzzFile(f, func(t *testing.T, file string, transport http.RoundTripper) (provider.Provider, error) {
		home := t.TempDir()
		if err := os.WriteFile(filepath.Join(home, "supermemory.json"), []byte(file), 0o600); err != nil {
			t.Fatal(err)
		}
		p, _, err := supermemory.Open(provider.Source{Secrets: new(secret.Masker), Home: home, Getenv: func(name string) string { return map[string]string{"SUPERMEMORY_API_KEY": key}[name] }, HTTP: &http.Client{Transport: transport}})
		return p, err
	}, inputs,
		`{"container_tag":"a b","base_url":"http://localhost:6767","enable_custom_container_tags":true,"custom_containers":["x","y"]}`, `{"custom_containers":7}`)
}
