package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"hermesd/gateway/access"
	"hermesd/gateway/chat"
	"hermesd/gateway/schedule"
)

// An announcement is a message that was sent to a chat from outside its conversation:
// by a scheduled run, from another chat or by the operator.
type announcement struct {
	SentAt time.Time `json:"At"`
	Origin string    `json:"As"` // its origin, for the model: "sent by the operator"
	// Creator is the creator of the scheduled prompt whose output it is; zero: it is not
	// the output of one.
	Creator access.Principal `json:"By,omitzero"`
	Text    string           `json:"Text"`
}

// scheduledOrigin begins the Origin of answers of scheduled runs.
const scheduledOrigin = "as the scheduled prompt"

// canRead reports whether a may become input of a turn of readers. The output of a
// scheduled prompt never becomes the input of another person. An answer without a creator
// was stored by an older version.
func (a announcement) canRead(readers []access.Principal) bool {
	if a.Creator == (access.Principal{}) {
		return !strings.HasPrefix(a.Origin, scheduledOrigin)
	}
	return !slices.ContainsFunc(readers, func(r access.Principal) bool { return !schedule.CanRead(r, a.Creator) })
}

const (
	maxAnnouncements     = 5    // announcements stored per chat
	maxAnnouncementRunes = 4000 // characters of each
)

func announcementsKey(at chat.Address) string { return "announced:" + at.String() + ":" + at.Account }

// storeAnnouncement stores a message that was sent to chats from outside, so that the
// conversations there know it when a user replies. Repeats are stored once.
func (g *Gateway) storeAnnouncement(ctx context.Context, a announcement, to []chat.Address) {
	g.announceMu.Lock()
	defer g.announceMu.Unlock()
	g.storeAnnouncementLocked(ctx, a, to)
}

func (g *Gateway) storeAnnouncementLocked(ctx context.Context, a announcement, to []chat.Address) {
	a.SentAt = time.Now().UTC()
	if r := []rune(a.Text); len(r) > maxAnnouncementRunes {
		a.Text = string(r[:maxAnnouncementRunes]) + " …"
	}
	for _, at := range to {
		list := slices.DeleteFunc(g.loadAnnouncements(ctx, at), func(o announcement) bool {
			return o.Origin == a.Origin && o.Text == a.Text && o.Creator == a.Creator
		})
		list = append(list, a)
		list = list[max(0, len(list)-maxAnnouncements):]
		raw, err := json.Marshal(list)
		if err == nil {
			err = g.opts.Store.SetValue(ctx, announcementsKey(at), raw)
		}
		if err != nil {
			g.opts.Log.Error("cannot store announcement", zap.Stringer("chat", at), zap.Error(err))
		}
	}
}

func (g *Gateway) loadAnnouncements(ctx context.Context, at chat.Address) (list []announcement) {
	raw, err := g.opts.Store.Value(ctx, announcementsKey(at))
	if err == nil && raw != nil {
		err = json.Unmarshal(raw, &list)
	}
	if err != nil && ctx.Err() == nil { // not needed if the turn was stopped
		g.opts.Log.Error("cannot load announcements", zap.Stringer("chat", at), zap.Error(err))
	}
	return list
}

// renderAnnouncements returns the announcements to a chat since a time, at most one week old,
// that all readers may read, as text for the model.
func (g *Gateway) renderAnnouncements(ctx context.Context, at chat.Address, since time.Time, readers []access.Principal) string {
	g.announceMu.Lock() // waits for announcements that are being stored
	defer g.announceMu.Unlock()
	var b strings.Builder
	for _, a := range g.loadAnnouncements(ctx, at) {
		if age := time.Since(a.SentAt); a.canRead(readers) && a.SentAt.After(since) && 0 <= age && age < 7*24*time.Hour {
			fmt.Fprintf(&b, "[you said here at %s, %s]\n%s\n[end of what was said]\n\n", a.SentAt.In(g.opts.Location).Format("2006-01-02 15:04"), a.Origin, a.Text)
		}
	}
	return b.String()
}
