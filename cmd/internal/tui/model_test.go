package tui

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
	"github.com/google/go-cmp/cmp"

	"hermesd/adapters/console"
	"hermesd/agent/llm"
	"hermesd/cmd/internal/admin"
	"hermesd/cmd/internal/tui/text"
	"hermesd/gateway/chat"
	"hermesd/gateway/inbox"
	"hermesd/gateway/store"
)

var update = flag.Bool("update", false, "write the golden views")

// A screen drives a model as the program does, without a terminal.
type screen struct {
	t    *testing.T
	m    *model
	f    *fakeDaemon
	c    *fakeChat
	quit bool
}

// runScreen runs a test with a screen of width × height, in fake time.
func runScreen(t *testing.T, width, height int, test func(s *screen)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		chat, err := f.attach(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		s := &screen{t: t, f: f, c: chat.(*fakeChat)}
		l := &link{attach: f.attach, out: make(chan any), chat: chat, changed: make(chan struct{})}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		s.m = newModel(ctx, l, &history{}, text.Mono)
		s.do(tea.WindowSizeMsg{Width: width, Height: height})
		s.hear(connected{chat.Hello()})
		test(s)
	})
}

func (s *screen) do(msg tea.Msg) {
	_, cmd := s.m.Update(msg)
	s.run(cmd)
}

func (s *screen) hear(msg any) {
	s.m.handleLinkMessage(msg)
	s.m.layout()
}

func (s *screen) run(cmd tea.Cmd) {
	if cmd == nil {
		return
	}
	switch msg := cmd().(type) {
	case tea.BatchMsg:
		for _, c := range msg {
			s.run(c)
		}
	case lineSent:
		s.do(msg)
	case tick:
		s.m.ticking = false
	case tea.QuitMsg:
		s.quit = true
	}
}

func (s *screen) press(keys ...string) {
	for _, k := range keys {
		mod := tea.KeyMod(0)
		if rest, ok := strings.CutPrefix(k, "ctrl+"); ok {
			k, mod = rest, tea.ModCtrl
		}
		if rest, ok := strings.CutPrefix(k, "alt+"); ok {
			k, mod = rest, tea.ModAlt
		}
		codes := map[string]rune{"enter": tea.KeyEnter, "tab": tea.KeyTab, "up": tea.KeyUp, "down": tea.KeyDown, "pgup": tea.KeyPgUp, "esc": tea.KeyEscape}
		code, ok := codes[k]
		if !ok {
			code = []rune(k)[0]
		}
		s.do(tea.KeyPressMsg{Code: code, Mod: mod})
	}
}

func (s *screen) write(text string) {
	for _, r := range text {
		s.do(tea.KeyPressMsg{Code: r, Text: string(r)})
	}
}

func (s *screen) view() string {
	lines := strings.Split(ansi.Strip(s.m.View().Content), "\n")
	for i, l := range lines {
		lines[i] = strings.TrimRight(l, " ")
	}
	return strings.Join(lines, "\n") + "\n"
}

// golden compares the screen with a file.
func (s *screen) golden(name string) {
	s.t.Helper()
	got := s.view()
	path := filepath.Join("testdata", name+".golden")
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			s.t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		s.t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		s.t.Errorf("%s: %s", name, diff)
	}
	for l := range strings.SplitSeq(got, "\n") {
		if w := text.Width(l); w > s.m.width {
			s.t.Errorf("%s: a line of %d columns on a screen of %d: %q", name, w, s.m.width, l)
		}
	}
	if n := strings.Count(got, "\n"); n > s.m.height {
		s.t.Errorf("%s: %d lines on a screen of %d", name, n, s.m.height)
	}
}

func (s *screen) want(part string) {
	s.t.Helper()
	if got := s.view(); !strings.Contains(got, part) {
		s.t.Errorf("%q is not on the screen:\n%s", part, got)
	}
}

func (s *screen) wantNot(part string) {
	s.t.Helper()
	if got := s.view(); strings.Contains(got, part) {
		s.t.Errorf("%q is on the screen:\n%s", part, got)
	}
}

