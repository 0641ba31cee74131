package access

import (
	"errors"
	"fmt"
	"maps"
	"strings"

	"hermesd/gateway/chat"
	"hermesd/internal/lazyregexp"
)

// Config is the section `access` of the configuration. It applies to all platforms.
type Config struct {
	Owners    []string `yaml:"owners" doc:"Ids of the people who may do everything: numeric or U…, or platform:id. Unset, and with exactly one id allowed in all, it is that one."`
	AllowFrom []string `yaml:"allow_from" env:"GATEWAY_ALLOWED_USERS" doc:"Ids of people who may speak on every platform: numeric or U…, or platform:id."`
	AllowAll  bool     `yaml:"allow_all" env:"GATEWAY_ALLOW_ALL_USERS" default:"false" doc:"Everybody may speak, on every platform, as a guest."`
}

// AccountRules are the additional rules of one account or platform.
type AccountRules struct {
	Owners       []string // owners on this platform
	AllowFrom    []string // immutable IDs; "*" is AllowAll
	AllowAll     bool
	AllowedChats []string // chats in which everyone is authorized as a guest; "*" is every chat except direct chats
	Roles        []string // roles of the platform whose holders are authorized as guests
	AllowBots    BotPolicy
	UnknownDM    UnknownDMPolicy // "": Policy.UnknownDM
	// DMs and Groups limit who is heard in direct chats and in all others, whatever
	// another rule allows.
	DMs, Groups Hearing
	// Topics are the only topics of groups that are heard; empty: all. "1" also stands
	// for messages in no topic.
	Topics        []string
	IgnoredTopics []string // topics of groups that are not heard
}

// A Hearing says who is heard in a kind of chat.
type Hearing string

// The hearings.
const (
	HearAllowed Hearing = ""          // whom a rule allows; also open and pairing
	HearListed  Hearing = "allowlist" // of them only whom a list names or who is paired
	HearNobody  Hearing = "disabled"
)

// BotPolicy says whether messages of other bots are accepted.
type BotPolicy string

// The bot policies. An admitted bot must also be authorized by a rule.
const (
	NoBots        BotPolicy = "none"     // also ""
	BotsAddressed BotPolicy = "mentions" // only messages addressed to the daemon
	AllBots       BotPolicy = "all"
)

// UnknownDMPolicy says how direct messages of unauthorized users are handled.
type UnknownDMPolicy string

// The policies for direct messages of unauthorized users.
const (
	Pair   UnknownDMPolicy = "pair"   // offer a pairing code; also ""
	Ignore UnknownDMPolicy = "ignore" // send no answer
)

// A Pairing reports which users were authorized by a pairing code.
type Pairing interface {
	// Paired reports whether the user with this ID on p is paired and not revoked. It
	// does not block and may be called from any goroutine.
	Paired(p chat.Platform, id string) bool
}

// A Policy is the input of Checker. A Policy with nothing but Profiles authorizes only
// who is an owner by the OwnerRule of a platform.
type Policy struct {
	Config
	Profiles chat.Profiles
	// Accounts holds the rules of platforms and accounts. Those with account name ""
	// apply to all accounts of their platform.
	Accounts  map[chat.Account]AccountRules
	UnknownDM UnknownDMPolicy
	Pairing   Pairing // nil: nobody is paired
	// PreviousIDs returns the IDs of a chat before chat migrations, which AllowedChats
	// may still contain; nil: none.
	PreviousIDs func(chat.Address) []string
}

// wildcard is the entry of an allowlist that allows everyone.
const wildcard = "*"

// An id is an entry of an allowlist. With platform "" it applies to all platforms.
type id struct {
	platform chat.Platform
	id       string
}

var (
	numeric = lazyregexp.New(`^[0-9]{1,20}$`)
	name    = lazyregexp.New(`^@?[\pL\pN_.]+$`)
	word    = lazyregexp.New(`^[a-z]+$`)
)

// CheckID returns an error if entry is not valid in an allowlist of p, or with p "" in
// one for all platforms. Only immutable IDs are valid: user names can change hands.
func CheckID(ps chat.Profiles, p chat.Platform, entry string) error {
	_, err := parseID(ps, p, entry)
	return err
}

func parseID(ps chat.Profiles, p chat.Platform, entry string) (id, error) {
	entry = strings.TrimSpace(entry)
	if entry == wildcard {
		return id{p, wildcard}, nil
	}
	if q, rest, ok := strings.Cut(entry, ":"); ok && word().MatchString(q) {
		if p != "" && chat.Platform(q) != p {
			return id{}, fmt.Errorf("ID of %s in a list of %s", q, p)
		}
		p, entry = chat.Platform(q), rest
	}
	kind := "numeric id"
	if p != "" {
		kind = ps.Of(p).Person.Is
	}
	if !isPerson(ps, p, entry) {
		return id{}, idError(kind, entry)
	}
	return id{p, entry}, nil
}

