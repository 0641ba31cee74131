package pairing_test

import (
	"testing"
	"testing/synctest"
	"time"

	"hermesd/gateway/access/pairing"
	"hermesd/gateway/chat"
)

// Every synctest bubble starts at the same instant: for a daemon in a second one the
// clock was set back.
func TestClockSetBackExtendsNothing(t *testing.T) {
	d := newDisk()
	var c string
	synctest.Test(t, func(t *testing.T) {
		<-time.After(10 * time.Hour)
		b := open(t, d)
		c = code(t, b, person(chat.Telegram, "7"))
		for range pairing.MaxWrongCodes {
			if _, err := b.Approve(t.Context(), chat.Slack, "AAAAAAAA"); err == nil {
				t.Fatal("a wrong code was taken")
			}
		}
	})
	synctest.Test(t, func(t *testing.T) {
		b := open(t, d)
		if l := b.List(); len(l.Locked) != 0 || len(l.Pending) != 0 {
			t.Errorf("what began in times to come goes on: %+v", l)
		}
		_, err := b.Approve(t.Context(), chat.Telegram, c)
		refused(t, err, "not a code of anybody who waits")
		again := code(t, b, person(chat.Telegram, "7")) // at once
		if _, err := b.Approve(t.Context(), chat.Telegram, again); err != nil {
			t.Error(err)
		}
		if rule := ruleFor(b, person(chat.Slack, "U1")); rule != pairing.RuleOffered {
			t.Errorf("a stranger ends by %s", rule)
		}
	})
}
