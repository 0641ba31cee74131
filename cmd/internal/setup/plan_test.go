package setup_test

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hermesd/cmd/internal/setup"
	"hermesd/gateway/chat"
	"hermesd/internal/secret"
)

func claude() *setup.Model {
	return &setup.Model{Provider: "anthropic", Name: "claude-x", Key: apiKey}
}

func onTelegram(ids ...string) map[chat.Platform]setup.Login {
	return map[chat.Platform]setup.Login{chat.Telegram: {Secrets: tokens(botToken), Owners: ids}}
}

func TestPlanWrites(t *testing.T) {
	work := "/srv/work $5 # it's \"here\""
	for _, c := range []struct {
		name, yaml, dotenv string
		answers            setup.Answers
		wantYAML, wantEnv  string
		note               string
	}{
		{
			name: "a fresh home", answers: setup.Answers{Model: claude(), Platforms: onTelegram("42"), Workspace: &work},
			wantYAML: "model:\n  provider: anthropic\n  default: claude-x\nplatforms:\n  telegram:\n    allow_admin_from: [\"42\"]\nterminal:\n  cwd: \"/srv/work $$5 # it's \\\"here\\\"\"\n",
			wantEnv:  "ANTHROPIC_API_KEY=sk-ant-secret-key\nTELEGRAM_BOT_TOKEN=" + botToken + "\n",
		},
		{
			name: "comments, other keys and lines", answers: setup.Answers{Model: claude(), Platforms: onTelegram("42")},
			yaml:     "# mine\n\nlogging:\n    level: debug   # while I look\n\n# who answers\nmodel:\n  max_tokens: 5 # few\n\nplatforms:\n  telegram:\n    require_mention: true\n  discord: {enabled: false}\n",
			dotenv:   "# keys\nexport OTHER='x y'\nTELEGRAM_BOT_TOKEN=\n",
			wantYAML: "# mine\n\nlogging:\n    level: debug   # while I look\n\n# who answers\nmodel:\n  max_tokens: 5 # few\n  provider: anthropic\n  default: claude-x\n\nplatforms:\n  telegram:\n    require_mention: true\n    allow_admin_from: [\"42\"]\n  discord: {enabled: false}\n",
			wantEnv:  "# keys\nexport OTHER='x y'\nTELEGRAM_BOT_TOKEN=" + botToken + "\nANTHROPIC_API_KEY=sk-ant-secret-key\n",
		},
		{
			name: "upstream's form", answers: setup.Answers{Model: &setup.Model{Provider: "anthropic", Name: "claude-x"}, Platforms: onTelegram("42"), Workspace: &work},
			yaml:     "model: anthropic/claude-opus-4.6\nterminal:\n  backend: local\ntelegram:\n  reactions: true\nworkspace: /old\n",
			dotenv:   "ANTHROPIC_API_KEY=sk-ant-old-key\nTELEGRAM_ALLOWED_USERS=42\n",
			wantYAML: "model:\n  default: claude-x\n  provider: anthropic\nterminal:\n  backend: local\ntelegram:\n  reactions: true\n  allow_admin_from: [\"42\"]\nworkspace: \"/srv/work $$5 # it's \\\"here\\\"\"\n",
			wantEnv:  "ANTHROPIC_API_KEY=sk-ant-old-key\nTELEGRAM_ALLOWED_USERS=42\nTELEGRAM_BOT_TOKEN=" + botToken + "\n",
		},
		{
			name: "a server that has no variable", answers: setup.Answers{Model: &setup.Model{Provider: "custom", Name: "m", BaseURL: "http://127.0.0.1:8000/v1", Key: "a'b\"c#d\\$e"}},
			wantYAML: "model:\n  provider: custom\n  default: m\n  base_url: http://127.0.0.1:8000/v1\n  api_key: \"${HERMES_MODEL_API_KEY}\"\n",
			wantEnv:  `HERMES_MODEL_API_KEY="a'b\"c#d\\\$e"` + "\n",
		},
		{
			name: "a key from a variable of one's own", answers: setup.Answers{Model: &setup.Model{Provider: "custom", Name: "m", BaseURL: "http://127.0.0.1:8000/v1", Key: "new-key"}},
			yaml:     "model: {provider: custom, default: m, base_url: http://127.0.0.1:8000/v1, api_key: \"${MINE}\"}\n",
			dotenv:   "MINE=old-key\n",
			wantYAML: "model: {provider: custom, default: m, base_url: http://127.0.0.1:8000/v1, api_key: \"${MINE}\"}\n",
			wantEnv:  "MINE=new-key\n",
		},
		{
			name: "another provider gets neither the address nor the key", answers: setup.Answers{Model: claude()},
			yaml:     "model:\n  provider: custom\n  default: m\n  base_url: http://127.0.0.1:8000/v1\n  api_key: the-old-key # of that server\n",
			wantYAML: "model:\n  provider: anthropic\n  default: claude-x\n  base_url: \"\"\n  api_key: \"\" # of that server\n",
			wantEnv:  "ANTHROPIC_API_KEY=sk-ant-secret-key\n",
		},
		{
			name: "the key of another provider is taken out", answers: setup.Answers{Model: &setup.Model{Provider: "ollama", Name: "llama3"}},
			yaml:     "model:\n  provider: openai\n  default: gpt\n  api_key: sk-old\n",
			wantYAML: "model:\n  provider: ollama\n  default: llama3\n  api_key: \"\"\n", wantEnv: "-",
			note: "was the key for openai",
		},
		{
			name: "a platform that was switched off", answers: setup.Answers{Platforms: onTelegram("42")},
			yaml:     "platforms:\n  telegram:\n    enabled: false # on holiday\n    allow_admin_from:\n      - 7\n",
			wantYAML: "platforms:\n  telegram:\n    enabled: true # on holiday\n    allow_admin_from:\n      - \"42\"\n",
			wantEnv:  "TELEGRAM_BOT_TOKEN=" + botToken + "\n",
		},
		{
			name: "a token in config.yaml", answers: setup.Answers{Platforms: onTelegram()},
			yaml:     "platforms:\n  telegram:\n    token: 1:old-token\n",
			wantYAML: "platforms:\n  telegram:\n    token: 1:old-token\n",
			wantEnv:  "TELEGRAM_BOT_TOKEN=" + botToken + "\n",
			note:     "platforms.telegram.token in config.yaml is not used any more",
		},
		{
			name: "the only one stays the owner", answers: setup.Answers{Platforms: map[chat.Platform]setup.Login{chat.Slack: {Secrets: tokens(slackToken, slackApp), Owners: []string{"U0123"}}}},
			dotenv:   "TELEGRAM_BOT_TOKEN=" + botToken + "\nTELEGRAM_ALLOWED_USERS=42\n",
			wantYAML: "platforms:\n  telegram:\n    allow_admin_from: [\"42\"]\n  slack:\n    allow_admin_from: [U0123]\n",
			wantEnv:  "TELEGRAM_BOT_TOKEN=" + botToken + "\nTELEGRAM_ALLOWED_USERS=42\nSLACK_BOT_TOKEN=xoxb-1-secret\nSLACK_APP_TOKEN=xapp-1-secret\n",
			note:     "42 stays an owner",
		},
		{
			name: "the workspace in .env", answers: setup.Answers{Workspace: &work},
			dotenv:   "TERMINAL_CWD=/old\n",
			wantYAML: "-", wantEnv: `TERMINAL_CWD="/srv/work \$5 # it's \"here\""` + "\n",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := homeWith(t, c.yaml, c.dotenv)
			plan := p.write(c.answers)
			if d := cmp.Diff(c.wantYAML, p.text("config.yaml")); d != "" {
				t.Error("config.yaml differs (-want +got):\n" + d)
			}
			if d := cmp.Diff(c.wantEnv, p.text(".env")); d != "" {
				t.Error(".env differs (-want +got):\n" + d)
			}
			if !strings.Contains(strings.Join(plan.Notes, "\n"), c.note) {
				t.Errorf("notes %q lack %q", plan.Notes, c.note)
			}
			p.checkLoaded(c.answers)
		})
	}
}

