// Package daemontest runs the real daemon as a child process with simulated platforms and
// a simulated model, so that tests can kill, stop, restart and measure it. The simulators
// run in the process that uses the Rig and outlive each daemon process; tests check their
// records. A Rig is not safe for concurrent use.
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

// Options configures a Rig.
type Options struct {
	Binary   string // path of the daemon; see Build
	Home     string // its home directory
	Telegram telegram.Options
	Model    llm.Options
	// Everywhere also connects the daemon to simulators of Discord and Slack.
	Everywhere bool
	Discord    discord.Options
	Slack      slack.Options
	// DemoModel makes the daemon use its built-in model instead of the simulator.
	DemoModel bool
	// Window is the context length of the model in tokens; 0: the known one.
	Window int
	People int // users with a direct chat, all allowed
	// Config is appended to the config file.
	Config string
	// Env is added to the environment of the daemon.
	Env []string
	// TimerSlack is by how much timers of the daemon may be late; 0: by as much as Linux decides.
	TimerSlack time.Duration
	// Out gets the output of the daemon; nil: it is discarded.
	Out io.Writer
}

// A Rig is a home directory, the simulators, and the daemon while it runs.
type Rig struct {
	opts     Options
	Telegram *telegram.Server
	Model    *llm.Server
	Bot      *telegram.Bot
	People   []*telegram.User
	Direct   []*telegram.Chat // the direct chat of each person
	Discord  *Discord         // nil without Everywhere
	Slack    *Slack           // nil without Everywhere
	Daemon   *Process         // the current process; nil if the daemon does not run
	Lives    int
}

// New starts the simulators and writes the home directory. It does not start the daemon.
func New(o Options) (*Rig, error) {
	r := &Rig{opts: o, Telegram: telegram.New(o.Telegram)}
	api, err := r.Telegram.Start()
	if err != nil {
		return nil, fmt.Errorf("start telegram simulator: %w", err)
	}
	if r.Model, err = llm.Start(o.Model); err != nil {
		r.Telegram.Close()
		return nil, fmt.Errorf("start model simulator: %w", err)
	}
	r.Bot = r.Telegram.AddBot(telegram.BotOptions{Username: "hermes_bot", Name: "Hermes"})
	var ids []string
	for range max(o.People, 1) {
		u := r.Telegram.AddUser(telegram.Person{})
		r.People = append(r.People, u)
		r.Direct = append(r.Direct, u.Chat(r.Bot))
		ids = append(ids, fmt.Sprintf("%q", fmt.Sprint(u.ID())))
	}
	if err := r.writeHome(api, ids); err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

func (r *Rig) writeHome(api string, ids []string) error {
	model := fmt.Sprintf("model:\n  provider: anthropic\n  default: claude-sonnet-4-5\n  base_url: %s\n  api_key: sk-simulated-0000000000\n", r.Model.URL)
	if r.opts.DemoModel {
		model = "model:\n  provider: demo\n  demo_delay: 40ms\n"
	}
	if r.opts.Window > 0 {
		model += fmt.Sprintf("  context_length: %d\n", r.opts.Window)
	}
	others := ""
	if r.opts.Everywhere {
		var err error
		if others, err = r.addPlatforms(); err != nil {
			return err
		}
	}
	config := model + fmt.Sprintf("platforms:\n  telegram:\n    token: %q\n    api_url: %s\n    allow_from: [%s]\n", r.Bot.Token(), api, strings.Join(ids, ", ")) + others + r.opts.Config
	if err := os.MkdirAll(r.opts.Home, 0o700); err != nil {
		return fmt.Errorf("create home: %w", err)
	}
	if err := os.WriteFile(filepath.Join(r.opts.Home, "config.yaml"), []byte(config), 0o600); err != nil {
		return fmt.Errorf("write config: %w", err)
	}
	return nil
}

// Start starts the daemon and returns when it polls Telegram and is connected to the other
// platforms.
func (r *Rig) Start(ctx context.Context) error {
	out := r.opts.Out
	if out == nil {
		out = io.Discard
	}
	polls := r.polls()
	onDiscord, onSlack := r.connections()
	p, err := startProcess(r.opts, out)
	if err != nil {
		return err
	}
	r.Daemon = p
	r.Lives++
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() { // ends when the daemon ends or when Start returns and cancels ctx
		select {
		case <-p.Ended():
			cancel(fmt.Errorf("daemon ended: %w", p.Err()))
		case <-ctx.Done():
		}
	}()
	err = r.Telegram.Recorder().WaitFor(ctx, func(*telegram.Recorder) bool { return r.polls() > polls })
	if err != nil {
		return fmt.Errorf("wait for poll of daemon: %w", err)
	}
	return r.waitConnected(ctx, onDiscord, onSlack)
}

func (r *Rig) polls() int { return r.Telegram.Recorder().Counts().ByMethod["getupdates"] }

// Home returns the home directory of the daemon.
func (r *Rig) Home() string { return r.opts.Home }

// Kill ends the daemon with SIGKILL.
func (r *Rig) Kill() {
	r.Daemon.Kill()
	r.Daemon = nil
}

// Stop stops the daemon with SIGTERM; see Process.Term.
func (r *Rig) Stop(limit time.Duration) error {
	err := r.Daemon.Term(limit)
	r.Daemon = nil
	return err
}

// Close ends the daemon and the simulators.
func (r *Rig) Close() {
	if r.Daemon != nil {
		r.Kill()
	}
	r.Telegram.Close()
	r.closePlatforms()
	if r.Model != nil {
		r.Model.Close()
	}
}

// Build compiles the daemon into dir and returns its path. Like a released one it has no
// tables for debuggers, which take most of the time of the linker.
func Build(ctx context.Context, dir string) (string, error) {
	bin := filepath.Join(dir, "hermesd")
	cmd := exec.CommandContext(ctx, "go", "build", "-ldflags", "-s -w", "-o", bin, "hermesd/cmd/hermesd")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build daemon: %w\n%s", err, out)
	}
	return bin, nil
}
