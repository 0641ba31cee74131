// Package delivery renders outbound messages and sends them: it splits, streams,
// edits and retries them.
//
// Every message that users are meant to keep is a row of the outbox. A Delivery
// sends rows through one worker per address, in order, one row at a time: an
// attempt is on disk before its request is sent, a receipt before the next row is
// sent. Decoration, which is typing indicators and edits of a preview, bypasses the
// outbox; nothing waits for it. Package outbox decides what follows an attempt, and
// package markup renders and splits texts.
package delivery

import (
	"context"
	"sync"
	"time"

	"go.uber.org/zap"

	"hermesd/gateway/accounts"
	"hermesd/gateway/chat"
	"hermesd/gateway/lane"
	"hermesd/gateway/markup"
	"hermesd/gateway/observe"
	"hermesd/gateway/outbox"
	"hermesd/gateway/store"
	"hermesd/internal/secret"
	"hermesd/internal/shorten"
)

// Options configure a Delivery.
type Options struct {
	Store    store.Outbox
	Accounts *accounts.Set
	// Uncertain is the policy for messages of which it is unknown whether they
	// arrived.
	Uncertain outbox.UncertainPolicy
	// RepeatNotice is the translation of outbox.RepeatNotice, and must not be longer.
	RepeatNotice string
	// RefusalText returns what users are told of an answer whose content a platform
	// refuses. file is the name of the file that it is, "" for a text.
	RefusalText func(file, reason string) string
	// Preview enables previews of unfinished answers on platforms that can edit.
	Preview bool
	// EditInterval is the minimum time between two edits of one preview. A larger
	// interval of the platform takes precedence.
	EditInterval time.Duration
	// Ceilings are the rate limits that the operator configured. An account without
	// one is limited only by the responses of its platform.
	Ceilings map[chat.Account]outbox.RateLimit
	// Settled is called with the settlement of each attempt once that is
	// stored. It must not block.
	Settled func(outbox.Row, outbox.Settlement)
	// Observe receives an event for each attempt. It must not block.
	Observe observe.Func
	Masker  *secret.Masker
	Log     *zap.Logger
}

const (
	// maxSenders is the maximum number of addresses that are sent to concurrently.
	maxSenders = 1024
	// sendTimeout limits a request to a platform.
	sendTimeout = time.Minute
)

// A Delivery sends the rows of the outbox to platforms. Its methods may be called
// from any goroutine.
type Delivery struct {
	opts     Options
	lanes    *lane.Set[chat.Address]
	stopOnce sync.Once
	done     chan struct{} // closed when no further attempt may start

	throttle *outbox.Throttle

	mu     sync.Mutex                   // guards what follows
	timers map[chat.Address]*time.Timer // addresses whose next row is not due yet
}

// New returns a Delivery. It sends nothing until Start, Enqueue or a Wake.
func New(o Options) *Delivery {
	d := &Delivery{opts: o, throttle: outbox.NewThrottle(o.Ceilings), timers: make(map[chat.Address]*time.Timer), done: make(chan struct{})}
	d.lanes = lane.New[chat.Address](maxSenders)
	d.lanes.Start(d.sendDue)
	return d
}

// Start wakes the queues that have rows of an earlier process.
func (d *Delivery) Start(ctx context.Context) error {
	queues, err := d.opts.Store.Queues(ctx)
	if err != nil {
		return err
	}
	for _, to := range queues {
		d.lanes.Wake(to)
	}
	return nil
}

// Wake starts sending the rows that are due for to.
func (d *Delivery) Wake(to chat.Address) { d.lanes.Wake(to) }

// WakeRows wakes the queues of the addresses of rows.
func (d *Delivery) WakeRows(rows []outbox.Row) {
	for i, r := range rows {
		if i == 0 || r.Msg.To != rows[i-1].Msg.To {
			d.lanes.Wake(r.Msg.To)
		}
	}
}

// Enqueue stores rows, wakes their queues and returns the rows with their IDs. It
// returns once they are on disk.
func (d *Delivery) Enqueue(ctx context.Context, rows ...outbox.Row) ([]outbox.Row, error) {
	if len(rows) == 0 {
		return nil, nil
	}
	rows, err := d.opts.Store.Enqueue(ctx, rows)
	if err != nil {
		return nil, err
	}
	d.WakeRows(rows)
	return rows, nil
}

