package access_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"hermesd/gateway/access"
	"hermesd/gateway/chat"
)

// paired is a Pairing with some users of Telegram.
type paired map[string]bool

func (p paired) Paired(on chat.Platform, id string) bool { return on == chat.Telegram && p[id] }

func dm(id string) chat.Inbound {
	return chat.Inbound{Kind: chat.Message, Address: chat.Address{Platform: chat.Telegram, Kind: chat.DM, Chat: id}, Sender: chat.Person{ID: id}}
}

func group(chatID, id string) chat.Inbound {
	in := dm(id)
	in.Address.Kind, in.Address.Chat = chat.Group, chatID
	return in
}

func change(in chat.Inbound, f func(*chat.Inbound)) chat.Inbound { f(&in); return in }

func telegram(r access.AccountRules) map[chat.Account]access.AccountRules {
	return map[chat.Account]access.AccountRules{{Platform: chat.Telegram}: r}
}

func discord(r access.AccountRules) map[chat.Account]access.AccountRules {
	return map[chat.Account]access.AccountRules{{Platform: chat.Discord}: r}
}

// everyone is a Pairing in which everyone is paired.
type everyone struct{}

func (everyone) Paired(chat.Platform, string) bool { return true }

// withRoles returns a message in a Discord channel.
func withRoles(roles ...string) chat.Inbound {
	return change(group("100", "7"), func(in *chat.Inbound) { in.Address.Platform, in.Sender.Roles = chat.Discord, roles })
}

