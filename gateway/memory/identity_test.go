package memory_test

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"hermesd/agent/memory/provider"
	"hermesd/gateway/access"
	"hermesd/gateway/memory"
	"hermesd/storage/bolt"
)

// TestEarlierIdentitiesOfOwners: what people said before they were owners stays under their
// identity of then; Status names it until it is forgotten, also after a restart.
func TestEarlierIdentitiesOfOwners(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, err := bolt.Open(t.Context(), filepath.Join(t.TempDir(), "hermesd.db"), bolt.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		owners := []access.Principal{{Platform: "telegram", ID: "7", Level: access.Owner}}
		set := settings()
		set.People, set.Rooms = "everyone", true
		set.Owners = func() []access.Principal { return owners }
		f := newFake()
		var b *bench
		run := func() {
			b = &bench{t: t, f: f}
			p := b.parts(set)
			p.Provider, p.Store = f, db
			b.Service = memory.New(p)
			b.Start(t.Context())
		}
		run()
		defer func() { b.Close() }()
		n := 0
		say := func(level access.Level, id string, shared bool) {
			t.Helper()
			turn := owner("s", 1, "")
			turn.Level, turn.UserID, turn.Record.Shared = level, id, shared
			if n++; db.EnqueueEvents(t.Context(), b.TurnEvents(turn, fmt.Sprint(n), "question", "answer", time.Now()), "", nil) != nil {
				t.Fatal("the store does not work")
			}
			b.Wake()
			later(time.Second)
		}
		want := func(when string, list ...string) {
			t.Helper()
			if got := b.Status().Earlier; !slices.Equal(got, list) {
				t.Errorf("%s: %q, want %q", when, got, list)
			}
		}
		say(access.Owner, "7", false)
		say(access.Member, "8", true) // it is of the room
		want("an owner and a room")
		f.locked(func() {
			f.sync = func(context.Context, provider.Event) (provider.Receipt, error) {
				return provider.Receipt{}, &provider.Error{Class: provider.Refused, Text: "bad input"}
			}
		})
		say(access.Member, "8", false)
		owners = append(owners, access.Principal{Platform: "telegram", ID: "8", Level: access.Owner})
		want("nothing was stored")
		owners = owners[:1]
		f.locked(func() { f.sync = nil })
		b.Reload()
		later(time.Minute)
		say(access.Guest, "9", false)
		want("they are no owners")
		owners = append(owners, access.Principal{Platform: "telegram", ID: "9", Level: access.Owner}, access.Principal{Platform: "discord", ID: "9", Level: access.Owner},
			access.Principal{Platform: "telegram", ID: "8", Level: access.Owner}, access.Principal{Platform: "slack", ID: "U1", Level: access.Owner})
		want("they are owners now", "telegram-8", "telegram-9")
		b.Close()
		run()
		want("after a restart", "telegram-8", "telegram-9")
		if err := b.ForgetPerson(t.Context(), provider.Scope{Person: "telegram-9"}); err != nil {
			t.Error(err)
		}
		later(time.Minute)
		want("one is forgotten", "telegram-8")
		f.about.Name = "other"
		b.Close()
		run()
		want("another provider knows nobody")
	})
}
