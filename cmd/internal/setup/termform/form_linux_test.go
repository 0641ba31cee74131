package termform_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"hermesd/cmd/internal/config"
	"hermesd/cmd/internal/setup"
	"hermesd/cmd/internal/setup/termform"
	"hermesd/internal/sim/llm"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		// The goroutine of a blinking cursor outlives its program by half a second.
		goleak.IgnoreAnyFunction("charm.land/bubbles/v2/cursor.(*Model).Blink.func1"),
		goleak.IgnoreAnyFunction("charm.land/bubbletea/v2.(*Program).execBatchMsg"))
}

// A terminal is a pseudo-terminal with a simulated user.
type terminal struct {
	t          *testing.T
	keys, here *os.File // the user's side and the program's

	mu     sync.Mutex // guards the fields below
	all    bytes.Buffer
	screen screen
	wake   chan struct{}
}

// open returns a terminal of 100 columns and 40 lines.
func open(t *testing.T) *terminal {
	t.Helper()
	keys, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skip(err)
	}
	n, err := unix.IoctlGetInt(int(keys.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(keys.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		err = unix.IoctlSetWinsize(int(keys.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 40, Col: 100})
	}
	if err != nil {
		t.Fatal(err)
	}
	here, err := os.OpenFile(fmt.Sprint("/dev/pts/", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	p := &terminal{t: t, keys: keys, here: here, wake: make(chan struct{}, 1)}
	var watching sync.WaitGroup
	watching.Go(func() { // ends when the program's side is closed
		b := make([]byte, 4096)
		for {
			n, err := keys.Read(b)
			if err != nil {
				return
			}
			p.mu.Lock()
			p.all.Write(b[:n])
			p.screen.Write(b[:n])
			p.mu.Unlock()
			select {
			case p.wake <- struct{}{}:
			default:
			}
		}
	})
	t.Cleanup(func() { _ = here.Close(); watching.Wait(); _ = keys.Close() })
	return p
}

// screenText returns the current screen.
func (p *terminal) screenText() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.screen.String()
}

// typeAfter waits until the screen shows words, and then types keys.
func (p *terminal) typeAfter(words, keys string) bool {
	p.t.Helper()
	late := time.After(2 * time.Minute)
	for !strings.Contains(p.screenText(), words) {
		select {
		case <-p.wake:
		case <-late:
			p.t.Errorf("%q is not shown; the screen is\n%s", words, p.screenText())
			return false
		}
	}
	_, err := p.keys.WriteString(keys)
	return err == nil
}

func (p *terminal) asker() *termform.Asker {
	return &termform.Asker{In: p.here, Out: p.here, Environ: []string{"TERM=vt220"}}
}

const (
	down  = "\x1b[B"
	enter = "\r"
	ctrlC = "\x03"
	ctrlU = "\x15"
)

func TestFormSetsUpHome(t *testing.T) {
	model, err := llm.Start(llm.Options{Keys: []string{"sk-right-key"}, Models: []string{"small"}})
	if err != nil {
		t.Fatal(err)
	}
	defer model.Close()
	home := filepath.Join(t.TempDir(), "home")
	env := func(string) (string, bool) { return "", false }
	s, err := setup.Load(setup.Options{Home: home, Env: env})
	if err != nil {
		t.Fatal(err)
	}
	p := open(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var person sync.WaitGroup
	person.Go(func() {
		for _, step := range [][2]string{
			{"> [ ] Telegram", " "},
			{"[•] Telegram", enter},
			{"> Anthropic", strings.Repeat(down, slices.Index(setup.Providers(), "custom"))},
			{"> Another server", enter},
			{"┃ Address of the server", enter},
			{"this is needed", model.URL + "/v1"},
			{model.URL + "/v1", enter},
			{"┃ Name of the model", "small"},
			{"> small", enter},
			{"┃ Key", "sk-right-key"},
			{"> ************", enter},
			{"┃ > Yes: ask the server", enter},
			{"✓ It works, and has small.", ""},
			{"1. Open https://t.me/BotFather", ""},
			{"┃ Bot token", "123456:AAH-secret-token"},
			{"> ***********************", enter},
			{"┃ Who is the owner?", "@ann"},
			{"> @ann", enter},
			{"that person writes to the bot", ctrlU + "42"}, // an error that is two lines high
			{"> 42", enter},
			{"┃ > Yes: ask the server", down},
			{"┃ > No, go on", enter},
			{"┃ Workspace (optional)", enter},
			{"┃ > None: only the built-in memory", "/fits" + enter}, // no filter
			{"TELEGRAM_BOT_TOKEN: <secret>", ""},
			{"┃ > Write it", enter},
		} {
			if !p.typeAfter(step[0], step[1]) {
				cancel()
				return
			}
		}
	})
	plan, err := setup.Interview(ctx, s, p.asker())
	person.Wait()
	if err != nil {
		t.Fatalf("%v\n%s", err, p.screenText())
	}
	if err := plan.Write(); err != nil {
		t.Fatal(err)
	}
	c, r, err := config.Load(config.Options{Home: home, Env: env})
	if err != nil || r.Model.Model != "small" || r.Model.APIKey != "sk-right-key" || c.Platforms.Telegram.Adapter.Token != "123456:AAH-secret-token" || c.Platforms.Telegram.AllowAdminFrom[0] != "42" {
		t.Errorf("%v %s %+v", err, r.Model, c)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if all := p.all.String(); strings.Contains(all, "sk-right") || strings.Contains(all, "secret-token") {
		t.Errorf("a secret was shown:\n%s", all)
	}
	if left := p.screen.String(); strings.Contains(left, "┃") || strings.Contains(strings.TrimSpace(left), "\n\n") {
		t.Errorf("pages are left on the screen:\n%s", left)
	}
}

func TestFormAbortWritesNothing(t *testing.T) {
	for name, abort := range map[string]func(p *terminal, cancel func()){
		"Ctrl-C":   func(p *terminal, _ func()) { _, _ = p.keys.WriteString(ctrlC) },
		"a signal": func(_ *terminal, cancel func()) { cancel() },
	} {
		home := filepath.Join(t.TempDir(), "home")
		s, err := setup.Load(setup.Options{Home: home, Env: func(string) (string, bool) { return "", false }})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		p := open(t)
		var person sync.WaitGroup
		person.Go(func() {
			if p.typeAfter("> [ ] Telegram", enter) && p.typeAfter("> Anthropic", "") {
				abort(p, cancel)
			}
			time.AfterFunc(2*time.Minute, cancel) // in case the form does not end
		})
		_, err = setup.Interview(ctx, s, p.asker())
		person.Wait()
		cancel()
		if _, there := os.Stat(home); !errors.Is(err, setup.ErrAborted) || there == nil {
			t.Errorf("%s: %v, %v", name, err, there)
		}
	}
}

func TestFormAbortsAtEndOfInput(t *testing.T) {
	in, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = in.Close() }() // already at its end
	var screen bytes.Buffer
	a := &termform.Asker{In: in, Out: &screen}
	f := &setup.Field{Kind: setup.Text, Title: "Name"}
	if err := a.Ask(t.Context(), setup.Page{Title: "Who", Fields: []*setup.Field{f}}); !errors.Is(err, setup.ErrAborted) {
		t.Errorf("%v", err)
	}
}

func TestSayRemovesEscapeSequences(t *testing.T) {
	var screen bytes.Buffer
	a := &termform.Asker{Out: &screen}
	a.Say("it answers 500: \x1b[2Jboo\x07")
	if got := screen.String(); got != "it answers 500: boo\n" {
		t.Errorf("%q", got)
	}
}