func TestScreenShowsConversation(t *testing.T) {
	runScreen(t, 60, 20, func(s *screen) {
		s.golden("empty")
		s.write("hello 日本 👩‍👩‍👧")
		s.press("alt+enter")
		s.write("second line")
		s.golden("typing")
		s.press("enter")
		said := s.f.lines()
		if len(said) != 1 || said[0].text != "hello 日本 👩‍👩‍👧\nsecond line" {
			t.Fatalf("said %+v", said)
		}
		time.Sleep(3 * time.Second)
		s.golden("waiting")
		s.hear(fromDaemon{event(console.Message, "o1", "I am **think")})
		s.hear(fromDaemon{event(console.Edit, "o1", "I am **thinking** about `code` and 日本語, which is wide, and wrap it where it ends:\n\n```go\nfunc main() {}\n```")})
		d := outcome(said[0].id, inbox.Replied, "x", "o1")
		d.Outcome.Trace = store.Trace{Took: 1500 * time.Millisecond, Calls: []store.ModelCall{{Usage: llm.Usage{Input: 10, CacheRead: 90, Output: 7}}}}
		s.hear(fromDaemon{d})
		s.golden("answered")
		s.do(tea.WindowSizeMsg{Width: 30, Height: 12})
		s.golden("resized")
	})
}

func TestScreenEditsAndDeletesMessages(t *testing.T) {
	runScreen(t, 60, 12, func(s *screen) {
		s.hear(fromDaemon{event(console.Message, "o1", "first")})
		s.hear(fromDaemon{event(console.Edit, "o1", "second")})
		s.want("second")
		s.wantNot("first")
		s.hear(fromDaemon{event(console.Delete, "o1", "")})
		s.wantNot("second")
		s.hear(fromDaemon{event(console.Edit, "o2", "an edit of what this terminal never saw")})
		s.want("an edit of what")
	})
}

func TestScreenRemovesEscapeSequences(t *testing.T) {
	runScreen(t, 80, 12, func(s *screen) {
		s.hear(fromDaemon{admin.Down{Event: &console.Event{Kind: console.Message, ID: "o1", Text: chat.PlainText("a\x1b]0;owned\x07b \x1b[2J\x1b[31mred \u202ehidden")}}})
		s.hear(connected{admin.Hello{Model: "mo\x1b[2Jdel"}})
		s.hear(fromDaemon{admin.Down{Event: &console.Event{Kind: console.OtherTerminal, ID: "l9", Text: chat.PlainText("x\x1b[2Jy")}}})
		raw := s.m.View().Content
		for _, bad := range []string{"\x1b]0", "\x1b[2J", "\x1b[31m", "\u202e", "\x07"} {
			if strings.Contains(raw, bad) {
				t.Errorf("%q reaches the terminal", bad)
			}
		}
		s.want("ab red hidden")
	})
}

func TestCtrlCStopsTheTurnAndOnlyThenQuits(t *testing.T) {
	runScreen(t, 80, 12, func(s *screen) {
		s.write("work")
		s.press("enter")
		s.press("ctrl+c")
		if said := s.f.lines(); len(said) != 2 || said[1].text != "/stop" || s.quit {
			t.Fatalf("said %+v, quit %v", said, s.quit)
		}
		s.want("Ctrl-C again quits")
		time.Sleep(3 * time.Second)
		for _, ln := range s.f.lines() {
			s.hear(fromDaemon{outcome(ln.id, inbox.Cancelled, "")})
		}
		s.want("stopped")
		s.write("half a word")
		s.press("ctrl+c")
		if s.quit || s.m.input.Value() != "" {
			t.Errorf("quit %v, input %q: want the input cleared", s.quit, s.m.input.Value())
		}
		time.Sleep(3 * time.Second)
		s.press("ctrl+c")
		if s.quit {
			t.Error("one press quits")
		}
		s.want("Ctrl-C again quits, so does Ctrl-D.")
		s.press("ctrl+c")
		if !s.quit {
			t.Error("two presses in a moment do not quit")
		}
	})
}

func TestCtrlDQuitsOnlyFromAnEmptyInput(t *testing.T) {
	for _, cmd := range []string{"", "/quit", "/exit"} {
		runScreen(t, 80, 12, func(s *screen) {
			s.write("x")
			s.press("ctrl+d")
			if s.quit {
				t.Error("quit with something in the input")
			}
			s.m.setInput("")
			if cmd == "" {
				s.press("ctrl+d")
			} else {
				s.write(cmd)
				s.press("enter")
			}
			if !s.quit || len(s.f.lines()) != 0 {
				t.Errorf("%q: quit %v, said %v", cmd, s.quit, s.f.lines())
			}
		})
	}
}

func TestCommandCompletion(t *testing.T) {
	runScreen(t, 60, 16, func(s *screen) {
		s.write("/s")
		s.golden("offers")
		s.press("tab")
		if got := s.m.input.Value(); got != "/s" {
			t.Errorf("got %q: three commands begin so", got)
		}
		s.write("ta")
		s.press("tab")
		if got := s.m.input.Value(); got != "/status " {
			t.Errorf("got %q", got)
		}
		s.wantNot("show the state")
		s.m.setInput("/res")
		s.press("tab")
		if got := s.m.input.Value(); got != "/new " {
			t.Errorf("an alias completes to %q", got)
		}
		s.m.setInput("/zzz")
		s.press("tab")
		s.want("No command begins so.")
		s.m.setInput("no /s")
		s.press("tab")
		if got := s.m.input.Value(); got != "no /s" {
			t.Errorf("got %q", got)
		}
	})
}

