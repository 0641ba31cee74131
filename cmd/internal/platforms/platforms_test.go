package platforms_test

import (
	"testing"

	"hermesd/adapters/adaptertest"
	"hermesd/cmd/internal/platforms"
	"hermesd/gateway/access"
	"hermesd/gateway/chat"
)

// The conformance suite checks only the adapters that have a simulator.
func TestProfiles(t *testing.T) {
	hints := map[string]chat.Platform{}
	for name, p := range platforms.Profiles() {
		if other, ok := hints[p.Hint]; ok {
			t.Errorf("%s and %s have the same hint", p.Platform, other)
		}
		hints[p.Hint] = p.Platform
		if name != p.Platform {
			t.Errorf("%s is listed as %s", p.Platform, name)
		}
		adaptertest.CheckProfile(t, adaptertest.Platform{Profile: p})
	}
	for p, want := range map[chat.Platform]string{chat.Console: access.RuleConsole, chat.HTTP: access.RuleHTTPKey, chat.Cron: "", chat.Telegram: "", chat.Discord: "", chat.Slack: ""} {
		if got, ok := platforms.Profiles()[p]; !ok || got.OwnerRule != want {
			t.Errorf("the rule of owners on %s is %q, want %q", p, got.OwnerRule, want)
		}
	}
	for p, want := range map[chat.Platform][3]bool{ // unattended, answers, unasked
		chat.Console: {false, true, true}, chat.HTTP: {true, true, false}, chat.Cron: {true, false, false},
		chat.Telegram: {false, false, true}, chat.Discord: {false, false, true}, chat.Slack: {false, false, true},
	} {
		f := platforms.Profiles().Of(p)
		if got := [3]bool{f.Unattended, f.Answers, f.Unasked}; got != want {
			t.Errorf("%s is unattended, answers, can be sent to unasked: %v, want %v", p, got, want)
		}
	}
}
