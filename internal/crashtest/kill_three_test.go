package crashtest_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"hermesd/internal/daemontest"
	"hermesd/internal/sim/discord"
	"hermesd/internal/sim/llm"
	"hermesd/internal/sim/slack"
	sim "hermesd/internal/sim/telegram"
)

// threefold is a group of users who write continuously on all three platforms. Each
// message has its own token.
type threefold struct {
	*daemontest.Rig
	n int
}

// say sends a message of person p on one of the platforms.
func (l *threefold) say(platform, p int) {
	text := "message " + sim.Token(l.n)
	l.n++
	switch platform {
	case 0:
		l.Direct[p].Say(l.People[p], text)
	case 1:
		l.Discord.Direct[p].Say(l.Discord.People[p], text)
	case 2:
		l.Slack.Direct[p].Say(l.Slack.People[p], text)
	}
}

func (l *threefold) write(ctx context.Context, every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			l.say(rand.IntN(3), rand.IntN(len(l.People)))
		}
	}
}

// A finding is the result of checking one platform.
type finding struct {
	platform                               string
	lost, doubled, disorder, stray, marked int
	told                                   int // quarantined, with a notice
	words                                  string
}

func (l *threefold) findings() []finding {
	t, d, s := sim.Judge{}.Judge(l.Telegram), discord.Judge{}.Judge(l.Discord.Server), slack.Judge{}.Judge(l.Slack.Server)
	out := []finding{
		{platform: "telegram", lost: len(t.Lost), doubled: len(t.Doubled), disorder: len(t.Disorder), stray: len(t.Stray), marked: len(t.Repeats), words: t.String()},
		{platform: "discord", lost: len(d.Lost), doubled: len(d.Doubled), disorder: len(d.Disorder), stray: len(d.Stray), marked: len(d.Repeats), words: d.String()},
		{platform: "slack", lost: len(s.Lost), doubled: len(s.Doubled), disorder: len(s.Disorder), stray: len(s.Stray), marked: len(s.Repeats), words: s.String()},
	}
	for p := range l.People {
		for _, m := range l.Direct[p].FromBots() {
			out[0].told += toldAside(m.Text)
		}
		for _, text := range l.Discord.Direct[p].Visible(l.Discord.Bot.User()) {
			out[1].told += toldAside(text)
		}
		for _, m := range l.Slack.Direct[p].FromBots() {
			out[2].told += toldAside(m.Shown())
		}
	}
	return out
}

// settled waits until all messages are accounted for, or nothing arrives for a long time.
func (l *threefold) settled(t *testing.T) []finding {
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	end := time.After(2 * time.Minute)
	for calm := 0; calm < 4; { // superfluous messages arrive late
		select {
		case <-tick.C:
		case <-end:
			return l.findings()
		case <-t.Context().Done():
			return l.findings()
		}
		calm++
		for _, f := range l.findings() {
			if f.told > 1 {
				t.Errorf("%s: %d messages were set aside, none of which has caused a kill", f.platform, f.told)
			}
			if f.lost > f.told {
				calm = 0
			}
		}
	}
	return l.findings()
}

// TestSIGKILLOnThreePlatformsLosesAndDoublesNothing runs only with `make
// crashtest`, because Slack redelivers after a minute.
func TestSIGKILLOnThreePlatformsLosesAndDoublesNothing(t *testing.T) {
	if os.Getenv("HERMESD_CRASHTEST") == "" {
		t.Skip("it takes a minute or two; make crashtest runs it")
	}
	t.Parallel() // it mostly waits
	bin := program(t)
	r, err := daemontest.New(daemontest.Options{
		Binary: bin, Home: filepath.Join(t.TempDir(), "home"), People: 10, Out: testWriter{t}, Everywhere: true,
		Model:  llm.Options{Reply: mind, NoBodies: true},
		Config: "display:\n  busy_input_mode: queue\ngateway:\n  restart_notice: false\nlogging:\n  level: error\n",
	})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	l := &threefold{Rig: r}
	if err := r.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	// Discord has no list of direct chats for bots: a chat is known, and can be read
	// after a gap, only after its first message.
	for p := range r.People {
		for platform := range 3 {
			l.say(platform, p)
		}
	}
	l.settled(t)
	r.Kill()
	l.loop(t)
	if err := r.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, f := range l.settled(t) {
		t.Logf("%d lives, %s: %s; %d set aside and told so", r.Lives, f.platform, f.words, f.told)
		if f.lost > f.told || f.doubled+f.disorder+f.stray > 0 {
			t.Error(f.platform + ": something was lost, doubled or out of order")
		}
		if f.platform != "telegram" && f.marked > 0 {
			t.Error(f.platform + ": can be asked, but answers say that they may be repeats")
		}
	}
	if err := r.Stop(90 * time.Second); err != nil {
		t.Errorf("the last stop: %v", err)
	}
}

// loop kills the daemon repeatedly under load.
func (l *threefold) loop(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), span(t))
	defer cancel()
	wrote := make(chan struct{})
	go func() { l.write(ctx, 10*time.Millisecond); close(wrote) }() // awaited below
	for ctx.Err() == nil {
		if err := l.Start(t.Context()); err != nil {
			t.Fatal(fmt.Errorf("life %d: %w", l.Lives, err))
		}
		select {
		case <-time.After(100*time.Millisecond + time.Duration(rand.IntN(700))*time.Millisecond):
		case <-ctx.Done():
		}
		l.Kill()
	}
	<-wrote
}
