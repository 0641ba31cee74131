package honcho_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"hermesd/agent/memory/provider"
	"hermesd/agent/memory/provider/honcho"
	"hermesd/agent/memory/provider/providertest"
	"hermesd/internal/secret"
	sim "hermesd/internal/sim/memory/honcho"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const testKey = "hch-key-0123456789"

// env returns a Getenv of pairs of name and value.
func env(pairs ...string) func(string) string {
	return func(name string) string {
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i] == name {
				return pairs[i+1]
			}
		}
		return ""
	}
}

// inputs has an input of each tool.
var inputs = map[string]string{
	"honcho_profile":   `{}`,
	"honcho_search":    `{"query":"jasmine","max_tokens":100}`,
	"honcho_reasoning": `{"query":"Which tea?","reasoning_level":"minimal"}`,
	"honcho_context":   `{"query":"jasmine"}`,
	"honcho_conclude":  `{"conclusion":"Likes jasmine."}`,
}

// open returns a provider with a file of configuration, "" for none.
func open(t *testing.T, file string, c *http.Client, pairs ...string) provider.Provider {
	t.Helper()
	home := t.TempDir()
	if file != "" {
		if err := os.WriteFile(filepath.Join(home, "honcho.json"), []byte(file), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p, warnings, err := honcho.Open(provider.Source{Secrets: new(secret.Masker), Home: home, Getenv: env(append(pairs, "HOME", home)...), HTTP: c})
	if err != nil || len(warnings) > 0 {
		t.Fatalf("open: %q, %v", warnings, err)
	}
	return p
}

func newServer(t *testing.T, o sim.Options) *sim.Server {
	t.Helper()
	s := sim.New(o)
	t.Cleanup(s.Close)
	return s
}

// stored counts the messages and the facts of no session that contain a text.
func stored(s *sim.Server, text string) (n int) {
	for _, peer := range []string{"8439114563", "telegram-77"} {
		for _, m := range s.Messages("hermes", "agent-main-telegram-dm-"+strings.TrimPrefix(peer, "telegram-")) {
			if strings.Contains(m.Content, text) {
				n++
			}
		}
		for _, k := range s.Conclusions("hermes", "hermes", peer) {
			if strings.Contains(k.Content, text) && k.Session == nil {
				n++
			}
		}
	}
	return n
}

func TestSuite(t *testing.T) {
	for name, file := range map[string]string{
		"no file":   "",
		"unified":   `{"hosts":{"hermes":{"peerName":"ann"}}}`,
		"by itself": `{"observation":{"ai":{"observeOthers":false}}}`,
		"sync":      `{"recallSync":true,"dialecticCadence":2}`,
	} {
		t.Run(name, func(t *testing.T) {
			providertest.Suite(t, providertest.Options{
				Settle: 10 * time.Second, Inputs: inputs, NoFaults: name != "no file", Health: provider.Health{Detail: "workspace hermes"},
				ByID: map[string]string{"honcho_conclude": `{"delete_id":"ID"}`},
				New: func(t *testing.T) providertest.Target {
					s := newServer(t, sim.Options{Keys: []string{testKey}})
					count := func(text string) int { return stored(s, text) }
					if name == "by itself" {
						count = nil
					}
					return providertest.Target{Provider: open(t, file, s.Client(), "HONCHO_API_KEY", testKey, "HONCHO_BASE_URL", s.URL), Server: s.Server, Key: testKey, Count: count}
				},
			})
		})
	}
}
