package bolt_test

import (
	"testing"

	"hermesd/gateway/chat"
	"hermesd/gateway/inbox"
	"hermesd/gateway/store"
)

// TestAcceptClaimsLoneEntries tests that an entry is claimed when it is accepted only if no
// other one of the call is for its lane, and none is an edit: an edit must still find the
// entry waiting.
func TestAcceptClaimsLoneEntries(t *testing.T) {
	s := open(t, t.TempDir())
	accept := func(entries ...inbox.Entry) (claimed []bool) {
		t.Helper()
		var admissions []store.Admission
		for _, e := range entries {
			admissions = append(admissions, store.Admission{Entry: e, Claim: true})
		}
		for _, a := range must[[]store.Acceptance](t)(s.Accept(t.Context(), admissions)) {
			claimed = append(claimed, a.Claim != nil)
		}
		return claimed
	}
	edit := event("edits", "edit", "after")
	edit.Inbound.Kind, edit.Inbound.EditedKey = chat.Edit, "first"
	if got := accept(event("a", "first", "before"), edit); got[0] || got[1] {
		t.Errorf("next to an edit: claimed %v", got)
	}
	if c := must[store.Claim](t)(s.Claim(t.Context(), "a", 0)); len(c.Entries) != 1 || c.Entries[0].Inbound.Text != "after" {
		t.Errorf("claim of an edited entry: %+v", c.Entries)
	}
	if got := accept(event("b", "2", "x"), event("c", "3", "x"), event("c", "4", "x")); !got[0] || got[1] || got[2] {
		t.Errorf("two of three in one lane: claimed %v", got)
	}
	if got := accept(event("b", "5", "x")); got[0] {
		t.Error("an entry was claimed in a lane that has a claim")
	}
	if st := s.Stats(); st.Claimed != 2 || st.Waiting != 3 {
		t.Errorf("%d entries are claimed and %d wait, want 2 and 3", st.Claimed, st.Waiting)
	}
}
