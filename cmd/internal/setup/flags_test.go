package setup_test

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hermesd/cmd/internal/setup"
	"hermesd/gateway/chat"
)

// file writes a file next to the home directory and returns its name.
func (p *harness) file(name, text string) *string {
	p.t.Helper()
	path := filepath.Join(p.t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		p.t.Fatal(err)
	}
	return &path
}

func TestFlagsAnswerEverything(t *testing.T) {
	p := newHome(t)
	p.env["MY_KEY"] = apiKey
	plan, err := p.loadState().FromFlags(setup.Flags{
		Provider: "anthropic", Model: "claude-x", KeyVariable: "MY_KEY", Workspace: "/srv/work",
		SecretFiles: map[string]*string{"telegram-token-file": p.file("t", botToken+"\n"), "slack-token-file": p.file("s", slackToken), "slack-app-token-file": p.file("a", slackApp)},
		Owners:      map[chat.Platform]*[]string{chat.Telegram: {"42", "43"}, chat.Slack: {"U0123"}},
	})
	if err != nil {
		t.Fatal(problems(t, err))
	}
	if err := plan.Write(); err != nil {
		t.Fatal(err)
	}
	work := "/srv/work"
	p.checkLoaded(setup.Answers{Model: claude(), Workspace: &work, Platforms: map[chat.Platform]setup.Login{
		chat.Telegram: {Secrets: tokens(botToken), Owners: []string{"42", "43"}}, chat.Slack: {Secrets: tokens(slackToken, slackApp), Owners: []string{"U0123"}},
	}})
}

func TestFlagsReportAllProblems(t *testing.T) {
	none := func() *string { return new(string) }
	for _, c := range []struct {
		name         string
		yaml, dotenv string
		flags        func(p *harness) setup.Flags
		want         string
	}{
		{"nothing at all", "", "", func(*harness) setup.Flags { return setup.Flags{} }, "flag: --provider: it is missing: one of " + strings.Join(setup.Providers(), ", ") + "\n"},
		{
			"a custom server and half a Slack", "", "", func(p *harness) setup.Flags {
				return setup.Flags{Provider: "custom", SecretFiles: map[string]*string{"slack-token-file": p.file("s", slackToken), "telegram-token-file": none()}, Owners: map[chat.Platform]*[]string{chat.Telegram: {"@ann"}, chat.Slack: {}}}
			},
			"flag: --model: it is missing: custom has no usual model\n" +
				"flag: --base-url: it is missing: the address of the server, up to and including /v1\n" +
				"flag: --telegram-owner: \"@ann\" is a user name, which can change hands: use the numeric id; the log and `hermesd why` show it when that person writes to the bot\n" +
				"flag: --telegram-token-file: it is missing: the file that holds the bot token of Telegram\n" +
				"flag: --slack-app-token-file: it is missing: the file that holds the app token (xapp-…) of Slack\n" +
				"flag: --slack-owner: it is missing: the id of who may do everything, such as U0123456789; nobody else gets in. In your profile: ⋮, Copy member ID.\n",
		},
		{
			"a provider without its key", "", "", func(*harness) setup.Flags { return setup.Flags{Provider: "openai"} },
			"flag: --model: it is missing: openai has no usual model\n" +
				"flag: --api-key-env: a key for openai is missing: name the variable that holds it here, or its file with --api-key-file\n",
		},
		{
			"secrets that are none", "", "", func(p *harness) setup.Flags {
				return setup.Flags{Provider: "anthropic", KeyVariable: "sk-secret-on-the-command-line", SecretFiles: map[string]*string{"discord-token-file": p.file("d", "not-a-secret-token"), "telegram-token-file": p.file("t", " \n")}, Owners: map[chat.Platform]*[]string{chat.Discord: {"*"}, chat.Telegram: {"42"}}}
			},
			"flag: --api-key-env: the variable is not set, or empty; it takes the name of a variable, never the key itself\n" +
				"flag: --telegram-token-file: DIR/t is empty\n" +
				"flag: --discord-token-file: DIR/d: this is not a bot token, which has three parts with dots between them; check DISCORD_BOT_TOKEN\n" +
				"flag: --discord-owner: not everybody can be an owner\n",
		},
		{
			"what is set already", "model: {provider: openai, default: gpt}\n", "OPENAI_API_KEY=sk-old-secret\nANTHROPIC_API_KEY=sk-old-secret\n", func(p *harness) setup.Flags {
				return setup.Flags{Provider: "anthropic", Model: "claude-x", KeyFile: *p.file("k", apiKey)}
			},
			"config.yaml: model.provider: it is openai already; give --overwrite too, and it becomes anthropic\n" +
				"config.yaml: model.default: it is gpt already; give --overwrite too, and it becomes claude-x\n" +
				".env: ANTHROPIC_API_KEY: it is <secret> already; give --overwrite too, and it becomes <secret>\n",
		},
		{
			"a configuration that stays wrong", "agnet: 1\n", "", func(p *harness) setup.Flags { return setup.Flags{Provider: "demo"} },
			"config.yaml:1:1: agnet: unknown key; did you mean agent?\n",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := homeWith(t, c.yaml, c.dotenv)
			plan, err := p.loadState().FromFlags(c.flags(p))
			if plan != nil {
				t.Fatalf("there is a plan:\n%s", plan.Text())
			}
			got := problems(t, err)
			if i := strings.Index(got, os.TempDir()); i >= 0 {
				for _, word := range strings.Fields(got) {
					if dir, _ := filepath.Split(word); strings.HasPrefix(word, os.TempDir()) {
						got = strings.ReplaceAll(got, dir, "DIR/")
					}
				}
			}
			if d := cmp.Diff(c.want, got); d != "" {
				t.Error("problems differ (-want +got):\n" + d)
			}
		})
	}
}

