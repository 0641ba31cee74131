package crashtest_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"hermesd/internal/daemontest"
	"hermesd/internal/sim/llm"
	"hermesd/internal/sim/telegram"
)

// span returns for how long the daemon is killed repeatedly: a moment in normal test runs,
// longer with `make crashtest`.
func span(t *testing.T) time.Duration {
	s := os.Getenv("HERMESD_CRASHTEST")
	if s == "" {
		return 2 * time.Second
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// mind answers so slowly that kills hit turns, and uses a tool for every third message.
func mind(r llm.Request) llm.Reply {
	rep := llm.Echo(r)
	rep.FirstByte = time.Duration(rand.IntN(60)) * time.Millisecond
	if len(r.Results()) == 0 && strings.Contains(r.Newest(), "list") && r.HasTool("todo") {
		rep.Calls = []llm.Call{{Name: "todo", Args: `{"todos":[{"id":"1","content":"a thing","status":"pending"}]}`}}
		rep.Text = ""
	}
	return rep
}

// load is a group of users who write continuously.
type load struct {
	*daemontest.Rig
	n int
}

func (l *load) write(ctx context.Context, every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			p := rand.IntN(len(l.People))
			text := fmt.Sprintf("message #%d", l.n)
			if l.n%3 == 0 {
				text = fmt.Sprintf("please list #%d", l.n)
			}
			l.Direct[p].Say(l.People[p], text)
			l.n++
		}
	}
}

func TestSIGKILLUnderLoadLosesAndDoublesNothing(t *testing.T) {
	t.Parallel() // it mostly waits
	bin := program(t)
	r, err := daemontest.New(daemontest.Options{
		Binary: bin, Home: filepath.Join(t.TempDir(), "home"), People: 30, Out: testWriter{t},
		Model:  llm.Options{Reply: mind, NoBodies: true},
		Config: "display:\n  busy_input_mode: queue\ngateway:\n  restart_notice: false\n  max_queued_messages: 10000\nlogging:\n  level: error\n",
	})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	l := &load{Rig: r}
	ctx, cancel := context.WithTimeout(t.Context(), span(t))
	defer cancel()
	wrote := make(chan struct{})
	go func() { l.write(ctx, 4*time.Millisecond); close(wrote) }() // awaited below
	for ctx.Err() == nil {
		if err := r.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		select {
		case <-time.After(50*time.Millisecond + time.Duration(rand.IntN(700))*time.Millisecond):
		case <-ctx.Done():
		}
		r.Kill()
	}
	<-wrote
	kills := r.Lives
	if err := r.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	v, told := l.judge(t)
	t.Logf("%d kills, %s; %d of the unanswered were set aside and told so", kills, v, len(told))
	if most := max(1, v.Offered/1000); len(told) > most {
		t.Errorf("%d of %d messages were set aside, none of which has caused a kill; want at most %d", len(told), v.Offered, most)
	}
	for _, c := range v.Lost {
		if told[spot{c.Chat, c.Offer}] {
			continue
		}
		why, err := exec.CommandContext(t.Context(), bin, "--home", r.Home(), "why", fmt.Sprint(c.Chat, ":", c.Offer)).CombinedOutput()
		t.Errorf("%s is lost: %v\n%s", c.Token, err, why)
	}
	if len(v.Lost) > len(told) || len(v.Doubled) > 0 || len(v.Disorder) > 0 || len(v.Stray) > 0 {
		t.Error("something was lost, doubled or out of order")
	}
	if err := r.Stop(90 * time.Second); err != nil {
		t.Errorf("the last stop: %v", err)
	}
}

var tokens = regexp.MustCompile(`#[0-9]+`)

// judge waits until all messages are accounted for, or nothing has changed for a long
// time, and compares the offered messages with the visible ones.
func (l *load) judge(t *testing.T) (v telegram.Verdict, told map[spot]bool) {
	j := telegram.Judge{Tokens: func(s string) []string { return tokens.FindAllString(s, -1) }}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	_ = l.Telegram.Recorder().WaitFor(ctx, func(*telegram.Recorder) bool {
		v = j.Judge(l.Telegram)
		return len(v.Lost) <= 200 && len(v.Lost) <= len(l.setAside(v)) // cheap check, called often
	})
	// Superfluous messages arrive late.
	time.Sleep(2 * time.Second)
	v = j.Judge(l.Telegram)
	return v, l.setAside(v)
}

// asideNotice matches the notice that processing of one message, or of several that were
// one input, has stopped. The notice quotes the first message.
var asideNotice = regexp.MustCompile(`^(?:⚠️ I stopped processing|⏸ The daemon died) .*?(?:these (\d+) messages|this message)`)

// toldAside returns the number of messages that a text reports as no longer processed
// after crashes.
func toldAside(text string) int {
	m := asideNotice.FindStringSubmatch(text)
	if m == nil {
		return 0
	}
	many, _ := strconv.Atoi(m[1]) // only digits, or empty
	return max(many, 1)
}

// A spot is the position of a message.
type spot struct {
	chat int64
	id   int
}

// setAside returns the unanswered messages that a visible notice of the bot explains: the
// quoted one and as many of the person's next messages as the notice says.
func (l *load) setAside(v telegram.Verdict) map[spot]bool {
	told, out := map[spot]bool{}, map[spot]bool{}
	for _, c := range l.Direct {
		var said []int // messages of the person
		for _, m := range c.Messages() {
			if !m.From.IsBot {
				said = append(said, m.ID)
			}
		}
		for _, m := range c.FromBots() {
			text := strings.TrimPrefix(m.Text, mark)
			i, many := slices.Index(said, m.ReplyTo), toldAside(text)
			if many == 0 && strings.HasPrefix(text, "⚠️") {
				many = 1
			}
			if i < 0 {
				continue
			}
			for _, id := range said[i:min(i+many, len(said))] {
				told[spot{c.ID(), id}] = true
			}
		}
	}
	for _, c := range v.Lost {
		if at := (spot{c.Chat, c.Offer}); told[at] {
			out[at] = true
		}
	}
	return out
}

type testWriter struct{ t *testing.T }

func (w testWriter) Write(p []byte) (int, error) {
	w.t.Log(strings.TrimSpace(string(p)))
	return len(p), nil
}
