package index_test

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"hermesd/gateway/chat"
	"hermesd/gateway/session"
	"hermesd/storage/index"
)

type place = chat.Address

// scoped has the profile of a platform whose IDs of people are unique only within a scope.
var scoped = chat.ProfilesOf(chat.Profile{Platform: chat.Slack, KeyScope: true})

func record(id, owner string, shared bool, at place) session.Record {
	return session.Record{ID: session.ID(id), Owner: owner, Shared: shared, Address: at, Updated: noon}
}

func scopeSessions() []session.Record {
	tg := func(k chat.Kind, room, thread string) place {
		return place{Platform: chat.Telegram, Kind: k, Chat: room, Thread: thread}
	}
	owner := record("owner", "1", false, tg(chat.DM, "1", ""))
	inClub := record("owner in club", "1", false, tg(chat.Group, "-5", ""))
	owner.OwnersOnly, inClub.OwnersOnly = true, true
	return []session.Record{
		owner, inClub,
		record("anna", "2", false, tg(chat.DM, "2", "")),
		record("anna topic", "2", false, tg(chat.DM, "2", "7")),
		record("anna in club", "2", false, tg(chat.Group, "-5", "")),
		record("anna in other", "2", false, tg(chat.Group, "-6", "")),
		record("bob", "3", false, tg(chat.DM, "3", "")),
		record("bob in club", "3", false, tg(chat.Group, "-5", "")),
		record("club topic", "", true, tg(chat.Group, "-5", "9")),
		record("other topic", "", true, tg(chat.Group, "-6", "9")),
		record("anna at work", "2", false, place{Platform: chat.Telegram, Account: "work", Kind: chat.DM, Chat: "2"}),
		record("2 on discord", "2", false, place{Platform: chat.Discord, Kind: chat.DM, Chat: "2"}),
		record("slack T1", "U2", false, place{Platform: chat.Slack, Scope: "T1", Kind: chat.DM, Chat: "D1"}),
		record("slack T2", "U2", false, place{Platform: chat.Slack, Scope: "T2", Kind: chat.DM, Chat: "D2"}),
		record("nobody", "", false, place{Platform: chat.Telegram, Kind: chat.Channel, Chat: "-9"}),
	}
}

// The canary of a session is found exactly from the sessions that may see it.
func TestCanariesStayWhereTheyAre(t *testing.T) {
	x, all := newIndex(t), scopeSessions()
	for i, r := range all {
		addTexts(t, x, r, fmt.Sprintf("canary of %s number%d", r.ID, i))
	}
	everyone := make([]string, len(all))
	for i, r := range all {
		everyone[i] = string(r.ID)
	}
	slices.Sort(everyone)
	for from, want := range map[string][]string{
		"owner":         everyone,
		"owner in club": {"club topic", "owner in club"},
		"anna":          {"anna", "anna in club", "anna in other", "anna topic"},
		"anna topic":    {"anna", "anna in club", "anna in other", "anna topic"},
		"anna in club":  {"anna in club", "club topic"},
		"anna in other": {"anna in other", "other topic"},
		"bob":           {"bob", "bob in club"},
		"club topic":    {"club topic"},
		"anna at work":  {"anna at work"},
		"2 on discord":  {"2 on discord"},
		"slack T1":      {"slack T1"},
		"slack T2":      {"slack T2"},
		"nobody":        nil,
	} {
		me := all[slices.IndexFunc(all, func(r session.Record) bool { return string(r.ID) == from })]
		var got, law []string
		for _, sort := range []index.Sort{index.Best, index.Newest} {
			got = nil
			for _, h := range find(t, x, index.Query{Text: "canary", Limit: 100, Scope: index.ScopeFor(me, scoped), Sort: sort}) {
				got = append(got, string(h.Session))
			}
			slices.Sort(got)
			if !slices.Equal(got, want) {
				t.Errorf("from %s: found %q, want %q", from, got, want)
			}
		}
		for _, r := range all {
			if index.ScopeFor(me, scoped).Allows(r) {
				law = append(law, string(r.ID))
			}
		}
		slices.Sort(law)
		if !slices.Equal(law, want) {
			t.Errorf("from %s: allowed are %q, want %q", from, law, want)
		}
	}
	if hits := find(t, x, index.Query{Text: "canary"}); hits != nil {
		t.Errorf("without a scope %+v are found", hits)
	}
}

// A search finds exactly what Allows permits, from any session.
func TestSearchMatchesScopeAllows(t *testing.T) {
	x, n := newIndex(t), 0 // each check uses its own account
	rapid.Check(t, func(t *rapid.T) {
		one := func(i int) session.Record {
			r := record(fmt.Sprint("s", n, "-", i), rapid.SampledFrom([]string{"", "1", "2"}).Draw(t, "owner"), false, place{
				Account:  fmt.Sprint(n),
				Platform: rapid.SampledFrom([]chat.Platform{chat.Telegram, chat.Slack}).Draw(t, "platform"),
				Scope:    rapid.SampledFrom([]string{"", "T1"}).Draw(t, "scope"),
				Kind:     rapid.SampledFrom([]chat.Kind{chat.DM, chat.Group}).Draw(t, "kind"),
				Chat:     rapid.SampledFrom([]string{"1", "2"}).Draw(t, "chat"),
			})
			if r.Address.Kind != chat.DM && rapid.Bool().Draw(t, "shared") {
				r.Shared, r.Owner = true, ""
			}
			return r
		}
		n++
		var all []session.Record
		for i := range 6 {
			r := one(i)
			all = append(all, r)
			if err := x.Add(t.Context(), index.Update{Session: r, Docs: []index.Doc{{Role: index.User, Time: noon, Text: "canary"}}, Next: 1}); err != nil {
				t.Fatal(err)
			}
		}
		hits, err := x.Search(t.Context(), index.Query{Text: "canary", Scope: index.ScopeFor(all[0], scoped), Limit: 10})
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range all {
			found := slices.ContainsFunc(hits, func(h index.Hit) bool { return h.Session == r.ID })
			if found != index.ScopeFor(all[0], scoped).Allows(r) {
				t.Fatalf("%+v is found from %+v: %v", r, all[0], found)
			}
		}
	})
}
