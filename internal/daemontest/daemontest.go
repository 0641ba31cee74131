// Package daemontest runs the real daemon as a child process under simulators of the
// platforms and of a model, so that it can be killed, stopped, started again
// and measured from outside. The simulators live in the process that uses the
// rig and outlive every life of the daemon; their ledgers are the judges.
package daemontest

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"hermesd/internal/sim/discord"
	"hermesd/internal/sim/llm"
	"hermesd/internal/sim/slack"
	"hermesd/internal/sim/telegram"
)

// Options say what the daemon runs under.
type Options struct {
	Binary   string // the daemon; see Build
	Home     string // its home directory
	Telegram telegram.Options
	Model    llm.Options
	// Everywhere connects the daemon to a Discord and a Slack too.
	Everywhere bool
	Discord    discord.Options
	Slack      slack.Options
	// DemoModel has the daemon use its built-in model instead of the simulator.
	DemoModel bool
	// Window is how many tokens the model's context holds; 0: what is known of it.
	Window int
	People int // users with a direct chat, all allowed
	// Config is added to the config file.
	Config string
	// Out gets what the daemon prints; nil: nothing does.
	Out io.Writer
}

// A Rig is a home directory with the world around it.
type Rig struct {
	o        Options
	Telegram *telegram.Server
	Model    *llm.Server
	Bot      *telegram.Bot
	People   []*telegram.User
	Direct   []*telegram.Chat // the direct chat of each person
	Discord  *Discord         // nil without Everywhere
	Slack    *Slack           // nil without Everywhere
	Daemon   *Process         // the present life; nil between lives
	Lives    int
}

// New starts the simulators and writes the home. The daemon does not run yet.
func New(o Options) (*Rig, error) {
	r := &Rig{o: o, Telegram: telegram.New(o.Telegram)}
	api, err := r.Telegram.Start()
	if err != nil {
		return nil, fmt.Errorf("telegram simulator: %w", err)
	}
	if r.Model, err = llm.Start(o.Model); err != nil {
		r.Telegram.Close()
		return nil, fmt.Errorf("model simulator: %w", err)
	}
	r.Bot = r.Telegram.AddBot(telegram.BotOptions{Username: "hermes_bot", Name: "Hermes"})
	var ids []string
	for range max(o.People, 1) {
		u := r.Telegram.AddUser(telegram.Person{})
		r.People = append(r.People, u)
		r.Direct = append(r.Direct, u.Chat(r.Bot))
		ids = append(ids, fmt.Sprintf("%q", fmt.Sprint(u.ID())))
	}
	if err := r.write(api, ids); err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

func (r *Rig) write(api string, ids []string) error {
	model := fmt.Sprintf("model:\n  provider: anthropic\n  default: claude-sonnet-4-5\n  base_url: %s\n  api_key: sk-simulated-0000000000\n", r.Model.URL)
	if r.o.DemoModel {
		model = "model:\n  provider: demo\n  demo_pause: 40ms\n"
	}
	if r.o.Window > 0 {
		model += fmt.Sprintf("  context_length: %d\n", r.o.Window)
	}
	others := ""
	if r.o.Everywhere {
		var err error
		if others, err = r.everywhere(); err != nil {
			return err
		}
	}
	config := model + fmt.Sprintf("platforms:\n  telegram:\n    token: %q\n    api_url: %s\n    allow_from: [%s]\n", r.Bot.Token(), api, strings.Join(ids, ", ")) + others + r.o.Config
	if err := os.MkdirAll(r.o.Home, 0o700); err != nil {
		return fmt.Errorf("home: %w", err)
	}
	if err := os.WriteFile(filepath.Join(r.o.Home, "config.yaml"), []byte(config), 0o600); err != nil {
		return fmt.Errorf("config: %w", err)
	}
	return nil
}

// Start begins a life of the daemon and returns when it polls, and is connected
// everywhere.
func (r *Rig) Start(ctx context.Context) error {
	out := r.o.Out
	if out == nil {
		out = io.Discard
	}
	polls := r.polls()
	onDiscord, onSlack := r.connections()
	p, err := spawn(r.o.Binary, []string{"run", "--home", r.o.Home}, out)
	if err != nil {
		return err
	}
	r.Daemon = p
	r.Lives++
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() { // ends with the daemon or with Start, which cancels ctx
		select {
		case <-p.Ended():
			cancel(fmt.Errorf("the daemon ended: %w", p.Err()))
		case <-ctx.Done():
		}
	}()
	err = r.Telegram.Ledger().WaitFor(ctx, func(*telegram.Ledger) bool { return r.polls() > polls })
	if err != nil {
		return fmt.Errorf("the daemon does not poll: %w", err)
	}
	return r.connected(ctx, onDiscord, onSlack)
}

func (r *Rig) polls() int { return r.Telegram.Ledger().Counts().ByMethod["getupdates"] }

// Home returns the home directory of the daemon.
func (r *Rig) Home() string { return r.o.Home }

// Kill ends the present life by SIGKILL.
func (r *Rig) Kill() {
	r.Daemon.Kill()
	r.Daemon = nil
}

// Stop ends the present life in good order.
func (r *Rig) Stop(limit time.Duration) error {
	err := r.Daemon.Term(limit)
	r.Daemon = nil
	return err
}

// Close ends everything.
func (r *Rig) Close() {
	if r.Daemon != nil {
		r.Kill()
	}
	r.Telegram.Close()
	r.closeOthers()
	if r.Model != nil {
		r.Model.Close()
	}
}

// Build compiles the daemon into dir and returns its path.
func Build(ctx context.Context, dir string) (string, error) {
	bin := filepath.Join(dir, "hermesd")
	cmd := exec.CommandContext(ctx, "go", "build", "-o", bin, "hermesd/cmd/hermesd")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the daemon: %w\n%s", err, out)
	}
	return bin, nil
}
