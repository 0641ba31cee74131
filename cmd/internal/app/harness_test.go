package app_test

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"

	"hermesd/adapters/console"
	"hermesd/agent/tools/web"
	"hermesd/cmd/internal/app"
	"hermesd/cmd/internal/config"
	"hermesd/gateway/accounts"
	"hermesd/gateway/chat"
	"hermesd/gateway/inbox"
	"hermesd/internal/sim/llm"
	"hermesd/internal/sim/telegram"
	"hermesd/storage"
)

// testTimeout ends a test that hangs. No working machine is so slow.
const testTimeout = 5 * time.Minute

// A harness is a home directory with simulated platforms, models and a user, and the
// daemon in it while it runs.
type harness struct {
	*testing.T
	ctx          context.Context
	fault        fault
	home         string
	log          *logRecorder
	sites        []site // the last message is sent on the first
	dc           *discordSite
	sl           *slackSite
	web          *webSite
	tg           *telegram.Server
	telegramAddr string // the address of tg
	bot          *telegram.Bot
	ann          *telegram.User
	chat         *telegram.Chat // the direct chat with ann, who is allowed
	model        *llm.Server
	secondModel  *llm.Server // a second model

	webTools web.Options                                   // of the web tools
	load     func() (*config.Config, config.Report, error) // reads the configuration again
	env      map[string]string                             // environment variables from which the configuration is read
	app      *app.App
	stop     func()        // stops the daemon; nil while it is not running
	ended    chan struct{} // closed when the daemon has stopped

	releaseOnce sync.Once
	released    chan struct{} // closed when the model may answer what it holds
}

func newHarness(t *testing.T, f fault) *harness {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	t.Cleanup(cancel)
	w := &harness{T: t, ctx: ctx, fault: f, home: t.TempDir(), log: newLogRecorder(), released: make(chan struct{})}
	w.load = w.loadConfig
	w.tg = telegram.New(f.server)
	t.Cleanup(w.tg.Close)
	var err error
	if w.telegramAddr, err = w.tg.Start(); err != nil {
		t.Fatal(err)
	}
	for _, m := range []**llm.Server{&w.model, &w.secondModel} {
		if *m, err = llm.Start(llm.Options{Reply: w.modelReply}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup((*m).Close)
	}
	t.Cleanup(w.releaseModel)
	w.bot = w.tg.AddBot(telegram.BotOptions{Username: "hermes_bot", Name: "Hermes"})
	w.ann = w.tg.AddUser(telegram.Person{FirstName: "Ann"})
	w.chat = w.ann.Chat(w.bot)
	w.addPlatforms(f)
	w.writeConfig(f.config, f.telegram)
	return w
}

// modelReply is the model. It echoes messages, except those that begin with a keyword:
// "hold" waits for release, "tool" uses the tool todo, "use" a tool with its
// arguments, "attach" attaches a file, "long" answers slowly, "wide" slowly and at
// length, "bold" in bold, "unhex" with a text in hexadecimal, and "pages" at length
// after release.
func (w *harness) modelReply(r llm.Request) llm.Reply {
	said := r.Newest()
	if _, after, ok := strings.Cut(said, "] "); ok && strings.HasPrefix(said, "[") {
		said = after // in a group conversation
	}
	said = strings.TrimPrefix(said, "Task: ") // a sub-agent has a task
	word, _, _ := strings.Cut(said, " ")
	if word == "hold" || word == "pages" {
		select {
		case <-w.released:
		case <-w.ctx.Done():
		}
	}
	rep := llm.Echo(r)
	switch word {
	case "pages":
		rep.Text = strings.Join(pages(), "\n\n")
	case "tool":
		if len(r.Results()) == 0 {
			return llm.Reply{Calls: []llm.Call{{Name: "todo", Args: `{"todos":[{"id":"1","content":"a thing","status":"pending"}]}`}}}
		}
		rep.Text = "done: " + r.Newest()
	case "use": // a tool, and reports its result
		if len(r.Results()) == 0 {
			name, args, _ := strings.Cut(strings.TrimPrefix(said, "use "), " ")
			return llm.Reply{Calls: []llm.Call{{Name: name, Args: args}}}
		}
		rep.Text = "result: " + r.Results()[len(r.Results())-1].Text
	case "long":
		rep.Text, rep.Pieces, rep.PerDelta = "done: "+strings.Repeat("word ", 50)+"end", 10, 100*time.Millisecond
	case "attach":
		rep.Text = "MEDIA:" + strings.TrimPrefix(r.Newest(), "attach ")
	case "wide":
		rep.Text, rep.Pieces, rep.PerDelta = strings.Join(pages(), "\n\n"), 4000, 400*time.Millisecond
	case "bold":
		rep.Text = "It is **bold**."
	case "unhex":
		text, err := hex.DecodeString(strings.TrimPrefix(said, "unhex "))
		rep.Text = fmt.Sprintf("decoded: %s %v", text, err)
	}
	return rep
}

// pages returns paragraphs that fill a message each.
func pages() []string {
	var out []string
	for _, s := range []string{"one ", "two ", "three ", "four ", "five "} {
		out = append(out, strings.TrimSpace(strings.Repeat(s, 3500/len(s))))
	}
	return out
}

// releaseModel lets the model answer what it holds.
func (w *harness) releaseModel() { w.releaseOnce.Do(func() { close(w.released) }) }

// holdModel sends "hold " and text, and returns when the model holds it.
func (w *harness) holdModel(text string) telegram.Message {
	w.Helper()
	n := w.model.Count()
	m := w.say("hold " + text)
	if err := w.model.Await(w.ctx, n+1); err != nil {
		w.fatal("the model is not asked")
	}
	return m
}

// writeConfig writes the default configuration file with additional text at its top
// level and in the section of the first platform.
func (w *harness) writeConfig(more, account string) {
	w.Helper()
	text := fmt.Sprintf("model:\n  provider: anthropic\n  default: claude-sonnet-4-5\n  base_url: %s\n  api_key: sk-simulated-0000000000\n", w.model.URL)
	if account != "none" {
		text += "platforms:\n" + w.platformConfig(account)
	}
	text = w.placeholders().Replace(text + "\n" + more + "\n")
	if !w.fault.sandboxed && !strings.Contains(more, "terminal:") {
		text += "terminal:\n  sandbox: off\n" // opening one starts processes, and a hundred harnesses start at once
	}
	w.writeFile("config.yaml", text)
}

func (w *harness) writeFile(name, text string) {
	w.Helper()
	if err := os.WriteFile(filepath.Join(w.home, name), []byte(text), 0o600); err != nil {
		w.Fatal(err)
	}
}

// build reads the configuration and builds the daemon, as `hermesd run` does.
func (w *harness) build() (*app.App, error) {
	c, report, err := w.loadConfig()
	if err != nil {
		return nil, err
	}
	return app.New(w.ctx, app.Options{
		Config: c, Report: report, Home: report.Home, Version: "test", CanRestart: w.fault.restarts, Load: w.load, Level: func(string) {}, Web: w.webTools, Log: zap.New(w.log.core(report.Secrets)), Say: w.log.say,
	})
}

// buildUnlocked is build once the lock of the home is free. A process that another test
// starts has a copy of it until it executes its program.
func (w *harness) buildUnlocked() (*app.App, error) {
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		a, err := w.build()
		if _, locked := errors.AsType[*storage.LockedError](err); !locked {
			return a, err
		}
		select {
		case <-tick.C:
		case <-w.ctx.Done():
			return nil, err
		}
	}
}

