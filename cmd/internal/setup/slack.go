package setup

import (
	"hermesd/adapters/slack"
	"hermesd/cmd/internal/config"
	"hermesd/gateway/access"
	"hermesd/gateway/command"
	"hermesd/gateway/i18n"
)

// SlackManifest returns the manifest of the Slack app with the commands of owners,
// in the language of c, or in English if c is nil.
func SlackManifest(c *config.Config) string {
	var say i18n.Printer
	if c != nil {
		say, _ = i18n.For(c.Display.Language) // an unknown language is English here
	}
	return slack.Manifest(command.NewTable(command.Localized(say, command.Builtin()...)...).Menu(access.Owner), say)
}
