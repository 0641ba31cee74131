// Package platforms lists the platforms of the program.
package platforms

import (
	"sync"

	"hermesd/adapters/console"
	"hermesd/adapters/discord"
	"hermesd/adapters/httpapi"
	"hermesd/adapters/slack"
	"hermesd/adapters/telegram"
	"hermesd/gateway/chat"
	"hermesd/gateway/schedule"
)

// Profiles returns the profiles of all platforms. The map must not be changed.
var Profiles = sync.OnceValue(func() chat.Profiles {
	return chat.ProfilesOf(telegram.Profile(), discord.Profile(), slack.Profile(), console.Profile(), httpapi.Profile(), schedule.Profile())
})
