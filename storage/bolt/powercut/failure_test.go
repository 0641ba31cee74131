//go:build linux

package powercut_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"hermesd/gateway/chat"
	"hermesd/gateway/store"
	"hermesd/storage/bolt"
)

// failNext makes the store at path fail once.
func failNext(t *testing.T, path string, f failure) {
	t.Helper()
	if err := os.WriteFile(path+".fail", []byte(f), 0o600); err != nil {
		t.Fatal(err)
	}
}

var failures = []struct {
	failure
	isKnown bool // the store knows that nothing was committed
}{
	{dataWrite, true}, {dataSync, true}, {metaWrite, true}, {halfMetaWrite, true}, {fullMetaWrite, false}, {metaSync, false},
}

func TestFailures(t *testing.T) {
	for _, f := range failures {
		t.Run(string(f.failure), func(t *testing.T) {
			p := newScenario(t)
			for i := range 3 {
				p.accept("a", fmt.Sprint("k", i))
			}
			failNext(t, p.path, f.failure)
			_, err := p.s.Accept(ctx, []store.Admission{{Entry: event("a", "k3")}})
			if !errors.Is(err, syscall.EIO) {
				t.Fatalf("got %v, want %v", err, syscall.EIO)
			}
			if isUnknown := errors.Is(err, chat.ErrOutcomeUnknown); isUnknown == f.isKnown || len(p.unknown) != number(isUnknown) {
				t.Fatalf("got %v, and OnUnknown was called with %v", err, p.unknown)
			}
			if f.isKnown {
				p.refused("k3")
			} else {
				p.ended("k3")
			}
		})
	}
}

func number(is bool) int {
	if is {
		return 1
	}
	return 0
}

// refused checks a store that has refused a key and continues.
func (p *scenario) refused(key string) {
	p.Helper()
	if checkEntry(key, false)(p.s) == nil || p.s.Waiting("a") != 3 {
		p.Fatalf("%s was refused but is stored; %d wait, want 3", key, p.s.Waiting("a"))
	}
	p.must(p.s.Verify(ctx))
	for i := range 8 {
		again, err := p.s.Accept(ctx, []store.Admission{{Entry: event("a", fmt.Sprint("k", i))}})
		p.must(err)
		if again[0].IsNew != (i >= 3) {
			p.Errorf("k%d: %+v", i, again)
		}
		p.record(fmt.Sprint("k", i), checkEntry(fmt.Sprint("k", i), false))
	}
	p.must(p.s.Verify(ctx))
	p.must(p.s.Close())
	p.check(p.lastShadow(), p.syncs(), "the last shadow")
}

// ended checks a store whose last commit has an unknown outcome: it writes nothing more.
// With or without that commit, after the start all events that are offered again are
// stored once.
func (p *scenario) ended(key string) {
	p.Helper()
	if _, err := p.s.Accept(ctx, []store.Admission{{Entry: event("a", "later")}}); !errors.Is(err, chat.ErrOutcomeUnknown) {
		p.Errorf("the next write: %v", err)
	}
	p.must(p.s.Close())
	withCommit, err := os.ReadFile(p.path)
	p.must(err)
	for state, raw := range map[string][]byte{"with the commit": withCommit, "without the commit": p.lastShadow()} {
		path := filepath.Join(p.TempDir(), "after.db")
		p.must(os.WriteFile(path, raw, 0o600))
		s, err := bolt.Open(ctx, path, bolt.Options{})
		p.must(err)
		if found := checkEntry(key, false)(s) == nil; found != (state == "with the commit") {
			p.Errorf("%s: %s is stored: %t", state, key, found)
		}
		for i := range 8 {
			_, err := s.Accept(ctx, []store.Admission{{Entry: event("a", fmt.Sprint("k", i))}})
			p.must(err)
			if err := checkEntry(fmt.Sprint("k", i), false)(s); err != nil {
				p.Errorf("%s: k%d: %v", state, i, err)
			}
		}
		if n := s.Waiting("a"); n != 8 {
			p.Errorf("%s: %d wait, want 8", state, n)
		}
		p.must(errors.Join(s.Verify(ctx), s.Close()))
	}
}

// lastShadow returns the newest shadow.
func (p *scenario) lastShadow() []byte {
	p.Helper()
	names, err := filepath.Glob(p.shadow(0)[:len(p.shadow(0))-5] + "*")
	p.must(err)
	raw, err := os.ReadFile(slices.Max(names))
	p.must(err)
	return raw
}