// start starts the daemon and waits until it is ready.
func (w *harness) start() {
	w.Helper()
	a, err := w.buildUnlocked()
	if err != nil {
		w.Fatalf("start: %v", err)
	}
	w.app = a
	ctx, cancel := context.WithCancel(w.ctx)
	ended := make(chan error, 1)
	over := make(chan struct{})
	w.ended = over
	go func() { ended <- a.Run(ctx); close(over) }() // stop waits for it
	w.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil && !errors.Is(err, app.ErrRestart) {
			w.Errorf("the daemon ended: %v", err)
		}
	})
	w.Cleanup(w.stop)
	select {
	case <-a.Ready():
	case <-w.ctx.Done():
		w.fatal("the daemon does not become ready")
	}
}

// waitConnected returns when the daemon is connected.
func (w *harness) waitConnected() {
	w.Helper()
	for _, s := range w.sites {
		w.waitHealthOf(chat.Account{Platform: s.platform()}, chat.Connected, "")
	}
}

// waitHealth waits until the first platform is in that state, for a reason that contains
// words.
func (w *harness) waitHealth(s chat.State, words string) {
	w.Helper()
	w.waitHealthOf(chat.Account{Platform: w.sites[0].platform()}, s, words)
}

func (w *harness) waitHealthOf(on chat.Account, s chat.State, words string) {
	w.Helper()
	w.waitFor(fmt.Sprintf("health of %s is %s %q", on.Platform, s, words), func() bool {
		return slices.ContainsFunc(w.app.Pipeline().Control().Status().Accounts, func(a accounts.Health) bool {
			return a.Account == on && a.State == s && strings.Contains(a.Error, words)
		})
	})
}

// say sends a message as ann in the direct chat.
func (w *harness) say(text string) telegram.Message { return w.chat.Say(w.ann, text) }

