package access_test

import (
	"hermesd/adapters/console"
	discordadapter "hermesd/adapters/discord"
	"hermesd/adapters/httpapi"
	slackadapter "hermesd/adapters/slack"
	telegramadapter "hermesd/adapters/telegram"
	"hermesd/gateway/chat"
)

// profiles are those of the product.
var profiles = chat.ProfilesOf(telegramadapter.Profile(), discordadapter.Profile(), slackadapter.Profile(), console.Profile(), httpapi.Profile())
