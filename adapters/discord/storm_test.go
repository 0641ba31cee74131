package discord_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"hermesd/adapters/adaptertest"
	sim "hermesd/internal/sim/discord"
)

// Whatever is lost, and whenever, each message is taken in once and in its
// order: connections, sessions, the server, the process, the disk.
func TestAStorm(t *testing.T) {
	for seed := range uint64(6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			in(t, sim.Options{}, func(t *testing.T, w *world) {
				rng := rand.New(rand.NewPCG(seed, 7))
				inbox := adaptertest.NewInbox(t)
				rooms := []adaptertest.TestChat{w.Direct("", 0), w.Direct("", 1), w.Group("", 0), w.Group("", 1)}
				want := make([][]string, len(rooms))
				speak := func(i int) {
					want[i] = append(want[i], fmt.Sprintf("%d in %d", len(want[i]), i))
					rooms[i].Say(want[i][len(want[i])-1])
				}
				r := w.launch(t, w.config(""), inbox)
				pass(time.Second)
				for i := range rooms {
					speak(i)
				}
				pass(3 * time.Second)
				restart := func() {
					_ = r.end()
					speak(rng.IntN(len(rooms)))
					r = w.launch(t, w.config(""), inbox)
				}
				troubles := []func(){
					func() { w.srv.CutAll() }, func() { w.srv.Reconnect() }, func() { w.srv.Invalidate(rng.IntN(2) == 0) },
					func() { w.Swallow() }, func() { w.srv.ForgetSessions(); w.srv.CutAll() }, func() { w.srv.CloseAll(4000 + rng.IntN(4)) },
					func() { w.srv.Down(); pass(7 * time.Second); speak(0); _ = w.srv.Up() }, // in memory it never fails
					func() { inbox.Fail(true); speak(1); pass(5 * time.Second); inbox.Fail(false) },
					func() {
						w.srv.Inject(sim.Fault{Kind: sim.Fail, Status: 500, Route: sim.RouteMessages, Times: 1 + rng.IntN(3)})
					},
					restart,
				}
				for range 60 {
					for range rng.IntN(4) {
						speak(rng.IntN(len(rooms)))
					}
					if rng.IntN(3) == 0 {
						troubles[rng.IntN(len(troubles))]()
					}
					for range rng.IntN(3) {
						speak(rng.IntN(len(rooms)))
					}
					pass(time.Duration(1+rng.IntN(9_000))*time.Millisecond + 137*time.Microsecond)
				}
				pass(5 * time.Minute)
				for i, room := range rooms {
					if got := inbox.Texts(room.At()); !slices.Equal(got, want[i]) {
						t.Errorf("room %d: %d of %d messages\ngot  %q\nwant %q", i, len(got), len(want[i]), got, want[i])
					}
				}
			})
		})
	}
}
