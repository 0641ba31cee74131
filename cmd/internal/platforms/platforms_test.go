package platforms_test

import (
	"slices"
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
	for name, c := range map[string]struct {
		has  func(chat.Profile) bool
		want []chat.Platform
	}{
		"unattended": {func(p chat.Profile) bool { return p.Unattended }, []chat.Platform{chat.Cron, chat.HTTP}},
		"answers":    {func(p chat.Profile) bool { return p.Answers }, []chat.Platform{chat.Console, chat.HTTP}},
		"unasked":    {func(p chat.Profile) bool { return p.Unasked }, []chat.Platform{chat.Console, chat.Discord, chat.Slack, chat.Telegram}},
	} {
		if got := platforms.Profiles().Which(c.has); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
