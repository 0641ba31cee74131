package tui

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"hermesd/adapters/console"
	"hermesd/cmd/internal/admin"
	"hermesd/gateway/chat"
	"hermesd/gateway/inbox"
	"hermesd/gateway/markup"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errHungUp = errors.New("the daemon has hung up")

// A fakeDaemon is a daemon in which each attachment is a chat. reply sends its
// messages after a line.
type fakeDaemon struct {
	mu      sync.Mutex
	refuse  error // error of the next attachment
	chats   []*fakeChat
	has     [][]string
	said    []line
	seen    []uint64
	reply   func(c *fakeChat, ln line)
	onSay   func(ln line) error
	present chan struct{} // receives a value per attachment
}

func newFake() *fakeDaemon { return &fakeDaemon{present: make(chan struct{}, 16)} }

type fakeChat struct {
	f    *fakeDaemon
	down chan admin.Down
	once sync.Once
	over chan struct{}
}

func (f *fakeDaemon) attach(_ context.Context, has ...string) (Chat, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.refuse != nil {
		return nil, f.refuse
	}
	c := &fakeChat{f: f, down: make(chan admin.Down, 64), over: make(chan struct{})}
	f.chats = append(f.chats, c)
	f.has = append(f.has, has)
	f.present <- struct{}{}
	return c, nil
}

func (f *fakeDaemon) lines() []line {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]line{}, f.said...)
}

func (c *fakeChat) Hello() admin.Hello {
	return admin.Hello{Version: "1", Model: "demo-1", Conversation: "local", Commands: []admin.Command{
		{Name: "help", Args: "[command]", Help: "list the commands"}, {Name: "status", Help: "show the state"},
		{Name: "stop", Help: "stop the running turn"}, {Name: "sessions", Args: "[search]", Help: "list conversations"},
		{Name: "new", Aliases: []string{"reset"}, Args: "[title]", Help: "start again"},
	}}
}

func (c *fakeChat) Next(ctx context.Context) (admin.Down, error) {
	select {
	case d := <-c.down:
		return d, nil
	case <-c.over:
		return admin.Down{}, errHungUp
	case <-ctx.Done():
		return admin.Down{}, ctx.Err()
	}
}

func (c *fakeChat) Seen(seq uint64) error {
	c.f.mu.Lock()
	defer c.f.mu.Unlock()
	c.f.seen = append(c.f.seen, seq)
	return nil
}

func (c *fakeChat) Say(_ context.Context, id, text string) error {
	select {
	case <-c.over:
		return errHungUp
	default:
	}
	c.f.mu.Lock()
	onSay := c.f.onSay
	c.f.mu.Unlock()
	if onSay != nil {
		if err := onSay(line{id, text}); err != nil {
			return err
		}
	}
	c.f.mu.Lock()
	c.f.said = append(c.f.said, line{id, text})
	reply := c.f.reply
	c.f.mu.Unlock()
	if reply != nil {
		reply(c, line{id, text})
	}
	return nil
}

// hangUp ends the chat as a crash of the daemon does.
func (c *fakeChat) hangUp() { c.once.Do(func() { close(c.over) }) }

func (c *fakeChat) Close() error {
	c.hangUp()
	return nil
}

func event(k console.Kind, id, md string) admin.Down {
	return admin.Down{Event: &console.Event{Seq: 1, Kind: k, ID: id, Text: markup.Parse(md)}}
}

func outcome(id string, r inbox.Result, answer string, messages ...string) admin.Down {
	o := &admin.Outcome{ID: id, Result: r, Messages: messages}
	if answer != "" {
		o.Text = []chat.RichText{markup.Parse(answer)}
	}
	return admin.Down{Outcome: o}
}

// replyAll answers every line.
func replyAll(c *fakeChat, ln line) {
	n := len(c.f.lines())
	id := fmt.Sprint("o", n)
	c.down <- event(console.Message, id, "thinking")
	c.down <- event(console.Edit, id, "you said *"+ln.text+"*")
	c.down <- outcome(ln.id, inbox.Replied, "you said *"+ln.text+"*", id)
}
