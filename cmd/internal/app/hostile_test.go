package app_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/metrics"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"hermesd/internal/sim/telegram"
)

// A hostile thing happens in one chat, while another one goes on.
type hostile struct {
	name   string // in the table of docs/benchmarks.md
	config string
	before func(*world) // the start of the daemon; nil: nothing
	play   func(*world) // may be called again
	limit  time.Duration
	memory int64 // bytes more than before, at most; of the daemon, and of the simulators beside it
	disk   int64 // bytes more in the home, at most
	walls  bool  // it is played only where a sandbox bounds it
	failed bool  // ann's message ends as failed, instead of replied
}

// hostiles are the faults of which the daemon must say that they are bounded,
// told, and that they slow nobody down.
func hostiles() []hostile { return slices.Concat(hungHands(), wildHands(), webTraps(), filesThatLie()) }

const (
	onlyOwner = "access:\n  owners: [$ANN]\ndisplay:\n  tool_progress: 'off'\n"
	small     = 8 << 20  // of the disk, what anything may take
	little    = 32 << 20 // of memory, what anything may take for a while, with what is not collected yet
)

// prepare makes the world of a hostile thing, with the daemon in it.
func (h hostile) prepare(t *testing.T) *world {
	w := newWorld(t, fault{config: onlyOwner + h.config, telegram: "allow_all: true", sandboxed: true})
	if h.before != nil {
		h.before(w)
	}
	w.start()
	w.online()
	w.ask("hello") // everything has been used once
	var box string
	w.await("the sandbox is found", func() bool {
		for _, l := range w.book.lines() {
			if l.has("commands run ") {
				box = l.text
			}
		}
		return box != ""
	})
	if h.walls && !(line{text: box}).has("in a process name space of their own", "processes at once") {
		t.Skip(box)
	}
	return w
}

// What is hostile ends within bounds, the person is told in the chat what it was,
// the daemon answers their next message, and all that another one has said
// meanwhile.
func TestWhatIsHostileIsBoundedAndTold(t *testing.T) {
	for _, h := range hostiles() {
		t.Run(h.name, func(t *testing.T) { // one at a time: memory is measured
			w := h.prepare(t)
			bob := w.talker(100 * time.Millisecond)
			disk, memory := size(t, w.home), watchMemory()
			began := time.Now()
			h.play(w)
			took, peak := time.Since(began), memory()
			more := size(t, w.home) - disk
			said := bob.end()
			w.ask(last)
			bob.answered()
			w.stop()
			t.Logf("%v, %d KiB of memory, %d KiB of disk, %d messages of another chat", took.Round(time.Millisecond), peak>>10, more>>10, said)
			if took > h.limit {
				t.Errorf("it went on for %v", took)
			}
			if peak > h.memory {
				t.Errorf("it took %d bytes of memory", peak)
			}
			if more > h.disk {
				t.Errorf("it took %d bytes of disk", more)
			}
			w.judgeLog()
			w.ended(h.failed)
		})
	}
}

// again is how often a hostile thing happens while it is measured, if it is over
// that soon.
const again = 250 * time.Millisecond

// TestNobodyIsSlowedByWhatIsHostile measures how long messages of another chat take
// to be accepted while each hostile thing happens again and again, for as long as
// HERMESD_HOSTILE says, and prints a line for each. What else runs on the machine
// delays some rounds; the best of three counts.
func TestNobodyIsSlowedByWhatIsHostile(t *testing.T) {
	long, err := time.ParseDuration(os.Getenv("HERMESD_HOSTILE"))
	if err != nil {
		t.Skip("HERMESD_HOSTILE is not a time")
	}
	const limit = 50 * time.Millisecond
	fmt.Println("| what happens meanwhile | messages | p50 | p99 | longest |\n|---|---|---|---|---|")
	nothing := hostile{name: "nothing", play: func(*world) {}}
	for _, h := range slices.Concat([]hostile{nothing}, hostiles()) {
		t.Run(h.name, func(t *testing.T) {
			var best []time.Duration
			for range 3 {
				took := h.measure(t, long)
				if best == nil || worst(took) < worst(best) {
					best = took
				}
				if worst(best) <= limit {
					break
				}
			}
			ms := func(d time.Duration) string { return fmt.Sprintf("%.1f ms", d.Seconds()*1000) }
			fmt.Printf("| %s | %d | %s | %s | %s |\n", h.name, len(best), ms(best[len(best)/2]), ms(worst(best)), ms(best[len(best)-1]))
			if p99 := worst(best); p99 > limit {
				t.Errorf("the p99 is %v", p99)
			}
		})
	}
}

