package target

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"hermesd/gateway/access"
	"hermesd/gateway/chat"
	"hermesd/gateway/schedule"
	"hermesd/gateway/store"
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

// AnnounceRun stores the answer of a run of the scheduled prompt name of creator, which
// is sent to chats, so that the creator's next turns there know it.
func (d *Directory) AnnounceRun(ctx context.Context, creator access.Principal, name, text string, to []chat.Address) {
	d.announceMu.Lock()
	defer d.announceMu.Unlock()
	d.storeAnnouncementLocked(ctx, announcement{Origin: fmt.Sprintf("%s %q", scheduledOrigin, name), Creator: creator, Text: text}, to)
}

// storeAnnouncementLocked stores a message that was sent to chats from outside, so that
// the conversations there know it when a user replies. Repeats are stored once.
func (d *Directory) storeAnnouncementLocked(ctx context.Context, a announcement, to []chat.Address) {
	a.SentAt = time.Now().UTC()
	if r := []rune(a.Text); len(r) > maxAnnouncementRunes {
		a.Text = string(r[:maxAnnouncementRunes]) + " …"
	}
	for _, at := range to {
		list := slices.DeleteFunc(d.loadAnnouncements(ctx, at), func(o announcement) bool {
			return o.Origin == a.Origin && o.Text == a.Text && o.Creator == a.Creator
		})
		list = append(list, a)
		list = list[max(0, len(list)-maxAnnouncements):]
		if err := store.Save(ctx, d.parts.Store, announcementsKey(at), list); err != nil {
			d.opts.Log.Error("cannot store announcement", zap.Stringer("chat", at), zap.Error(err))
		}
	}
}

func (d *Directory) loadAnnouncements(ctx context.Context, at chat.Address) []announcement {
	list, err := store.Load[[]announcement](ctx, d.parts.Store, announcementsKey(at))
	if err != nil && ctx.Err() == nil { // not needed if the turn was stopped
		d.opts.Log.Error("cannot load announcements", zap.Stringer("chat", at), zap.Error(err))
	}
	return list
}

// Announcements returns what was said in a chat from outside since a time, at most one
// week ago, and all readers may read, as text for the model; "" if there is nothing.
func (d *Directory) Announcements(ctx context.Context, at chat.Address, since time.Time, readers []access.Principal) string {
	d.announceMu.Lock() // waits for announcements that are being stored
	defer d.announceMu.Unlock()
	var b strings.Builder
	for _, a := range d.loadAnnouncements(ctx, at) {
		if age := time.Since(a.SentAt); a.canRead(readers) && a.SentAt.After(since) && 0 <= age && age < 7*24*time.Hour {
			fmt.Fprintf(&b, "[you said here at %s, %s]\n%s\n[end of what was said]\n\n", a.SentAt.In(d.opts.Location).Format("2006-01-02 15:04"), a.Origin, a.Text)
		}
	}
	return b.String()
}
