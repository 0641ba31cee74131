package tui

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"hermesd/cmd/internal/admin"
	"hermesd/cmd/internal/tui/text"
)

// What a link tells.
type (
	// A connected says that the link stands.
	connected struct{ hello admin.Hello }
	// A fromDaemon is what the daemon tells.
	fromDaemon struct{ admin.Down }
	// A disconnected says that the link is broken; it is mended by itself.
	disconnected struct{ err error }
)

const (
	firstRetry = 300 * time.Millisecond
	lastRetry  = 5 * time.Second
	maxShown   = 64
)

// A link keeps a chat attached. What it tells comes out of out, in order.
type link struct {
	attach func(ctx context.Context, has ...string) (Chat, error)
	out    chan any
	wg     sync.WaitGroup // the goroutine that runs

	mu      sync.Mutex // guards what follows
	chat    Chat       // nil while the link is broken
	changed chan struct{}
	shown   []string // messages, oldest first
	open    []line   // lines that were taken and have no outcome
}

type line struct{ id, text string }

// open attaches, and keeps attached until ctx ends; then wait returns.
func open(ctx context.Context, attach func(ctx context.Context, has ...string) (Chat, error)) (*link, error) {
	l := &link{attach: attach, out: make(chan any), changed: make(chan struct{})}
	chat, err := attach(ctx)
	if err != nil {
		return nil, err
	}
	l.wg.Go(func() { l.run(ctx, chat) }) // wait waits for it
	return l, nil
}

func (l *link) wait() { l.wg.Wait() }

// run serves one chat after the other.
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
			timer := time.NewTimer(pause)
			select {
			case <-ctx.Done():
				timer.Stop()
				return
			case <-timer.C:
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

// serve passes on what a chat tells until it is over.
func (l *link) serve(ctx context.Context, chat Chat) (err error) {
	defer func() { err = errors.Join(err, chat.Close()) }()
	defer l.set(nil)
	if !l.emit(ctx, connected{chat.Hello()}) {
		return ctx.Err()
	}
	l.set(chat)
	l.mu.Lock()
	again := slices.Clone(l.open)
	l.mu.Unlock()
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	wg.Go(func() { // said again, so that the daemon tells how they end
		for _, ln := range again {
			if chat.Say(ctx, ln.id, ln.text) != nil {
				return // the next chat tries again
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
		l.taken(d)
		if d.Event != nil && d.Event.Seq > 0 {
			if err := chat.Seen(d.Event.Seq); err != nil {
				return err
			}
		}
	}
}

// taken remembers what was shown and which lines are still open.
func (l *link) taken(d admin.Down) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if o := d.Outcome; o != nil {
		l.open = slices.DeleteFunc(l.open, func(ln line) bool { return ln.id == o.ID })
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

// set changes the chat through which lines are said.
func (l *link) set(chat Chat) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.chat = chat
	close(l.changed)
	l.changed = make(chan struct{})
}

// say says a line, for as long as it takes. The error is nil once the line is
// on disk; it is an *admin.Error if the line was refused, else that of ctx.
func (l *link) say(ctx context.Context, ln line) error {
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
				l.open = append(l.open, ln)
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

// reason says in a few words why the link is broken.
func reason(err error) string { return text.Cut(err.Error(), 120) }
