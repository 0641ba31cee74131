package admin

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"hermesd/adapters/console"
	"hermesd/gateway/chat"
	"hermesd/gateway/inbox"
	"hermesd/gateway/store"
)

// ErrHungUp reports that the daemon ended a chat. Errors that wrap it may have the
// reason.
var ErrHungUp = errors.New("the daemon has hung up")

// A Chat is the client side of a terminal attached to a conversation. It is safe
// for concurrent use.
type Chat struct {
	hello Hello
	body  io.Closer
	out   *lines
	down  chan Down
	done  chan struct{} // closed when the daemon sends nothing more
	stop  chan struct{} // closed by Close
	once  sync.Once
	wg    sync.WaitGroup // the reading goroutine; Close waits for it

	mu    sync.Mutex // guards what follows
	why   error
	taken map[string]chan error // lines waiting for their LineAccepted
}

// Attach connects to a conversation. has lists the IDs of messages that were shown
// before, in an earlier connection. ctx limits only the call itself.
func (c *Client) Attach(ctx context.Context, conversation string, has ...string) (*Chat, error) {
	q := url.Values{"chat": {conversation}, "has": {strings.Join(has[max(0, len(has)-maxHas):], ",")}}
	long, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, cancel)
	req, err := http.NewRequestWithContext(long, http.MethodPost, "http://hermesd/attach?"+q.Encode(), http.NoBody)
	if err != nil {
		cancel()
		return nil, fmt.Errorf("attach: %w", err)
	}
	req.Header.Set("Connection", "Upgrade")
	req.Header.Set("Upgrade", upgrade)
	resp, err := c.http.Do(req)
	if err != nil {
		cancel()
		return nil, fmt.Errorf("attach: %w", err)
	}
	conn, ok := resp.Body.(io.ReadWriteCloser)
	if resp.StatusCode != http.StatusSwitchingProtocols || !ok {
		defer cancel()
		raw, _ := io.ReadAll(io.LimitReader(resp.Body, maxBody)) // a partial body is enough for the error
		_ = resp.Body.Close()
		return nil, refusal(resp.StatusCode, raw)
	}
	ch := &Chat{
		body: conn, out: &lines{w: conn}, down: make(chan Down), done: make(chan struct{}), stop: make(chan struct{}),
		taken: make(map[string]chan error),
	}
	ch.wg.Go(func() { defer cancel(); ch.read(conn) })
	select {
	case d := <-ch.down:
		if stop() && d.Hello != nil {
			ch.hello = *d.Hello
			return ch, nil
		}
		err = fmt.Errorf("%w: no hello received", ErrHungUp)
	case <-ch.done:
		err = ch.reason()
	case <-ctx.Done():
		err = ctx.Err()
	}
	return nil, errors.Join(err, ch.Close())
}

// Hello returns the greeting of the daemon.
func (ch *Chat) Hello() Hello { return ch.hello }

// read processes messages of the daemon until the connection ends.
func (ch *Chat) read(r io.Reader) {
	err := scan(r, maxDown, func(raw []byte) error {
		var d Down
		if err := json.Unmarshal(raw, &d); err != nil {
			return fmt.Errorf("decode message: %w", err)
		}
		switch {
		case d.Bye != "":
			return errors.New(d.Bye)
		case d.Accepted != nil:
			ch.take(*d.Accepted)
			return nil
		}
		select {
		case ch.down <- d:
			return nil
		case <-ch.stop:
			return io.EOF
		}
	})
	ch.mu.Lock()
	ch.why = ErrHungUp
	if err != nil {
		ch.why = fmt.Errorf("%w: %w", ErrHungUp, err)
	}
	ch.mu.Unlock()
	close(ch.done)
}

func (ch *Chat) take(t LineAccepted) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	waiter, ok := ch.taken[t.ID]
	if !ok {
		return
	}
	delete(ch.taken, t.ID)
	if t.Error != "" {
		waiter <- &Error{http.StatusBadRequest, t.Error}
	}
	close(waiter)
}

func (ch *Chat) reason() error {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	return ch.why
}

// Next returns the next event or outcome. It waits until ctx ends, and returns
// ErrHungUp when the chat is over.
func (ch *Chat) Next(ctx context.Context) (Down, error) {
	select {
	case d := <-ch.down:
		return d, nil
	case <-ch.done:
		return Down{}, ch.reason()
	case <-ctx.Done():
		return Down{}, ctx.Err()
	}
}

