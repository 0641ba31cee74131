// Package platforms lists the platforms of the program. A new one is an entry here and a
// section in the struct Platforms of package config.
package platforms

import (
	"net/http"
	"sync"

	"go.uber.org/zap"

	"hermesd/adapters/console"
	"hermesd/adapters/discord"
	"hermesd/adapters/httpapi"
	"hermesd/adapters/slack"
	"hermesd/adapters/telegram"
	"hermesd/gateway/chat"
	"hermesd/gateway/i18n"
	"hermesd/gateway/schedule"
)

// A Platform is a platform to which accounts log in.
type Platform struct {
	chat.Profile
	// New builds the adapter of an account. c has the type of the platform's section.
	New func(c Config, p Parts) (chat.Adapter, error)
}

// A Config is the configuration of an adapter.
type Config interface {
	// Validate returns the first invalid setting as "key: what is wrong". The error
	// contains no secret.
	Validate() error
}

// Parts are what adapters are built with. All of them are set.
type Parts struct {
	Account  string // name of the account
	Memory   chat.Memory
	Printer  i18n.Printer
	Log      *zap.Logger
	Files    *http.Client                 // downloads files of the platform
	Commands []string                     // names of the commands
	Previous func(chatID string) []string // the IDs that a chat had before
}

// All returns the platforms to which accounts log in, in the order in which people are
// asked about them.
func All() []Platform {
	return []Platform{
		entry(telegram.Profile(), func(c telegram.Config, p Parts) (chat.Adapter, error) {
			return telegram.New(c, telegram.Options{Account: p.Account, Memory: p.Memory, Log: p.Log, Files: p.Files, Was: p.Previous})
		}),
		entry(discord.Profile(), func(c discord.Config, p Parts) (chat.Adapter, error) {
			return discord.New(c, discord.Options{Account: p.Account, Memory: p.Memory, Words: p.Printer, Log: p.Log, Files: p.Files})
		}),
		entry(slack.Profile(), func(c slack.Config, p Parts) (chat.Adapter, error) {
			return slack.New(c, slack.Options{Account: p.Account, Memory: p.Memory, Commands: p.Commands, Words: p.Printer, Log: p.Log})
		}),
	}
}

func entry[C Config](profile chat.Profile, build func(C, Parts) (chat.Adapter, error)) Platform {
	return Platform{profile, func(c Config, p Parts) (chat.Adapter, error) { return build(c.(C), p) }}
}

// Profiles returns the profiles of all platforms, also of those without accounts. The map
// must not be changed.
var Profiles = sync.OnceValue(func() chat.Profiles {
	ps := chat.ProfilesOf(console.Profile(), httpapi.Profile(), schedule.Profile())
	for _, p := range All() {
		ps[p.Platform] = p.Profile
	}
	return ps
})
