package access_test

import (
	"testing"

	"hermesd/gateway/access"
	"hermesd/gateway/chat"
)

// TestHearing shows settings that restrict who is heard, whatever others allow.
func TestHearing(t *testing.T) {
	topic := func(in chat.Inbound, id string) chat.Inbound {
		return change(in, func(in *chat.Inbound) { in.Address.Kind, in.Address.Thread = chat.Thread, id })
	}
	open := access.AccountRules{AllowFrom: []string{"1"}, AllowAll: true, AllowedChats: []string{"-5"}}
	with := func(f func(*access.AccountRules)) access.AccountRules {
		r := open
		f(&r)
		return r
	}
	for name, c := range map[string]struct {
		rules access.AccountRules
		in    chat.Inbound
		rule  string // of the denial; "" if it is allowed
	}{
		"open":                           {open, dm("2"), ""},
		"no direct chats":                {with(func(r *access.AccountRules) { r.DMs = access.HearNobody }), dm("1"), access.RuleNotHeard},
		"no direct chats, a group":       {with(func(r *access.AccountRules) { r.DMs = access.HearNobody }), group("-5", "1"), ""},
		"no groups":                      {with(func(r *access.AccountRules) { r.Groups = access.HearNobody }), group("-5", "1"), access.RuleNotHeard},
		"no groups, a direct chat":       {with(func(r *access.AccountRules) { r.Groups = access.HearNobody }), dm("1"), ""},
		"listed, in a direct chat":       {with(func(r *access.AccountRules) { r.DMs = access.HearListed }), dm("1"), ""},
		"a stranger":                     {with(func(r *access.AccountRules) { r.DMs = access.HearListed }), dm("2"), access.RuleUnknownDM},
		"listed, in a group":             {with(func(r *access.AccountRules) { r.Groups = access.HearListed }), group("-5", "1"), ""},
		"a stranger in a group":          {with(func(r *access.AccountRules) { r.Groups = access.HearListed }), group("-5", "2"), access.RuleNotAllowed},
		"a topic":                        {with(func(r *access.AccountRules) { r.Topics = []string{"7"} }), topic(group("-5", "1"), "7"), ""},
		"another topic":                  {with(func(r *access.AccountRules) { r.Topics = []string{"7"} }), topic(group("-5", "1"), "8"), access.RuleNotHeard},
		"no topic":                       {with(func(r *access.AccountRules) { r.Topics = []string{"7"} }), group("-5", "1"), access.RuleNotHeard},
		"General":                        {with(func(r *access.AccountRules) { r.Topics = []string{"1"} }), group("-5", "1"), ""},
		"topics, a direct chat":          {with(func(r *access.AccountRules) { r.Topics = []string{"7"} }), dm("1"), ""},
		"an ignored topic":               {with(func(r *access.AccountRules) { r.IgnoredTopics = []string{"8"} }), topic(group("-5", "1"), "8"), access.RuleNotHeard},
		"another topic than the ignored": {with(func(r *access.AccountRules) { r.IgnoredTopics = []string{"8"} }), topic(group("-5", "1"), "7"), ""},
	} {
		g, d := checker(t, access.Policy{Accounts: telegram(c.rules)}).Check(c.in)
		if g.Valid() != (c.rule == "") || d.Rule != c.rule {
			t.Errorf("%s: allowed %v, %q, want %q", name, g.Valid(), d.Rule, c.rule)
		}
		if d.OfferPairing {
			t.Errorf("%s: a code is offered", name)
		}
	}
}
