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

// A world is the three simulated platforms, with a person on each, and the
// daemon between them.
type world struct {
	*daemontest.Rig
	home     string
	discord  *discord.Server
	slack    *slack.Server
	app      *slack.App
	rooms    []room // in the order in which they are shown
	dm       room   // another conversation on Slack
	stranger *discord.Channel
	eve      *discord.User // whom nobody has allowed
}

// newWorld starts the simulators and writes the home below dir. The daemon does
// not run yet.
func newWorld(binary, dir string) (_ *world, err error) {
	w := &world{home: filepath.Join(dir, "home"), discord: discord.New(discord.Options{}), slack: slack.New(slack.Options{})}
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
	direct := &telegramRoom{at: w.Direct[0], by: w.People[0]}
	w.rooms = append([]room{direct}, w.rooms...)
	if err := os.MkdirAll(filepath.Join(w.home, "workspace"), 0o700); err != nil {
		return nil, fmt.Errorf("the workspace: %w", err)
	}
	if err := os.WriteFile(filepath.Join(w.home, "workspace", "shopping.txt"), []byte("milk\nbread\napples\n"), 0o600); err != nil {
		return nil, fmt.Errorf("a file for the tool: %w", err)
	}
	return w, nil
}

// permissions are those that docs/platforms.md tells people to give the bot.
const permissions = discord.ViewChannel | discord.SendMessages | discord.SendInThreads | discord.CreateThreads |
	discord.ReadMessageHistory | discord.AddReactions | discord.AttachFiles

// addDiscord makes a guild with a bot and two people, of whom one is allowed,
// and returns the configuration of the bot.
func (w *world) addDiscord() (string, error) {
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
	w.rooms = append(w.rooms, &discordRoom{at: at, by: ann, bot: bot})
	w.stranger = w.eve.DM(bot)
	return fmt.Sprintf("  discord:\n    token: %q\n    api_url: %s\n    allow_from: [%q]\n", bot.Token(), api, ann.ID), nil
}

// manifested is an app that is made from the manifest in docs/platforms.md.
func manifested() (o slack.AppOptions, err error) {
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
		return o, fmt.Errorf("the manifest of the Slack app: %w", err)
	}
	for _, c := range m.Features.Commands {
		o.Commands = append(o.Commands, c.Command)
	}
	o.Scopes, o.Events = m.OAuth.Scopes.Bot, m.Settings.Subscriptions.Events
	return o, nil
}

// addSlack makes a workspace with an app and a person, and returns the
// configuration of the app.
func (w *world) addSlack() (string, error) {
	if _, err := w.slack.Start(); err != nil {
		return "", fmt.Errorf("slack simulator: %w", err)
	}
	team := w.slack.AddTeam("Acme")
	app, err := manifested()
	if err != nil {
		return "", err
	}
	w.app = w.slack.AddApp(app)
	bot := w.app.Install(team)
	ann := team.AddUser(slack.Person{Name: "ann"})
	at := team.AddChannel(slack.ChannelOptions{Name: "kitchen", Members: []*slack.User{ann, bot.User()}})
	w.rooms = append(w.rooms, &slackRoom{at: at, by: ann, bot: bot.User()})
	w.dm = &slackRoom{at: ann.DM(bot), by: ann, bot: bot.User()}
	return fmt.Sprintf("  slack:\n    token: %q\n    app_token: %q\n    api_url: %s\n    allow_from: [%q]\n",
		bot.Token(), w.app.Token(), w.slack.APIURL(), ann.ID()), nil
}

// window is how many tokens the model's context holds: few, so that a
// conversation fills it.
const window = 16_000

// settings let messages wait for the turn that runs. The context engine leaves
// a full context to what looks at a conversation between turns, and little of a
// conversation stays as it is then. What the model says ahead of a tool call is no
// message of its own: the verdict counts one answer to each number.
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

// close ends everything, whatever its state.
func (w *world) close() {
	if w.Rig != nil {
		w.Close()
	}
	w.discord.Close()
	w.slack.Close()
}

// room returns the place of the conversation on a platform.
func (w *world) room(p chat.Platform) room {
	for _, r := range w.rooms {
		if r.platform() == p {
			return r
		}
	}
	return nil // there is one for each
}
