package llmtest_test

import (
	"strings"
	"testing"

	"hermesd/agent/llm"
	"hermesd/agent/llm/llmtest"
)

func TestScripted(t *testing.T) {
	llmtest.Suite(t, func(*testing.T) llmtest.Subject {
		s := llmtest.NewScripted()
		s.Default = func(r llmtest.Recorded) llmtest.Answer {
			return llmtest.Say("I heard: " + r.Newest() + ", and no more than that")
		}
		return llmtest.Subject{Provider: s, Model: "m", Script: s.Then}
	})
}

func TestPiecesAreWholeCharacters(t *testing.T) {
	s := llmtest.NewScripted(llmtest.Say("世"), llmtest.Say("世界"))
	for range 2 {
		for e := range s.Stream(t.Context(), ask("x")) {
			if d, ok := e.(llm.TextDelta); ok && strings.ToValidUTF8(string(d), "?") != string(d) {
				t.Errorf("%q is cut inside a letter", d)
			}
		}
	}
}