// Close sends due rows for at most half of limit: replies of turns that were allowed to
// finish, and rows whose attempt is already on disk. Then it starts no further attempt and
// waits for the running requests for the rest of limit. Other rows stay in the outbox.
func (d *Delivery) Close(limit time.Duration) error {
	ctx, stop := context.WithTimeout(context.Background(), limit)
	defer stop()
	d.lanes.RefuseWakes()
	flush, cancel := context.WithTimeout(ctx, limit/2)
	defer cancel()
	flushed := d.lanes.Wait(flush)
	d.stopOnce.Do(func() { close(d.done) })
	d.mu.Lock()
	for to, t := range d.timers {
		t.Stop()
		delete(d.timers, to)
	}
	d.mu.Unlock()
	if flushed == nil {
		return nil
	}
	d.lanes.Stop()
	return d.lanes.Wait(ctx)
}

// wakeAfter wakes the queue of to after wait. It replaces an earlier timer of to.
func (d *Delivery) wakeAfter(to chat.Address, wait time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.stopping() {
		return
	}
	if t, ok := d.timers[to]; ok {
		t.Stop()
	}
	d.timers[to] = time.AfterFunc(wait, func() {
		d.mu.Lock()
		delete(d.timers, to)
		d.mu.Unlock()
		d.lanes.Wake(to)
	})
}

// A Draft holds the properties that Render gives to the rows of a text.
type Draft struct {
	To             chat.Address
	Turn           string
	Role           outbox.Role
	ReplyTo        string // platform ID of the message that the first piece quotes
	QuoteEveryPart bool   // each piece quotes ReplyTo
	Quiet          bool
	Secret         bool // the text is deleted once the row is terminal; see outbox.Row.RedactWhenDone
	// ReplyToIDs, Purpose and Usage are for adapters whose clients wait for the answer;
	// see chat.ReplyContext.
	ReplyToIDs []string
	Purpose    chat.Purpose
	Usage      *chat.Usage
}

// repeatNoticeSize is the number of bytes that each piece, and each preview, reserves for
// outbox.AddRepeatNotice.
const repeatNoticeSize = len(outbox.RepeatNotice) + 1

// Render returns rows for a Markdown text with its secrets masked. The text is
// parsed and split at the limits of the platform; where RawMarkdown, it stays one
// piece of Markdown. Markdown of which nothing would be visible, such as definitions of
// links, is shown as it is written.
func (d *Delivery) Render(md string, f Draft) []outbox.Row {
	a, ok := d.opts.Accounts.Adapter(f.To.AccountID())
	if d.RawMarkdown(f.To) {
		return []outbox.Row{{Role: f.Role, Turn: f.Turn, RedactWhenDone: f.Secret, Msg: f.rawMessage(d.opts.Masker.Mask(md))}}
	}
	md = d.opts.Masker.Mask(md)
	rich := markup.Parse(md)
	if shorten.IsBlank(rich.Text) {
		rich = chat.PlainText(md)
	}
	pieces := []chat.RichText{rich}
	if ok {
		ft := a.Capabilities()
		pieces = markup.Split(rich, ft.MaxTextSize-repeatNoticeSize, ft.TextSize)
	}
	rows := make([]outbox.Row, len(pieces))
	for i, p := range pieces {
		rows[i] = outbox.Row{Role: f.Role, Turn: f.Turn, RedactWhenDone: f.Secret, Msg: chat.Outbound{To: f.To, Text: p, Quiet: f.Quiet}}
		if i == 0 || f.QuoteEveryPart {
			rows[i].Msg.ReplyTo = f.ReplyTo
		}
	}
	return rows
}

// RawMarkdown reports whether the clients at an address render Markdown themselves.
func (d *Delivery) RawMarkdown(to chat.Address) bool {
	a, ok := d.opts.Accounts.Adapter(to.AccountID())
	return ok && a.Capabilities().RawMarkdown
}

// rawMessage returns the message with md for a platform with RawMarkdown.
func (f Draft) rawMessage(md string) chat.Outbound {
	return chat.Outbound{
		To: f.To, Text: chat.PlainText(md), ReplyTo: f.ReplyTo, Quiet: f.Quiet,
		ReplyContext: &chat.ReplyContext{Purpose: f.Purpose, IDs: f.ReplyToIDs, Usage: f.Usage},
	}
}

// SendNotice renders md and enqueues it, as a notice unless f has a Role.
func (d *Delivery) SendNotice(ctx context.Context, md string, f Draft) error {
	if f.Role == "" {
		f.Role = outbox.Notice
	}
	_, err := d.Enqueue(ctx, d.Render(md, f)...)
	return err
}

// DeletePreview enqueues the deletion of the message of a preview, if it was sent.
func (d *Delivery) DeletePreview(ctx context.Context, to chat.Address, turn string, preview outbox.ID) error {
	_, err := d.Enqueue(ctx, outbox.DeletePreviewRow(to, turn, preview))
	return err
}