// isPerson reports whether an ID can be that of a person on p, or with p "" on any platform
// on which access is checked.
func isPerson(ps chat.Profiles, p chat.Platform, id string) bool {
	if p != "" {
		return ps.Of(p).Person.Valid(id)
	}
	return numeric().MatchString(id) || len(ps.Which(func(q chat.Profile) bool { return q.Pairing && q.Person.Valid(id) })) > 0
}

// idError returns the error of an invalid entry. It quotes the entry only if it looks like
// a user name, because it may be a token. kind is what an ID is called.
func idError(kind, entry string) error {
	switch {
	case entry == "":
		return errors.New("an empty entry allows nobody")
	case strings.HasPrefix(entry, "-") && numeric().MatchString(entry[1:]):
		return fmt.Errorf("%s is the id of a chat, not of a person: it belongs into allowed_chats", entry)
	case len(entry) <= 100 && name().MatchString(entry):
		return fmt.Errorf("%q is a user name, which can change hands: use the %s; the log and `hermesd why` show it when that person writes to the bot", entry, kind)
	}
	return fmt.Errorf("this entry is not an id: use the %s of the person", kind)
}

// A idSet is a parsed allowlist.
type idSet struct {
	all bool
	ids map[id]bool
}

func (s idSet) has(p chat.Platform, who string) bool {
	return s.ids[id{p, who}] || s.ids[id{"", who}]
}

func parseSet(ps chat.Profiles, p chat.Platform, entries []string) (s idSet, err error) {
	s.ids = make(map[id]bool)
	for i, e := range entries {
		x, bad := parseID(ps, p, e)
		switch {
		case bad != nil:
			err = errors.Join(err, fmt.Errorf("entry %d: %w", i+1, bad))
		case x.id == wildcard:
			s.all = true
		default:
			s.ids[x] = true
		}
	}
	return s, err
}

// rules are the parsed AccountRules of one account.
type rules struct {
	owners, allowed idSet
	all             bool
	chats           map[string]bool
	roles           map[string]bool
	bots            BotPolicy
	unknown         UnknownDMPolicy
	dms, groups     Hearing
	topics, ignored []string
}

func parseRules(ps chat.Profiles, a chat.Account, r AccountRules) (p rules, err error) {
	where := string(a.Platform)
	if a.Name != "" {
		where += " account " + a.Name
	}
	wrap := func(list string, bad error) {
		if bad != nil {
			err = errors.Join(err, fmt.Errorf("%s %s: %w", where, list, bad))
		}
	}
	var bad error
	p.owners, bad = parseSet(ps, a.Platform, r.Owners)
	wrap("owners", bad)
	if p.owners.all {
		wrap("owners", errors.New("not everybody can be an owner"))
	}
	p.allowed, bad = parseSet(ps, a.Platform, r.AllowFrom)
	wrap("allow_from", bad)
	p.all = r.AllowAll || p.allowed.all
	p.chats = make(map[string]bool)
	for _, c := range r.AllowedChats {
		if c = strings.TrimSpace(c); c == "" {
			wrap("allowed_chats", errors.New("an empty entry allows nothing"))
		}
		p.chats[c] = true
	}
	p.roles = make(map[string]bool)
	for _, role := range r.Roles {
		if role = strings.TrimSpace(role); !numeric().MatchString(role) {
			wrap("allowed_roles", fmt.Errorf("invalid role ID %q: must be numeric", role))
		}
		p.roles[role] = true
	}
	p.dms, p.groups, p.topics, p.ignored = r.DMs, r.Groups, r.Topics, r.IgnoredTopics
	switch p.bots = r.AllowBots; p.bots {
	case "", NoBots, BotsAddressed, AllBots:
	default:
		wrap("allow_bots", fmt.Errorf("%q: must be none, mentions or all", p.bots))
	}
	switch p.unknown = r.UnknownDM; p.unknown {
	case "", Pair, Ignore:
	default:
		wrap("unauthorized_dm_behavior", fmt.Errorf("%q: must be pair or ignore", p.unknown))
	}
	return p, err
}

// hasOnlyOneID reports whether the lists contain exactly one ID in total, and there is no owner
// and no rule that authorizes more users.
func hasOnlyOneID(c *Checker) bool {
	ids := maps.Clone(c.allowed.ids)
	if c.allowAll || len(c.owners.ids) > 0 {
		return false
	}
	for _, r := range c.accounts {
		if r.all || len(r.roles) > 0 || len(r.owners.ids) > 0 {
			return false
		}
		maps.Copy(ids, r.allowed.ids)
	}
	for x := range ids {
		if x.platform != "" && ids[id{"", x.id}] {
			delete(ids, x)
		}
	}
	return len(ids) == 1
}
