package crashtest_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"hermesd/gateway/inbox"
	sim "hermesd/internal/sim/telegram"
)

// A sweep repeats one scenario with a simulated kill at one or two of its points.
type sweep struct {
	o      options
	script func(*world) []act
	exact  bool // every run has the same texts as one without kills
	every  int  // in a normal run there is one kill per so many points
	pairs  int  // number of pairs of points

	points int
	want   map[int64][]string

	mu     sync.Mutex // guards the fields below
	deaths int
	found  findings
}

func (s *sweep) run(t *testing.T) {
	full := os.Getenv("HERMESD_SWEEP") == "all"
	if full {
		s.every, s.pairs = 1, 8*s.pairs
	} else if testing.Short() {
		s.every, s.pairs = 5*s.every, s.pairs/4
	}
	s.once(t)
	if s.points < 100 || t.Failed() {
		t.Fatalf("the scenario has %d points", s.points)
	}
	t.Run("one", func(t *testing.T) {
		for k := 1; k <= s.points; k += s.every {
			s.once(t, k)
		}
	})
	singles := s.deaths
	const seed = 20260102
	rnd := rand.New(rand.NewPCG(seed, 0))
	t.Run("two", func(t *testing.T) {
		for range s.pairs {
			s.once(t, 1+rnd.IntN(s.points), 1+rnd.IntN(s.points*2/3))
		}
	})
	t.Logf("%d points, %d deaths at one, %d deaths in %d pairs (seed %d): %v", s.points, singles, s.deaths-singles, s.pairs, seed, s.found)
	if singles < s.points/s.every*9/10 {
		t.Errorf("only %d of %d points were reached", singles, s.points/s.every)
	}
}

// once runs the scenario with kills at points.
func (s *sweep) once(t *testing.T, points ...int) {
	t.Run(fmt.Sprint("death at ", points), func(t *testing.T) {
		if len(points) > 0 {
			t.Parallel()
		}
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, s.o)
			defer w.close()
			w.play(s.script(w), points...)
			if len(points) == 0 {
				s.points = w.n
				if s.exact {
					s.want = w.visible()
				}
			}
			s.count(w.judge(s.want), len(w.lives)-1)
			if t.Failed() {
				t.Logf("deaths: %q\n%s", w.died, w.story())
			}
			w.stop()
		})
	})
}

func (s *sweep) count(f findings, deaths int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.found.add(f)
	s.deaths += deaths
}

// say returns a func that sends a message.
func (w *world) say(c *sim.Chat, by, thread int, text string) func() {
	return func() { c.Post(sim.Post{From: w.people[by], Thread: thread, Text: text}) }
}

const ms = time.Millisecond

// inTurn is a script with users in two direct chats, in a topic and in a group outside its
// topics: short and long answers, one with preview, tools, and an immediate command.
func inTurn(w *world) []act {
	ann, bob := w.direct(0), w.direct(1)
	return []act{
		{100 * ms, w.say(ann, 0, 0, "plain #m1#")},
		{50 * ms, w.say(bob, 1, 0, "slow #m2#")},
		{100 * ms, w.say(ann, 0, 0, "pay #m3#")},
		{200 * ms, w.say(bob, 1, 0, "/whoami")},
		{100 * ms, w.say(w.forum, 0, w.topic, "look #m4#")},
		{100 * ms, w.say(w.forum, 1, w.topic, "long #m5#")},
		{100 * ms, w.say(w.forum, 1, 0, "plain #m6#")},
		{100 * ms, w.say(bob, 1, 0, "plain #m7#")},
		{2 * time.Second, w.say(ann, 0, 0, "plain #m8#")},
	}
}

// barging is a script with users who do not wait for answers.
func barging(w *world) []act {
	ann, bob := w.direct(0), w.direct(1)
	return []act{
		{100 * ms, w.say(ann, 0, 0, "slow #m1#")},
		{50 * ms, w.say(bob, 1, 0, "pay and look #m2#")},
		{900 * ms, w.say(ann, 0, 0, "plain #m3#")},
		{100 * ms, w.say(bob, 1, 0, "look #m4#")},
		{900 * ms, w.say(bob, 1, 0, "plain #m5#")},
		{3 * time.Second, w.say(ann, 0, 0, "slow #m6#")},
		{2500 * ms, w.say(ann, 0, 0, "plain #m7#")},
	}
}

func TestADeathAtAnyPointLosesAndDoublesNothing(t *testing.T) {
	s := &sweep{o: options{mode: inbox.Queue, streaming: true, people: 2}, script: inTurn, exact: true, every: 5, pairs: 12}
	s.run(t)
}

func TestADeathAtAnyPointAmongInterruptions(t *testing.T) {
	s := &sweep{o: options{mode: inbox.Interrupt, streaming: true, people: 2}, script: barging, every: 5, pairs: 8}
	s.run(t)
}

func TestADeathAtAnyPointWhileSteering(t *testing.T) {
	s := &sweep{o: options{mode: inbox.Steer, streaming: true, people: 2, rough: true}, script: barging, every: 9, pairs: 4}
	s.run(t)
}
