package app_test

import (
	"testing"
	"time"

	"hermesd/cmd/internal/app"
	"hermesd/cmd/internal/config"
	"hermesd/gateway/chat"
)

// The rule of the platform takes precedence over that of the chat type, and that
// over the global one.
func TestResetPolicyPrecedence(t *testing.T) {
	c := &config.Config{
		SessionReset:    config.SessionReset{Mode: "idle", IdleMinutes: 60},
		ResetByType:     map[string]config.SessionReset{"group": {Mode: "idle", IdleMinutes: 10}, "thread": {Mode: "none"}},
		ResetByPlatform: map[string]config.SessionReset{"slack": {Mode: "both", IdleMinutes: 5, AtHour: 4}},
	}
	for _, tt := range []struct {
		at    chat.Address
		idle  time.Duration
		daily bool
	}{
		{chat.Address{Platform: chat.Telegram, Kind: chat.DM}, time.Hour, false},
		{chat.Address{Platform: chat.Telegram, Kind: chat.Group}, 10 * time.Minute, false},
		{chat.Address{Platform: chat.Discord, Kind: chat.Thread}, 0, false},
		{chat.Address{Platform: chat.Slack, Kind: chat.Group}, 5 * time.Minute, true},
	} {
		got := app.Resets(c)(tt.at)
		if got.Idle != tt.idle || got.Daily != tt.daily {
			t.Errorf("%s %s: %+v", tt.at.Platform, tt.at.Kind, got)
		}
	}
}

// A platform has one home channel, on any of its accounts.
func TestHomeChannelsOfAccounts(t *testing.T) {
	for yaml, want := range map[string]string{
		"platforms: {telegram: {home_channel: '7'}}\n":                                                                          "dm /7/",
		"platforms: {telegram: {home_channel: '-1:5'}}\n":                                                                       "group /-1/5",
		"platforms: {telegram: {accounts: {work: {token: 2:t, home_channel: '-2'}}}}\n":                                         "group work/-2/",
		"platforms: {telegram: {home_channel: '-1', accounts: {work: {token: 2:t, home_channel: '-2'}}}}\n":                     "group /-1/",
		"platforms: {telegram: {accounts: {work: {token: 2:t, home_channel: '-2'}, club: {token: 3:t, home_channel: '-3'}}}}\n": "group club/-3/",
		"platforms: {telegram: {enabled: false, home_channel: '-1', accounts: {work: {token: 2:t}, club: {token: 3:t}}}}\n":     "",
	} {
		c, _, _ := configured(t, "model: {provider: demo}\n"+yaml)
		got := ""
		if at, ok := app.Homes(c)[chat.Telegram]; ok {
			got = string(at.Kind) + " " + at.Account + "/" + at.Chat + "/" + at.Thread
		}
		if got != want {
			t.Errorf("%s has the home %q, want %q", yaml, got, want)
		}
	}
}
