package chat_test

import (
	"slices"
	"testing"

	"hermesd/gateway/chat"
)

// An address stored by another version may be on a platform that this one does not have.
func TestProfileOfUnknownPlatform(t *testing.T) {
	for _, ps := range []chat.Profiles{nil, chat.ProfilesOf(chat.Profile{Platform: "known", OwnerRule: "rule", Unasked: true})} {
		p := ps.Of("other")
		if p.Platform != "other" || p.Name != "other" || p.OwnerRule != "" || p.Unasked || p.Pairing || !p.ShowIDs {
			t.Errorf("%+v", p)
		}
		if p.KindOf("-1") != chat.Group || !p.Person.Valid("7") || p.Person.Valid("") || p.Person.Valid("a b") || p.Person.Is == "" {
			t.Error("the functions of the profile are wrong")
		}
	}
}

func TestProfilesWhich(t *testing.T) {
	ps := chat.ProfilesOf(chat.Profile{Platform: "c", Pairing: true}, chat.Profile{Platform: "b"}, chat.Profile{Platform: "a", Pairing: true})
	if got := ps.Which(func(p chat.Profile) bool { return p.Pairing }); !slices.Equal(got, []chat.Platform{"a", "c"}) {
		t.Errorf("with pairing: %v", got)
	}
}
