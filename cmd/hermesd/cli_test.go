package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"hermesd/adapters/console"
	"hermesd/cmd/internal/admin"
	"hermesd/cmd/internal/config"
	"hermesd/gateway/chat"
	"hermesd/internal/secret"
	"hermesd/storage"
)

// A buffer is safe for concurrent writes.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// A use is a command that runs in this process.
type use struct {
	signals   chan os.Signal
	out, errs *buffer
	code      chan int // the exit code
	exited    chan int // what a second signal exits with
}

func start(t *testing.T, home string, args ...string) *use {
	t.Helper()
	u := &use{signals: make(chan os.Signal), out: &buffer{}, errs: &buffer{}, code: make(chan int, 1), exited: make(chan int, 1)}
	c := &cli{
		in: strings.NewReader(""), out: u.out, errs: u.errs, signals: u.signals, exit: func(code int) { u.exited <- code },
		env: func(name string) (string, bool) { return home, name == "HERMES_HOME" },
	}
	go func() { u.code <- c.execute(context.Background(), args) }()
	return u
}

// client waits until the daemon of home responds.
func client(t *testing.T, home string) *admin.Client {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		c, err := admin.Dial(t.Context(), home)
		if err == nil {
			return c
		}
		select {
		case <-tick.C:
		case <-t.Context().Done():
			t.Fatal(err)
		}
	}
}

// patience is longer than anything takes that does not hang.
const patience = 2 * time.Minute

// until polls ok.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(patience); !ok(); <-tick.C {
		if time.Now().After(end) {
			t.Fatalf("%s: it never came to it", what)
		}
	}
}

func TestAnAnswerThatCameWhileNobodyWasAttachedIsShownOnceAtTheNextAttach(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	u := start(t, home, "run")
	c := client(t, home)
	ctx := t.Context()

	ch, err := c.Attach(ctx, "")
	if err != nil {
		t.Fatal(err)
	}
	id := console.NewID()
	if err := errors.Join(ch.Say(ctx, id, "hello"), ch.Close()); err != nil {
		t.Fatal(err)
	}
	until(t, "the answer waits", func() bool {
		box, err := c.Outbox(ctx, false)
		return err == nil && len(box.Rows) == 1 && box.Rows[0].Reason == "no terminal is attached"
	})
	for i, want := range []int{1, 0} {
		ch, err := c.Attach(ctx, "")
		if err != nil {
			t.Fatal(err)
		}
		shown := collect(t, ch, want)
		if len(shown) != want || want == 1 && !strings.Contains(shown[0], "demo model") {
			t.Errorf("attach %d shows %q, want %d messages", i, shown, want)
		}
		if err := ch.Close(); err != nil {
			t.Error(err)
		}
	}
	chains, err := c.Why(ctx, id)
	if err != nil || len(chains) != 1 || chains[0].Rows[0].MayBeRepeat {
		t.Errorf("got %+v, %v", chains, err)
	}
	if err := c.Close(ctx); err != nil {
		t.Error(err)
	}
	u.signals <- os.Interrupt
	if got := <-u.code; got != 0 {
		t.Errorf("exit code %d: %s", got, u.errs)
	}
}

// collect waits for some messages, and returns them with those that arrive until
// none has arrived for a while, which is longer than the delay of a retry.
func collect(t *testing.T, ch *admin.Chat, some int) []string {
	t.Helper()
	var shown []string
	for {
		wait := 1500 * time.Millisecond
		if len(shown) < some {
			wait = patience
		}
		ctx, cancel := context.WithTimeout(t.Context(), wait)
		d, err := ch.Next(ctx)
		cancel()
		if err != nil {
			return shown
		}
		if d.Event != nil && d.Event.Kind == console.Message {
			shown = append(shown, d.Event.Text.Text)
		}
		if d.Event != nil && d.Event.Seq > 0 {
			if err := ch.Seen(d.Event.Seq); err != nil {
				t.Error(err)
			}
		}
	}
}

