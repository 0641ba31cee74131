package active_test

import (
	"testing"

	"hermesd/agent/llm"
	"hermesd/gateway/access"
	"hermesd/gateway/active"
	"hermesd/gateway/chat"
	"hermesd/gateway/inbox"
	"hermesd/gateway/store"
)

var (
	owner = access.Principal{Platform: chat.Telegram, ID: "1", Level: access.Owner}
	guest = access.Principal{Platform: chat.Telegram, ID: "2", Level: access.Guest}
)

func entry(by access.Principal) inbox.Entry {
	return inbox.Entry{Grant: access.OperatorGrant(by), Inbound: chat.Inbound{Address: chat.Address{Platform: chat.Telegram, Chat: "c"}, ChatName: "team"}}
}

func TestToolsActForTheLeastPrivilegedAuthor(t *testing.T) {
	var turns active.Turns
	if _, ok := turns.Actor("s"); ok {
		t.Error("a session without a turn has an actor")
	}
	c := store.Claim{Turn: "t1", Lane: "l", Entries: []inbox.Entry{entry(owner)}}
	turns.Set("s", c)
	if a, ok := turns.Actor("s"); !ok || a.Principal != owner || a.Turn != "t1" || a.Name != "team" {
		t.Errorf("actor %+v, %v", a, ok)
	}
	if !turns.IsOnlyAuthor("l", owner) || turns.IsOnlyAuthor("l", guest) || turns.IsOnlyAuthor("other", owner) {
		t.Error("the owner wrote the only message of lane l")
	}
	c.Entries = append(c.Entries, entry(guest))
	turns.Set("s", c)
	if a, _ := turns.Actor("s"); a.Principal != guest {
		t.Errorf("after a guest's message joined, tools act for %+v", a.Principal)
	}
	if turns.IsOnlyAuthor("l", owner) || turns.IsOnlyAuthor("l", guest) {
		t.Error("two people wrote to the turn")
	}
}

func TestUsageOfATurnOutlivesMessagesThatJoin(t *testing.T) {
	var turns active.Turns
	turns.Charge("s", llm.Usage{Input: 1}) // no turn runs
	c := store.Claim{Turn: "t1", Lane: "l", Entries: []inbox.Entry{entry(owner)}}
	turns.Set("s", c)
	turns.Charge("s", llm.Usage{Input: 10})
	turns.Set("s", c)
	turns.Charge("s", llm.Usage{Output: 5})
	if u := turns.Remove("s"); u != (llm.Usage{Input: 10, Output: 5}) {
		t.Errorf("usage %+v", u)
	}
	if u := turns.Remove("s"); u != (llm.Usage{}) {
		t.Errorf("usage of a removed turn: %+v", u)
	}
}

func TestAnOfferedClaimIsTakenOnce(t *testing.T) {
	var turns active.Turns
	offered := func(l inbox.Lane) bool { _, ok := turns.OfferedClaim(l); return ok }
	if _, ok := turns.TakeOfferedClaim("l"); ok || offered("l") {
		t.Error("a claim was offered already")
	}
	turns.OfferClaim(store.Claim{Turn: "t1", Lane: "l", Entries: []inbox.Entry{entry(owner)}})
	turns.OfferClaim(store.Claim{Turn: "t2", Lane: "m", Entries: []inbox.Entry{entry(owner), entry(guest)}})
	if !offered("l") || !turns.IsOnlyAuthor("l", owner) || turns.IsOnlyAuthor("l", guest) || turns.IsOnlyAuthor("m", owner) {
		t.Error("the authors of offered claims are unknown")
	}
	if c, ok := turns.TakeOfferedClaim("l"); !ok || c.Turn != "t1" || offered("l") || turns.IsOnlyAuthor("l", owner) {
		t.Errorf("took %q, %v", c.Turn, ok)
	}
	if all := turns.TakeOfferedClaims(); len(all) != 1 || all[0].Turn != "t2" || offered("m") {
		t.Errorf("took %d claims", len(all))
	}
}
