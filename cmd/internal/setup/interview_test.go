package setup_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"hermesd/adapters/discord"
	"hermesd/cmd/internal/setup"
)

// A scriptedAsker answers questions by their titles, with the next answer each time.
// The answer to a MultiSelect is a list separated by commas. Other questions keep
// their default.
type scriptedAsker struct {
	t       *testing.T
	answers map[string][]string
	quitsAt int // quits at this page, counted from 1; 0 for never
	pages   int
	heard   []string
	asked   []string
}

func (p *scriptedAsker) Ask(_ context.Context, page setup.Page) error {
	if p.pages++; p.pages == p.quitsAt {
		return setup.ErrAborted
	}
	if p.pages > 60 {
		return errors.New("this has no end")
	}
	p.heard = append(p.heard, page.Title, page.Text)
	for _, f := range page.Fields {
		p.asked, p.heard = append(p.asked, f.Title), append(p.heard, f.Help)
		if next := p.answers[f.Title]; len(next) > 0 {
			p.answers[f.Title] = next[1:]
			f.Value = next[0]
			if f.Kind == setup.MultiSelect {
				f.Values = setup.Split(next[0])
			}
		}
		p.fits(f)
	}
	return nil
}

// fits fails if a form would not accept the answer.
func (p *scriptedAsker) fits(f *setup.Field) {
	p.t.Helper()
	if f.Kind == setup.Select && !slices.ContainsFunc(f.Options, func(o setup.Option) bool { return o.Value == f.Value }) {
		p.t.Errorf("%q is no answer to %q", f.Value, f.Title)
	}
	if (f.Kind == setup.Text || f.Kind == setup.Secret) && f.Check != nil {
		if err := f.Check(f.Value); err != nil {
			p.t.Errorf("%q is no answer to %q: %v", f.Value, f.Title, err)
		}
	}
}

func (p *scriptedAsker) Say(s string) { p.heard = append(p.heard, s) }

func (p *scriptedAsker) Wait(ctx context.Context, _ string, do func(context.Context)) error {
	do(ctx)
	return nil
}

// interview runs an interview and writes its plan.
func (p *harness) interview(who *scriptedAsker) error {
	p.t.Helper()
	plan, err := setup.Interview(p.t.Context(), p.loadState(), who)
	if err != nil || plan == nil {
		return err
	}
	return plan.Write()
}

func (p *scriptedAsker) wasTold(s string) bool {
	return strings.Contains(strings.Join(p.heard, "\n"), s)
}

func TestInterviewOfFreshHome(t *testing.T) {
	w := newSimulators(t)
	p := newHome(t)
	answers := func() map[string][]string {
		return map[string][]string{
			"From where do you want to reach the agent?": {"telegram"},
			"Which model shall answer?":                  {"custom"},
			"Address of the server":                      {w.model.URL + "/v1"},
			"Name of the model":                          {"claude-z", "claude-x"},
			"Key":                                        {" sk-wrong-key ", "sk-right-key"},
			"It did not work.":                           {"correct", "correct", "go"},
			"Bot token":                                  {botToken},
			"Who is the owner?":                          {"42, 43"},
			"Try it now?":                                {"try", "try", "go"},
		}
	}
	pages := 0
	for page := 1; ; page++ { // whoever quits, at any page, leaves nothing behind
		who := &scriptedAsker{t: t, answers: answers(), quitsAt: page}
		err := p.interview(who)
		if err == nil {
			pages = who.pages
			if !who.wasTold("✗ 127.0.0.1") || !who.wasTold("✓ It works, and has claude-x.") || !who.wasTold("https://t.me/BotFather") {
				t.Errorf("heard\n%s", strings.Join(who.heard, "\n"))
			}
			if who.wasTold("sk-right-key") || who.wasTold(botToken) {
				t.Error("a secret was told")
			}
			break
		}
		if _, there := os.Stat(p.home); !errors.Is(err, setup.ErrAborted) || there == nil {
			t.Fatalf("quit at page %d: %v; the home is there: %v", page, err, there == nil)
		}
	}
	if pages < 9 {
		t.Errorf("there were only %d pages", pages)
	}
	c, r := p.load()
	if r.Model.String() != "custom claude-x (model.provider)" || r.Model.APIKey != "sk-right-key" || c.Platforms.Telegram.Adapter.Token != botToken || fmt.Sprint(c.Platforms.Telegram.AllowAdminFrom) != "[42 43]" {
		t.Errorf("%s %+v", r.Model, c.Platforms.Telegram)
	}
	if c.Terminal.CWD != "" {
		t.Errorf("the workspace is written although it is the usual one: %s", c.Terminal.CWD)
	}
}

