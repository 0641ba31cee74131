package gateway

import (
	"context"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"hermesd/agent/prompt"
	"hermesd/gateway/chat"
	"hermesd/gateway/command"
	"hermesd/gateway/delivery"
	"hermesd/gateway/inbox"
	"hermesd/gateway/session"
)

// applyBusyMode decides what a message does to a turn that runs: it answers a question
// of its, or does what the person says with /queue, /steer or /bg, or what is
// set for the conversation. It may change what the message says: what follows
// /queue is the message.
func (g *Gateway) applyBusyMode(ctx context.Context, e *inbox.Entry) {
	if e.Inbound.Kind != chat.Message {
		return
	}
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
	if g.runner.HasQuestion(e.Lane) {
		e.Mode = inbox.Steer
		return
	}
	e.Mode = g.mode(ctx, e)
}

// parseModeCommand makes of what follows /queue, /steer and /bg a message like any other.
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

// mode is what a message does that comes while a turn runs or others wait.
func (g *Gateway) mode(ctx context.Context, e *inbox.Entry) inbox.Mode {
	mode := g.opts.Mode
	if g.lanes.Active(e.Lane) || g.opts.Store.Waiting(e.Lane) > 0 {
		rec, ok, err := g.opts.Store.Session(ctx, e.Session)
		if err != nil {
			g.opts.Log.Error("busy mode", zap.String("session", string(e.Session)), zap.Error(err))
		}
		if ok && rec.Settings.BusyMode != "" {
			mode = inbox.Mode(rec.Settings.BusyMode)
		}
	}
	if mode == inbox.Interrupt {
		return "" // it is what an entry without one does
	}
	return mode
}

// parsePlainApproval makes of a plain yes or no, in English or German, the answer to the only request for leave
// that waits, and returns its id.
func (g *Gateway) parsePlainApproval(e *inbox.Entry) string {
	waiting := g.runner.PendingApprovals(e.Lane)
	if len(waiting) != 1 {
		return ""
	}
	switch strings.ToLower(strings.Trim(strings.TrimSpace(e.Inbound.Text), ".!")) {
	case "yes", "y", "ok", "okay", "approve", "allow", "ja", "j", "erlauben":
		e.Inbound.Text = "/approve " + waiting[0]
	case "no", "n", "deny", "cancel", "nein", "ablehnen", "abbrechen":
		e.Inbound.Text = "/deny " + waiting[0]
	default:
		return ""
	}
	return waiting[0]
}

// ackEvery is the least time between two acknowledgements in one conversation.
const ackEvery = 30 * time.Second

// ackLimiter remembers where an acknowledgement was given a moment ago.
type ackLimiter struct {
	mu   sync.Mutex // guards last
	last map[inbox.Lane]time.Time
}

// due reports whether one may be given in l now, and counts it.
func (a *ackLimiter) due(l inbox.Lane) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now()
	for l, at := range a.last {
		if now.Sub(at) >= ackEvery {
			delete(a.last, l)
		}
	}
	if _, ok := a.last[l]; ok {
		return false
	}
	a.last[l] = now
	return true
}

// acknowledge tells who speaks to a busy agent that it was heard.
func (g *Gateway) acknowledge(ctx context.Context, e inbox.Entry) {
	var text string
	switch {
	case e.Lane.Immediate() || e.Inbound.Address.Platform == chat.Cron || g.delivery.RawMarkdown(e.Inbound.Address):
		return
	case g.paused.Load():
		text = g.opts.Printer.T("⏸ I am paused: your message waits until `/pause off`.")
	case !g.opts.Acknowledge || !g.lanes.Active(e.Lane):
		return
	case e.Mode == inbox.Queue:
		text = g.opts.Printer.T("⏳ I work on something else; your message is next. `/stop` ends what runs.")
	case e.Mode == inbox.Steer && g.runner.HasQuestion(e.Lane): // it is an answer
		return
	case e.Mode == inbox.Steer:
		text = g.opts.Printer.T("↪️ I take that into account as soon as the step that runs is done.")
	default:
		return
	}
	if !g.acks.due(e.Lane) {
		return
	}
	if err := g.delivery.SendNotice(ctx, text, delivery.Draft{To: e.Inbound.Address, Quiet: true}); err != nil {
		g.opts.Log.Error("acknowledge", zap.Stringer("entry", e.ID), zap.Error(err))
	}
}

// Decide answers a question that waits in the caller's conversation.
func (e env) Decide(c command.Call, id string, leave bool, d command.Decision) (text string, then func()) {
	d.Text = prompt.EscapeTags(d.Text)
	return e.g.runner.AnswerQuestion(inbox.LaneOf(c.Key), id, c.Inbound.IdempotencyKey, leave, d)
}