// Seen tells the daemon that everything up to seq has been shown.
func (ch *Chat) Seen(seq uint64) error {
	if err := ch.out.write(up{Seen: seq}); err != nil {
		return fmt.Errorf("%w: %w", ErrHungUp, err)
	}
	return nil
}

// Say sends text with an ID from console.NewID. It returns nil once the line is
// stored. After ErrHungUp it is unknown whether it was stored; sent again with the
// same ID it is accepted once. An *Error means that the line was rejected.
func (ch *Chat) Say(ctx context.Context, id, text string) error {
	waiter := make(chan error, 1)
	ch.mu.Lock()
	ch.taken[id] = waiter
	ch.mu.Unlock()
	defer func() {
		ch.mu.Lock()
		delete(ch.taken, id)
		ch.mu.Unlock()
	}()
	if err := ch.out.write(up{Say: &line{id, text}}); err != nil {
		return fmt.Errorf("%w: %w", ErrHungUp, err)
	}
	select {
	case err := <-waiter:
		return err
	case <-ch.done:
		select {
		case err := <-waiter:
			return err
		default:
			return ch.reason()
		}
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Close disconnects from the conversation. It may be called more than once.
func (ch *Chat) Close() error {
	var err error
	ch.once.Do(func() {
		close(ch.stop)
		err = ch.body.Close()
	})
	ch.wg.Wait()
	if err != nil {
		return fmt.Errorf("disconnect: %w", err)
	}
	return nil
}

// upgrade is the protocol to which an attach request switches: JSON lines, of type
// up from the terminal and Down from the daemon.
const upgrade = "hermesd-chat"

const (
	maxUp   = 2 << 20  // a line of 256 KiB with every byte escaped
	maxDown = 64 << 20 // an answer with many parts
)

// up is a message of a terminal to the daemon.
type up struct {
	Say  *line  `json:"line,omitempty"`
	Seen uint64 `json:"seen,omitempty"`
}

type line struct {
	ID   string `json:"id"`
	Text string `json:"text"`
}

// Down is a message of the daemon to a terminal. Exactly one field is set.
type Down struct {
	Hello    *Hello         `json:"hello,omitempty"` // always the first message
	Event    *console.Event `json:"event,omitempty"`
	Outcome  *Outcome       `json:"outcome,omitempty"`
	Accepted *LineAccepted  `json:"accepted,omitempty"`
	Bye      string         `json:"bye,omitempty"` // always the last message: the reason for disconnecting
}

// Hello describes the daemon and the conversation to a terminal.
type Hello struct {
	Version      string    `json:"version"`
	Model        string    `json:"model,omitempty"`
	Conversation string    `json:"conversation"`
	Commands     []Command `json:"commands"`
}

// A Command is a chat command that is available in the conversation.
type Command struct {
	Name    string   `json:"name"`
	Aliases []string `json:"aliases,omitempty"`
	Args    string   `json:"args,omitempty"`
	Help    string   `json:"help"`
}

// LineAccepted confirms that a line is stored, or has the reason why not.
type LineAccepted struct {
	ID    string `json:"id"`
	Error string `json:"error,omitempty"`
}

// An Outcome reports how a line ended. It is sent after the messages that answer
// it.
type Outcome struct {
	ID     string       `json:"id"` // of the line
	Result inbox.Result `json:"result"`
	Reason string       `json:"reason,omitempty"`
	// Text is the answer, one element per message.
	Text []chat.RichText `json:"text,omitempty"`
	// Messages are the IDs of the messages that show Text or showed it before, as a
	// preview. Other messages of the turn are notices.
	Messages []string    `json:"messages,omitempty"`
	Trace    store.Trace `json:"trace,omitzero"`
}

// lines writes values as JSON lines. It is safe for concurrent use.
type lines struct {
	mu sync.Mutex // guards w
	w  io.Writer
	// mask, if set, masks secrets in the output.
	mask func(string) string
}

func (l *lines) write(v any) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode: %w", err)
	}
	raw = append(raw, '\n')
	if l.mask != nil {
		raw = []byte(l.mask(string(raw)))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	_, err = l.w.Write(raw)
	return err
}

// scan calls take for each line of r until r ends or take fails. A line of more
// than most bytes is an error.
func scan(r io.Reader, most int, take func([]byte) error) error {
	s := bufio.NewScanner(r)
	s.Buffer(make([]byte, 0, 4096), most)
	for s.Scan() {
		if err := take(s.Bytes()); err != nil {
			return err
		}
	}
	return s.Err()
}