func TestInterviewKeepsExistingSettings(t *testing.T) {
	p := homeWith(t, "# mine\nmodel: claude-x\ntelegram:\n  require_mention: true\n", "ANTHROPIC_API_KEY="+apiKey+"\nTELEGRAM_BOT_TOKEN="+botToken+"\nTELEGRAM_ALLOWED_USERS=42\n")
	who := &scriptedAsker{t: t, answers: map[string][]string{"Which parts do you want to set up or change?": {""}}}
	if err := p.interview(who); err != nil {
		t.Fatal(err)
	}
	if !who.wasTold("Everything stays as it is.") || !who.wasTold("model      anthropic claude-x") || !who.wasTold("token in .env") || slices.Contains(who.asked, "Key") {
		t.Errorf("asked %q, heard\n%s", who.asked, strings.Join(who.heard, "\n"))
	}
	who = &scriptedAsker{t: t, answers: map[string][]string{
		"Which parts do you want to set up or change?": {"model, workspace"},
		"Name of the model":                            {"claude-y"},
		"Workspace (optional)":                         {"/srv/work"},
		"Try it now?":                                  {"go", "go"},
		"Write this?":                                  {"change", "write"},
		"Which part do you want to change?":            {"telegram"},
		"Who is the owner?":                            {"42"},
	}}
	if err := p.interview(who); err != nil {
		t.Fatal(err)
	}
	if slices.Contains(who.asked, "Key") || slices.Contains(who.asked, "Bot token") {
		t.Errorf("asked for what is there: %q", who.asked)
	}
	want := "# mine\nmodel:\n  default: claude-y\n  provider: anthropic\ntelegram:\n  require_mention: true\n  allow_admin_from: [\"42\"]\nterminal:\n  cwd: /srv/work\n"
	if got := p.text("config.yaml"); got != want {
		t.Errorf("config.yaml is\n%s", got)
	}
}

func TestInterviewRepairsInvalidConfig(t *testing.T) {
	p := homeWith(t, "platforms:\n  telegram:\n    enabled: true\n", "")
	who := &scriptedAsker{t: t, answers: map[string][]string{
		"Which parts do you want to set up or change?": {"telegram"},
		"Bot token":         {botToken},
		"Who is the owner?": {"42"},
		"Try it now?":       {"go"},
	}}
	if err := p.interview(who); err != nil {
		t.Fatal(err)
	}
	if !who.wasTold("it is switched on but has no token") {
		t.Errorf("heard\n%s", strings.Join(who.heard, "\n"))
	}
	p.load()
}

func TestInterviewWritesNoInvalidConfig(t *testing.T) {
	p := homeWith(t, "agnet: 1\n", "")
	who := &scriptedAsker{t: t, answers: map[string][]string{
		"Which parts do you want to set up or change?":                   {"workspace"},
		"Workspace (optional)":                                           {"/srv/work"},
		"This would not be a valid configuration, so it is not written.": {"quit"},
	}}
	if err := p.interview(who); !errors.Is(err, setup.ErrAborted) {
		t.Errorf("%v", err)
	}
	if !who.wasTold("agnet: unknown key") || p.text("config.yaml") != "agnet: 1\n" {
		t.Errorf("config.yaml is\n%s", p.text("config.yaml"))
	}
}

// TestPlatformStepsMatchDocs compares the steps for tokens with the page that
// explains them in detail.
func TestPlatformStepsMatchDocs(t *testing.T) {
	raw, err := os.ReadFile("../../../docs/platforms.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(raw)
	who := &scriptedAsker{t: t, answers: map[string][]string{
		"From where do you want to reach the agent?": {"telegram, discord, slack"}, "Which model shall answer?": {"demo"}, "Try it now?": {"go", "go", "go"},
		"Bot token": {botToken, "a.b.c"}, "Bot token (xoxb-…)": {slackToken}, "App token (xapp-…)": {slackApp}, "Who is the owner?": {"1", "2", "U03"},
	}}
	if err := newHome(t).interview(who); err != nil {
		t.Fatal(err)
	}
	for _, word := range []string{
		"https://t.me/BotFather", "/newbot", "/setprivacy", "@userinfobot", "https://discord.com/developers/applications", "Message Content Intent",
		"applications.commands", "https://api.slack.com/apps", "From a manifest", "connections:write", "App-Level Tokens", "Copy member ID",
	} {
		if told := who.wasTold(word); !told || !strings.Contains(page, word) {
			t.Errorf("%q: told %v, on the page %v", word, told, strings.Contains(page, word))
		}
	}
	if before, after, ok := strings.Cut(discord.InviteURL, "%s"); !ok || !strings.Contains(page, before) || !strings.Contains(page, after) {
		t.Errorf("the page has another address than %s", discord.InviteURL)
	}
}