func TestHistoryKeys(t *testing.T) {
	runScreen(t, 60, 16, func(s *screen) {
		s.write("one")
		s.press("enter")
		s.write("two")
		s.press("alt+enter")
		s.write("lines")
		s.press("enter")
		s.write("draft")
		for _, step := range []struct{ key, want string }{
			{"up", "two\nlines"}, {"up", "two\nlines"}, {"up", "one"}, {"up", "one"},
			{"down", "two\nlines"}, {"down", "draft"}, {"down", "draft"},
		} {
			s.press(step.key)
			if got := s.m.input.Value(); got != step.want {
				t.Errorf("%s: got %q, want %q", step.key, got, step.want)
			}
		}
	})
}

func TestPasteIsUnchanged(t *testing.T) {
	for name, paste := range map[string]string{
		"lines":        "one\ntwo\n\nthree",
		"tabs":         "all:\n\tgo build\n",
		"many lines":   strings.Repeat("line\n", 12000),
		"one long one": strings.Repeat("日", 5000),
	} {
		runScreen(t, 60, 16, func(s *screen) {
			s.write("look: ")
			s.do(tea.PasteMsg{Content: strings.ReplaceAll(paste, "\n", "\r\n")})
			s.write(" end")
			if n := strings.Count(s.view(), "\n"); n > 16 {
				t.Errorf("%s: %d lines on the screen", name, n)
			}
			s.press("enter")
			if got := s.f.lines()[0].text; got != "look: "+paste+" end" {
				t.Errorf("%s: said %.60q…, %d bytes of %d", name, got, len(got), len(paste))
			}
			s.press("up", "enter")
			if got := s.f.lines(); len(got) != 2 && len(paste) < maxEntryBytes || len(got) == 2 && got[1].text != got[0].text {
				t.Errorf("%s: from the history came something else", name)
			}
		})
	}
}

func TestLinesAreSentInOrder(t *testing.T) {
	runScreen(t, 60, 16, func(s *screen) {
		gate := make(chan struct{})
		s.f.onSay = func(ln line) error {
			if ln.text == "first" {
				<-gate
			}
			return nil
		}
		first, second := s.m.queueLine("first"), s.m.queueLine("second")
		if second != nil {
			t.Fatal("the second line does not wait for the first")
		}
		go func() { time.Sleep(time.Second); close(gate) }()
		s.run(first)
		said := s.f.lines()
		if len(said) != 2 || said[0].text != "first" || said[1].text != "second" {
			t.Errorf("said %+v", said)
		}
	})
}

func TestRejectedLineIsMarked(t *testing.T) {
	runScreen(t, 60, 16, func(s *screen) {
		s.f.onSay = func(line) error { return &admin.Error{Code: 400, Text: "the disk is full"} }
		s.write("hello")
		s.press("enter")
		s.want("✗ not taken: the disk is full")
		if s.m.working() {
			t.Error("it still waits for an answer")
		}
	})
}

func TestBrokenLinkIsShown(t *testing.T) {
	runScreen(t, 60, 16, func(s *screen) {
		s.hear(disconnected{errHungUp})
		s.want("✗ the daemon has hung up, trying again")
		s.hear(connected{s.c.Hello()})
		s.want("The daemon is back.")
		time.Sleep(time.Minute)
		s.m.layout()
		s.wantNot("The daemon is back.")
	})
}

func TestScrollPositionIsKept(t *testing.T) {
	runScreen(t, 40, 10, func(s *screen) {
		for i := range 30 {
			s.hear(fromDaemon{event(console.Message, string(rune('a'+i)), strings.Repeat(string(rune('A'+i%26)), 3)+string(rune('a'+i%26)))})
		}
		s.press("pgup", "pgup")
		before := s.view()
		s.want("more below")
		s.hear(fromDaemon{event(console.Message, "new", "NEWS")})
		if diff := cmp.Diff(before, s.view()); diff != "" {
			t.Errorf("the view moved: %s", diff)
		}
		s.press("esc")
		s.want("NEWS")
		s.wantNot("more below")
	})
}

func TestTinyScreen(t *testing.T) {
	runScreen(t, 1, 1, func(s *screen) {
		s.write("/s")
		s.hear(fromDaemon{event(console.Message, "o1", "```\ncode that is long\n```\n> quote\n\n日本")})
		s.press("enter", "ctrl+c")
		_ = s.view()
	})
}
