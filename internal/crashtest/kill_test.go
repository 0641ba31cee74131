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

// span is how long the daemon is killed: a few seconds with the other tests,
// longer by `make crashtest`.
func span(t *testing.T) time.Duration {
	s := os.Getenv("HERMESD_CRASHTEST")
	if s == "" {
		return 4 * time.Second
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// mind answers slowly enough that kills hit turns, and uses a tool for every
// third message.
func mind(r llm.Request) llm.Reply {
	rep := llm.Echo(r)
	rep.FirstByte = time.Duration(rand.IntN(60)) * time.Millisecond
	if len(r.Results()) == 0 && strings.Contains(r.Newest(), "list") && r.HasTool("todo") {
		rep.Calls = []llm.Call{{Name: "todo", Args: `{"todos":[{"id":"1","content":"a thing","status":"pending"}]}`}}
		rep.Text = ""
	}
	return rep
}

// load is people who write without pause.
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
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("the go tool, which builds the daemon, is not there")
	}
	bin, err := daemontest.Build(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	r, err := daemontest.New(daemontest.Options{
		Binary: bin, Home: filepath.Join(t.TempDir(), "home"), People: 30, Out: testWriter{t},
		Model:  llm.Options{Reply: mind, NoBodies: true},
		Config: "display:\n  busy_input_mode: queue\ngateway:\n  restart_notice: false\nlogging:\n  level: error\n",
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

// judge waits until everything is accounted for, or nothing has changed for
// long, and compares what was offered with what is to be seen.
func (l *load) judge(t *testing.T) (v telegram.Verdict, told map[spot]bool) {
	j := telegram.Judge{Tokens: func(s string) []string { return tokens.FindAllString(s, -1) }}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	_ = l.Telegram.Ledger().WaitFor(ctx, func(*telegram.Ledger) bool {
		v = j.Judge(l.Telegram)
		return len(v.Lost) <= 200 && len(v.Lost) <= len(l.setAside(v)) // it is asked often
	})
	// What comes too much comes late.
	time.Sleep(2 * time.Second)
	v = j.Judge(l.Telegram)
	return v, l.setAside(v)
}

// asideNotice is how the bot says that it does not go on with a message, or with
// several that were one input; it quotes the first.
var asideNotice = regexp.MustCompile(`^(?:⚠️ I set|⏸ The daemon died) .*?(?:these (\d+) messages|this message)`)

// toldAside is how many messages a text says that are not gone on with after
// crashes.
func toldAside(text string) int {
	m := asideNotice.FindStringSubmatch(text)
	if m == nil {
		return 0
	}
	many, _ := strconv.Atoi(m[1]) // only digits, or none
	return max(many, 1)
}

// A spot is where a message stands.
type spot struct {
	chat int64
	id   int
}

// setAside returns the unanswered messages of which a visible message of the bot
// says why: the one that it quotes, and as many of the person's next as it says.
func (l *load) setAside(v telegram.Verdict) map[spot]bool {
	told, out := map[spot]bool{}, map[spot]bool{}
	for _, c := range l.Direct {
		var said []int // by the person
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