func TestFlagsChangeOnlyWhatTheyName(t *testing.T) {
	p := homeWith(t, "model: {provider: openai, default: gpt}\n", "OPENAI_API_KEY=sk-key\n")
	plan, err := p.loadState().FromFlags(setup.Flags{
		SecretFiles: map[string]*string{"telegram-token-file": p.file("t", botToken)}, Owners: map[chat.Platform]*[]string{chat.Telegram: {"42"}},
	})
	if err != nil {
		t.Fatal(problems(t, err))
	}
	if err := plan.Write(); err != nil {
		t.Fatal(err)
	}
	if got := p.text("config.yaml"); !strings.HasPrefix(got, "model: {provider: openai, default: gpt}\n") {
		t.Errorf("config.yaml is\n%s", got)
	}
	plan, err = p.loadState().FromFlags(setup.Flags{Model: "gpt-2", Overwrite: true})
	if err != nil {
		t.Fatal(problems(t, err))
	}
	if len(plan.Changes) != 1 || plan.Changes[0].Key != "model.default" {
		t.Errorf("changes %+v", plan.Changes)
	}
}

func TestLoadRecoversInterruptedWrite(t *testing.T) {
	p := homeWith(t, "timezone: UTC\n", "ANTHROPIC_API_KEY=sk-new-key\n")
	now := "timezone: UTC\nmodel:\n  provider: anthropic\n"
	p.put(".setup-1", now)
	sum := func(s string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(s))) }
	path := func(name string) string { return filepath.Join(p.home, name) }
	raw, err := json.Marshal([]map[string]string{
		{"path": path(".env"), "staged": path(".setup-0"), "old": "", "new": sum(p.text(".env"))},
		{"path": path("config.yaml"), "staged": path(".setup-1"), "old": sum("timezone: UTC\n"), "new": sum(now)},
	})
	if err != nil {
		t.Fatal(err)
	}
	p.put("setup.plan", string(raw))
	s := p.loadState()
	if s.Recovered == "" || s.Report.Model.Provider != "anthropic" || p.text("config.yaml") != now || p.text("setup.plan") != "-" {
		t.Errorf("%q, config.yaml is\n%s", s.Recovered, p.text("config.yaml"))
	}
	if again := p.loadState(); again.Recovered != "" {
		t.Errorf("again: %s", again.Recovered)
	}
}

func TestLoadRejectsInvalidHome(t *testing.T) {
	p := homeWith(t, "a: [\n", "")
	_, err := setup.Load(p.options())
	if got := problems(t, err); !strings.Contains(got, "this is not YAML") {
		t.Errorf("%s", got)
	}
	o := p.options()
	o.File = filepath.Join(p.home, "nowhere.yaml")
	_, err = setup.Load(o)
	if got := problems(t, err); !strings.Contains(got, "nowhere.yaml") {
		t.Errorf("%s", got)
	}
	p.home = *p.file("home", "")
	if _, err := setup.Load(p.options()); err == nil || !strings.Contains(err.Error(), "not a directory") {
		t.Errorf("%v", err)
	}
}
