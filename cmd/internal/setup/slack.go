package setup

import (
	"hermesd/adapters/slack"
	"hermesd/cmd/internal/config"
	"hermesd/gateway/access"
	"hermesd/gateway/command"
	"hermesd/gateway/i18n"
)

// SlackManifest is the manifest of the Slack app, with the commands that owners
// have, in the language of c; nil: in English.
func SlackManifest(c *config.Config) string {
	var say i18n.Printer
	if c != nil {
		say, _ = i18n.For(c.Display.Language) // an unknown language is English here
	}
	return slack.Manifest(command.NewTable(command.Localized(say, command.Builtin()...)...).Menu(access.Owner), say)
}
