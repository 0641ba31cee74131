package bolt_test

import (
	"testing"

	"hermesd/gateway/chat"
	"hermesd/gateway/inbox"
)

func TestMessageByKeyIsPerAccount(t *testing.T) {
	s := open(t, t.TempDir())
	e := event("lane", "k1", "hello")
	e.Inbound.Address.Account = "work"
	taken, err := s.Accept(t.Context(), []inbox.Admission{{Entry: event("lane", "k0", "other")}, {Entry: e}})
	ok(t, err)
	on := e.Inbound.Address.AccountID()
	c, found, err := s.MessageByKey(t.Context(), on, "k1")
	if err != nil || !found || c.Entry.ID != taken[1].ID || c.Entry.Inbound.Text != "hello" || c.Entry.Outcome != nil {
		t.Errorf("got %+v, %v, %v", c.Entry, found, err)
	}
	for _, other := range []struct {
		on  chat.Account
		key string
	}{{on, "k0"}, {on, ""}, {chat.Account{Platform: on.Platform}, "k1"}, {chat.Account{Platform: chat.HTTP, Name: "work"}, "k1"}} {
		if _, found, err := s.MessageByKey(t.Context(), other.on, other.key); found || err != nil {
			t.Errorf("%+v: %v, %v", other, found, err)
		}
	}
}