// waitText returns once ann sees a message with that text.
func (w *harness) waitText(text string) telegram.Message { return w.waitTextIn(w.chat, text) }

func (w *harness) waitTextIn(c *telegram.Chat, text string) telegram.Message {
	w.Helper()
	m, err := c.WaitText(w.ctx, text)
	if err != nil {
		w.fatal(fmt.Sprintf("%q is not seen", text))
	}
	return m
}

// askEcho sends a message as ann on the first platform and waits for its echo.
func (w *harness) askEcho(text string) {
	w.Helper()
	w.sites[0].say(text)
	w.waitEcho(text)
}

// waitEcho returns once ann sees the echo of text on the first platform.
func (w *harness) waitEcho(text string) {
	w.Helper()
	if err := w.sites[0].wait(w.ctx, "echo: "+text); err != nil {
		w.fatal(fmt.Sprintf("the echo of %q is not seen", text))
	}
}

// waitLog returns once a log line contains all of the words.
func (w *harness) waitLog(words ...string) {
	w.Helper()
	w.waitFor(fmt.Sprintf("log %q", words), func() bool {
		return slices.ContainsFunc(w.log.lines(), func(l logLine) bool { return l.has(words...) })
	})
}

// pollInterval is the polling interval for conditions that no recorder signals.
const pollInterval = 50 * time.Millisecond

// waitFor returns once cond is true. It is evaluated after each log line, after each
// change of the first platform's recorder, and at intervals.
func (w *harness) waitFor(what string, cond func() bool) {
	w.Helper()
	for {
		ctx, cancel := context.WithTimeout(w.ctx, pollInterval)
		stop := context.AfterFunc(w.log.next(), cancel)
		err := w.sites[0].changes(ctx, cond)
		stop()
		cancel()
		if err == nil {
			return
		}
		if w.ctx.Err() != nil {
			w.fatal("never: " + what)
		}
	}
}

// waitConfirmed returns once all updates that were offered to the daemon are confirmed.
func (w *harness) waitConfirmed() {
	w.Helper()
	w.waitFor("all updates are confirmed", func() bool { return w.bot.Pending() == 0 })
}

// waitAccepted returns once the daemon has accepted n messages. It polls, because no
// platform is notified.
func (w *harness) waitAccepted(n int) {
	w.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for len(w.outcomes(inbox.ID(n).String())) == 0 {
		select {
		case <-tick.C:
		case <-w.ctx.Done():
			w.fatal(fmt.Sprintf("%d messages are not taken in", n))
		}
	}
}

// waitEnded returns once all accepted messages have an outcome. What a preview shows is not
// the end of a turn, and the next message would become a part of it.
func (w *harness) waitEnded() {
	w.Helper()
	w.waitFor("all turns have ended", func() bool {
		for id := inbox.ID(1); ; id++ {
			chains, err := w.app.Store().MessageHistory(w.ctx, id.String())
			if err != nil {
				w.Fatal(err)
			}
			if len(chains) == 0 {
				return true
			}
			for _, c := range chains {
				if c.Entry.Outcome == nil {
					return false
				}
			}
		}
	})
}

// outcomes returns the outcomes of the messages with an ID or a platform key.
func (w *harness) outcomes(id string) []string {
	w.Helper()
	chains, err := w.app.Store().MessageHistory(w.ctx, id)
	if err != nil {
		w.Fatal(err)
	}
	var out []string
	for _, c := range chains {
		out = append(out, outcomeOf(c.Entry))
	}
	return out
}

// modelQuestions returns the newest text of each chat request to the model.
func (w *harness) modelQuestions() []string {
	var out []string
	for _, e := range w.model.Requests() {
		out = append(out, e.Newest())
	}
	return out
}

// echoConsole sends text at the console and waits for its echo.
func (w *harness) echoConsole(text string) {
	w.Helper()
	c, err := w.app.Console().Attach(w.ctx, "")
	if err != nil {
		w.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Say(w.ctx, "", text); err != nil {
		w.Fatal(err)
	}
	for {
		ev, err := c.Next(w.ctx)
		if err != nil {
			w.fatal(fmt.Sprintf("no answer at the console: %v", err))
		}
		if ev.Seq != 0 {
			c.Seen(ev.Seq)
		}
		if (ev.Kind == console.Message || ev.Kind == console.Edit) && strings.Contains(ev.Text.Text, "echo: "+text) {
			return
		}
	}
}

// fatal ends the test with everything that was recorded.
func (w *harness) fatal(why string) {
	w.Helper()
	var b strings.Builder
	for _, l := range w.log.lines() {
		fmt.Fprintf(&b, "  %s\n", l.text)
	}
	for _, s := range w.sites {
		b.WriteString(s.dump())
	}
	w.Fatalf("%s\n%s", why, b.String())
}
