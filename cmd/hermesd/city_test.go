//go:build unix

package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"hermesd/cmd/internal/admin"
	"hermesd/internal/daemontest"
	"hermesd/internal/sim/llm"
)

// A city is the real daemon as a process, with a direct chat for each user on each
// platform, and the HTTP API.
type city struct {
	*testing.T
	*daemontest.Rig
	api  string // of the HTTP API
	out  *buffer
	hold chan struct{} // closed when the model continues messages that begin with "hold"
	said atomic.Int64
}

// settle returns a city with a home directory, a number of users and additional
// configuration.
func settle(t *testing.T, home string, people int, more string) *city {
	t.Helper()
	bin, err := exec.LookPath("hermesd")
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &city{T: t, api: l.Addr().String(), out: &buffer{}, hold: make(chan struct{})}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	c.Rig, err = daemontest.New(daemontest.Options{
		Binary: bin, Home: home, Everywhere: true, People: people, Out: c.out, Model: llm.Options{Reply: c.mind},
		Config: "  http:\n    enabled: true\n    listen: " + c.api + "\ndisplay:\n  busy_input_mode: queue\n  tool_progress: 'off'\n" + more,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the daemon says:\n%s", c.out)
		}
	})
	return c
}

// mind is the model: it echoes messages. For a message that begins with "hold" it
// waits first, and then calls a tool.
func (c *city) mind(r llm.Request) llm.Reply {
	if strings.HasPrefix(r.Newest(), "hold") && len(r.Results()) == 0 {
		<-c.hold
		return llm.Reply{Calls: []llm.Call{{Name: "todo", Args: `{"todos":[{"id":"1","content":"a thing","status":"pending"}]}`}}}
	}
	rep := llm.Echo(r)
	if len(r.Results()) > 0 {
		rep.Text = "echo: " + r.Newest()
	}
	return rep
}

// say sends one message of the first user on each platform, with more appended, and
// returns the texts to wait for.
func (c *city) say(word, more string) []string {
	var texts []string
	for on := range 3 {
		texts = append(texts, c.says(0, on, word, more))
	}
	return texts
}

// says sends one message of a user on one of the three platforms.
func (c *city) says(person, on int, word, more string) string {
	text := fmt.Sprintf("%s #%d.", word, c.said.Add(1)) // with a full stop, so that none is the beginning of another
	switch on {
	case 0:
		c.Direct[person].Say(c.People[person], text+more)
	case 1:
		c.Discord.Direct[person].Say(c.Discord.People[person], text+more)
	default:
		c.Slack.Direct[person].Say(c.Slack.People[person], text+more)
	}
	return text
}

// shown returns all messages of the bot.
func (c *city) shown() (all []string) {
	for i := range c.People {
		for _, m := range c.Direct[i].FromBots() {
			all = append(all, m.Text)
		}
		all = append(all, c.Discord.Direct[i].Visible(c.Discord.Bot.User())...)
		for _, m := range c.Slack.Direct[i].FromBots() {
			all = append(all, m.Shown())
		}
	}
	return all
}

// times counts the messages of the bot that contain a text.
func (c *city) times(text string) (n int) {
	for _, s := range c.shown() {
		n += number(strings.Contains(s, text))
	}
	return n
}

func number(is bool) int {
	if is {
		return 1
	}
	return 0
}

// answered waits until each of the texts has its echo.
func (c *city) answered(texts []string) {
	c.Helper()
	var open []string
	c.Cleanup(func() {
		if len(open) > 0 {
			c.Logf("not answered: %q", open)
		}
	})
	until(c.T, "everything is answered", func() bool {
		open = nil
		for _, s := range texts {
			if c.times("echo: "+s) == 0 {
				open = append(open, s)
			}
		}
		return len(open) == 0
	})
}

// once fails if a text was answered more than once.
func (c *city) once(texts []string) {
	c.Helper()
	for _, s := range texts {
		if n := c.times("echo: " + s); n != 1 {
			c.Errorf("%q is answered %d times: %q", s, n, c.shown())
		}
	}
}

// status returns the output of `hermesd status`.
func (c *city) status() string { return c.ask("status") }

// ask runs a command while the daemon runs and returns its output.
func (c *city) ask(args ...string) string {
	raw, _ := c.command(args...).CombinedOutput() // only the output matters
	return string(raw)
}

func (c *city) command(args ...string) *exec.Cmd {
	cmd := exec.CommandContext(c.Context(), "hermesd", append(args, "--home", c.Home())...)
	cmd.Env = append(os.Environ(), "HERMES_HOME="+c.Home())
	return cmd
}

// waitFound waits until `hermesd sessions search` finds each word. It polls over the control
// socket: a process takes much longer.
func (c *city) waitFound(words ...string) {
	c.Helper()
	client := client(c.T, c.Home())
	defer func() { _ = client.Close(context.Background()) }() // it was only asked
	for _, word := range words {
		until(c.T, "what was said is found", func() bool {
			found, err := client.Search(c.Context(), word, 1)
			return err == nil && len(found) > 0
		})
		until(c.T, "what was said is found", func() bool { return strings.Contains(c.ask("sessions", "search", word), word+" #") })
	}
}

// pid returns the process ID of the daemon.
func (c *city) pid() int {
	c.Helper()
	client, err := admin.Dial(c.Context(), c.Home())
	if err != nil {
		c.Fatal(err)
	}
	defer func() { _ = client.Close(context.Background()) }() // it was only asked
	s, err := client.Status(c.Context())
	if err != nil {
		c.Fatal(err)
	}
	return s.PID
}

// readyz asks the HTTP API whether messages are answered now.
func (c *city) readyz() (code int, body string) {
	req, err := http.NewRequestWithContext(c.Context(), http.MethodGet, "http://"+c.api+"/readyz", nil)
	if err != nil {
		c.Fatal(err)
	}
	key, err := os.ReadFile(filepath.Join(c.Home(), "http.key"))
	if err != nil {
		return 0, err.Error()
	}
	req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(key)))
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer func() { _ = resp.Body.Close() }() // it was only read
	raw, _ := io.ReadAll(resp.Body)          // what came says what is wrong
	return resp.StatusCode, string(raw)
}

// sound stops the daemon and verifies the store.
func (c *city) sound() {
	c.Helper()
	if err := c.Stop(patience); err != nil {
		c.Errorf("stop: %v", err)
	}
	raw, _ := c.command("doctor", "--verify").CombinedOutput() // it fails for want of space on a small disk
	if !bytes.Contains(raw, []byte("every record has its checksum")) || bytes.Contains(raw, []byte("ERROR    store")) {
		c.Errorf("doctor:\n%s", raw)
	}
	if s := c.out.String(); strings.Contains(s, "panic") || strings.Contains(s, "damaged") {
		c.Error("the daemon has panicked, or found damage")
	}
}
