package holographic_test

import (
	"testing"

	"hermesd/agent/memory/provider"
	"hermesd/agent/memory/provider/providertest"
)

func TestSuite(t *testing.T) {
	providertest.Suite(t, providertest.Options{
		Health: provider.Health{Detail: "facts: 0"},
		New: func(t *testing.T) providertest.Target {
			p := open(t, t.TempDir(), `{"auto_extract":true}`)
			return providertest.Target{Provider: p, Count: func(text string) int {
				return len(recall(t, p, "", text))
			}}
		},
		ByID: map[string]string{
			"fact_store":    `{"action":"remove","fact_id":ID}`,
			"fact_feedback": `{"action":"unhelpful","fact_id":ID}`,
		},
		Inputs: map[string]string{
			"fact_store":    `{"action":"add","content":"I prefer papaya"}`,
			"fact_feedback": `{"action":"helpful","fact_id":1}`,
		},
	})
}
