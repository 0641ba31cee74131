package approval_test

import (
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"hermesd/gateway/access"
	"hermesd/gateway/approval"
	"hermesd/gateway/chat"
	"hermesd/gateway/schedule"
	"hermesd/storage/bolt"
)

var ann = access.Principal{Platform: chat.Telegram, ID: "7", Level: access.Owner}

func openStore(t *testing.T) *bolt.Store {
	t.Helper()
	s, err := bolt.Open(t.Context(), filepath.Join(t.TempDir(), "hermesd.db"), bolt.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// shapesOf returns the shapes of all approvals.
func shapesOf(t *testing.T, m *approval.Manager) (shapes []string) {
	t.Helper()
	list, err := m.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range list {
		shapes = append(shapes, r.Shape)
	}
	return shapes
}

// The list that older versions stored is read, marked and shrunk; new approvals are not
// added to it.
func TestManagerReadsListOfOlderVersions(t *testing.T) {
	s := openStore(t)
	if err := s.SetValue(t.Context(), "allowed", []byte(`["delete-recursive rm build","address 10.0.0.5:22"]`)); err != nil {
		t.Fatal(err)
	}
	m := approval.NewManager(s)
	if err := m.Add(t.Context(), ann, "", "go test * in /w"); err != nil {
		t.Fatal(err)
	}
	list, err := m.List(t.Context())
	if err != nil || len(list) != 3 || list[0].NoLongerUsed || list[0].Principal != ann || list[0].At.IsZero() || !list[1].NoLongerUsed || !list[2].NoLongerUsed {
		t.Fatalf("%+v, %v", list, err)
	}
	if err := m.Remove(t.Context(), approval.Find(list, "2")...); err != nil {
		t.Fatal(err)
	}
	raw, err := s.Value(t.Context(), "allowed")
	if got := shapesOf(t, approval.NewManager(s)); err != nil || string(raw) != `["address 10.0.0.5:22"]` || !slices.Equal(got, []string{"go test * in /w", "address 10.0.0.5:22"}) {
		t.Errorf("stored %s, %v; list %q", raw, err, got)
	}
}

// A list that cannot be read is an error and is not overwritten.
func TestManagerKeepsUnreadableList(t *testing.T) {
	s := openStore(t)
	if err := s.SetValue(t.Context(), "approvals", []byte(`{"of a newer": "version"}`)); err != nil {
		t.Fatal(err)
	}
	m := approval.NewManager(s)
	if _, err := m.List(t.Context()); err == nil {
		t.Error("it is read")
	}
	if err := m.Add(t.Context(), ann, "", "x"); err == nil {
		t.Error("it is added to")
	}
	if raw, err := s.Value(t.Context(), "approvals"); err != nil || string(raw) != `{"of a newer": "version"}` {
		t.Errorf("stored %s, %v", raw, err)
	}
}

// Concurrent changes are all stored.
func TestManagerStoresConcurrentChanges(t *testing.T) {
	m := approval.NewManager(openStore(t))
	want := []string{"a", "b", "c", "d", "e", "f", "g", "h"}
	var all sync.WaitGroup
	for _, shape := range want {
		all.Go(func() {
			if err := m.Add(t.Context(), ann, "", shape); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if got := shapesOf(t, m); !slices.Equal(slices.Sorted(slices.Values(got)), want) {
		t.Errorf("got %q", got)
	}
}

// The approvals are the ones that were added and not removed since, in the order of their
// addition, each once per person and job, whatever happens in between.
func TestManagerIsOrderedSet(t *testing.T) {
	type key struct{ shape, job, person string }
	rapid.Check(t, func(r *rapid.T) {
		s := openStore(t)
		m := approval.NewManager(s)
		var want []key
		for range rapid.IntRange(0, 20).Draw(r, "steps") {
			k := key{
				rapid.SampledFrom([]string{"a", "b\nc", "3"}).Draw(r, "shape"), rapid.SampledFrom([]string{"", "job"}).Draw(r, "job"), rapid.SampledFrom([]string{"6", "7"}).Draw(r, "person"),
			}
			by := access.Principal{Platform: chat.Telegram, ID: k.person, Level: access.Owner}
			var err error
			switch rapid.SampledFrom([]string{"add", "add", "remove", "reopen"}).Draw(r, "what") {
			case "add":
				err = m.Add(t.Context(), by, schedule.JobID(k.job), k.shape)
				if !slices.Contains(want, k) {
					want = append(want, k)
				}
			case "remove":
				err = m.Remove(t.Context(), approval.Record{Shape: k.shape, Job: schedule.JobID(k.job), Principal: by})
				want = slices.DeleteFunc(want, func(w key) bool { return w == k })
			case "reopen":
				m = approval.NewManager(s)
			}
			if err != nil {
				r.Fatal(err)
			}
		}
		list, err := m.List(t.Context())
		if err != nil {
			r.Fatal(err)
		}
		var got []key
		for _, a := range list {
			got = append(got, key{a.Shape, string(a.Job), a.Principal.ID})
		}
		if !slices.Equal(got, want) {
			r.Fatalf("got %q, want %q", got, want)
		}
	})
}

// A number names one approval, a shape all that have it.
func TestFind(t *testing.T) {
	list := []approval.Record{{Shape: "a"}, {Shape: "b", Job: "j"}, {Shape: "b"}}
	for name, want := range map[string][]approval.Record{"1": list[:1], "3": list[2:], "b": list[1:], "0": nil, "4": nil, "-1": nil, "": nil, "c": nil} {
		if got := approval.Find(list, name); !slices.Equal(got, want) {
			t.Errorf("%q: %+v", name, got)
		}
	}
}
