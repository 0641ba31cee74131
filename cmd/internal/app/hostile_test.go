package app_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"sync"
	"testing"
	"time"

	"hermesd/internal/sim/telegram"
)

// A hostileInput is hostile input in one chat while another one is in use.
type hostileInput struct {
	name         string // printed by `make hostile`
	config       string
	before       func(*harness) // runs before the daemon starts; may be nil
	play         func(*harness) // may be called repeatedly
	memory       int64          // limit of additional bytes in memory, of the daemon and the simulators
	disk         int64          // limit of additional bytes in the home directory
	needsSandbox bool           // played only if a sandbox limits it
	failed       bool           // the outcome of ann's message is failed, not replied
}

// hostileInputs are the inputs that must be bounded, reported, and must not delay others.
func hostileInputs() []hostileInput {
	return slices.Concat(hungTools(), runawayTools(), webTraps(), deceptiveFiles())
}

const (
	onlyOwner = "access:\n  owners: [$ANN]\ndisplay:\n  tool_progress: 'off'\n"
	small     = 8 << 20  // bytes on disk that any input may take
	little    = 32 << 20 // bytes in memory that any input may take temporarily, including garbage
)

// prepare creates the harness for a hostile input and starts the daemon.
func (h hostileInput) prepare(t *testing.T) *harness {
	w := newHarness(t, fault{config: onlyOwner + h.config, telegram: "allow_all: true", sandboxed: true})
	if h.before != nil {
		h.before(w)
	}
	w.start()
	w.waitConnected()
	w.askEcho("hello") // every part has been used once
	var box string
	w.waitFor("the sandbox is found", func() bool {
		for _, l := range w.log.lines() {
			if l.has("commands run ") {
				box = l.text
			}
		}
		return box != ""
	})
	if h.needsSandbox && !(logLine{text: box}).has("processes at once") {
		t.Skip(box)
	}
	return w
}

// Hostile input ends, takes no more memory and disk than it may, the user is told in the chat what happened, and
// the daemon answers the next message and all messages of another chat meanwhile.
func TestHostileInputIsBoundedAndReported(t *testing.T) {
	for _, h := range hostileInputs() {
		t.Run(h.name, func(t *testing.T) { // one at a time: memory is measured
			w := h.prepare(t)
			bob := w.newTalker(100 * time.Millisecond)
			disk, memory := size(t, w.home), watchMemory()
			began := time.Now()
			h.play(w)
			took, peak := time.Since(began), memory()
			more := size(t, w.home) - disk
			said := bob.end()
			w.askEcho(last)
			bob.answered()
			w.stop()
			t.Logf("%v, %d KiB of memory, %d KiB of disk, %d messages of another chat", took.Round(time.Millisecond), peak>>10, more>>10, said)
			if peak > h.memory {
				t.Errorf("it took %d bytes of memory", peak)
			}
			if more > h.disk {
				t.Errorf("it took %d bytes of disk", more)
			}
			w.checkLog()
			w.checkEnded(h.failed)
		})
	}
}

// measureAgain limits the repetitions of a hostile input while it is measured.
const measureAgain = 250 * time.Millisecond

// TestHostileInputDelaysNobody measures how long messages of another chat take to be
// accepted while each hostile input is repeated for the duration HERMESD_HOSTILE,
// and prints a line for each. Other load on the machine delays some rounds: the best
// of three counts, and what is measured while nothing happens is added to the limit.
func TestHostileInputDelaysNobody(t *testing.T) {
	long, err := time.ParseDuration(os.Getenv("HERMESD_HOSTILE"))
	if err != nil {
		t.Skip("HERMESD_HOSTILE is not a time")
	}
	limit := 50 * time.Millisecond
	fmt.Println("| what happens meanwhile | messages | p50 | p99 | longest |\n|---|---|---|---|---|")
	nothing := hostileInput{name: "nothing", play: func(*harness) {}}
	for _, h := range slices.Concat([]hostileInput{nothing}, hostileInputs()) {
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
			switch p99 := worst(best); {
			case h.name == nothing.name:
				limit += p99
			case p99 > limit:
				t.Errorf("the p99 is %v, the limit %v", p99, limit)
			}
		})
	}
}

// measure returns the sorted times that messages of another chat took to be
// accepted.
func (h hostileInput) measure(t *testing.T, long time.Duration) []time.Duration {
	w := h.prepare(t)
	bob := w.newTalker(20 * time.Millisecond)
	for began := time.Now(); time.Since(began) < long; {
		next := time.After(measureAgain)
		h.play(w)
		w.say("/new") // otherwise the transcript grows
		<-next
	}
	bob.end()
	w.waitConfirmed()
	w.stop()
	took := bob.accepted()
	slices.Sort(took)
	return took
}

