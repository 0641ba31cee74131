package gateway_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"hermesd/agent/llm/llmtest"
	"hermesd/gateway/conversation"
	"hermesd/gateway/gatewaytest"
	"hermesd/gateway/overlay"
	"hermesd/gateway/session"
)

// models are two models, of which the second can be unavailable.
type models struct {
	second *llmtest.Scripted
	away   error
}

func (m *models) Choose(s session.Settings) (conversation.ModelChoice, error) {
	if s.Model == "" {
		return conversation.ModelChoice{Model: "scripted", Effort: s.Effort}, nil
	}
	if m.away != nil {
		return conversation.ModelChoice{Model: "scripted", Effort: s.Effort}, m.away
	}
	return conversation.ModelChoice{Provider: m.second, Model: s.Model, Effort: s.Effort}, nil
}

func (m *models) Names() []string { return []string{"a/scripted", "b/second"} }

func (m *models) Name(s session.Settings) string {
	if s.Model == "" {
		return "a/scripted"
	}
	return s.Provider + "/" + s.Model
}

func (m *models) Resolve(name string) (string, string, error) {
	switch name {
	case "", "scripted":
		return "", "", nil
	case "second", "b/second":
		return "b", "second", nil
	}
	return "", "", errors.New("there is no such model")
}

func (m *models) Price(session.Settings, int) string { return "$0.02" }

func TestModelCommandSetsModelOfSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newHarness(t, llmtest.Say("One."), llmtest.Say("Back."))
		m := &models{second: llmtest.NewScripted(llmtest.Say("Two."), llmtest.Say("Three."))}
		w.configure = func(o *gatewaytest.Options) { o.Models = m }
		w.start()
		say := func(text string) string {
			w.sendText("7", text)
			w.advance(time.Minute)
			seen := w.adapter.visible("7")
			return seen[len(seen)-1]
		}
		say("hello")
		if got := say("/model"); !strings.Contains(got, "a/scripted") || len(w.adapter.buttons) != 2 {
			t.Errorf("/model: %q, buttons %v", got, w.adapter.buttons)
		}
		if got := say("/model nonsense"); got != "That cannot be: there is no such model." {
			t.Errorf("an unknown model: %q", got)
		}
		w.press("7", w.adapter.buttons[1][0].Data)
		w.advance(time.Minute)
		if got := w.adapter.visible("7"); !strings.Contains(got[len(got)-1], "b/second answers here. It reads the whole conversation") || !strings.Contains(got[len(got)-1], "$0.02") {
			t.Errorf("the switch: %q", got[len(got)-1])
		}
		if got := say("and you?"); got != "Two." {
			t.Errorf("after the switch: %q", got)
		}
		w.stop()
		w.start() // the choice is stored in the session
		defer w.stop()
		if got := say("still you?"); got != "Three." {
			t.Errorf("after the restart: %q", got)
		}
		m.away = errors.New("its provider is not configured")
		if got := say("and now?"); got != "Back." || !slices.ContainsFunc(w.adapter.visible("7"), func(s string) bool { return strings.Contains(s, "its provider is not configured") }) {
			t.Errorf("without it: %q", w.adapter.visible("7"))
		}
	})
}

func TestPersonalityIsOnlyInOverlay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newHarness(t, llmtest.Say("Aye."), llmtest.Say("Yes."))
		w.configure = func(o *gatewaytest.Options) {
			o.Overlay.Apply(overlay.Settings{Personality: map[string]string{"pirate": "Speak like a pirate."}})
		}
		w.start()
		defer w.stop()
		for _, text := range []string{"/personality robot", "/personality pirate", "hello", "/personality none", "hello again"} {
			w.sendText("7", text)
			w.advance(time.Minute)
		}
		r := w.model.Requests()
		if len(r) != 2 || !strings.Contains(r[0].Overlay, "Speak like a pirate.") || strings.Contains(r[0].System, "pirate") || strings.Contains(r[1].Overlay, "pirate") {
			t.Errorf("requests %+v", r)
		}
		if r[0].System != r[1].System {
			t.Error("the prompt has changed")
		}
		for _, m := range w.transcript() {
			if strings.Contains(m.Text(), "pirate") {
				t.Errorf("the transcript holds %q", m.Text())
			}
		}
	})
}

func TestReloadRebuildsPromptAndReportsChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newHarness(t, llmtest.Say("One."), llmtest.Say("Two."), llmtest.Say("Three."))
		w.systemMessage, w.promptNotices = "first text", []string{"SOUL.md was left out."}
		w.start()
		defer func() { w.stop() }()
		say := func(text string) string {
			w.sendText("7", text)
			w.advance(time.Minute)
			seen := w.adapter.visible("7")
			return seen[len(seen)-1]
		}
		say("hello")
		w.promptNotices = nil
		if got := say("/reload"); !strings.Contains(got, "the same as before") {
			t.Errorf("nothing has changed: %q", got)
		}
		w.systemMessage = "second text"
		say("again") // a running session keeps its prompt
		if got := say("/reload"); !strings.Contains(got, "system message has changed") {
			t.Errorf("the reload: %q", got)
		}
		w.stop()
		w.start()
		say("and again")
		r := w.model.Requests()
		if len(r) != 3 || r[0].System != r[1].System || !strings.Contains(r[1].System, "first text") || !strings.Contains(r[2].System, "second text") {
			t.Errorf("prompts: %q, %q, %q", r[0].System, r[1].System, r[2].System)
		}
		if notices := strings.Count(strings.Join(w.adapter.visible("7"), "\n"), "SOUL.md was left out."); notices != 1 {
			t.Errorf("the note was sent %d times", notices)
		}
	})
}
