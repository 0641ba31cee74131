package access

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"strings"

	"hermesd/gateway/chat"
)

// Config is the section `access` of the configuration: what holds on every
// platform.
type Config struct {
	Owners    []string `yaml:"owners" doc:"Ids of the people who may do everything: numeric (Slack: U…), or platform:id. Unset, and with exactly one id allowed in all, it is that one."`
	AllowFrom []string `yaml:"allow_from" doc:"Ids of people who may speak on every platform: numeric (Slack: U…), or platform:id."`
	AllowAll  bool     `yaml:"allow_all" default:"false" doc:"Everybody may speak, on every platform, as a guest."`
}

// AccountRules are what one account of a platform allows beyond Config.
type AccountRules struct {
	Owners       []string // who of this platform may do everything
	AllowFrom    []string // immutable ids; "*" is AllowAll
	AllowAll     bool
	AllowedChats []string // chats in which everybody may speak as a guest; "*" is every chat but direct ones
	Roles        []string // roles of the platform whose holders may speak as guests
	AllowBots    BotPolicy
	UnknownDM    UnknownDMPolicy // "": Policy.UnknownDM
}

// BotPolicy says whether other bots are heard.
type BotPolicy string

// The choices of Bots. A bot that is heard still has to be allowed like
// anybody else.
const (
	NoBots        BotPolicy = "none"     // also ""
	BotsAddressed BotPolicy = "mentions" // only where they mean us
	AllBots       BotPolicy = "all"
)

// UnknownDMPolicy says what becomes of direct messages from people who are not
// allowed.
type UnknownDMPolicy string

// The choices of UnknownDM.
const (
	Pair   UnknownDMPolicy = "pair"   // offer a pairing code; also ""
	Ignore UnknownDMPolicy = "ignore" // stay silent
)

// A Pairing knows who has been let in by a pairing code.
type Pairing interface {
	// Paired reports whether the person with this id on p has been paired and not
	// been revoked since. It does not block.
	Paired(p chat.Platform, id string) bool
}

// A Policy is everything that Check decides by. The zero Policy lets in the
// local console and nobody else.
type Policy struct {
	Config
	// Accounts are the rules of platforms and of single accounts. Those of the
	// account "" hold for all accounts of their platform.
	Accounts  map[chat.Account]AccountRules
	UnknownDM UnknownDMPolicy
	Pairing   Pairing // nil: nobody is paired
	// PreviousIDs returns the ids that a chat had before: lists go on naming it by them.
	// nil: none.
	PreviousIDs func(chat.Address) []string
}

// everybody in an allowlist is the same as allowing all.
const everybody = "*"

// An id is an entry of a list: on platform "" it holds on all of them.
type id struct {
	platform chat.Platform
	id       string
}

var (
	numeric = regexp.MustCompile(`^[0-9]{1,20}$`)
	slackID = regexp.MustCompile(`^[UWB][A-Z0-9]{2,31}$`)
	name    = regexp.MustCompile(`^@?[\pL\pN_.]+$`)
	word    = regexp.MustCompile(`^[a-z]+$`)
)

// CheckID returns an error if entry cannot stand in an allowlist of p, or for p
// "" in one that holds on every platform. Only ids that a platform never gives
// to somebody else are taken: user names can change hands.
func CheckID(p chat.Platform, entry string) error {
	_, err := parseID(p, entry)
	return err
}

func parseID(p chat.Platform, entry string) (id, error) {
	entry = strings.TrimSpace(entry)
	if entry == everybody {
		return id{p, everybody}, nil
	}
	if q, rest, ok := strings.Cut(entry, ":"); ok && word.MatchString(q) {
		if p != "" && chat.Platform(q) != p {
			return id{}, fmt.Errorf("an id of %s does not belong into a list of %s", q, p)
		}
		p, entry = chat.Platform(q), rest
	}
	ok := false
	switch p {
	case chat.Telegram, chat.Discord:
		ok = numeric.MatchString(entry)
	case chat.Slack:
		ok = slackID.MatchString(entry)
	case "":
		ok = numeric.MatchString(entry) || slackID.MatchString(entry)
	default:
		ok = entry != "" && !strings.ContainsAny(entry, " \t\r\n")
	}
	if !ok {
		return id{}, badID(p, entry)
	}
	return id{p, entry}, nil
}

// badID says what is wrong with an entry, and shows it only if it looks like
// something that people call each other.
func badID(p chat.Platform, entry string) error {
	kind := "numeric id"
	if p == chat.Slack {
		kind = "member id (U…)"
	}
	switch {
	case entry == "":
		return errors.New("an empty entry allows nobody")
	case strings.HasPrefix(entry, "-") && numeric.MatchString(entry[1:]):
		return fmt.Errorf("%s is the id of a chat, not of a person: it belongs into allowed_chats", entry)
	case len(entry) <= 100 && name.MatchString(entry):
		return fmt.Errorf("%q is a user name, which can change hands: use the %s; the log and `hermesd why` show it when that person writes to the bot", entry, kind)
	}
	return fmt.Errorf("this entry is not an id: use the %s of the person", kind)
}

// A set is a parsed allowlist.
type set struct {
	all bool
	ids map[id]bool
}

func (s set) has(p chat.Platform, who string) bool {
	return s.ids[id{p, who}] || s.ids[id{"", who}]
}

func parseSet(p chat.Platform, entries []string) (s set, err error) {
	s.ids = make(map[id]bool)
	for i, e := range entries {
		x, bad := parseID(p, e)
		switch {
		case bad != nil:
			err = errors.Join(err, fmt.Errorf("entry %d: %w", i+1, bad))
		case x.id == everybody:
			s.all = true
		default:
			s.ids[x] = true
		}
	}
	return s, err
}

// rules are the parsed Rules of one account.
type rules struct {
	owners, allowed set
	all             bool
	chats           map[string]bool
	roles           map[string]bool
	bots            BotPolicy
	unknown         UnknownDMPolicy
}

func parseRules(a chat.Account, r AccountRules) (p rules, err error) {
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
	p.owners, bad = parseSet(a.Platform, r.Owners)
	wrap("owners", bad)
	if p.owners.all {
		wrap("owners", errors.New("not everybody can be an owner"))
	}
	p.allowed, bad = parseSet(a.Platform, r.AllowFrom)
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
		if role = strings.TrimSpace(role); !numeric.MatchString(role) {
			wrap("allowed_roles", fmt.Errorf("%q is not the id of a role, which is a number", role))
		}
		p.roles[role] = true
	}
	switch p.bots = r.AllowBots; p.bots {
	case "", NoBots, BotsAddressed, AllBots:
	default:
		wrap("allow_bots", fmt.Errorf("%q is none of none, mentions, all", p.bots))
	}
	switch p.unknown = r.UnknownDM; p.unknown {
	case "", Pair, Ignore:
	default:
		wrap("unauthorized_dm_behavior", fmt.Errorf("%q is none of pair, ignore", p.unknown))
	}
	return p, err
}

// sole reports whether exactly one id is allowed to speak, over all lists and
// with nothing that lets in everybody, and no owner is named.
func sole(c *Checker) bool {
	ids := maps.Clone(c.allowed.ids)
	if c.all || len(c.owners.ids) > 0 {
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
