package app_test

import (
	"context"
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
	"hermesd/gateway"
	"hermesd/gateway/chat"
	"hermesd/gateway/inbox"
	"hermesd/internal/sim/llm"
	"hermesd/internal/sim/telegram"
)

// patience limits the duration of each test.
const patience = 40 * time.Second

// A world is a home directory with simulated platforms, models and a user, and the
// daemon in it while it runs.
type world struct {
	*testing.T
	ctx   context.Context
	f     fault
	home  string
	book  *logbook
	sites []site // the last message is sent on the first
	dc    *discordSite
	sl    *slackSite
	web   *webSite
	tg    *telegram.Server
	api   string // the address of tg
	bot   *telegram.Bot
	ann   *telegram.User
	chat  *telegram.Chat // the direct chat with ann, who is allowed
	model *llm.Server
	spare *llm.Server // a second model

	reach func(*web.Options)                            // changes the options of the web tools; may be nil
	load  func() (*config.Config, config.Report, error) // reads the configuration again; nil if it never changes
	app   *app.App
	stop  func()        // stops the daemon; nil while it is not running
	over  chan struct{} // closed when the daemon has stopped

	once sync.Once
	open chan struct{} // closed when the model may answer what it holds
}

func newWorld(t *testing.T, f fault) *world {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	w := &world{T: t, ctx: ctx, f: f, home: t.TempDir(), book: newLogbook(), open: make(chan struct{})}
	w.tg = telegram.New(f.server)
	t.Cleanup(w.tg.Close)
	var err error
	if w.api, err = w.tg.Start(); err != nil {
		t.Fatal(err)
	}
	for _, m := range []**llm.Server{&w.model, &w.spare} {
		if *m, err = llm.Start(llm.Options{Reply: w.mind}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup((*m).Close)
	}
	t.Cleanup(w.release)
	w.bot = w.tg.AddBot(telegram.BotOptions{Username: "hermes_bot", Name: "Hermes"})
	w.ann = w.tg.AddUser(telegram.Person{FirstName: "Ann"})
	w.chat = w.ann.Chat(w.bot)
	w.settle(f)
	w.configure(f.config, f.telegram)
	return w
}

// mind is the model. It echoes messages, except those that begin with a keyword:
// "hold" waits for release, "tool" uses the tool todo, "use" a tool with its
// arguments, "attach" attaches a file, "long" answers slowly, "wide" slowly and at
// length, "bold" in bold, and "pages" at length after release.
func (w *world) mind(r llm.Request) llm.Reply {
	said := r.Newest()
	if _, after, ok := strings.Cut(said, "] "); ok && strings.HasPrefix(said, "[") {
		said = after // in a group conversation
	}
	word, _, _ := strings.Cut(strings.TrimPrefix(said, "Task: "), " ") // a sub-agent has a task
	if word == "hold" || word == "pages" {
		select {
		case <-w.open:
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

// release lets the model answer what it holds.
func (w *world) release() { w.once.Do(func() { close(w.open) }) }

// hold sends "hold " and text, and returns when the model holds it.
func (w *world) hold(text string) telegram.Message {
	w.Helper()
	n := w.model.Count()
	m := w.say("hold " + text)
	if err := w.model.Await(w.ctx, n+1); err != nil {
		w.fatal("the model is not asked")
	}
	return m
}

// configure writes the default configuration file with additional text at its top
// level and in the section of the first platform.
func (w *world) configure(more, account string) {
	w.Helper()
	text := fmt.Sprintf("model:\n  provider: anthropic\n  default: claude-sonnet-4-5\n  base_url: %s\n  api_key: sk-simulated-0000000000\n", w.model.URL)
	if account != "none" {
		text += "platforms:\n" + w.sections(account)
	}
	text = w.names().Replace(text + "\n" + more + "\n")
	if !w.f.sandboxed && !strings.Contains(more, "terminal:") {
		text += "terminal:\n  sandbox: off\n" // opening one starts processes, and a hundred harnesses start at once
	}
	w.write("config.yaml", text)
}

func (w *world) write(name, text string) {
	w.Helper()
	if err := os.WriteFile(filepath.Join(w.home, name), []byte(text), 0o600); err != nil {
		w.Fatal(err)
	}
}

// build reads the configuration and builds the daemon, as `hermesd run` does.
func (w *world) build() (*app.App, error) {
	none := func(string) (string, bool) { return "", false }
	c, report, err := config.Load(config.Options{Home: w.home, Env: none})
	if err != nil {
		return nil, err
	}
	return app.New(w.ctx, app.Options{
		Config: c, Report: report, Home: report.Home, Version: "test", CanRestart: w.f.restarts, Load: w.load, Web: w.reach, Log: zap.New(w.book.core(report.Secrets)), Say: w.book.say,
	})
}

// start starts the daemon and waits until it is ready.
func (w *world) start() {
	w.Helper()
	a, err := w.build()
	if err != nil {
		w.Fatalf("start: %v", err)
	}
	w.app = a
	ctx, cancel := context.WithCancel(w.ctx)
	ended := make(chan error, 1)
	over := make(chan struct{})
	w.over = over
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

// online returns when the daemon is connected.
func (w *world) online() {
	w.Helper()
	for _, s := range w.sites {
		w.healthOf(chat.Account{Platform: s.platform()}, chat.Connected, "")
	}
}

// health waits until the first platform is in that state, for a reason that contains
// words.
func (w *world) health(s chat.State, words string) {
	w.Helper()
	w.healthOf(chat.Account{Platform: w.sites[0].platform()}, s, words)
}

func (w *world) healthOf(on chat.Account, s chat.State, words string) {
	w.Helper()
	w.await(fmt.Sprintf("health of %s is %s %q", on.Platform, s, words), func() bool {
		return slices.ContainsFunc(w.app.Gateway().Status().Accounts, func(a gateway.AccountHealth) bool {
			return a.Account == on && a.State == s && strings.Contains(a.Error, words)
		})
	})
}

// say sends a message as ann in the direct chat.
func (w *world) say(text string) telegram.Message { return w.chat.Say(w.ann, text) }

// sees returns once ann sees a message with that text.
func (w *world) sees(text string) telegram.Message { return w.seesIn(w.chat, text) }

func (w *world) seesIn(c *telegram.Chat, text string) telegram.Message {
	w.Helper()
	m, err := c.WaitText(w.ctx, text)
	if err != nil {
		w.fatal(fmt.Sprintf("%q is not seen", text))
	}
	return m
}

// ask sends a message as ann on the first platform and waits for its echo.
func (w *world) ask(text string) {
	w.Helper()
	w.sites[0].say(text)
	w.reads(text)
}

// reads returns once ann sees the echo of text on the first platform.
func (w *world) reads(text string) {
	w.Helper()
	if err := w.sites[0].wait(w.ctx, "echo: "+text); err != nil {
		w.fatal(fmt.Sprintf("the echo of %q is not seen", text))
	}
}

// logs returns once a log line contains all of the words.
func (w *world) logs(words ...string) {
	w.Helper()
	w.await(fmt.Sprintf("log %q", words), func() bool {
		return slices.ContainsFunc(w.book.lines(), func(l line) bool { return l.has(words...) })
	})
}

// look is the polling interval for conditions that no recorder signals.
const look = 50 * time.Millisecond

// await returns once cond is true. It is evaluated after each log line, after each
// change of the first platform's recorder, and at intervals.
func (w *world) await(what string, cond func() bool) {
	w.Helper()
	for {
		ctx, cancel := context.WithTimeout(w.ctx, look)
		stop := context.AfterFunc(w.book.next(), cancel)
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

// confirmed returns once all updates that were offered to the daemon are confirmed.
func (w *world) confirmed() {
	w.Helper()
	w.await("all updates are confirmed", func() bool { return w.bot.Pending() == 0 })
}

// accepted returns once the daemon has accepted n messages. It polls, because no
// platform is notified.
func (w *world) accepted(n int) {
	w.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for len(w.why(inbox.ID(n).String())) == 0 {
		select {
		case <-tick.C:
		case <-w.ctx.Done():
			w.fatal(fmt.Sprintf("%d messages are not taken in", n))
		}
	}
}

// why returns the outcomes of the messages with an ID or a platform key.
func (w *world) why(id string) []string {
	w.Helper()
	chains, err := w.app.Store().MessageHistory(w.ctx, id)
	if err != nil {
		w.Fatal(err)
	}
	var out []string
	for _, c := range chains {
		out = append(out, ending(c.Entry))
	}
	return out
}

// asks returns the newest text of each chat request to the model.
func (w *world) asks() []string {
	var out []string
	for _, e := range w.model.Requests() {
		out = append(out, e.Newest())
	}
	return out
}

// terminal sends text at the console and waits for its echo.
func (w *world) terminal(text string) {
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
func (w *world) fatal(why string) {
	w.Helper()
	var b strings.Builder
	for _, l := range w.book.lines() {
		fmt.Fprintf(&b, "  %s\n", l.text)
	}
	for _, s := range w.sites {
		b.WriteString(s.dump())
	}
	w.Fatalf("%s\n%s", why, b.String())
}
