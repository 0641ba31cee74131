package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"hermesd/adapters/console"
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

// HERMESD_RESTARTS is the number of restarts; each process accepts a message and is
// stopped at once.
func TestRapidRestartsLoseNothing(t *testing.T) {
	t.Parallel()
	lives := 25
	if n, err := strconv.Atoi(os.Getenv("HERMESD_RESTARTS")); err == nil {
		lives = n
	}
	home := t.TempDir()
	var ids []string
	for n := range lives + 1 {
		u := start(t, home, "run")
		c := client(t, home)
		if n == lives { // the last one answers all
			for _, id := range ids {
				until(t, "every message is answered", func() bool {
					chains, err := c.Why(t.Context(), id)
					return err == nil && len(chains) == 1 && chains[0].Entry.Outcome != nil
				})
			}
		} else {
			ch, err := c.Attach(t.Context(), "")
			if err != nil {
				t.Fatal(err)
			}
			var reader sync.WaitGroup
			reader.Go(func() {
				for {
					if _, err := ch.Next(t.Context()); err != nil {
						return
					}
				}
			})
			ids = append(ids, console.NewID())
			if err := ch.Say(t.Context(), ids[n], "hello"); err != nil {
				t.Fatal(err)
			}
			until(t, "it is taken", func() bool {
				chains, err := c.Why(t.Context(), ids[n])
				return err == nil && len(chains) == 1
			})
			_ = ch.Close()
			reader.Wait()
		}
		_ = c.Close(t.Context())
		u.signals <- os.Interrupt
		if code := <-u.code; code != 0 {
			t.Fatalf("life %d: exit code %d: %s", n, code, u.errs)
		}
	}
}

func TestAStopBeforeTheStartIsNoFailure(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	errs := &buffer{}
	c := &cli{in: strings.NewReader(""), out: &buffer{}, errs: errs, env: func(name string) (string, bool) { return home, name == "HERMES_HOME" }}
	if code := c.execute(ctx, []string{"run"}); code != 0 {
		t.Errorf("exit code %d: %s", code, errs)
	}
}
