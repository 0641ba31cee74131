package access

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"hermesd/gateway/chat"
)

// The rules by which somebody is let in. They are recorded for `why`.
const (
	RuleConsole          = "console"
	RuleHTTPKey          = "http_key"
	RulePlatformAllowAll = "platform_allow_all"
	RulePlatformList     = "platform_allow_from"
	RuleRole             = "allowed_role"
	RulePaired           = "paired"
	RuleOwner            = "owner"
	RuleGlobalList       = "global_allow_from"
	RuleGlobalAllowAll   = "global_allow_all"
	RuleAllowedChat      = "allowed_chat"
)

// The rules by which somebody is kept out.
const (
	RuleBot        = "bot"         // a bot, and allow_bots does not admit it
	RuleBotLoop    = "bot_loop"    // too many messages from bots in this chat
	RuleNoSender   = "no_sender"   // nobody knows who speaks
	RuleNotAllowed = "not_allowed" // nothing lets this person in
	RuleUnknownDM  = "unknown_dm"  // the same, in a direct chat
)

// local are the surfaces whose adapters let in nobody but the operator: the
// console by who may open its socket, HTTP by its key.
var local = map[chat.Platform]string{chat.Console: RuleConsole, chat.HTTP: RuleHTTPKey}

// Two bots must not talk to each other for ever: of all bots together so many
// messages are heard in one chat, in so long a time.
const (
	botLimit  = 20
	botWindow = 5 * time.Minute
)

// A Denial says why somebody may not speak. Its zero value goes with a Grant.
type Denial struct {
	Rule string
	// UnknownDM says that a person who is not allowed wrote to us directly.
	UnknownDM bool
	// OfferPairing says that this person is to be offered a pairing code.
	OfferPairing bool
}

// A Checker decides who may speak. Its methods may be called from any
// goroutine. It does not change: a new configuration is a new Checker.
type Checker struct {
	owners   set
	allowed  set
	all      bool
	sole     bool
	accounts map[chat.Account]rules
	unknown  UnknownDMPolicy
	pairing  Pairing
	was      func(chat.Address) []string

	mu   sync.Mutex // guards what follows
	bots map[chat.Address][]time.Time
}

// New returns a Checker for p, or an error that names every entry which cannot
// stand where it stands.
func New(p Policy) (*Checker, error) {
	c := &Checker{accounts: make(map[chat.Account]rules), unknown: p.UnknownDM, pairing: p.Pairing, was: p.PreviousIDs, bots: make(map[chat.Address][]time.Time)}
	var err error
	wrap := func(what string, bad error) {
		if bad != nil {
			err = errors.Join(err, fmt.Errorf("access: %s: %w", what, bad))
		}
	}
	var bad error
	c.owners, bad = parseSet("", p.Owners)
	wrap("owners", bad)
	if c.owners.all {
		wrap("owners", errors.New("not everybody can be an owner"))
	}
	c.allowed, bad = parseSet("", p.AllowFrom)
	wrap("allow_from", bad)
	c.all = p.AllowAll || c.allowed.all
	switch p.UnknownDM {
	case "", Pair, Ignore:
	default:
		wrap("unauthorized_dm_behavior", fmt.Errorf("%q is none of pair, ignore", p.UnknownDM))
	}
	for a, r := range p.Accounts {
		c.accounts[a], bad = parseRules(a, r)
		if bad != nil {
			err = errors.Join(err, fmt.Errorf("access: %w", bad))
		}
	}
	if err != nil {
		return nil, err
	}
	c.sole = sole(c)
	return c, nil
}

// Check decides whether the sender of in may speak where it was said. It looks
// at nothing but who and where, so messages, edits and button presses are all
// the same to it. If the grant is not valid, the denial says why.
//
// The rules are asked in this order, and the first that matches names the
// grant: allow-all of the platform, its allowlist, pairing, owners and global
// allowlist, global allow-all, allowed chats. What nothing lets in is denied.
// The level does not depend on that order: owners are owners, people on a list
// or paired are members, and who is let in only together with everybody is a
// guest.
func (c *Checker) Check(in chat.Inbound) (Grant, Denial) {
	who := Principal{Platform: in.Address.Platform, ID: in.Sender.ID}
	if rule, ours := local[who.Platform]; ours {
		who.Level = Owner
		return Grant{who, rule}, Denial{}
	}
	rs := c.rulesOf(in.Address.AccountID())
	if in.Sender.Bot && !botAdmitted(rs, in) {
		return Grant{}, Denial{Rule: RuleBot}
	}
	rule := c.match(rs, in)
	if rule == "" {
		return Grant{}, c.deny(rs, in)
	}
	if in.Sender.Bot && !c.botMay(in.Address.WithoutThread()) {
		return Grant{}, Denial{Rule: RuleBotLoop}
	}
	who.Level = c.level(rs, who)
	return Grant{who, rule}, Denial{}
}

