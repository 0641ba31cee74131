package tui

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"hermesd/cmd/internal/admin"
	"hermesd/internal/backoff"
)

// Messages of a link.
type (
	// connected reports that the link is established.
	connected struct{ hello admin.Hello }
	// fromDaemon is a message of the daemon.
	fromDaemon struct{ admin.Down }
	// disconnected reports that the link is broken; it reconnects automatically.
	disconnected struct{ err error }
)

const (
	firstRetry = 300 * time.Millisecond
	lastRetry  = 5 * time.Second
	maxShown   = 64
)

// A link keeps a chat attached and sends its messages to out, in order.
type link struct {
	attach func(ctx context.Context, has ...string) (Chat, error)
	out    chan any
	wg     sync.WaitGroup // counts the goroutine of run

	mu        sync.Mutex // guards the fields below
	chat      Chat       // nil while the link is broken
	changed   chan struct{}
	shown     []string // IDs of shown messages, oldest first
	openLines []line   // accepted lines without an outcome
}

type line struct{ id, text string }

// openLink attaches a chat and keeps it attached until ctx ends; then wait returns.
func openLink(ctx context.Context, attach func(ctx context.Context, has ...string) (Chat, error)) (*link, error) {
	l := &link{attach: attach, out: make(chan any), changed: make(chan struct{})}
	chat, err := attach(ctx)
	if err != nil {
		return nil, err
	}
	l.wg.Go(func() { l.run(ctx, chat) }) // wait waits for it
	return l, nil
}

func (l *link) wait() { l.wg.Wait() }

// run serves the first chat and its successors.
func (l *link) run(ctx context.Context, chat Chat) {
	pause := firstRetry
	for {
		var err error
		if chat != nil {
			err = l.serve(ctx, chat)
			pause = firstRetry
		}
		for chat = nil; chat == nil; pause = min(2*pause, lastRetry) {
			if err != nil && !l.emit(ctx, disconnected{err}) {
				return
			}
			if backoff.Sleep(ctx, pause) != nil {
				return
			}
			l.mu.Lock()
			has := slices.Clone(l.shown)
			l.mu.Unlock()
			if chat, err = l.attach(ctx, has...); err != nil {
				chat = nil
			}
		}
	}
}

// serve forwards the messages of a chat until it ends.
func (l *link) serve(ctx context.Context, chat Chat) (err error) {
	defer func() { err = errors.Join(err, chat.Close()) }()
	defer l.setChat(nil)
	if !l.emit(ctx, connected{chat.Hello()}) {
		return ctx.Err()
	}
	l.setChat(chat)
	l.mu.Lock()
	again := slices.Clone(l.openLines)
	l.mu.Unlock()
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	wg.Go(func() { // sent again, so that the daemon reports their outcome
		for _, ln := range again {
			if chat.Say(ctx, ln.id, ln.text) != nil {
				return // the next chat retries
			}
		}
	})
	for {
		d, err := chat.Next(ctx)
		if err != nil {
			return err
		}
		if !l.emit(ctx, fromDaemon{d}) {
			return ctx.Err()
		}
		l.recordMessage(d)
		if d.Event != nil && d.Event.Seq > 0 {
			if err := chat.Seen(d.Event.Seq); err != nil {
				return err
			}
		}
	}
}

// recordMessage records shown messages and removes lines that have an outcome.
func (l *link) recordMessage(d admin.Down) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if o := d.Outcome; o != nil {
		l.openLines = slices.DeleteFunc(l.openLines, func(ln line) bool { return ln.id == o.ID })
	}
	if d.Event != nil && d.Event.ID != "" && !slices.Contains(l.shown, d.Event.ID) {
		l.shown = append(l.shown, d.Event.ID)
		l.shown = l.shown[max(0, len(l.shown)-maxShown):]
	}
}

func (l *link) emit(ctx context.Context, msg any) bool {
	select {
	case l.out <- msg:
		return true
	case <-ctx.Done():
		return false
	}
}

// setChat replaces the chat to which lines are sent.
func (l *link) setChat(chat Chat) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.chat = chat
	close(l.changed)
	l.changed = make(chan struct{})
}

// send sends a line and waits as long as necessary. It returns nil once the line is
// on disk, an *admin.Error if the line was rejected, and otherwise the error of ctx.
func (l *link) send(ctx context.Context, ln line) error {
	for {
		l.mu.Lock()
		chat, changed := l.chat, l.changed
		l.mu.Unlock()
		if chat != nil {
			err := chat.Say(ctx, ln.id, ln.text)
			var refused *admin.Error
			switch {
			case err == nil:
				l.mu.Lock()
				l.openLines = append(l.openLines, ln)
				l.mu.Unlock()
				return nil
			case errors.As(err, &refused):
				return err
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
		}
	}
}
