// Package delivery renders, splits, streams, edits and retries what the daemon
// says.
//
// Everything that a person is meant to keep is a row of the outbox, and leaves
// through one worker per address, in order, one row at a time: the attempt is
// on disk before the request leaves, the receipt before the next row does. What
// is decoration (typing, the edits of a preview) goes past the outbox, on its
// own budget, and nothing waits for it.
package delivery

import (
	"context"
	"sync"
	"time"

	"go.uber.org/zap"

	"hermesd/gateway/chat"
	"hermesd/gateway/lane"
	"hermesd/gateway/markup"
	"hermesd/gateway/observe"
	"hermesd/gateway/outbox"
	"hermesd/internal/secret"
)

// Options are what a Delivery works with.
type Options struct {
	Store    Store
	Adapters map[chat.Account]chat.Adapter
	// Uncertain is the policy for sends of which nobody can say whether they
	// arrived: resend, hold or drop.
	Uncertain outbox.UncertainPolicy
	// RepeatNotice is what outbox.RepeatMark is in the language of the people, and no
	// longer; "" is that itself.
	RepeatNotice string
	// Preview shows answers while they are written, where the platform can edit.
	Preview bool
	// EditInterval is the least time between two edits of one preview; 0 takes
	// the platform's.
	EditInterval time.Duration
	// Ceilings are the operator's own limits. Without one, only what the
	// platform's answers say holds a send back.
	Ceilings map[chat.Account]outbox.RateLimit
	// SendTimeout ends a request that gets no answer; 0 is 60 s.
	SendTimeout time.Duration
	// Settled is told of each attempt's result once it is stored; it must not wait.
	// nil: nobody is told.
	Settled func(outbox.Row, outbox.Settlement)
	// Observe is told of attempts. It must not wait.
	Observe observe.Func
	Masker  *secret.Masker
	Log     *zap.Logger
}

// maxSenders bounds how many addresses are sent to at once.
const maxSenders = 1024

// A Delivery carries rows to platforms. Its methods may be called from any
// goroutine.
type Delivery struct {
	opts  Options
	lanes *lane.Set[chat.Address]
	stop  sync.Once
	done  chan struct{} // closed when no new row is taken up

	budget *outbox.Throttle

	mu     sync.Mutex                   // guards what follows
	timers map[chat.Address]*time.Timer // addresses that wait for their head to be due
}

// New returns a Delivery that does nothing until Start.
func New(o Options) *Delivery {
	if o.SendTimeout == 0 {
		o.SendTimeout = 60 * time.Second
	}
	if o.Masker == nil {
		o.Masker = &secret.Masker{}
	}
	if o.RepeatNotice == "" {
		o.RepeatNotice = outbox.RepeatNotice
	}
	d := &Delivery{opts: o, budget: outbox.NewThrottle(o.Ceilings), timers: make(map[chat.Address]*time.Timer), done: make(chan struct{})}
	d.lanes = lane.New(maxSenders, d.work)
	return d
}

// Start wakes the queues that have rows from an earlier process.
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

// Wake says that rows wait for to.
func (d *Delivery) Wake(to chat.Address) { d.lanes.Wake(to) }

// WakeRows wakes the queues of rows.
func (d *Delivery) WakeRows(rows []outbox.Row) {
	for i, r := range rows {
		if i == 0 || r.Msg.To != rows[i-1].Msg.To {
			d.lanes.Wake(r.Msg.To)
		}
	}
}

// Enqueue stores rows and sends them. It returns once they are on disk.
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

// flushTime is how long Close sends on what is due: what turns have said that
// were let finish, and rows whose attempt is on disk already.
const flushTime = 5 * time.Second

// Close sends what is due for a moment, then takes no new row up, and waits for
// the requests that are under way, or for ctx. What is left stays in the outbox.
func (d *Delivery) Close(ctx context.Context) error {
	d.lanes.RefuseWakes()
	flush, cancel := context.WithTimeout(ctx, flushTime)
	defer cancel()
	flushed := d.lanes.Wait(flush)
	d.stop.Do(func() { close(d.done) })
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

// wakeIn wakes to after wait, once.
func (d *Delivery) wakeIn(to chat.Address, wait time.Duration) {
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

// A Draft says for what and how a text is rendered.
type Draft struct {
	To             chat.Address
	Turn           string
	Role           outbox.Role
	ReplyTo        string // platform id of the message to quote with the first piece
	QuoteEveryPart bool   // quote with each piece
	Quiet          bool
	Secret         bool // what it says is not kept once it has ended; see outbox.Row.Forgotten
	// ReplyToIDs, As and Usage are told to adapters whose clients wait for answers; see
	// chat.About.
	ReplyToIDs []string
	Purpose    chat.Purpose
	Usage      *chat.Usage
}

// repeatNoticeRoom is what each piece leaves free for the mark of a possible repeat.
const repeatNoticeRoom = len(outbox.RepeatNotice) + 1

// Render makes rows of Markdown: parsed once, split where the platform needs
// it, secrets masked. On a platform that is Raw it stays one piece of Markdown.
func (d *Delivery) Render(md string, f Draft) []outbox.Row {
	a, ok := d.opts.Adapters[f.To.AccountID()]
	if d.RawMarkdown(f.To) {
		return []outbox.Row{{Role: f.Role, Turn: f.Turn, RedactWhenDone: f.Secret, Msg: f.raw(d.opts.Masker.Mask(md))}}
	}
	rich := markup.Parse(d.opts.Masker.Mask(md))
	pieces := []chat.RichText{rich}
	if ok {
		ft := a.Capabilities()
		pieces = markup.Split(rich, ft.MaxTextSize-repeatNoticeRoom, ft.TextSize)
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

// RawMarkdown reports whether the clients at an address read Markdown themselves.
func (d *Delivery) RawMarkdown(to chat.Address) bool {
	a, ok := d.opts.Adapters[to.AccountID()]
	return ok && a.Capabilities().RawMarkdown
}

// raw is the message that carries md to a platform whose clients read Markdown.
func (f Draft) raw(md string) chat.Outbound {
	return chat.Outbound{
		To: f.To, Text: chat.PlainText(md), ReplyTo: f.ReplyTo, Quiet: f.Quiet,
		ReplyContext: &chat.ReplyContext{Purpose: f.Purpose, IDs: f.ReplyToIDs, Usage: f.Usage},
	}
}

// SendNotice renders md and sends it as a notice.
func (d *Delivery) SendNotice(ctx context.Context, md string, f Draft) error {
	if f.Role == "" {
		f.Role = outbox.Notice
	}
	_, err := d.Enqueue(ctx, d.Render(md, f)...)
	return err
}

// DeletePreviewRow is the row that takes the message of a preview back.
func DeletePreviewRow(to chat.Address, turn string, preview outbox.ID) outbox.Row {
	return outbox.Row{Role: outbox.Preview, Turn: turn, Msg: chat.Outbound{To: to}, Delete: preview}
}

// DeletePreview takes the message of a preview back, if it was sent.
func (d *Delivery) DeletePreview(ctx context.Context, to chat.Address, turn string, preview outbox.ID) error {
	_, err := d.Enqueue(ctx, DeletePreviewRow(to, turn, preview))
	return err
}
