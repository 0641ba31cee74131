package access

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"hermesd/gateway/chat"
)

// The rules that authorize a sender. They are shown by `why`.
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

// The rules that deny a sender.
const (
	RuleBot        = "bot"         // a bot that allow_bots does not admit
	RuleBotLoop    = "bot_loop"    // too many messages from bots in this chat
	RuleNoSender   = "no_sender"   // the sender has no ID
	RuleNotAllowed = "not_allowed" // no rule authorizes the sender
	RuleUnknownDM  = "unknown_dm"  // no rule authorizes the sender of a direct message
	RuleNotHeard   = "not_heard"   // this kind of chat or this topic is not listened to
)

// Limits that end a loop of two bots: at most botLimit messages of all bots together
// are accepted per chat and botWindow.
const (
	botLimit  = 20
	botWindow = 5 * time.Minute
)

// A Denial says why a sender is not authorized. It is the zero value if Check returns a
// valid Grant.
type Denial struct {
	Rule string
	// OfferPairing is set if the sender is to get a pairing code.
	OfferPairing bool
}

// A Checker checks the senders of events. Its methods may be called from any goroutine.
// Its policy is fixed: a new configuration needs a new Checker.
type Checker struct {
	profiles      chat.Profiles
	owners        idSet
	allowed       idSet
	allowAll      bool
	onlyIDIsOwner bool
	accounts      map[chat.Account]rules
	unknown       UnknownDMPolicy
	pairing       Pairing
	previousIDs   func(chat.Address) []string

	mu   sync.Mutex // guards bots
	bots map[chat.Address][]time.Time
}

// New returns a Checker for p, or an error that names every invalid entry.
func New(p Policy) (*Checker, error) {
	c := &Checker{profiles: p.Profiles, accounts: make(map[chat.Account]rules), unknown: p.UnknownDM, pairing: p.Pairing, previousIDs: p.PreviousIDs, bots: make(map[chat.Address][]time.Time)}
	var err error
	wrap := func(what string, bad error) {
		if bad != nil {
			err = errors.Join(err, fmt.Errorf("access: %s: %w", what, bad))
		}
	}
	var bad error
	c.owners, bad = parseSet(p.Profiles, "", p.Owners)
	wrap("owners", bad)
	if c.owners.all {
		wrap("owners", errors.New("not everybody can be an owner"))
	}
	c.allowed, bad = parseSet(p.Profiles, "", p.AllowFrom)
	wrap("allow_from", bad)
	c.allowAll = p.AllowAll || c.allowed.all
	switch p.UnknownDM {
	case "", Pair, Ignore:
	default:
		wrap("unauthorized_dm_behavior", fmt.Errorf("%q: must be pair or ignore", p.UnknownDM))
	}
	for a, r := range p.Accounts {
		c.accounts[a], bad = parseRules(p.Profiles, a, r)
		if bad != nil {
			err = errors.Join(err, fmt.Errorf("access: %w", bad))
		}
	}
	if err != nil {
		return nil, err
	}
	c.onlyIDIsOwner = hasOnlyOneID(c)
	return c, nil
}

// Ownerless reports whether the lists name several people and none of them is an owner.
func (c *Checker) Ownerless() bool {
	ids := maps.Clone(c.allowed.ids)
	owners := len(c.owners.ids)
	for _, r := range c.accounts {
		maps.Copy(ids, r.allowed.ids)
		owners += len(r.owners.ids)
	}
	return len(ids) > 1 && owners == 0 && !c.onlyIDIsOwner
}

// Owners returns the users who are owners in every account of their platform, in order of
// platform and ID, without a platform on which everyone is.
func (c *Checker) Owners() (list []Principal) {
	ids := maps.Clone(c.owners.ids)
	maps.Copy(ids, c.allowed.ids)
	for _, r := range c.accounts {
		maps.Copy(ids, r.owners.ids)
		maps.Copy(ids, r.allowed.ids)
	}
	for _, p := range c.profiles.Which(func(p chat.Profile) bool { return p.OwnerRule == "" }) {
		for x := range ids {
			who := Principal{Platform: p, ID: x.id, Level: Owner}
			if (x.platform == "" || x.platform == p) && c.profiles.Of(p).Person.Valid(x.id) && c.ownsEverywhere(who) && !slices.Contains(list, who) {
				list = append(list, who)
			}
		}
	}
	slices.SortFunc(list, func(a, b Principal) int { return cmp.Or(cmp.Compare(a.Platform, b.Platform), cmp.Compare(a.ID, b.ID)) })
	return list
}

// ownsEverywhere reports whether who is an owner in every account of their platform.
func (c *Checker) ownsEverywhere(who Principal) bool {
	named := false
	for a := range c.accounts {
		if a.Platform == who.Platform && a.Name != "" {
			named = true
			if c.level(c.rulesOf(a), who) < Owner {
				return false
			}
		}
	}
	return named || c.level(c.rulesOf(chat.Account{Platform: who.Platform}), who) == Owner
}