func checker(t *testing.T, p access.Policy) *access.Checker {
	t.Helper()
	p.Profiles = profiles
	c, err := access.New(p)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestCheck(t *testing.T) {
	type policy = access.Policy
	two := access.Config{AllowFrom: []string{"1", "2"}}
	onDiscord := change(dm("7"), func(in *chat.Inbound) { in.Address.Platform = chat.Discord })
	second := change(dm("7"), func(in *chat.Inbound) { in.Address.Account = "second" })
	bot := change(group("-100", "7"), func(in *chat.Inbound) { in.Sender.Bot = true })
	called := change(bot, func(in *chat.Inbound) { in.Addressed = true })
	for _, c := range []struct {
		name string
		p    policy
		in   chat.Inbound
		rule string // of the grant
		lvl  access.Level
		deny access.Denial
	}{
		{name: "nothing configured", in: dm("7"), deny: access.Denial{Rule: "unknown_dm", OfferPairing: true}},
		{name: "nothing configured, in a group", in: group("-100", "7"), deny: access.Denial{Rule: "not_allowed"}},
		{name: "the console is the owner", in: chat.Inbound{Address: chat.Address{Platform: chat.Console, Kind: chat.DM}}, rule: "console", lvl: access.Owner},
		{name: "who has the key of the http surface is the owner", in: change(dm("x"), func(in *chat.Inbound) { in.Address.Platform = chat.HTTP }), rule: "http_key", lvl: access.Owner},

		{name: "a role lets in, as a guest", p: policy{Accounts: discord(access.AccountRules{Roles: []string{"55"}})}, in: withRoles("44", "55"), rule: "allowed_role", lvl: access.Guest},
		{name: "another role does not", p: policy{Accounts: discord(access.AccountRules{Roles: []string{"55"}})}, in: withRoles("44"), deny: access.Denial{Rule: "not_allowed"}},
		{name: "a role of another platform does not", p: policy{Accounts: telegram(access.AccountRules{Roles: []string{"55"}})}, in: withRoles("55"), deny: access.Denial{Rule: "not_allowed"}},
		{name: "the list goes before the role", p: policy{Accounts: discord(access.AccountRules{AllowFrom: []string{"7"}, Roles: []string{"55"}})}, in: withRoles("55"), rule: "platform_allow_from", lvl: access.Member},
		{name: "the role goes before pairing", p: policy{Accounts: discord(access.AccountRules{Roles: []string{"55"}}), Pairing: everyone{}}, in: withRoles("55"), rule: "allowed_role", lvl: access.Member},

		{name: "platform allow-all", p: policy{Accounts: telegram(access.AccountRules{AllowAll: true})}, in: dm("7"), rule: "platform_allow_all", lvl: access.Guest},
		{name: "platform allow-all, as a star", p: policy{Accounts: telegram(access.AccountRules{AllowFrom: []string{"*"}})}, in: dm("7"), rule: "platform_allow_all", lvl: access.Guest},
		{name: "platform allow-all is of that platform", p: policy{Accounts: telegram(access.AccountRules{AllowAll: true})}, in: onDiscord,
			deny: access.Denial{Rule: "unknown_dm", OfferPairing: true}},
		{name: "allow-all goes before the list, the level does not fall", p: policy{Accounts: telegram(access.AccountRules{AllowAll: true, AllowFrom: []string{"7"}})}, in: dm("7"),
			rule: "platform_allow_all", lvl: access.Member},
		{name: "platform list", p: policy{Config: two, Accounts: telegram(access.AccountRules{AllowFrom: []string{"7"}})}, in: group("-100", "7"), rule: "platform_allow_from", lvl: access.Member},
		{name: "platform list goes before pairing", p: policy{Accounts: telegram(access.AccountRules{AllowFrom: []string{"7", "8"}}), Pairing: paired{"7": true}}, in: dm("7"), rule: "platform_allow_from", lvl: access.Member},
		{name: "platform list of another platform", p: policy{Accounts: telegram(access.AccountRules{AllowFrom: []string{"7"}})}, in: onDiscord,
			deny: access.Denial{Rule: "unknown_dm", OfferPairing: true}},
		{name: "somebody else", p: policy{Accounts: telegram(access.AccountRules{AllowFrom: []string{"77"}})}, in: dm("7"), deny: access.Denial{Rule: "unknown_dm", OfferPairing: true}},
		{name: "platform rules hold for its accounts", p: policy{Accounts: telegram(access.AccountRules{AllowFrom: []string{"7", "8"}})}, in: second, rule: "platform_allow_from", lvl: access.Member},
		{name: "an account's rules are its own", p: policy{Accounts: map[chat.Account]access.AccountRules{{Platform: chat.Telegram, Name: "second"}: {AllowFrom: []string{"7", "8"}}}}, in: second,
			rule: "platform_allow_from", lvl: access.Member},
		{name: "another account's rules", p: policy{Accounts: map[chat.Account]access.AccountRules{{Platform: chat.Telegram, Name: "second"}: {AllowFrom: []string{"7", "8"}}}}, in: dm("7"),
			deny: access.Denial{Rule: "unknown_dm", OfferPairing: true}},

		{name: "paired", p: policy{Pairing: paired{"7": true}}, in: dm("7"), rule: "paired", lvl: access.Member},
		{name: "paired goes before the global list", p: policy{Config: access.Config{AllowFrom: []string{"7", "8"}}, Pairing: paired{"7": true}}, in: dm("7"), rule: "paired", lvl: access.Member},
		{name: "not paired", p: policy{Pairing: paired{"8": true}}, in: dm("7"), deny: access.Denial{Rule: "unknown_dm", OfferPairing: true}},

		{name: "owner", p: policy{Config: access.Config{Owners: []string{"7"}}}, in: dm("7"), rule: "owner", lvl: access.Owner},
		{name: "owner by platform", p: policy{Config: access.Config{Owners: []string{"telegram:7"}}}, in: dm("7"), rule: "owner", lvl: access.Owner},
		{name: "owner of another platform", p: policy{Config: access.Config{Owners: []string{"discord:7"}}}, in: dm("7"), deny: access.Denial{Rule: "unknown_dm", OfferPairing: true}},
		{name: "owner in the platform's section", p: policy{Accounts: telegram(access.AccountRules{Owners: []string{"7"}})}, in: dm("7"), rule: "owner", lvl: access.Owner},
		{name: "owner who is on a list", p: policy{Config: access.Config{Owners: []string{"7"}}, Accounts: telegram(access.AccountRules{AllowFrom: []string{"7"}})}, in: dm("7"), rule: "platform_allow_from", lvl: access.Owner},
		{name: "others next to an owner", p: policy{Config: access.Config{Owners: []string{"1"}, AllowFrom: []string{"7"}}}, in: dm("7"), rule: "global_allow_from", lvl: access.Member},

		{name: "global list", p: policy{Config: access.Config{AllowFrom: []string{"7", "8"}}}, in: onDiscord, rule: "global_allow_from", lvl: access.Member},
		{name: "global list, by platform", p: policy{Config: access.Config{AllowFrom: []string{"discord:7", "8"}}}, in: onDiscord, rule: "global_allow_from", lvl: access.Member},
		{name: "global list goes before global allow-all", p: policy{Config: access.Config{AllowFrom: []string{"7", "8"}, AllowAll: true}}, in: dm("7"), rule: "global_allow_from", lvl: access.Member},
		{name: "global allow-all", p: policy{Config: access.Config{AllowAll: true}}, in: dm("7"), rule: "global_allow_all", lvl: access.Guest},

		{name: "the only id", p: policy{Accounts: telegram(access.AccountRules{AllowFrom: []string{"7"}})}, in: dm("7"), rule: "platform_allow_from", lvl: access.Owner},
		{name: "the only id, named twice", p: policy{Config: access.Config{AllowFrom: []string{"7"}}, Accounts: telegram(access.AccountRules{AllowFrom: []string{"7"}})}, in: dm("7"), rule: "platform_allow_from", lvl: access.Owner},
		{name: "one of two", p: policy{Accounts: telegram(access.AccountRules{AllowFrom: []string{"7", "8"}})}, in: dm("7"), rule: "platform_allow_from", lvl: access.Member},
		{name: "one on each of two platforms", p: policy{Accounts: map[chat.Account]access.AccountRules{{Platform: chat.Telegram}: {AllowFrom: []string{"7"}}, {Platform: chat.Discord}: {AllowFrom: []string{"7"}}}},
			in: dm("7"), rule: "platform_allow_from", lvl: access.Member},
		{name: "the only id, but everybody may speak elsewhere", p: policy{Accounts: map[chat.Account]access.AccountRules{{Platform: chat.Telegram}: {AllowFrom: []string{"7"}}, {Platform: chat.Discord}: {AllowAll: true}}},
			in: dm("7"), rule: "platform_allow_from", lvl: access.Member},
		{name: "the only id, but everybody may speak", p: policy{Config: access.Config{AllowAll: true}, Accounts: telegram(access.AccountRules{AllowFrom: []string{"7"}})}, in: dm("7"), rule: "platform_allow_from", lvl: access.Member},
		{name: "the only id, but an owner is named", p: policy{Accounts: telegram(access.AccountRules{AllowFrom: []string{"7"}, Owners: []string{"8"}})}, in: dm("7"), rule: "platform_allow_from", lvl: access.Member},
		{name: "paired is never owner by being alone", p: policy{Config: access.Config{AllowFrom: []string{"1"}}, Pairing: paired{"7": true}}, in: dm("7"), rule: "paired", lvl: access.Member},

		{name: "allowed chat", p: policy{Accounts: telegram(access.AccountRules{AllowedChats: []string{"-100"}})}, in: group("-100", "7"), rule: "allowed_chat", lvl: access.Guest},
		{name: "another chat", p: policy{Accounts: telegram(access.AccountRules{AllowedChats: []string{"-100"}})}, in: group("-200", "7"), deny: access.Denial{Rule: "not_allowed"}},
		{name: "every chat", p: policy{Accounts: telegram(access.AccountRules{AllowedChats: []string{"*"}})}, in: group("-200", "7"), rule: "allowed_chat", lvl: access.Guest},
		{name: "every chat is no direct chat", p: policy{Accounts: telegram(access.AccountRules{AllowedChats: []string{"*", "7"}})}, in: dm("7"), deny: access.Denial{Rule: "unknown_dm", OfferPairing: true}},
		{name: "a member in an allowed chat stays one", p: policy{Pairing: paired{"7": true}, Accounts: telegram(access.AccountRules{AllowedChats: []string{"-100"}})}, in: group("-100", "7"), rule: "paired", lvl: access.Member},
		{name: "no sender", p: policy{Config: access.Config{AllowAll: true}, Accounts: telegram(access.AccountRules{AllowAll: true})}, in: group("-100", ""), deny: access.Denial{Rule: "no_sender"}},
		{name: "no sender in a direct chat", p: policy{Accounts: telegram(access.AccountRules{AllowAll: true})}, in: dm(""), deny: access.Denial{Rule: "no_sender"}},
		{name: "no sender in an allowed chat", p: policy{Accounts: telegram(access.AccountRules{AllowedChats: []string{"-100"}})}, in: group("-100", ""), rule: "allowed_chat", lvl: access.Guest},

		{name: "bot", p: policy{Accounts: telegram(access.AccountRules{AllowAll: true})}, in: called, deny: access.Denial{Rule: "bot"}},
		{name: "bot, by mention only", p: policy{Accounts: telegram(access.AccountRules{AllowAll: true, AllowBots: "mentions"})}, in: bot, deny: access.Denial{Rule: "bot"}},
		{name: "bot that means us", p: policy{Accounts: telegram(access.AccountRules{AllowAll: true, AllowBots: "mentions"})}, in: called, rule: "platform_allow_all", lvl: access.Guest},
		{name: "all bots", p: policy{Accounts: telegram(access.AccountRules{AllowAll: true, AllowBots: "all"})}, in: bot, rule: "platform_allow_all", lvl: access.Guest},
		{name: "a bot that is heard still has to be allowed", p: policy{Accounts: telegram(access.AccountRules{AllowBots: "all"})}, in: bot, deny: access.Denial{Rule: "not_allowed"}},
		{name: "an account's word on bots goes first", p: policy{Accounts: map[chat.Account]access.AccountRules{{Platform: chat.Telegram}: {AllowAll: true, AllowBots: "all"}, {Platform: chat.Telegram, Name: "second"}: {AllowBots: "none"}}},
			in: change(bot, func(in *chat.Inbound) { in.Address.Account = "second" }), deny: access.Denial{Rule: "bot"}},
		{name: "a bot is offered no code", p: policy{Accounts: telegram(access.AccountRules{AllowBots: "all"})}, in: change(dm("7"), func(in *chat.Inbound) { in.Sender.Bot = true }), deny: access.Denial{Rule: "not_allowed"}},

		{name: "silent to strangers", p: policy{UnknownDM: "ignore"}, in: dm("7"), deny: access.Denial{Rule: "unknown_dm"}},
		{name: "silent on this platform", p: policy{Accounts: telegram(access.AccountRules{UnknownDM: "ignore"})}, in: dm("7"), deny: access.Denial{Rule: "unknown_dm"}},
		{name: "not silent on this platform", p: policy{UnknownDM: "ignore", Accounts: telegram(access.AccountRules{UnknownDM: "pair"})}, in: dm("7"), deny: access.Denial{Rule: "unknown_dm", OfferPairing: true}},
		{name: "a button is no request for a code", in: change(dm("7"), func(in *chat.Inbound) { in.Kind = chat.Callback }), deny: access.Denial{Rule: "not_allowed"}},
		{name: "an edit is no request for a code", in: change(dm("7"), func(in *chat.Inbound) { in.Kind = chat.Edit }), deny: access.Denial{Rule: "not_allowed"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			g, d := checker(t, c.p).Check(c.in)
			if diff := cmp.Diff(c.deny, d); diff != "" {
				t.Error("denial differs (-want +got):\n" + diff)
			}
			if g.Rule() != c.rule || g.Valid() != (c.rule != "") {
				t.Errorf("grant by %q, valid %v; want %q", g.Rule(), g.Valid(), c.rule)
			}
			if got := g.Principal().Level; got != c.lvl {
				t.Errorf("level %v, want %v", got, c.lvl)
			}
			if g.Valid() && g.Principal().ID != c.in.Sender.ID {
				t.Errorf("grant for %q, not for %q", g.Principal().ID, c.in.Sender.ID)
			}
		})
	}
}

// Names, handles and texts are untrusted: they never authorize.
func TestCheckUsesOnlyIDs(t *testing.T) {
	c := checker(t, access.Policy{Config: access.Config{Owners: []string{"7"}, AllowFrom: []string{"8"}}, Accounts: telegram(access.AccountRules{AllowedChats: []string{"-100"}})})
	for _, s := range []string{"7", "8", "*", "-100", "telegram:7", " 7", "7 ", "07", "7\x00"} {
		in := dm("666")
		in.Sender.Name, in.Sender.Handle, in.ChatName, in.Topic, in.Text, in.ID, in.IdempotencyKey = s, s, s, s, s, s, s
		in.Address.Scope, in.Address.Thread, in.Address.Chat = s, s, s
		in.ReplyTo = &chat.Quote{Author: s, FromBot: true}
		if g, _ := c.Check(in); g.Valid() {
			t.Errorf("authorized by %q: %s", s, g.Rule())
		}
	}
	for _, s := range []string{" 7", "7 ", "07", "7\x00", "*", "telegram:7", "+7", "７"} {
		if g, _ := c.Check(dm(s)); g.Valid() {
			t.Errorf("the id %q passes for 7", s)
		}
	}
}

func TestCheckIDRejectsNames(t *testing.T) {
	for _, c := range []struct {
		p     chat.Platform
		entry string
		want  string // part of the error; "" is none
	}{
		{chat.Telegram, "123456789", ""},
		{chat.Telegram, " 123 ", ""},
		{chat.Telegram, "*", ""},
		{chat.Telegram, "telegram:123", ""},
		{chat.Telegram, "@anna", `"@anna" is a user name`},
		{chat.Telegram, "anna_b", "numeric id"},
		{chat.Telegram, "анна", "numeric id"},
		{chat.Telegram, "", "empty entry"},
		{chat.Telegram, "-100123", "allowed_chats"},
		{chat.Telegram, "discord:123", "in a list of telegram"},
		{chat.Telegram, "12.5", "numeric id"},
		{chat.Telegram, "1 2", "not an id"},
		{chat.Telegram, strings.Repeat("9", 21), "numeric id"},
		{chat.Discord, "281942384234234234", ""},
		{chat.Discord, "anna", "numeric id"},
		{chat.Slack, "U02ABCDEF", ""},
		{chat.Slack, "anna", "member id"},
		{chat.Slack, "u02abcdef", "member id"},
		{"", "123", ""},
		{"", "U02ABCDEF", ""},
		{"", "slack:U02ABCDEF", ""},
		{"", "slack:123", "member id"},
		{"", "telegram:anna", "user name"},
		{"", "anna", "user name"},
	} {
		err := access.CheckID(profiles, c.p, c.entry)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("CheckID(%q, %q) = %v, want %q", c.p, c.entry, err, c.want)
		}
	}
}

