package access_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"hermesd/gateway/access"
	"hermesd/gateway/chat"
	"hermesd/gateway/gatewaytest"
)

// grants returns for each rule a change that authorizes user 7 in a Discord channel.
func grants() map[string]func(*access.Policy, *access.AccountRules, *paired7) {
	return map[string]func(*access.Policy, *access.AccountRules, *paired7){
		access.RulePlatformAllowAll: func(_ *access.Policy, r *access.AccountRules, _ *paired7) { r.AllowAll = true },
		access.RulePlatformList:     func(_ *access.Policy, r *access.AccountRules, _ *paired7) { r.AllowFrom = []string{"7", "8"} },
		access.RuleRole:             func(_ *access.Policy, r *access.AccountRules, _ *paired7) { r.Roles = []string{"55"} },
		access.RulePaired:           func(_ *access.Policy, _ *access.AccountRules, p *paired7) { *p = true },
		access.RuleOwner:            func(p *access.Policy, _ *access.AccountRules, _ *paired7) { p.Owners = []string{"7"} },
		access.RuleGlobalList:       func(p *access.Policy, _ *access.AccountRules, _ *paired7) { p.AllowFrom = []string{"7", "8"} },
		access.RuleGlobalAllowAll:   func(p *access.Policy, _ *access.AccountRules, _ *paired7) { p.AllowAll = true },
		access.RuleAllowedChat:      func(_ *access.Policy, r *access.AccountRules, _ *paired7) { r.AllowedChats = []string{"100"} },
	}
}

// paired7 is a Pairing that says whether user 7 is paired.
type paired7 bool

func (p *paired7) Paired(_ chat.Platform, id string) bool { return bool(*p) && id == "7" }

// The first matching rule of the table names the grant; the level is the highest of all
// matching rules.
func TestRulesOrderMatchesCheck(t *testing.T) {
	give := grants()
	var names []string
	level := map[string]access.Level{"guest": access.Guest, "member": access.Member, "owner": access.Owner}
	of := map[string]access.Level{}
	for _, r := range gatewaytest.AllowRules() {
		if r.Name == access.RuleConsole || r.Name == access.RuleHTTPKey { // these depend on the platform, not on the user
			continue
		}
		names = append(names, r.Name)
		of[r.Name] = level[r.Level]
		if give[r.Name] == nil {
			t.Fatalf("no test for rule %s", r.Name)
		}
	}
	rapid.Check(t, func(rt *rapid.T) {
		p := access.Policy{Profiles: profiles}
		var r access.AccountRules
		var paired paired7
		first, most := "", access.Nobody
		for _, n := range names {
			if !rapid.Bool().Draw(rt, n) {
				continue
			}
			give[n](&p, &r, &paired)
			if first == "" {
				first = n
			}
			most = max(most, of[n])
		}
		p.Accounts, p.Pairing = discord(r), &paired
		c, err := access.New(p)
		if err != nil {
			rt.Fatal(err)
		}
		g, d := c.Check(withRoles("55"))
		if g.Rule() != first || g.Principal().Level != most {
			rt.Fatalf("authorized by %q as %s, want %q as %s", g.Rule(), g.Principal().Level, first, most)
		}
		if first == "" && d.Rule != access.RuleNotAllowed {
			rt.Fatalf("kept out by %q", d.Rule)
		}
	})
}

// Every denial has a rule of the table.
func TestRulesContainEveryDenial(t *testing.T) {
	var names []string
	for _, r := range gatewaytest.DenyRules() {
		names = append(names, r.Name)
	}
	seen := map[string]bool{}
	c := checker(t, access.Policy{Accounts: discord(access.AccountRules{AllowedChats: []string{"100"}, AllowBots: access.AllBots})})
	none := checker(t, access.Policy{Accounts: discord(access.AccountRules{Groups: access.HearNobody})})
	for _, kind := range []chat.Kind{chat.DM, chat.Group, chat.Thread, chat.Channel} {
		for _, id := range []string{"", "7"} {
			for _, bot := range []bool{false, true} {
				for range 25 {
					for _, check := range []*access.Checker{c, none} {
						in := withRoles()
						in.Address.Kind, in.Sender.ID, in.Sender.Bot = kind, id, bot
						if g, d := check.Check(in); !g.Valid() {
							seen[d.Rule] = true
						}
					}
				}
			}
		}
	}
	for rule := range seen {
		if !slices.Contains(names, rule) {
			t.Errorf("%s is not in the table", rule)
		}
	}
	if len(seen) != len(names) {
		t.Errorf("%d rules of %d denied a sender: %v", len(seen), len(names), seen)
	}
}
