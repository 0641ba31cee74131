package memory

import (
	"strings"

	"hermesd/gateway/access"
	"hermesd/gateway/chat"
	"hermesd/gateway/session"
	"hermesd/gateway/store"
)

// TurnOf returns a Turn of a session in which by is the speaker of the lowest level.
func TurnOf(rec session.Record, by access.Principal) Turn {
	t := OwnTurn(rec)
	t.Level, t.UserID = by.Level, by.ID
	return t
}

// OwnTurn returns a Turn of a session in which the person speaks whose session it is: an
// owner if only owners write there, else a guest.
func OwnTurn(rec session.Record) Turn {
	t := Turn{
		Record: rec, Level: access.Guest, UserID: rec.Owner, Platform: string(rec.Address.Platform), Chat: rec.Address.Chat,
		Key: strings.ReplaceAll(string(rec.Key), ":", "-"), Cron: rec.Address.Platform == chat.Cron,
	}
	if rec.OwnersOnly {
		t.Level = access.Owner
	}
	return t
}

// ForgetSession returns the events with which the provider deletes what it has of a
// session that is deleted, and what it cannot delete; none and "" if the settings let it
// know nothing of the session.
func (s *Service) ForgetSession(rec session.Record) (events []store.Event, stays string) {
	t := OwnTurn(rec)
	t.Level = max(t.Level, access.Member) // a guest's level is not in the record
	if rec.ID == "" || !s.learns(t) {
		return nil, ""
	}
	return s.ForgetEvents(s.Scope(t)), s.about().Cannot
}

// On reports whether there is a provider.
func (s *Service) On() bool { return !s.off() }