// An invalid entry of a list may be a token: it is not shown.
func TestCheckIDErrorHidesTokens(t *testing.T) {
	for _, s := range []string{"8123456789:AAHfiqksKZ8WmR2zMNIq7dV0OCYAJ-aaaaa", "sk-ant-api03-abcdefghijklmnopqrstuvwxyz0123456789ABCDEFG"} {
		for _, p := range []chat.Platform{"", chat.Telegram, chat.Discord, chat.Slack} {
			if err := access.CheckID(profiles, p, s); err == nil || strings.Contains(err.Error(), s[10:]) {
				t.Errorf("CheckID(%q, a token) = %v", p, err)
			}
		}
	}
}

func TestNewReportsEveryInvalidEntry(t *testing.T) {
	_, err := access.New(access.Policy{
		Profiles:  profiles,
		Config:    access.Config{Owners: []string{"*", "boss"}, AllowFrom: []string{"1", "friend"}},
		UnknownDM: "shout",
		Accounts: map[chat.Account]access.AccountRules{
			{Platform: chat.Telegram, Name: "second"}: {AllowFrom: []string{"@anna"}, Owners: []string{"*"}, AllowedChats: []string{""}, AllowBots: "some", UnknownDM: "shout"},
		},
	})
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{
		"access: owners: not everybody", `owners: entry 2: "boss"`, `access: allow_from: entry 2: "friend"`, `unauthorized_dm_behavior: "shout"`,
		`telegram account second allow_from: entry 1: "@anna"`, "second owners: not everybody", "second allowed_chats", `second allow_bots: "some"`, `second unauthorized_dm_behavior: "shout"`,
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not say %q:\n%v", want, err)
		}
	}
}