// measure returns how long messages of another chat took to be accepted, in order
// of size.
func (h hostile) measure(t *testing.T, long time.Duration) []time.Duration {
	w := h.prepare(t)
	bob := w.talker(20 * time.Millisecond)
	for began := time.Now(); time.Since(began) < long; {
		next := time.After(again)
		h.play(w)
		w.say("/new") // else what the model reads grows
		<-next
	}
	bob.end()
	w.confirmed()
	w.stop()
	took := bob.accepted()
	slices.Sort(took)
	return took
}

// ended judges that all messages have ended: as replied, but one of ann's where
// that failed.
func (w *world) ended(failed bool) {
	w.Helper()
	ends, dead := w.left()
	same(w.T, "rows died of", nil, dead)
	want := 0
	if failed {
		want = 1
	}
	lost := slices.DeleteFunc(ends, func(e string) bool { return e == "replied" })
	if len(lost) != want || failed && lost[0] != "failed" {
		w.Errorf("messages have ended as %q", lost)
	}
}

// answers has ann say something, and returns what the bot has said to her after
// it, once all of the words are in there.
func (w *world) answers(said string, words ...string) string {
	w.Helper()
	before := len(w.chat.FromBots())
	w.say(said)
	return w.heard(before, words...)
}

// heard returns what the bot has said to ann after the first n messages, once all
// of the words are in there.
func (w *world) heard(n int, words ...string) (text string) {
	w.Helper()
	w.await(fmt.Sprintf("messages with %q", words), func() bool {
		text = ""
		for _, m := range w.chat.FromBots()[n:] {
			text += m.Text + "\n"
		}
		return line{text: text}.has(words...)
	})
	return text
}

// A talker is somebody in another chat who goes on talking.
type talker struct {
	w    *world
	who  *telegram.User
	chat *telegram.Chat
	over chan struct{}
	work sync.WaitGroup
	said int // messages; set by end
}

// talker begins to talk.
func (w *world) talker(pace time.Duration) *talker {
	bob := w.tg.AddUser(telegram.Person{FirstName: "Bob"})
	b := &talker{w: w, who: bob, chat: bob.Chat(w.bot), over: make(chan struct{})}
	n := 0
	b.work.Go(func() { // end waits for it
		tick := time.NewTicker(pace)
		defer tick.Stop()
		for ; ; n++ {
			b.chat.Say(bob, fmt.Sprintf("hello #%d.", n))
			select {
			case <-tick.C:
			case <-b.over:
				b.said = n + 1
				return
			}
		}
	})
	w.Cleanup(func() { b.end() })
	return b
}

// end has them fall silent, and returns how many messages they have said.
func (b *talker) end() int {
	select {
	case <-b.over:
	default:
		close(b.over)
	}
	b.work.Wait()
	return b.said
}

// answered returns once each of the messages was answered.
func (b *talker) answered() {
	b.w.Helper()
	b.w.await("all that the other one has said is answered", func() bool {
		var all strings.Builder
		for _, m := range b.chat.FromBots() {
			all.WriteString(m.Text)
		}
		for n := range b.said {
			if !strings.Contains(all.String(), fmt.Sprintf("hello #%d.", n)) {
				return false
			}
		}
		return true
	})
}

// accepted is how long the daemon took to accept each of the messages: from their
// being offered to Telegram's being told that they are stored.
func (b *talker) accepted() (took []time.Duration) {
	for _, o := range b.w.tg.Ledger().Offers() {
		if o.Chat == b.chat.ID() && !o.Confirmed.IsZero() {
			took = append(took, o.Confirmed.Sub(o.At))
		}
	}
	return took
}

// size is how many bytes the files of a folder take.
func size(t *testing.T, dir string) (sum int64) {
	t.Helper()
	err := filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if os.IsNotExist(err) {
			return nil // it was there a moment ago
		}
		if err != nil {
			return err
		}
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() {
			sum += info.Size()
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return sum
}

// watchMemory begins to watch the memory of this process; what it returns ends
// that, and says how much more it was at most than in the beginning.
func watchMemory() func() int64 {
	look := func() int64 {
		s := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
		metrics.Read(s)
		return int64(s[0].Value.Uint64())
	}
	first, most := look(), int64(0)
	over := make(chan struct{})
	var work sync.WaitGroup
	work.Go(func() { // the caller waits for it
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for {
			most = max(most, look()-first)
			select {
			case <-tick.C:
			case <-over:
				return
			}
		}
	})
	return func() int64 { close(over); work.Wait(); return most }
}
