package main

import (
	"context"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"

	"hermesd/adapters/console"
)

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