// A loop of two bots ends: at most the limit is accepted in any five minutes.
func TestBotLoopIsLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := checker(t, access.Policy{Accounts: telegram(access.AccountRules{AllowAll: true, AllowBots: "all"})})
		say := func(room string, bot bool) bool {
			in := group(room, "7")
			in.Sender.Bot = bot
			g, d := c.Check(in)
			if !g.Valid() && d.Rule != "bot_loop" {
				t.Fatalf("denied by %q", d.Rule)
			}
			return g.Valid()
		}
		var heard []time.Time
		for range 600 {
			if say("-100", true) {
				heard = append(heard, time.Now())
			}
			<-time.After(2 * time.Second)
		}
		for i := 20; i < len(heard); i++ {
			if d := heard[i].Sub(heard[i-20]); d < 5*time.Minute {
				t.Fatalf("21 messages of bots were heard in %v", d)
			}
		}
		if len(heard) < 60 || len(heard) > 100 {
			t.Errorf("%d messages were heard in 20 minutes, want about 80", len(heard))
		}
		if !say("-200", true) {
			t.Error("the limit of one room holds in another")
		}
		if !say("-100", false) {
			t.Error("the limit for bots holds for a person")
		}
		for i := range 1000 {
			say(fmt.Sprint("-3", i), true)
		}
		<-time.After(5 * time.Minute)
		say("-100", true)
		if n := access.RoomsOf(c); n != 1 {
			t.Errorf("%d rooms are remembered, want 1", n)
		}
	})
}
