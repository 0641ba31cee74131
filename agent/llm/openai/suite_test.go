package openai_test

import (
	"net/http"
	"testing"

	"go.uber.org/goleak"

	"hermesd/agent/llm/llmtest"
	"hermesd/agent/llm/openai"
	sim "hermesd/internal/sim/llm"
)

// over returns a provider that reaches s without a network.
func over(rt http.RoundTripper) *openai.Provider {
	return openai.New(openai.Options{BaseURL: "http://model.test/v1", Key: "key-of-the-test", HTTP: &http.Client{Transport: rt}})
}

func TestSuite(t *testing.T) {
	llmtest.Suite(t, func(t *testing.T) llmtest.Subject {
		s := llmtest.NewService(sim.Options{Keys: []string{"key-of-the-test"}, Models: []string{"sim"}})
		t.Cleanup(s.Close)
		return llmtest.Subject{Provider: over(s.Transport()), Model: "sim", Script: s.Script}
	})
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
