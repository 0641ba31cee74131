package openviking_test

import (
	"net/http"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"hermesd/agent/memory/provider"
	"hermesd/agent/memory/provider/openviking"
	"hermesd/agent/memory/provider/providertest"
	"hermesd/internal/secret"
	sim "hermesd/internal/sim/memory/openviking"
)

// inputs has a valid input of each tool.
var inputs = map[string]string{
	"viking_search": `{"query":"tea"}`, "viking_read": `{"uri":"viking://user/memories/x.md"}`, "viking_browse": `{"action":"list"}`,
	"viking_remember": `{"content":"I like tea."}`, "viking_forget": `{"uri":"viking://user/memories/x.md"}`, "viking_add_resource": `{"url":"https://example.com/x"}`,
}

func TestSuite(t *testing.T) {
	providertest.Suite(t, providertest.Options{
		Health: provider.Health{Version: "0.5.0"},
		New: func(t *testing.T) providertest.Target {
			s := sim.New(sim.Options{Keys: []string{key}})
			t.Cleanup(s.Close)
			p, _, err := openviking.Open(provider.Source{Secrets: new(secret.Masker), Getenv: environment("OPENVIKING_URL="+s.URL, "OPENVIKING_API_KEY="+key), HTTP: s.Client(), Open: fstest.MapFS{}.Open})
			if err != nil {
				t.Fatal(err)
			}
			return providertest.Target{Provider: p, Server: s.Server, Key: key, Count: s.Copies}
		},
		Settle: time.Minute, End: true, Inputs: inputs,
		ByID: map[string]string{"viking_forget": `{"uri":"ID"}`},
	})
}

func FuzzAnswers(f *testing.F) {
	providertest.FuzzAnswers(f, func(t *testing.T, transport http.RoundTripper) provider.Provider {
		p, _, err := openviking.Open(provider.Source{Secrets: new(secret.Masker), Getenv: environment(), HTTP: &http.Client{Transport: transport}, Open: fstest.MapFS{}.Open})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}, inputs, found, `{"status":"ok","result":{"session_id":"s","uri":"viking://user/d/sessions/s","message_count":1,"total_message_count":null,"commit_count":1,"last_commit_at":"2026-11-28T01:02:03.5"}}`,
		`{"status":"ok","result":{"messages":[{"id":"1","role":"user","parts":[{"type":"text","text":"x"}],"created_at":"2026-11-28T01:02:03+00:00"}]}}`,
		`{"status":"ok","result":[{"name":"x","isDir":true,"uri":"viking://user/x"}]}`, `{"status":"ok","result":"text"}`, `{"status":"error","error":{"code":"NOT_FOUND","message":"`+strings.Repeat("x", 300)+`"}}`)
}
