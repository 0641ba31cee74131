//go:build linux

package powercut_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"hermesd/gateway/inbox"
	"hermesd/internal/daemontest"
	"hermesd/internal/sim/llm"
	"hermesd/storage/bolt"
)

// output collects what a process prints.
type output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(b)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

// daemon builds the daemon with the bbolt that fails.
func (b *bench) daemon() (bin string) {
	b.t.Helper()
	bin = filepath.Join(b.dir, "hermesd")
	if out, err := exec.CommandContext(b.t.Context(), "go", "build", "-modfile="+b.modfile, "-ldflags", "-s -w", "-o", bin, "hermesd/cmd/hermesd").CombinedOutput(); err != nil {
		b.t.Fatalf("%v\n%s", err, out)
	}
	return bin
}

// patience is longer than anything takes that does not hang.
const patience = 2 * time.Minute

// A service is the daemon as a process of a service manager, with one user.
type service struct {
	*testing.T
	*daemontest.Rig
	bin  string
	hold chan struct{} // the model answers "hold" when it can receive, once per text
}

func newService(t *testing.T, bin string) *service {
	s := &service{T: t, bin: bin, hold: make(chan struct{})}
	out := &output{}
	var held sync.Map
	reply := func(r llm.Request) llm.Reply {
		if _, again := held.LoadOrStore(r.Newest(), true); strings.HasPrefix(r.Newest(), "hold") && !again {
			<-s.hold
		}
		return llm.Echo(r)
	}
	var err error
	s.Rig, err = daemontest.New(daemontest.Options{Binary: bin, Home: filepath.Join(t.TempDir(), "home"), Model: llm.Options{Reply: reply}, Env: []string{"INVOCATION_ID=test"}, Out: out})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the daemon says:\n%s", out)
		}
	})
	s.start()
	return s
}

func (s *service) start() {
	s.Helper()
	if err := s.Start(s.Context()); err != nil {
		s.Fatal(err)
	}
}

func (s *service) fail(f failure) { failNext(s.T, filepath.Join(s.Home(), "hermesd.db"), f) }

func (s *service) say(text string) { s.Direct[0].Say(s.People[0], text) }

// ends fails unless the daemon ends with exit code 75.
func (s *service) ends() {
	s.Helper()
	select {
	case <-s.Daemon.Ended():
	case <-time.After(patience):
		s.Fatal("the daemon does not end")
	}
	if exit, ok := errors.AsType[*exec.ExitError](s.Daemon.Err()); !ok || exit.ExitCode() != 75 {
		s.Fatalf("the daemon ended with %v, want exit code 75", s.Daemon.Err())
	}
}

// release lets the model answer "hold".
func (s *service) release() {
	s.Helper()
	select {
	case s.hold <- struct{}{}:
	case <-time.After(patience):
		s.Fatal("the model is not asked")
	}
}

// answered waits until a text is answered and everything is stored.
func (s *service) answered(text string) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), patience)
	defer cancel()
	if _, err := s.Direct[0].WaitText(ctx, "echo: "+text); err != nil {
		s.Fatalf("%q is not answered: %v", text, err)
	}
	for {
		out, err := exec.CommandContext(ctx, s.bin, "outbox", "list", "--home", s.Home()).CombinedOutput()
		if err != nil {
			s.Fatalf("%v: %s", err, out)
		}
		if strings.Contains(string(out), "Nothing waits") {
			return
		}
	}
}

func TestProgramSurvivesFailures(t *testing.T) {
	t.Parallel()
	bin := newBench(t).daemon()
	t.Run("daemon", func(t *testing.T) { t.Parallel(); testDaemon(t, bin) })
	t.Run("chat", func(t *testing.T) { t.Parallel(); testChat(t, bin) })
}

// testDaemon fails writes and syncs of the store before a message is accepted, and before
// its turn ends. Each message is answered once.
func testDaemon(t *testing.T, bin string) {
	s := newService(t, bin)
	s.say("hello")
	s.answered("hello")
	var said []string
	for _, f := range failures {
		for _, turn := range []bool{false, true} {
			text := string(f.failure)
			calls := s.Model.Count()
			if turn {
				text = "hold " + text
				s.say(text)
				if err := s.Model.Await(t.Context(), calls+1); err != nil {
					t.Fatal(err)
				}
			}
			s.fail(f.failure)
			if turn {
				s.release()
			} else {
				s.say(text)
			}
			if !f.isKnown {
				s.ends()
				s.start()
			}
			s.answered(text)
			said = append(said, text)
		}
	}
	for _, text := range said {
		n := 0
		for _, m := range s.Direct[0].FromBots() { // if the answer may have been sent before the end, it is marked
			n += number(m.Text == "echo: "+text || m.Text == "(may be a repeat)\necho: "+text)
		}
		if n != 1 {
			t.Errorf("%q is answered %d times", text, n)
		}
	}
	if err := s.Stop(patience); err != nil {
		t.Errorf("it ends with %v", err)
	}
}

// testChat has a conversation without a daemon, in which the outcome of a commit becomes
// unknown.
func testChat(t *testing.T, bin string) {
	home := t.TempDir()
	cmd := exec.CommandContext(t.Context(), bin, "chat", "--home", home)
	cmd.Env = []string{"PATH=/usr/bin:/bin", "HOME=" + home}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, errs := &output{}, &output{}
	cmd.Stdout, cmd.Stderr = out, errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(home, "hermesd.db")
	answers := func(n int) {
		t.Helper()
		for end := time.Now().Add(patience); strings.Count(out.String(), "\n\n") < n; <-time.After(20 * time.Millisecond) {
			if time.Now().After(end) {
				_ = cmd.Process.Kill()
				t.Fatalf("no answer %d: %s%s", n, out, errs)
			}
		}
	}
	for n, line := range []string{"hello", "hello again"} {
		if n > 0 {
			failNext(t, path, metaSync)
		}
		if _, err := io.WriteString(in, line+"\n"); err != nil {
			t.Fatal(err)
		}
		answers(n + 1)
	}
	if err := errors.Join(in.Close(), cmd.Wait()); err != nil {
		t.Fatalf("%v: %s%s", err, out, errs)
	}
	s, err := bolt.Open(t.Context(), path, bolt.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }() // read only
	for id, want := range map[string]int{"m1": 1, "m2": 1, "m3": 0} {
		found, err := s.MessageHistory(t.Context(), id)
		if err != nil || len(found) != want || want == 1 && found[0].Entry.Outcome.Result != inbox.Replied {
			t.Errorf("%s: %+v, %v", id, found, err)
		}
	}
}