// checkEnded checks that all messages have an outcome: replied, or failed for one of
// ann's messages if failed is set.
func (w *harness) checkEnded(failed bool) {
	w.Helper()
	ends, dead := w.storedOutcomes()
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

// askBot sends text as ann and returns the bot's texts after it, once they contain
// all of the words.
func (w *harness) askBot(said string, words ...string) string {
	w.Helper()
	before := w.botTexts()
	w.say(said)
	return w.waitBotText(before, words...)
}

// botTexts returns the bot's visible texts to ann by message ID.
func (w *harness) botTexts() map[int]string {
	texts := make(map[int]string)
	for _, m := range w.chat.FromBots() {
		texts[m.ID] = m.Text
	}
	return texts
}

// waitBotText returns newBotText once it contains all of the words.
func (w *harness) waitBotText(before map[int]string, words ...string) (text string) {
	w.Helper()
	w.waitFor(fmt.Sprintf("messages with %q", words), func() bool {
		text = w.newBotText(before)
		return logLine{text: text}.has(words...)
	})
	return text
}

// newBotText returns the bot's visible texts to ann that are not in before, a line each.
// A text may be an edit of a message that was there before.
func (w *harness) newBotText(before map[int]string) (text string) {
	for _, m := range w.chat.FromBots() {
		if m.Text != before[m.ID] {
			text += m.Text + "\n"
		}
	}
	return text
}

// A talker is a user who keeps sending messages in another chat.
type talker struct {
	w    *harness
	who  *telegram.User
	chat *telegram.Chat
	over chan struct{}
	work sync.WaitGroup
	said int // number of messages; set by end
}

// maxUnanswered is the number of unanswered messages with which a talker waits. The
// daemon refuses messages when a hundred wait.
const maxUnanswered = 30

// newTalker starts sending.
func (w *harness) newTalker(pace time.Duration) *talker {
	bob := w.tg.AddUser(telegram.Person{FirstName: "Bob"})
	b := &talker{w: w, who: bob, chat: bob.Chat(w.bot), over: make(chan struct{})}
	n := 0
	b.work.Go(func() { // end waits for it
		tick := time.NewTicker(pace)
		defer tick.Stop()
		for {
			if n-b.answers() < maxUnanswered {
				b.chat.Say(bob, fmt.Sprintf("hello #%d.", n))
				n++
			}
			select {
			case <-tick.C:
			case <-b.over:
				b.said = n
				return
			}
		}
	})
	w.Cleanup(func() { b.end() })
	return b
}

// end stops sending and returns the number of messages.
func (b *talker) end() int {
	select {
	case <-b.over:
	default:
		close(b.over)
	}
	b.work.Wait()
	return b.said
}

// answered waits until each message is answered.
func (b *talker) answered() {
	b.w.Helper()
	b.w.waitFor("all that the other one has said is answered", func() bool { return b.answers() == b.said })
}

// answers returns the number of messages that are answered. The echo of many messages
// together abbreviates them, but keeps their numbers.
func (b *talker) answers() int {
	numbers := map[string]bool{}
	for _, m := range b.chat.FromBots() {
		for _, n := range messageNumber.FindAllString(m.Text, -1) {
			numbers[n] = true
		}
	}
	return len(numbers)
}

var messageNumber = regexp.MustCompile(`#[0-9]+`)

// accepted returns the time between the delivery of each message by Telegram and the
// confirmation that it is stored.
func (b *talker) accepted() (took []time.Duration) {
	for _, o := range b.w.tg.Recorder().Offers() {
		if o.Chat == b.chat.ID() && !o.Confirmed.IsZero() {
			took = append(took, o.Confirmed.Sub(o.At))
		}
	}
	return took
}

// size returns the size of the files in a folder in bytes.
func size(t *testing.T, dir string) (sum int64) {
	t.Helper()
	err := filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if os.IsNotExist(err) {
			return nil // deleted meanwhile
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

// watchMemory samples the memory of this process until the returned function is
// called, which returns the largest increase. Meanwhile the garbage collector runs often:
// otherwise there is as much garbage as memory in use, which depends on earlier tests.
func watchMemory() func() int64 {
	percent := debug.SetGCPercent(20)
	runtime.GC()
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
	return func() int64 {
		close(over)
		work.Wait()
		debug.SetGCPercent(percent)
		return most
	}
}
