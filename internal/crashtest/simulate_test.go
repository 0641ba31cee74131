package crashtest_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"hermesd/gateway/inbox"
	"hermesd/internal/sim/llm"
	sim "hermesd/internal/sim/telegram"
)

// simSpan returns for how long days are simulated: a second in normal test runs,
// longer with `make simulate`.
func simSpan(t *testing.T) time.Duration {
	s := os.Getenv("HERMESD_SIM")
	if s == "" {
		return time.Second
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// firstSeed returns the seed of the first day: constant in normal runs, random in long
// ones, or HERMESD_SEED.
func firstSeed(t *testing.T) uint64 {
	if s := os.Getenv("HERMESD_SEED"); s != "" {
		n, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if os.Getenv("HERMESD_SIM") != "" {
		return rand.Uint64N(1_000_000_000)
	}
	return 1
}

// TestDaysOfRandomTrouble simulates hours of conversation with random interruptions by
// users and faults of platform, model and daemon. Each day is determined by its seed, up to
// goroutine scheduling.
func TestDaysOfRandomTrouble(t *testing.T) {
	begin, span, seed := time.Now(), simSpan(t), firstSeed(t)
	var sum tally
	for days := uint64(0); days == 0 || time.Since(begin) < span; days++ {
		t.Run(fmt.Sprint("seed ", seed+days), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { newDay(t, seed+days).live(&sum) })
		})
		if t.Failed() {
			t.Fatalf("HERMESD_SEED=%d plays that day again", seed+days)
		}
	}
	t.Logf("days from seed %d: %v", seed, sum)
	if sum.days > 20 && (sum.deaths == 0 || sum.faults == 0) {
		t.Error("nothing has happened")
	}
}

// A tally counts the events of several days.
type tally struct {
	days, messages, deaths, faults, asked int
	hours                                 time.Duration
	findings
}

func (y tally) String() string {
	return fmt.Sprintf("%d days, %.0f hours, %d messages, %d deaths, %d requests to the model, %d faults; %v",
		y.days, y.hours.Hours(), y.messages, y.deaths, y.asked, y.faults, y.findings)
}

// A day is one simulation.
type day struct {
	*world
	rnd    *rand.Rand
	seed   uint64
	n      int // number of tokens assigned
	spoken []sim.Message
	places []place
	down   bool
}

// A place is a chat or topic in which a person writes.
type place struct {
	c      *sim.Chat
	by     int
	thread int
}

func newDay(t *testing.T, seed uint64) *day {
	rnd := rand.New(rand.NewPCG(seed, 1))
	modes := []inbox.Mode{inbox.Queue, inbox.Interrupt, inbox.Steer}
	d := &day{rnd: rnd, seed: seed, world: newWorld(t, options{
		mode: modes[rnd.IntN(len(modes))], streaming: rnd.IntN(2) == 0, rough: true, people: 2 + rnd.IntN(4), seed: seed,
	})}
	for i := range d.people {
		d.places = append(d.places, place{d.direct(i), i, 0}, place{d.direct(i), i, 0}, place{d.forum, i, d.topic}, place{d.forum, i, 0})
	}
	return d
}

// live simulates the day and adds its events to sum.
func (d *day) live(sum *tally) {
	defer d.close()
	begin := time.Now()
	script := []act{}
	for range 15 + d.rnd.IntN(30) {
		pause := time.Duration(d.rnd.IntN(3000)) * ms
		if d.rnd.IntN(8) == 0 {
			pause = time.Duration(d.rnd.IntN(20)) * time.Minute
		}
		script = append(script, act{pause, d.something()})
	}
	script = append(script, act{time.Minute, d.peace})
	var deaths []int
	for range d.rnd.IntN(4) {
		deaths = append(deaths, 1+d.rnd.IntN(300))
	}
	d.play(script, deaths...)
	found := d.judge(nil)
	if d.t.Failed() {
		d.t.Logf("mode %s, streaming %v, deaths: %q\n%s", d.mode, d.streaming, d.died, d.story())
	}
	d.stop()
	sum.days++
	sum.messages += d.n
	sum.deaths += len(d.lives) - 1
	sum.asked += d.model.Count()
	sum.faults += d.platform.Recorder().Counts().Faults
	sum.hours += time.Since(begin)
	sum.add(found)
}

// something chooses a random event and returns the func that executes it.
func (d *day) something() func() {
	p := d.places[d.rnd.IntN(len(d.places))]
	switch n := d.rnd.IntN(100); {
	case n < 60:
		d.n++
		words := []string{"plain", "plain", "slow", "look", "pay", "pay and look", "long"}
		text := fmt.Sprintf("%s #m%d#", words[d.rnd.IntN(len(words))], d.n)
		return func() {
			d.spoken = append(d.spoken, p.c.Post(sim.Post{From: d.people[p.by], Thread: p.thread, Text: text}))
		}
	case n < 67:
		x := d.rnd.Float64()
		return func() { d.edit(x) }
	case n < 72:
		commands := []string{"/whoami", "/stop", "/new", "/whoami"}
		return d.say(p.c, p.by, p.thread, commands[d.rnd.IntN(len(commands))])
	case n < 78:
		x := d.rnd.Float64()
		return func() { d.repeat(x) }
	case n < 87:
		f := d.fault()
		return func() { d.platform.Inject(f) }
	case n < 90:
		span := time.Duration(1+d.rnd.IntN(60)) * time.Second
		return func() { d.platform.Flood(p.c.ID(), span) }
	case n < 95:
		f := d.modelFault()
		return func() { d.model.Inject(f) }
	case n < 97:
		return d.upOrDown
	}
	return d.kill
}

// fault returns a random temporary fault of the platform.
func (d *day) fault() sim.Fault {
	methods := []string{"sendMessage", "sendMessage", "editMessageText", "deleteMessage", "getUpdates", "sendChatAction", ""}
	list := troubles()
	f := list[d.rnd.IntN(len(list))].fault
	f.Method, f.Times = methods[d.rnd.IntN(len(methods))], 1+d.rnd.IntN(3)
	return f
}

// modelFault returns a random temporary fault of the model.
func (d *day) modelFault() llm.Fault {
	kinds := []llm.Kind{
		llm.TooMany, llm.ServerError, llm.BadGateway, llm.Overloaded, llm.NoAnswer, llm.Stall, llm.Cut, llm.End,
		llm.Error, llm.BadJSON, llm.Garbage, llm.BadToolName, llm.BadToolArgs, llm.Empty,
	}
	return llm.Fault{Kind: kinds[d.rnd.IntN(len(kinds))], Times: 1 + d.rnd.IntN(5), At: d.rnd.IntN(8), After: time.Duration(d.rnd.IntN(5)) * time.Second}
}

// edit edits a recent message.
func (d *day) edit(x float64) {
	lately := d.spoken[max(0, len(d.spoken)-4):]
	if len(lately) == 0 {
		return
	}
	m := lately[int(x*float64(len(lately)))]
	for _, p := range d.places {
		if p.c.ID() == m.Chat {
			if err := p.c.Edit(m.ID, "edited: "+m.Text); err != nil {
				d.t.Error(err)
			}
			return
		}
	}
}

// repeat makes the platform deliver an event again.
func (d *day) repeat(x float64) {
	offers := d.platform.Recorder().Offers()
	if len(offers) > 0 {
		d.bot.Repeat(offers[int(x*float64(len(offers)))].Update)
	}
}

func (d *day) upOrDown() {
	if d.down = !d.down; d.down {
		d.countUnsure() // what is being sent is cut off, and may never be recorded as a call
		d.platform.Down()
		return
	}
	d.up()
}

func (d *day) up() {
	if err := d.platform.Up(); err != nil {
		d.t.Error(err)
	}
}

// peace ends all faults.
func (d *day) peace() {
	d.platform.ClearFaults()
	d.model.Heal()
	d.up()
}
