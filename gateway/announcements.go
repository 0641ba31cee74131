package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"hermesd/gateway/chat"
)

// An announcement is what was said in a chat outside of its conversation: by a
// scheduled run, from another chat, or by the operator.
type announcement struct {
	At   time.Time `json:"At"`
	As   string    `json:"As"` // what it was said as
	Text string    `json:"Text"`
}

const (
	maxAnnounced = 5    // announcements to one chat that are kept
	maxAnnounce  = 4000 // characters of each
)

func announceKey(at chat.Address) string { return "announced:" + at.String() + ":" + at.Account }

// announce keeps what was said in chats, so that the conversations there know of
// it: somebody may answer. The same twice is kept once.
func (g *Gateway) announce(ctx context.Context, as, text string, to []chat.Address) {
	g.announceMu.Lock()
	defer g.announceMu.Unlock()
	g.announceLocked(ctx, as, text, to)
}

func (g *Gateway) announceLocked(ctx context.Context, as, text string, to []chat.Address) {
	if r := []rune(text); len(r) > maxAnnounce {
		text = string(r[:maxAnnounce]) + " …"
	}
	for _, at := range to {
		list := slices.DeleteFunc(g.announcements(ctx, at), func(a announcement) bool { return a.As == as && a.Text == text })
		list = append(list, announcement{At: time.Now().UTC(), As: as, Text: text})
		list = list[max(0, len(list)-maxAnnounced):]
		raw, err := json.Marshal(list)
		if err == nil {
			err = g.opts.Store.SetValue(ctx, announceKey(at), raw)
		}
		if err != nil {
			g.opts.Log.Error("keep what was said in a chat", zap.Stringer("chat", at), zap.Error(err))
		}
	}
}

func (g *Gateway) announcements(ctx context.Context, at chat.Address) (list []announcement) {
	raw, err := g.opts.Store.Value(ctx, announceKey(at))
	if err == nil && raw != nil {
		err = json.Unmarshal(raw, &list)
	}
	if err != nil && ctx.Err() == nil { // a turn that is stopped meanwhile needs it no more
		g.opts.Log.Error("what was said in a chat", zap.Stringer("chat", at), zap.Error(err))
	}
	return list
}

// announced is what was said at a place after a time, as the model is told of it.
func (g *Gateway) announced(ctx context.Context, at chat.Address, since time.Time) string {
	g.announceMu.Lock() // what is being said is waited for
	defer g.announceMu.Unlock()
	var b strings.Builder
	for _, a := range g.announcements(ctx, at) {
		if age := time.Since(a.At); a.At.After(since) && 0 <= age && age < 7*24*time.Hour {
			fmt.Fprintf(&b, "[you said here at %s, %s]\n%s\n[end of what was said]\n\n", a.At.In(g.opts.Location).Format("2006-01-02 15:04"), a.As, a.Text)
		}
	}
	return b.String()
}