// checkLoaded fails unless loading the configuration yields the answers.
// tokens returns the secrets of a login.
func tokens(bot secret.Value, app ...secret.Value) map[string]secret.Value {
	m := map[string]secret.Value{"token": bot}
	if len(app) > 0 {
		m["app_token"] = app[0]
	}
	return m
}

func (p *harness) checkLoaded(a setup.Answers) {
	p.t.Helper()
	c, r := p.load()
	if m := a.Model; m != nil {
		if r.Model.Provider != m.Provider || r.Model.Model != m.Name || m.Key != "" && r.Model.APIKey != m.Key {
			p.t.Errorf("the model is %+v, its key %q", r.Model, r.Model.APIKey.Reveal())
		}
	}
	for at, l := range a.Platforms {
		got, ok := c.Accounts()[chat.Account{Platform: at}]
		for key, v := range l.Secrets {
			ok = ok && got.Secrets[key] == v
		}
		if !ok {
			p.t.Errorf("%s is %+v", at, got)
		}
		if d := cmp.Diff(l.Owners, got.AllowAdminFrom); d != "" {
			p.t.Errorf("the owners of %s differ:\n%s", at, d)
		}
	}
	if a.Workspace != nil && c.Workspace(p.home) != *a.Workspace {
		p.t.Errorf("the workspace is %q", c.Workspace(p.home))
	}
}