// rulesOf returns the rules that hold for an account: its platform's and its
// own.
func (c *Checker) rulesOf(a chat.Account) (rs []rules) {
	if r, ok := c.accounts[chat.Account{Platform: a.Platform}]; ok {
		rs = append(rs, r)
	}
	if r, ok := c.accounts[a]; ok && a.Name != "" {
		rs = append(rs, r)
	}
	return rs
}

// match returns the first rule that lets the sender of in speak, "" if there is
// none.
func (c *Checker) match(rs []rules, in chat.Inbound) string {
	p, who := in.Address.Platform, in.Sender.ID
	some := func(f func(rules) bool) bool {
		for _, r := range rs {
			if f(r) {
				return true
			}
		}
		return false
	}
	switch {
	case who == "": // an anonymous administrator, a channel's own post
	case some(func(r rules) bool { return r.all }):
		return RulePlatformAllowAll
	case some(func(r rules) bool { return r.allowed.has(p, who) }):
		return RulePlatformList
	case some(func(r rules) bool {
		return slices.ContainsFunc(in.Sender.Roles, func(id string) bool { return r.roles[id] })
	}):
		return RuleRole
	case c.paired(p, who):
		return RulePaired
	case c.owners.has(p, who) || some(func(r rules) bool { return r.owners.has(p, who) }):
		return RuleOwner
	case c.allowed.has(p, who):
		return RuleGlobalList
	case c.all:
		return RuleGlobalAllowAll
	}
	if in.Address.Kind == chat.DM {
		return ""
	}
	names := []string{in.Address.Chat, everybody}
	if c.was != nil {
		names = append(names, c.was(in.Address)...)
	}
	if some(func(r rules) bool { return slices.ContainsFunc(names, func(id string) bool { return r.chats[id] }) }) {
		return RuleAllowedChat
	}
	return ""
}

func (c *Checker) paired(p chat.Platform, who string) bool {
	return c.pairing != nil && c.pairing.Paired(p, who)
}

// level returns what somebody who may speak may do.
func (c *Checker) level(rs []rules, who Principal) Level {
	if who.ID == "" {
		return Guest
	}
	listed, owner := c.allowed.has(who.Platform, who.ID), c.owners.has(who.Platform, who.ID)
	for _, r := range rs {
		listed = listed || r.allowed.has(who.Platform, who.ID)
		owner = owner || r.owners.has(who.Platform, who.ID)
	}
	switch {
	case owner || listed && c.sole:
		return Owner
	case listed || c.paired(who.Platform, who.ID):
		return Member
	}
	return Guest
}

// deny says why nothing let the sender of in speak.
func (c *Checker) deny(rs []rules, in chat.Inbound) Denial {
	switch {
	case in.Sender.ID == "":
		return Denial{Rule: RuleNoSender}
	case in.Address.Kind != chat.DM || in.Sender.Bot || in.Kind != chat.Message:
		return Denial{Rule: RuleNotAllowed}
	}
	unknown := c.unknown
	for _, r := range rs {
		if r.unknown != "" {
			unknown = r.unknown
		}
	}
	return Denial{Rule: RuleUnknownDM, UnknownDM: true, OfferPairing: unknown != Ignore}
}

// botAdmitted reports whether a bot is heard at all. What an account says of
// bots goes before what its platform says.
func botAdmitted(rs []rules, in chat.Inbound) bool {
	bots := NoBots
	for _, r := range rs {
		if r.bots != "" {
			bots = r.bots
		}
	}
	return bots == AllBots || bots == BotsAddressed && in.Addressed
}

// botMay counts a message from a bot in room, and reports whether it is still
// within the limit. Messages over the limit are not counted, so
// however long two bots go on, no more than the limit is heard in any window.
func (c *Checker) botMay(room chat.Address) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	recent := c.bots[room][:0]
	for _, t := range c.bots[room] {
		if now.Sub(t) < botWindow {
			recent = append(recent, t)
		}
	}
	ok := len(recent) < botLimit
	if ok {
		recent = append(recent, now)
	}
	for other, ts := range c.bots {
		if now.Sub(ts[len(ts)-1]) >= botWindow {
			delete(c.bots, other)
		}
	}
	c.bots[room] = recent
	return ok
}
