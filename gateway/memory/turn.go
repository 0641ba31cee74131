package memory

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"slices"
	"strings"

	"go.uber.org/zap"

	"hermesd/agent/memory/provider"
	"hermesd/gateway/access"
	"hermesd/gateway/session"
	"hermesd/gateway/store"
	"hermesd/internal/lazyregexp"
)

// A Turn describes who speaks where.
type Turn struct {
	Record session.Record
	Level  access.Level // the lowest one of all speakers of the turn
	// Platform and Chat are where the conversation is, and Key is the name of its chat.
	Platform, Chat, Key string
	UserID              string // of the speaker on the platform
	Person              string // name of the speaker in access.people; "" if there is none
	// Text is what people wrote: no quotes, no files, no text of skills.
	Text  string
	Tools []provider.ToolUse // calls of tools in the turn, if SyncsTools
	// Frozen is the frozen prompt of the session: what it says is not recalled again.
	Frozen  string
	Command bool // the text is a command
	Cron    bool // nobody speaks: it is a scheduled prompt
}

// Allows reports whether the memory of the provider may be used in a turn: whether it
// recalls, and may have tools.
func (s *Service) Allows(t Turn) bool {
	if s.off() || t.Record.Shared && !s.settings().Rooms {
		return false
	}
	if t.Cron {
		return s.settings().CronRecall && t.Level >= access.Owner
	}
	switch s.settings().People {
	case "everyone":
		return t.Level >= access.Guest
	case "members":
		return t.Level >= access.Member
	}
	return t.Level >= access.Owner
}

// learns reports whether what is said in a turn may be told to the provider.
func (s *Service) learns(t Turn) bool { return s.Allows(t) && !t.Cron }

// Scope returns whose memory a turn would use if it is allowed to.
func (s *Service) Scope(t Turn) provider.Scope {
	scope := provider.Scope{
		UserID: t.UserID, Session: string(t.Record.ID), Key: t.Key, Platform: t.Platform, Chat: t.Chat,
	}
	switch {
	case t.Record.Shared:
		scope.Person, scope.UserID = Identity("room-"+t.Platform+"-"+t.Chat), ""
	case t.Level >= access.Owner:
	case t.Person != "":
		scope.Person = Identity(t.Person)
	default:
		scope.Person = personal(t.Platform, t.UserID)
	}
	return scope
}

var outsideIdentity func() *regexp.Regexp = lazyregexp.New(`[^A-Za-z0-9_-]+`)

const maxIdentity = 100

// who names the person of a scope for what is kept here of them.
func (s *Service) who(scope provider.Scope) string {
	if scope.Person == "" && s.about().PerID && scope.UserID != "" {
		return "@" + Identity(scope.UserID) // no Person has an @
	}
	return scope.Person
}

// personal returns the identity of a user who is no owner.
func personal(platform, id string) string { return Identity(platform + "-" + id) }

// identityKey is the key of the value that says that the provider was told what a person
// other than the owner has said.
func (s *Service) identityKey(person string) string {
	return "memory/identity/" + s.about().Name + "/" + person
}

// earlierIdentities returns the identities that owners had before they were owners, and
// under which the provider has what they said then.
func (s *Service) earlierIdentities() (list []string) {
	for _, p := range s.settings().Owners() {
		person := personal(string(p.Platform), p.ID)
		used, err := store.Load[bool](s.ctx, s.parts.Store, s.identityKey(person))
		if err != nil && s.ctx.Err() == nil {
			s.parts.Log.Error("cannot load which identities the memory provider knows", zap.Error(err))
		}
		if used {
			list = append(list, person)
		}
	}
	slices.Sort(list)
	return list
}

// Identity returns name in the form of provider.Scope.Person. A name that has another form
// gets a digest, so that it keeps apart from similar ones.
func Identity(name string) string {
	id := strings.Trim(outsideIdentity().ReplaceAllString(name, "-"), "-")
	if id == name && id != "" && len(id) <= maxIdentity { // "" is the owner
		return id
	}
	sum := sha256.Sum256([]byte(name))
	return strings.TrimPrefix(id[:min(len(id), maxIdentity-9)]+"-"+hex.EncodeToString(sum[:4]), "-")
}
