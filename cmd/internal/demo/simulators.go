package demo

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"hermesd/cmd/internal/setup"
	"hermesd/gateway/chat"
	"hermesd/internal/daemontest"
	"hermesd/internal/sim/discord"
	"hermesd/internal/sim/slack"
)

// A simulators contains the three simulated platforms, with a user on each, and the
// daemon between them.
type simulators struct {
	*daemontest.Rig
	home          string
	discord       *discord.Server
	slack         *slack.Server
	app           *slack.App
	conversations []conversation // in the order of output
	dm            conversation   // a second conversation on Slack
	eveChat       *discord.Channel
	eve           *discord.User // not on an allowlist
}

// newSimulators starts the simulators and writes the home directory below dir. It does
// not start the daemon.
func newSimulators(binary, dir string) (_ *simulators, err error) {
	w := &simulators{home: filepath.Join(dir, "home"), discord: discord.New(discord.Options{}), slack: slack.New(slack.Options{})}
	defer func() {
		if err != nil {
			w.close()
		}
	}()
	onDiscord, err := w.addDiscord()
	if err != nil {
		return nil, err
	}
	onSlack, err := w.addSlack()
	if err != nil {
		return nil, err
	}
	w.Rig, err = daemontest.New(daemontest.Options{Binary: binary, Home: w.home, DemoModel: true, Window: window, Config: onDiscord + onSlack + settings})
	if err != nil {
		return nil, err
	}
	direct := &telegramChat{at: w.Direct[0], by: w.People[0]}
	w.conversations = append([]conversation{direct}, w.conversations...)
	if err := os.MkdirAll(filepath.Join(w.home, "workspace"), 0o700); err != nil {
		return nil, fmt.Errorf("create workspace: %w", err)
	}
	if err := os.WriteFile(filepath.Join(w.home, "workspace", "shopping.txt"), []byte("milk\nbread\napples\n"), 0o600); err != nil {
		return nil, fmt.Errorf("write demo file: %w", err)
	}
	return w, nil
}

// permissions are the permissions of the bot that docs/platforms.md recommends.
const permissions = discord.ViewChannel | discord.SendMessages | discord.SendInThreads | discord.CreateThreads |
	discord.ReadMessageHistory | discord.AddReactions | discord.AttachFiles

// addDiscord creates a guild with a bot and two users, one of whom is allowed, and
// returns the configuration of the bot.
func (w *simulators) addDiscord() (string, error) {
	api, err := w.discord.Start()
	if err != nil {
		return "", fmt.Errorf("discord simulator: %w", err)
	}
	bot := w.discord.AddBot(discord.BotOptions{Name: "hermes"})
	ann := w.discord.AddUser("ann")
	w.eve = w.discord.AddUser("eve")
	home := w.discord.AddGuild("home", ann)
	home.Join(w.eve, bot.User())
	at := home.AddChannel(discord.ChannelOptions{Name: "general"})
	at.Deny(home.ID(), 1<<50-1)
	at.Allow(bot.User().ID, permissions)
	w.conversations = append(w.conversations, &discordChat{at: at, by: ann, bot: bot})
	w.eveChat = w.eve.DM(bot)
	return fmt.Sprintf("  discord:\n    token: %q\n    api_url: %s\n    allow_admin_from: [%q]\n", bot.Token(), api, ann.ID), nil
}

// manifestApp returns the options of an app with the manifest of setup.
func manifestApp() (o slack.AppOptions, err error) {
	var m struct {
		Features struct {
			Commands []struct{ Command string } `json:"slash_commands"`
		}
		OAuth    struct{ Scopes struct{ Bot []string } } `json:"oauth_config"`
		Settings struct {
			Subscriptions struct {
				Events []string `json:"bot_events"`
			} `json:"event_subscriptions"`
		}
	}
	if err := json.Unmarshal([]byte(setup.SlackManifest(nil)), &m); err != nil {
		return o, fmt.Errorf("parse Slack manifest: %w", err)
	}
	for _, c := range m.Features.Commands {
		o.Commands = append(o.Commands, c.Command)
	}
	o.Scopes, o.Events = m.OAuth.Scopes.Bot, m.Settings.Subscriptions.Events
	return o, nil
}

// addSlack creates a workspace with an app and a user, and returns the configuration
// of the app.
func (w *simulators) addSlack() (string, error) {
	if _, err := w.slack.Start(); err != nil {
		return "", fmt.Errorf("slack simulator: %w", err)
	}
	team := w.slack.AddTeam("Acme")
	app, err := manifestApp()
	if err != nil {
		return "", err
	}
	w.app = w.slack.AddApp(app)
	bot := w.app.Install(team)
	ann := team.AddUser(slack.Person{Name: "ann"})
	at := team.AddChannel(slack.ChannelOptions{Name: "kitchen", Members: []*slack.User{ann, bot.User()}})
	w.conversations = append(w.conversations, &slackChat{at: at, by: ann, bot: bot.User()})
	w.dm = &slackChat{at: ann.DM(bot), by: ann, bot: bot.User()}
	return fmt.Sprintf("  slack:\n    token: %q\n    app_token: %q\n    api_url: %s\n    allow_admin_from: [%q]\n",
		bot.Token(), w.app.Token(), w.slack.APIURL(), ann.ID()), nil
}

// window is the context length of the model in tokens: small, so that a conversation
// fills it.
const window = 40_000

// settings make messages wait for the running turn. Only hygiene compacts the full
// context, not the context engine within a turn, and little of the conversation is
// kept. Text before a tool call is not sent as a message, because the simulators
// count one answer for each number.
const settings = `display:
  busy_input_mode: queue
  tool_progress: 'off'
compression:
  threshold: 1
  min_threshold_tokens: 0
  protect_first_n: 1
  protect_last_n: 2
  target_ratio: 0.1
logging:
  level: error
`

// close stops everything in any state.
func (w *simulators) close() {
	if w.Rig != nil {
		w.Close()
	}
	w.discord.Close()
	w.slack.Close()
}

// conversation returns the conversation of a platform.
func (w *simulators) conversation(p chat.Platform) conversation {
	for _, r := range w.conversations {
		if r.platform() == p {
			return r
		}
	}
	return nil // there is one for each
}
