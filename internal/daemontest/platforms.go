package daemontest

import (
	"context"
	"fmt"
	"strings"

	"hermesd/internal/sim/discord"
	"hermesd/internal/sim/slack"
)

// A Discord is the simulated Discord of a Rig, with Options.People users, each with a
// direct chat.
type Discord struct {
	Server *discord.Server
	Bot    *discord.Bot
	People []*discord.User
	Direct []*discord.Channel
	url    string
}

// A Slack is the simulated Slack workspace of a Rig, with Options.People users, each with a
// direct chat.
type Slack struct {
	Server *slack.Server
	App    *slack.App
	Bot    *slack.Bot
	People []*slack.User
	Direct []*slack.Channel
}

// addPlatforms starts the simulators of Discord and Slack, and returns their config
// sections.
func (r *Rig) addPlatforms() (string, error) {
	d := &Discord{Server: discord.New(r.opts.Discord)}
	r.Discord = d
	var err error
	if d.url, err = d.Server.Start(); err != nil {
		return "", fmt.Errorf("start discord simulator: %w", err)
	}
	d.Bot = d.Server.AddBot(discord.BotOptions{Name: "hermes"})
	s := &Slack{Server: slack.New(r.opts.Slack)}
	r.Slack = s
	if _, err := s.Server.Start(); err != nil {
		return "", fmt.Errorf("start slack simulator: %w", err)
	}
	team := s.Server.AddTeam("Acme")
	s.App = s.Server.AddApp(slack.AppOptions{})
	s.Bot = s.App.Install(team)
	var onDiscord, onSlack []string
	for n := range max(r.opts.People, 1) {
		du, su := d.Server.AddUser(fmt.Sprint("person", n)), team.AddUser(slack.Person{})
		d.People, s.People = append(d.People, du), append(s.People, su)
		onDiscord, onSlack = append(onDiscord, du.ID), append(onSlack, su.ID())
	}
	d.Server.AddGuild("Guild", d.People[0]).Join(append([]*discord.User{d.Bot.User()}, d.People[1:]...)...)
	for n := range d.People {
		d.Direct, s.Direct = append(d.Direct, d.People[n].DM(d.Bot)), append(s.Direct, s.People[n].DM(s.Bot))
	}
	return fmt.Sprintf("  discord:\n    token: %q\n    api_url: %s\n    allow_from: %s\n  slack:\n    token: %q\n    app_token: %q\n    api_url: %s\n    allow_from: %s\n",
		d.Bot.Token(), d.url, yamlList(onDiscord), s.Bot.Token(), s.App.Token(), s.Server.APIURL(), yamlList(onSlack)), nil
}

// yamlList returns strings as a YAML list.
func yamlList(of []string) string {
	var quoted []string
	for _, s := range of {
		quoted = append(quoted, fmt.Sprintf("%q", s))
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}

// connections returns how often the daemon has connected to Discord and Slack.
func (r *Rig) connections() (d, s int) {
	if r.Discord == nil {
		return 0, 0
	}
	n := r.Discord.Server.Recorder().Counts()
	return n.Identifies + n.Resumes, r.Slack.Server.Recorder().Counts().Links
}

// waitConnected waits until the daemon has connected to Discord and Slack more than d and
// s times.
func (r *Rig) waitConnected(ctx context.Context, d, s int) error {
	if r.Discord == nil {
		return nil
	}
	err := r.Discord.Server.Recorder().WaitCount(ctx, d+1, func(n discord.Counts) int { return n.Identifies + n.Resumes })
	if err != nil {
		return fmt.Errorf("wait for connection to Discord: %w", err)
	}
	if err := r.Slack.Server.Recorder().WaitCount(ctx, s+1, func(n slack.Counts) int { return n.Links }); err != nil {
		return fmt.Errorf("wait for connection to Slack: %w", err)
	}
	return nil
}

func (r *Rig) closePlatforms() {
	if r.Discord != nil {
		r.Discord.Server.Close()
	}
	if r.Slack != nil {
		r.Slack.Server.Close()
	}
}
