package app_test

import (
	"testing"
	"time"

	"hermesd/cmd/internal/app"
	"hermesd/cmd/internal/config"
	"hermesd/gateway/chat"
)

// The platform's own rule goes before that of the kind of chat, and that before
// the one for all.
func TestWhereConversationsStartOver(t *testing.T) {
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
