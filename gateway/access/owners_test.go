package access_test

import (
	"fmt"
	"strings"
	"testing"

	"hermesd/gateway/access"
	"hermesd/gateway/chat"
)

func TestOwners(t *testing.T) {
	type accounts = map[chat.Account]access.AccountRules
	work, home := chat.Account{Platform: chat.Telegram, Name: "work"}, chat.Account{Platform: chat.Telegram, Name: "home"}
	for name, c := range map[string]struct {
		policy access.Policy
		want   string
	}{
		"nobody":                  {access.Policy{}, ""},
		"members":                 {access.Policy{Config: access.Config{AllowFrom: []string{"7", "8"}}}, ""},
		"the only member":         {access.Policy{Config: access.Config{AllowFrom: []string{"telegram:7"}}}, "telegram:7"},
		"an id of any platform":   {access.Policy{Config: access.Config{Owners: []string{"12345678901234567", "slack:U0123ABCD"}, AllowFrom: []string{"8"}}}, "discord:12345678901234567 slack:U0123ABCD telegram:12345678901234567"},
		"named twice":             {access.Policy{Config: access.Config{Owners: []string{"telegram:7"}}, Accounts: accounts{{Platform: chat.Telegram}: {Owners: []string{"7"}}}}, "telegram:7"},
		"of the platform":         {access.Policy{Accounts: accounts{{Platform: chat.Telegram}: {Owners: []string{"7"}}, work: {}}}, "telegram:7"},
		"of the only account":     {access.Policy{Accounts: accounts{{Platform: chat.Telegram}: {}, work: {Owners: []string{"7"}}}}, "telegram:7"},
		"of one of two accounts":  {access.Policy{Accounts: accounts{work: {Owners: []string{"7"}}, home: {AllowFrom: []string{"7"}}}}, ""},
		"of both of two accounts": {access.Policy{Accounts: accounts{work: {Owners: []string{"7"}}, home: {Owners: []string{"7"}}}}, "telegram:7"},
	} {
		c.policy.Profiles = profiles
		check, err := access.New(c.policy)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var got []string
		for _, p := range check.Owners() {
			if p.Level != access.Owner {
				t.Errorf("%s: %v", name, p)
			}
			got = append(got, fmt.Sprintf("%s:%s", p.Platform, p.ID))
		}
		if list := strings.Join(got, " "); list != c.want {
			t.Errorf("%s: %s, want %s", name, list, c.want)
		}
	}
}
