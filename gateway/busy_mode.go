package gateway

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"hermesd/gateway/chat"
	"hermesd/gateway/command"
	"hermesd/gateway/delivery"
	"hermesd/gateway/inbox"
	"hermesd/gateway/session"
)

// applyBusyMode sets what a message does to a running turn: it answers a question or
// approval request of the turn, or follows /queue, /steer or /bg, or the setting of
// the conversation. It may change the text: the message is what follows /queue.
func (g *Gateway) applyBusyMode(ctx context.Context, e *inbox.Entry) {
	if e.Inbound.Kind != chat.Message {
		return
	}
	defer func() {
		if e.Mode == inbox.Steer && !g.mayChangeTurn(*e) {
			e.Mode = inbox.Queue
		}
	}()
	name, args, ok := command.Parse(e.Inbound.Text)
	if ok {
		cmd, known := g.commands.Lookup(name)
		if known && args != "" && e.Principal.Level >= cmd.Level {
			g.parseModeCommand(e, cmd.Name, args)
		}
		return
	}
	if id := g.parsePlainApproval(e); id != "" {
		return
	}
	if g.approval.Questions.HasQuestion(e.Lane) {
		e.Mode = inbox.Steer
		return
	}
	e.Mode = g.busyModeFor(ctx, e)
}

// parseModeCommand turns the text after /queue, /steer and /bg into an ordinary
// message.
func (g *Gateway) parseModeCommand(e *inbox.Entry, name, text string) {
	switch name {
	case "queue":
		e.Mode = inbox.Queue
	case "steer":
		e.Mode = inbox.Steer
	case "bg":
		e.Session = session.BackgroundKey(e.Session, e.Inbound.IdempotencyKey)
		e.Lane, e.Background = inbox.LaneOf(e.Session), true
	default:
		return
	}
	e.Inbound.Text = text
}

// busyModeFor returns the busy mode of a message that arrives while a turn runs or other
// messages wait.
func (g *Gateway) busyModeFor(ctx context.Context, e *inbox.Entry) inbox.Mode {
	mode := g.opts.Mode
	if g.lanes.Active(e.Lane) || g.opts.Store.Waiting(e.Lane) > 0 {
		rec, ok, err := g.opts.Store.Session(ctx, e.Session)
		if err != nil {
			g.opts.Log.Error("cannot load busy mode", zap.String("session", string(e.Session)), zap.Error(err))
		}
		if ok && rec.Settings.BusyMode != "" {
			mode = inbox.Mode(rec.Settings.BusyMode)
		}
	}
	if mode == inbox.Interrupt {
		return "" // the default of an entry without a mode
	}
	return mode
}

// parsePlainApproval turns a plain yes or no, in English or the active language, into
// the answer to the only pending approval request, and returns the request's ID.
func (g *Gateway) parsePlainApproval(e *inbox.Entry) string {
	waiting := g.approval.Questions.PendingApprovals(e.Lane)
	if len(waiting) != 1 {
		return ""
	}
	word := strings.ToLower(strings.Trim(strings.TrimSpace(e.Inbound.Text), ".!"))
	in := func(words string) bool { return word != "" && slices.Contains(strings.Fields(words), word) }
	switch p := g.opts.Printer; {
	case in("yes ok okay approve allow"), in(p.T(plainYes)):
		e.Inbound.Text = "/approve " + waiting[0]
	case in("no deny cancel"), in(p.T(plainNo)):
		e.Inbound.Text = "/deny " + waiting[0]
	default:
		return ""
	}
	return waiting[0]
}

// The words of one language that approve and deny. Their translation holds the words of
// the other language; single letters count in the active language only.
const (
	plainYes = "yes y"
	plainNo  = "no n"
)

// minAckInterval is the minimum time between two acknowledgments in one lane.
const minAckInterval = 30 * time.Second

// An ackLimiter limits acknowledgments to one per lane and minAckInterval.
type ackLimiter struct {
	mu         sync.Mutex // guards last
	lastSentAt map[inbox.Lane]time.Time
}

// allow reports whether an acknowledgment may be sent in l now, and records it.
func (a *ackLimiter) allow(l inbox.Lane) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now()
	for l, at := range a.lastSentAt {
		if now.Sub(at) >= minAckInterval {
			delete(a.lastSentAt, l)
		}
	}
	if _, ok := a.lastSentAt[l]; ok {
		return false
	}
	a.lastSentAt[l] = now
	return true
}

// acknowledge notifies the sender of e if the message waits because the daemon is
// paused or a turn is running.
func (g *Gateway) acknowledge(ctx context.Context, e inbox.Entry) {
	var text string
	switch {
	case e.Lane.Immediate() || e.Inbound.Address.Platform == chat.Cron || g.delivery.RawMarkdown(e.Inbound.Address):
		return
	case g.pause.Paused():
		text = g.opts.Printer.T("⏸ I am paused: your message waits until `/pause off`.")
	case !g.opts.Acknowledge || !g.lanes.Active(e.Lane):
		return
	case e.Mode == inbox.Queue:
		text = g.opts.Printer.T("⏳ I work on something else; your message is next. `/stop` ends what runs.")
	case e.Mode == inbox.Steer && g.approval.Questions.HasQuestion(e.Lane): // the message answers it
		return
	case e.Mode == inbox.Steer:
		text = g.opts.Printer.T("↪️ I take that into account as soon as the step that runs is done.")
	default:
		return
	}
	if !g.acks.allow(e.Lane) {
		return
	}
	if err := g.delivery.SendNotice(ctx, text, delivery.Draft{To: e.Inbound.Address, Quiet: true}); err != nil {
		g.opts.Log.Error("cannot acknowledge message", zap.Stringer("entry", e.ID), zap.Error(err))
	}
}
