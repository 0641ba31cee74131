package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"hermesd/storage"
)

func TestStartsThatFailAgainAndAgainAreSlowedDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &cli{errs: &buffer{}}
		home := t.TempDir()
		t0 := time.Now()
		var waits []time.Duration
		for range 10 {
			began := time.Now()
			c.begin(t.Context(), home).ended(errors.New("it fails"))
			waits = append(waits, time.Since(began))
		}
		for i, want := range []time.Duration{0, 0, 0, 0, 0, 5, 10, 20, 40, 80} {
			if waits[i] != want*time.Second {
				t.Errorf("start %d waits %s, want %s", i+1, waits[i], want*time.Second)
			}
		}
		if said := c.errs.(*buffer).String(); !strings.Contains(said, "9 starts have not become ready in 10m0s") || !strings.Contains(said, "hermesd doctor") {
			t.Errorf("it says %q", said)
		}
		ctx, stop := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, stop)
		began := time.Now()
		b := c.begin(ctx, home) // Ctrl-C ends the wait
		if d := time.Since(began); d != time.Second {
			t.Errorf("it waits %s", d)
		}
		b.ready()
		began = time.Now()
		for range 5 { // nothing of the past counts any more
			c.begin(t.Context(), home).ended(errors.New("it fails"))
		}
		if d := time.Since(began); d != 0 {
			t.Errorf("after one that was ready it waits %s", d)
		}
		<-time.After(startsSpan)
		began = time.Now()
		c.begin(t.Context(), home)
		if d := time.Since(began); d != 0 {
			t.Errorf("long after it waits %s, %s", d, time.Since(t0))
		}
	})
}

func TestAStartThatWasNoneDoesNotCount(t *testing.T) {
	c := &cli{errs: &buffer{}}
	home := t.TempDir()
	for range 20 {
		c.begin(t.Context(), home).ended(&storage.LockedError{Path: home})
		c.begin(t.Context(), home).ended(nil)
	}
	if _, err := os.Stat(filepath.Join(home, startsFile)); err == nil {
		t.Error("they are counted")
	}
	for _, text := range []string{"", "nonsense", `["2999-01-01T00:00:00Z","2999-01-01T00:00:00Z","2999-01-01T00:00:00Z","2999-01-01T00:00:00Z","2999-01-01T00:00:00Z","2999-01-01T00:00:00Z"]`} {
		if err := os.WriteFile(filepath.Join(home, startsFile), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if n := len((startRecord{filepath.Join(home, startsFile)}).read(time.Now())); n != 0 {
			t.Errorf("%q: %d starts count", text, n)
		}
	}
	c.begin(t.Context(), filepath.Join(home, "missing")) // it continues; the daemon reports the problem
}
