package setup_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"hermesd/cmd/internal/app"
	"hermesd/cmd/internal/config"
	"hermesd/cmd/internal/setup"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	botToken     = "123456:AAH-secret-token-of-a-bot"
	slackToken   = "xoxb-1-secret"
	slackApp     = "xapp-1-secret"
	apiKey       = "sk-ant-secret-key"
	discordToken = "MTIzNDU2Nzg5MDEyMzQ1Njc4.secret.of-a-bot"
)

// A harness is a home directory and an environment.
type harness struct {
	t    *testing.T
	home string
	env  map[string]string
}

// newHome returns a harness without a home directory.
func newHome(t *testing.T) *harness {
	t.Helper()
	return &harness{t: t, home: filepath.Join(t.TempDir(), "home"), env: map[string]string{}}
}

// homeWith returns a harness whose home directory contains files.
func homeWith(t *testing.T, yaml, dotenv string) *harness {
	t.Helper()
	p := newHome(t)
	p.put("config.yaml", yaml)
	p.put(".env", dotenv)
	return p
}

func (p *harness) put(name, text string) {
	p.t.Helper()
	if err := os.MkdirAll(p.home, 0o700); err != nil {
		p.t.Fatal(err)
	}
	if text == "" {
		return
	}
	if err := os.WriteFile(filepath.Join(p.home, name), []byte(text), 0o600); err != nil {
		p.t.Fatal(err)
	}
}

func (p *harness) loadState() *setup.State {
	p.t.Helper()
	s, err := setup.Load(p.options())
	if err != nil {
		p.t.Fatal(err)
	}
	return s
}

func (p *harness) options() setup.Options {
	return setup.Options{Home: p.home, OpenMemory: app.OpenMemoryProvider, Env: func(n string) (string, bool) {
		v, ok := p.env[n]
		return v, ok
	}}
}

// write plans the answers and writes them.
func (p *harness) write(a setup.Answers) *setup.Plan {
	p.t.Helper()
	plan, err := p.loadState().Plan(a)
	if err != nil {
		p.t.Fatalf("plan: %v", err)
	}
	if err := plan.Write(); err != nil {
		p.t.Fatalf("write: %v", err)
	}
	return plan
}

// text returns the content of a file, or "-" if it does not exist.
func (p *harness) text(name string) string {
	p.t.Helper()
	raw, err := os.ReadFile(filepath.Join(p.home, name))
	if errors.Is(err, os.ErrNotExist) {
		return "-"
	}
	if err != nil {
		p.t.Fatal(err)
	}
	return string(raw)
}

// load reads the configuration as the daemon does.
func (p *harness) load() (*config.Config, config.Report) {
	p.t.Helper()
	c, r, err := config.Load(config.Options{Home: p.home, Env: p.options().Env})
	if err != nil {
		p.t.Fatalf("load: %v", err)
	}
	return c, r
}

// problems returns the text of an error that must be a *config.Error.
func problems(t *testing.T, err error) string {
	t.Helper()
	var bad *config.Error
	if !errors.As(err, &bad) {
		t.Fatalf("no error of the configuration: %v", err)
	}
	var b strings.Builder
	for _, p := range bad.Problems {
		if filepath.IsAbs(p.File) {
			p.File = filepath.Base(p.File)
		}
		b.WriteString(p.String() + "\n")
	}
	return b.String()
}
