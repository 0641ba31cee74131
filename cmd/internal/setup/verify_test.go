package setup_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"hermesd/cmd/internal/setup"
	"hermesd/gateway/chat"
	"hermesd/internal/secret"
	"hermesd/internal/sim/discord"
	"hermesd/internal/sim/llm"
	"hermesd/internal/sim/slack"
	"hermesd/internal/sim/telegram"
)

// The simulators are four servers that verify tokens.
type simulators struct {
	telegram *telegram.Server
	tBot     *telegram.Bot
	dBot     *discord.Bot
	sBot     *slack.Bot
	model    *llm.Server
	yaml     string // configuration that refers to them
}

func newSimulators(t *testing.T) *simulators {
	t.Helper()
	w := &simulators{telegram: telegram.New(telegram.Options{})}
	d, s := discord.New(discord.Options{}), slack.New(slack.Options{})
	m, err := llm.Start(llm.Options{Keys: []string{"sk-right-key"}, Models: []string{"claude-x", "claude-y"}})
	if err != nil {
		t.Fatal(err)
	}
	w.model = m
	t.Cleanup(m.Close)
	tURL, err := w.telegram.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.telegram.Close)
	dURL, err := d.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	if _, err := s.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	w.tBot, w.dBot = w.telegram.AddBot(telegram.BotOptions{Username: "my_bot"}), d.AddBot(discord.BotOptions{Name: "hermes"})
	w.sBot = s.AddApp(slack.AppOptions{}).Install(s.AddTeam("Acme"))
	w.yaml = "platforms:\n  telegram: {api_url: " + tURL + "}\n  discord: {api_url: " + dURL + "}\n  slack: {api_url: " + s.APIURL() + "}\n"
	return w
}

func TestVerifyTokens(t *testing.T) {
	w := newSimulators(t)
	s := homeWith(t, w.yaml, "").loadState()
	for _, c := range []struct {
		name, want string // "!" begins an error
		at         chat.Platform
		login      setup.Login
	}{
		{"telegram", "@my_bot", chat.Telegram, setup.Login{Secrets: tokens(secret.Value(w.tBot.Token()))}},
		{"telegram, wrong", "!refuses it (401", chat.Telegram, setup.Login{Secrets: tokens(botToken)}},
		{"discord", "client_id=" + w.dBot.ID() + "&scope=bot+applications.commands", chat.Discord, setup.Login{Secrets: tokens(secret.Value(w.dBot.Token()))}},
		{"discord, wrong", "!refuses it (401", chat.Discord, setup.Login{Secrets: tokens("a.b.secret")}},
		{"slack", "in Acme", chat.Slack, setup.Login{Secrets: tokens(secret.Value(w.sBot.Token()), secret.Value(w.sBot.App().Token()))}},
		{"slack, wrong bot token", "!the bot token is refused by Slack: invalid_auth", chat.Slack, setup.Login{Secrets: tokens(slackToken, secret.Value(w.sBot.App().Token()))}},
		{"a platform whose tokens cannot be tried", "!set-up cannot try a token of matrix", "matrix", setup.Login{Secrets: tokens(botToken)}},
		{"slack, wrong app token", "!the app token is refused by Slack: invalid_auth", chat.Slack, setup.Login{Secrets: tokens(secret.Value(w.sBot.Token()), slackApp)}},
	} {
		text, err := s.VerifyToken(t.Context(), c.at, c.login)
		checkVerify(t, c.name, c.want, text, err)
	}
}

func TestVerifyModels(t *testing.T) {
	w := newSimulators(t)
	s := homeWith(t, "", "OPENAI_API_KEY=sk-right-key\n").loadState()
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the key went elsewhere") }))
	defer elsewhere.Close()
	away := httptest.NewServer(http.RedirectHandler(elsewhere.URL, http.StatusTemporaryRedirect))
	defer away.Close()
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>\x1b[31m")) }))
	defer page.Close()
	parrot := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, `{"error": {"message": "no: `+r.Header.Get("Authorization")+`\u001b[2J"}}`, http.StatusForbidden)
	}))
	defer parrot.Close()
	for _, c := range []struct {
		name, want string // "!" begins an error
		model      setup.Model
	}{
		{"anthropic", "has claude-x", setup.Model{Provider: "anthropic", Name: "claude-x", BaseURL: w.model.URL, Key: "sk-right-key"}},
		{"anthropic, wrong key", "!refuses it (401: invalid x-api-key)", setup.Model{Provider: "anthropic", Name: "claude-x", BaseURL: w.model.URL, Key: "sk-secret"}},
		{"openai, the key that is there", "has claude-y", setup.Model{Provider: "openai", Name: "claude-y", BaseURL: w.model.URL + "/v1"}},
		{"no such model", "!has no model \"gpt\"; it has claude-x, claude-y", setup.Model{Provider: "custom", Name: "gpt", BaseURL: w.model.URL + "/v1", Key: "sk-right-key"}},
		{"no key", "!(401", setup.Model{Provider: "custom", Name: "claude-x", BaseURL: w.model.URL + "/v1"}},
		{"a wrong path", "!has nothing there (404): is the address right?", setup.Model{Provider: "custom", Name: "x", BaseURL: w.model.URL + "/v2", Key: "sk-right-key"}},
		{"nobody there", "!is not reached", setup.Model{Provider: "ollama", Name: "x", BaseURL: "http://127.0.0.1:1/v1"}},
		{"sent elsewhere", "!answers 307", setup.Model{Provider: "custom", Name: "x", BaseURL: away.URL + "/v1", Key: "sk-secret"}},
		{"a page for people", "!not as expected", setup.Model{Provider: "custom", Name: "x", BaseURL: page.URL + "/v1"}},
		{"the key said back", "!refuses it (403: no: Bearer <secret> [2J)", setup.Model{Provider: "custom", Name: "x", BaseURL: parrot.URL + "/v1", Key: "sk-secret"}},
		{"the demo model", "needs nothing", setup.Model{Provider: "demo"}},
		{"no address", "!no address", setup.Model{Provider: "custom", Name: "x"}},
	} {
		text, err := s.VerifyModel(t.Context(), c.model)
		checkVerify(t, c.name, c.want, text, err)
	}
}

// checkVerify compares the result of a verification with the expected one.
func checkVerify(t *testing.T, name, want, text string, err error) {
	t.Helper()
	if failed, ok := strings.CutPrefix(want, "!"); ok {
		if err == nil || !strings.Contains(err.Error(), failed) || strings.Contains(strings.ReplaceAll(err.Error(), "<secret>", ""), "secret") {
			t.Errorf("%s: %v, want %q", name, err, failed)
		}
		return
	}
	if err != nil || !strings.Contains(text, want) {
		t.Errorf("%s: %q %v, want %q", name, text, err, want)
	}
}

func TestVerifyEndsWithContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	slow := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		cancel()
		<-r.Context().Done()
	}))
	defer slow.Close()
	if _, err := newHome(t).loadState().VerifyModel(ctx, setup.Model{Provider: "custom", Name: "x", BaseURL: slow.URL + "/v1"}); err == nil {
		t.Error("no error")
	}
}