// Check returns a valid grant if the sender of in is authorized at the address of in,
// else a denial with the reason. It uses only sender and address, so messages, edits and
// button presses are treated the same.
//
// The rules are checked in this order, and the first match names the grant: allow-all
// of the platform, its allowlist, its roles, pairing, owners, global allowlist, global
// allow-all, allowed chats. Without a match the sender is denied. The level does not
// depend on that order: owners are owners, users on an allowlist or paired are members,
// and all others are guests. If the lists contain exactly one ID and no owner is
// configured, that ID is the owner.
func (c *Checker) Check(in chat.Inbound) (Grant, Denial) {
	principal := Principal{Platform: in.Address.Platform, ID: in.Sender.ID}
	if rule := c.profiles.Of(principal.Platform).OwnerRule; rule != "" {
		principal.Level = Owner
		return Grant{principal, rule}, Denial{}
	}
	rs := c.rulesOf(in.Address.AccountID())
	if in.Sender.Bot && !admitsBot(rs, in) {
		return Grant{}, Denial{Rule: RuleBot}
	}
	if !hears(rs, in) {
		return Grant{}, Denial{Rule: RuleNotHeard}
	}
	rule := c.match(rs, in)
	if rule == "" {
		return Grant{}, c.deny(rs, in)
	}
	if in.Sender.Bot && !c.allowBotMessage(in.Address.WithoutThread()) {
		return Grant{}, Denial{Rule: RuleBotLoop}
	}
	principal.Level = c.level(rs, principal)
	return Grant{principal, rule}, Denial{}
}

// rulesOf returns the rules that apply to an account: those of its platform, then its
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

// match returns the first rule that authorizes the sender of in, "" if there is none.
func (c *Checker) match(rs []rules, in chat.Inbound) string {
	p, who := in.Address.Platform, in.Sender.ID
	anyRules := func(f func(rules) bool) bool {
		for _, r := range rs {
			if f(r) {
				return true
			}
		}
		return false
	}
	switch {
	case who == "": // an anonymous administrator, a channel's own post
	case !listedOnly(rs, in) && anyRules(func(r rules) bool { return r.all }):
		return RulePlatformAllowAll
	case anyRules(func(r rules) bool { return r.allowed.has(p, who) }):
		return RulePlatformList
	case anyRules(func(r rules) bool {
		return slices.ContainsFunc(in.Sender.Roles, func(id string) bool { return r.roles[id] })
	}):
		return RuleRole
	case c.paired(p, who):
		return RulePaired
	case c.owners.has(p, who) || anyRules(func(r rules) bool { return r.owners.has(p, who) }):
		return RuleOwner
	case c.allowed.has(p, who):
		return RuleGlobalList
	case c.allowAll && !listedOnly(rs, in):
		return RuleGlobalAllowAll
	}
	if in.Address.Kind == chat.DM || listedOnly(rs, in) {
		return ""
	}
	names := []string{in.Address.Chat, wildcard}
	if c.previousIDs != nil {
		names = append(names, c.previousIDs(in.Address)...)
	}
	if anyRules(func(r rules) bool { return slices.ContainsFunc(names, func(id string) bool { return r.chats[id] }) }) {
		return RuleAllowedChat
	}
	return ""
}

func (c *Checker) paired(p chat.Platform, who string) bool {
	return c.pairing != nil && c.pairing.Paired(p, who)
}

// level returns the level of an authorized principal.
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
	case owner || listed && c.onlyIDIsOwner:
		return Owner
	case listed || c.paired(who.Platform, who.ID):
		return Member
	}
	return Guest
}

// deny returns the denial of a sender whom no rule authorizes.
func (c *Checker) deny(rs []rules, in chat.Inbound) Denial {
	switch {
	case in.Sender.ID == "":
		return Denial{Rule: RuleNoSender}
	case in.Address.Kind != chat.DM || in.Sender.Bot || in.Kind != chat.Message:
		return Denial{Rule: RuleNotAllowed}
	}
	unknown := c.unknown
	if listedOnly(rs, in) {
		unknown = Ignore
	}
	for _, r := range rs {
		if r.unknown != "" {
			unknown = r.unknown
		}
	}
	return Denial{Rule: RuleUnknownDM, OfferPairing: unknown != Ignore}
}

// hears reports whether the daemon listens to the kind of chat and the topic of in.
func hears(rs []rules, in chat.Inbound) bool {
	dm, topic := in.Address.Kind == chat.DM, in.Address.Thread
	for _, r := range rs {
		switch {
		case dm && r.dms == HearNobody || !dm && r.groups == HearNobody:
			return false
		case dm:
		case slices.Contains(r.ignored, topic):
			return false
		case len(r.topics) > 0 && !slices.Contains(r.topics, topic) && !(topic == "" && slices.Contains(r.topics, "1")):
			return false
		}
	}
	return true
}

// listedOnly reports whether only who is listed or paired is heard in the chat of in.
func listedOnly(rs []rules, in chat.Inbound) bool {
	return slices.ContainsFunc(rs, func(r rules) bool {
		if in.Address.Kind == chat.DM {
			return r.dms == HearListed
		}
		return r.groups == HearListed
	})
}

// admitsBot reports whether messages of bots are accepted. The rules of an account
// override those of its platform.
func admitsBot(rs []rules, in chat.Inbound) bool {
	bots := NoBots
	for _, r := range rs {
		if r.bots != "" {
			bots = r.bots
		}
	}
	return bots == AllBots || bots == BotsAddressed && in.Addressed
}

// allowBotMessage reports whether a message of a bot in a chat is within the limit, and counts
// it if it is. Messages over the limit are not counted, so that at most botLimit
// messages are accepted in any botWindow.
func (c *Checker) allowBotMessage(in chat.Address) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	recent := c.bots[in][:0]
	for _, t := range c.bots[in] {
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
	c.bots[in] = recent
	return ok
}