// A process that starts or stops holds the home directory and has no control socket.
func TestCommandWaitsForTheHome(t *testing.T) {
	home := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		h, err := storage.Open(home)
		if err != nil {
			t.Fatal(err)
		}
		u := start(t, home, "sessions", "list")
		time.Sleep(2 * time.Second)
		if err := h.Close(); err != nil {
			t.Fatal(err)
		}
		if code := <-u.code; code != 0 || u.errs.String() != "" {
			t.Errorf("exit code %d: %s", code, u.errs)
		}
		if h, err = storage.Open(home); err != nil {
			t.Fatal(err)
		}
		u = start(t, home, "sessions", "list")
		if code := <-u.code; code != exitFailed || !strings.Contains(u.errs.String(), "does not answer on its control socket") {
			t.Errorf("exit code %d: %s", code, u.errs)
		}
		if err := h.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

func TestChatWaitsForTheHome(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	h, err := storage.Open(home)
	if err != nil {
		t.Fatal(err)
	}
	tries, out, errs := 0, &buffer{}, &buffer{}
	c := &cli{
		in: strings.NewReader(""), out: out, errs: errs,
		env: func(name string) (string, bool) { return home, name == "HERMES_HOME" },
		adopt: func() (func(), error) {
			if tries++; tries == 2 {
				return func() {}, h.Close()
			}
			return func() {}, nil
		},
	}
	if code := c.execute(t.Context(), []string{"chat", "-q", "hello"}); code != 0 || !strings.Contains(out.String(), "demo model") {
		t.Errorf("exit code %d after %d tries: %s", code, tries, errs)
	}
}

func TestTheFirstSignalStopsTheSecondIsImmediate(t *testing.T) {
	signals := make(chan os.Signal)
	exited := make(chan int, 1)
	hups := 0
	c := &cli{errs: &buffer{}, signals: signals, exit: func(code int) { exited <- code }}
	ctx, stop := c.untilSignal(t.Context(), "stopping", func() { hups++ })
	signals <- syscall.SIGHUP
	signals <- syscall.SIGHUP
	if ctx.Err() != nil {
		t.Error("a hangup ends it")
	}
	signals <- syscall.SIGTERM
	<-ctx.Done()
	signals <- syscall.SIGTERM
	if code := <-exited; code != exitFailed {
		t.Errorf("exit code %d", code)
	}
	stop()
	if hups != 2 {
		t.Errorf("%d hangups were heard", hups)
	}
	ctx, stop = c.untilSignal(t.Context(), "", nil)
	stop()
	if ctx.Err() == nil {
		t.Error("the context outlives its watch")
	}
}

func TestAHangupTakesTheConfigurationOrSaysWhyNot(t *testing.T) {
	home := t.TempDir()
	u := start(t, home, "run")
	c := client(t, home)
	u.signals <- syscall.SIGHUP
	ok := "display:\n  tool_progress: new\naccess:\n  allow_from: [\"7\"]\n"
	if err := os.WriteFile(filepath.Join(home, "config.yaml"), []byte(ok), 0o600); err != nil {
		t.Fatal(err)
	}
	u.signals <- syscall.SIGHUP
	until(t, "valid", func() bool {
		s, err := c.Status(t.Context())
		return err == nil && slices.Equal(s.Config.Applied, []string{"access.allow_from"}) && slices.Equal(s.Config.PendingRestart, []string{"display.tool_progress"})
	})
	if err := os.WriteFile(filepath.Join(home, "config.yaml"), []byte("access: {nonsense: 1}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	u.signals <- syscall.SIGHUP
	until(t, "broken", func() bool {
		s, err := c.Status(t.Context())
		if err == nil && len(s.Config.Applied) != 1 {
			t.Errorf("status says %+v", s.Config)
		}
		return err == nil && strings.Contains(s.Config.Problem, "nonsense") && strings.Contains(u.errs.String(), "keeping the previous one")
	})
	if err := c.Close(t.Context()); err != nil {
		t.Error(err)
	}
	u.signals <- os.Interrupt
	if got := <-u.code; got != 0 {
		t.Errorf("exit code %d", got)
	}
}

func TestEachErrorHasItsExitCode(t *testing.T) {
	for _, tc := range []struct {
		err  error
		want int
	}{
		{nil, 0},
		{errors.New("x"), 1},
		{&storage.LockedError{}, 1},
		{fmt.Errorf("a: %w", &usageError{"x"}), 2},
		{fmt.Errorf("a: %w", &config.Error{}), 78},
		{&chat.ConfigError{}, 78},
		{&exitError{75}, exitRestart},
	} {
		if got := code(tc.err); got != tc.want {
			t.Errorf("%v: got %d, want %d", tc.err, got, tc.want)
		}
	}
}

func TestALogIsRotatedMaskedAndItsOwnersAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "logs", "x.log")
	m := &secret.Masker{}
	m.Add("very-secret-token")
	log, _, closeLog, err := openLog(config.Logging{Level: "info", Format: "json"}, path, nil, m)
	if err != nil {
		t.Fatal(err)
	}
	log.Info("with very-secret-token inside")
	log.Debug("unseen")
	if err := closeLog(); err != nil {
		t.Error(err)
	}
	raw, err := os.ReadFile(path)
	if err != nil || bytes.Contains(raw, []byte("very-secret-token")) || !bytes.Contains(raw, []byte("with <secret> inside")) || bytes.Contains(raw, []byte("unseen")) {
		t.Errorf("logged %s, %v", raw, err)
	}
	r, err := openRotated(path, 1000)
	if err != nil {
		t.Fatal(err)
	}
	line := []byte(strings.Repeat("x", 299) + "\n")
	for range 40 {
		if _, err := r.Write(line); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(r.Close(), r.Close()); err != nil {
		t.Error(err)
	}
	if _, err := r.Write(line); err == nil {
		t.Error("a closed log takes lines")
	}
	left, err := filepath.Glob(path + "*")
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(left)
	if len(left) != oldLogs+1 {
		t.Errorf("left: %v", left)
	}
	for _, f := range left {
		info, err := os.Stat(f)
		if err != nil || info.Size() > 1000 || info.Size()%300 != 0 && f != path+".3" || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %d bytes, %v, %v", f, info.Size(), info.Mode(), err)
		}
	}
}

func TestTheBuildIsTold(t *testing.T) {
	b := buildOf(&debug.BuildInfo{
		Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "abc"}, {Key: "vcs.modified", Value: "true"}},
		Deps:     []*debug.Module{{Path: "a", Version: "v1"}, {Path: "b", Version: "v1", Replace: &debug.Module{Path: "c", Version: "v2"}}},
	})
	if b.Commit != "abc" || !b.Modified || len(b.Modules) != 2 || b.Modules[1] != (module{"c", "v2"}) {
		t.Errorf("got %+v", b)
	}
	if got := b.text(false); strings.Contains(got, "v1") || strings.Count(got, "\n") != 2 {
		t.Errorf("without modules: %q", got)
	}
	if got := b.text(true); !strings.Contains(got, "v2") {
		t.Errorf("with modules: %q", got)
	}
	if got := buildOf(nil).text(false); !strings.Contains(got, "unknown commit") {
		t.Errorf("got %q", got)
	}
	commit, date = "def", "2026-11-23T08:00:00Z" // a release
	defer func() { commit, date = "", "" }()
	if b := buildOf(&debug.BuildInfo{}); b.Commit != "def" || b.Time != date {
		t.Errorf("of a release: %+v", b)
	}
	if page := manPage((&cli{}).root()); !strings.HasPrefix(page, `.TH "HERMESD" "1" "2026-11-23" "hermesd dev"`) {
		t.Errorf("its manual page begins with %.80s", page)
	}
}