func TestWriteFileModes(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("there are no modes")
	}
	p := newHome(t)
	p.write(setup.Answers{Model: claude()})
	for name, want := range map[string]os.FileMode{"": 0o700, ".env": 0o600, "config.yaml": 0o600} {
		if info, err := os.Stat(filepath.Join(p.home, name)); err != nil || info.Mode().Perm() != want {
			t.Errorf("%q: %v %v", name, info.Mode(), err)
		}
	}
	p = homeWith(t, "timezone: UTC\n", "A=1\n")
	for _, name := range []string{".env", "config.yaml"} {
		if err := os.Chmod(filepath.Join(p.home, name), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	p.write(setup.Answers{Model: claude()})
	for name, want := range map[string]os.FileMode{".env": 0o600, "config.yaml": 0o644} {
		if info, err := os.Stat(filepath.Join(p.home, name)); err != nil || info.Mode().Perm() != want {
			t.Errorf("%q: %v %v", name, info.Mode(), err)
		}
	}
}

func TestWriteFollowsLinks(t *testing.T) {
	p := homeWith(t, "", "")
	real := filepath.Join(t.TempDir(), "hermes.yaml")
	if err := os.WriteFile(real, []byte("timezone: UTC\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(real, filepath.Join(p.home, "config.yaml")); err != nil {
		t.Skip(err)
	}
	p.write(setup.Answers{Model: claude()})
	if info, err := os.Lstat(filepath.Join(p.home, "config.yaml")); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link is gone: %v", err)
	}
	if raw, err := os.ReadFile(real); err != nil || !strings.Contains(string(raw), "provider: anthropic") {
		t.Errorf("%s %v", raw, err)
	}
}

func TestPlanShowsNoSecrets(t *testing.T) {
	p := homeWith(t, "model: {provider: openai, default: gpt, api_key: sk-old-secret}\n", "TELEGRAM_BOT_TOKEN=1:old-secret-token\n")
	plan, err := p.loadState().Plan(setup.Answers{Model: claude(), Platforms: onTelegram("42")})
	if err != nil {
		t.Fatal(err)
	}
	shown := plan.Text() + strings.Join(plan.Notes, "")
	for _, c := range plan.Overwrites() {
		shown += c.Old + c.New
	}
	if strings.Contains(shown, "secret-") || strings.Contains(shown, "-secret") {
		t.Errorf("a secret is shown:\n%s", shown)
	}
	for _, want := range []string{"ANTHROPIC_API_KEY: <secret>\n", "TELEGRAM_BOT_TOKEN: <secret>   (was <secret>)", "model.api_key: (empty)   (was <secret>)", "model.provider: anthropic   (was openai)"} {
		if !strings.Contains(shown, want) {
			t.Errorf("%q is not in\n%s", want, shown)
		}
	}
}

func TestPlanRejectsInvalidConfig(t *testing.T) {
	for _, c := range []struct {
		name, yaml, dotenv string
		answers            setup.Answers
		want               string
	}{
		{"an address that is none", "", "", setup.Answers{Model: &setup.Model{Provider: "custom", Name: "m", BaseURL: "http://127.0.0.1:8000"}}, "config.yaml:4:13: model.base_url: an OpenAI-compatible address goes up to and including /v1"},
		{"a key that was wrong before", "agnet: 1\n", "", setup.Answers{Model: claude()}, "config.yaml:1:1: agnet: unknown key"},
		{"one of two tokens", "", "", setup.Answers{Platforms: map[chat.Platform]setup.Login{chat.Slack: {Secrets: tokens(slackToken)}}}, "has no app token"},
		{"an alias", "a: &x {provider: openai}\nmodel: *x\n", "", setup.Answers{Model: claude()}, "write it by hand"},
		{"a key in a file", "model:\n  provider: openai\n  default: gpt\n  api_key_file: key\n", "", setup.Answers{Model: claude()}, "model.api_key_file: it names the file of the key"},
		{"a quote that is open", "", "A='x\n", setup.Answers{Model: &setup.Model{Provider: "anthropic", Key: "it's"}}, "a quote is not closed"},
		{"a value that is no text", "", "", setup.Answers{Model: &setup.Model{Provider: "anthropic", Key: secret.Value("sk-\xff-secret")}}, "not UTF-8"},
		{"no such provider", "", "", setup.Answers{Model: &setup.Model{Provider: "nobody"}}, "there is no provider"},
	} {
		p := homeWith(t, c.yaml, c.dotenv)
		plan, err := p.loadState().Plan(c.answers)
		if plan != nil {
			t.Errorf("%s: there is a plan", c.name)
			continue
		}
		if got := problems(t, err); !strings.Contains(got, c.want) || strings.Contains(got, "secret") {
			t.Errorf("%s: %s", c.name, got)
		}
		if y, e := p.text("config.yaml"), p.text(".env"); y != c.yaml && y != "-" || e != c.dotenv && e != "-" {
			t.Errorf("%s: something was written", c.name)
		}
	}
}

func TestPlanNotesEnvironmentPrecedence(t *testing.T) {
	p := newHome(t)
	p.env["ANTHROPIC_API_KEY"] = "sk-ant-another"
	plan := p.write(setup.Answers{Model: claude()})
	if notes := strings.Join(plan.Notes, "\n"); !strings.Contains(notes, "ANTHROPIC_API_KEY is set in the environment too") {
		t.Errorf("notes: %s", notes)
	}
}

func TestPlanOmitsUnchangedValues(t *testing.T) {
	p := newHome(t)
	a := setup.Answers{Model: claude(), Platforms: onTelegram("42")}
	p.write(a)
	before, err := os.Stat(filepath.Join(p.home, "config.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if again := p.write(a); len(again.Changes) != 0 {
		t.Errorf("changes %+v", again.Changes)
	}
	if after, err := os.Stat(filepath.Join(p.home, "config.yaml")); err != nil || !os.SameFile(before, after) {
		t.Errorf("the file is another one: %v", err)
	}
}

func TestWriteKeepsChangedFile(t *testing.T) {
	p := homeWith(t, "timezone: UTC\n", "")
	plan, err := p.loadState().Plan(setup.Answers{Model: claude()})
	if err != nil {
		t.Fatal(err)
	}
	p.put("config.yaml", "timezone: Europe/Berlin\n")
	if err := plan.Write(); err == nil || !strings.Contains(err.Error(), "changed meanwhile") {
		t.Errorf("%v", err)
	}
	if p.text("config.yaml") != "timezone: Europe/Berlin\n" || p.text(".env") != "-" {
		t.Errorf("something was written: %s %s", p.text("config.yaml"), p.text(".env"))
	}
}

func TestWriteRestoresFilesIfInvalid(t *testing.T) {
	for _, files := range [][2]string{{"timezone: UTC\n", "A=1\n"}, {"", ""}} {
		p := homeWith(t, files[0], files[1])
		plan, err := p.loadState().Plan(setup.Answers{Model: claude()})
		if err != nil {
			t.Fatal(err)
		}
		p.env["HERMES_TIMEZONE"] = "Nowhere" // changed after the plan was checked
		if err := plan.Write(); err == nil || !strings.Contains(problems(t, err), "there is no such time zone") {
			t.Errorf("%v", err)
		}
		for i, name := range []string{"config.yaml", ".env"} {
			if got := p.text(name); got != files[i] && (got != "-" || files[i] != "") {
				t.Errorf("%s holds %q", name, got)
			}
		}
		if left, err := os.ReadDir(p.home); err != nil || len(left) > 2 {
			t.Errorf("left behind: %v %v", left, err)
		}
	}
}
