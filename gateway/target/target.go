// Package target finds the chats that users and tools name as targets of messages, and
// sends messages to chats unasked. A target is "origin", a platform (its home channel),
// "telegram:1" or "telegram:#name", "all" or "local". A Directory also stores what was
// said in a chat from outside of its conversation, so that the next turn there knows it.
package target

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"hermesd/gateway/access"
	"hermesd/gateway/accounts"
	"hermesd/gateway/chat"
	"hermesd/gateway/chatmigration"
	"hermesd/gateway/delivery"
	"hermesd/gateway/i18n"
	"hermesd/gateway/outbox"
	"hermesd/gateway/schedule"
	"hermesd/gateway/session"
	"hermesd/gateway/store"
)

// A Store stores the data of a Directory.
type Store interface {
	store.Sessions
	store.Values
}

// Parts are the parts that a Directory uses. All of them are set.
type Parts struct {
	Store    Store
	Accounts *accounts.Set
	Delivery *delivery.Delivery
	Moves    *chatmigration.Registry // chats that got a new ID
}

// Options configure a Directory.
type Options struct {
	Location *time.Location // of the times in announcements
	Log      *zap.Logger
}

// A Directory finds targets and sends messages to them. Its methods may be called from
// any goroutine.
type Directory struct {
	parts      Parts
	opts       Options
	configured atomic.Pointer[map[chat.Platform]chat.Address]
	set        atomic.Pointer[map[chat.Platform]chat.Address] // by users
	announceMu sync.Mutex                                     // serializes changes of announcements
}

// New returns a Directory without home channels; see SetConfigured and Load.
func New(p Parts, o Options) *Directory {
	d := &Directory{parts: p, opts: o}
	d.configured.Store(new(map[chat.Platform]chat.Address))
	d.set.Store(new(map[chat.Platform]chat.Address))
	return d
}

// homeChannelsKey is the store key of the home channels that users have set.
const homeChannelsKey = "homes"

// Load loads the home channels that users have set.
func (d *Directory) Load(ctx context.Context) error {
	set, err := store.Load[map[chat.Platform]chat.Address](ctx, d.parts.Store, homeChannelsKey)
	if err != nil {
		return err
	}
	d.set.Store(&set)
	return nil
}

// SetConfigured replaces the configured home channels. The map must not be changed
// afterwards.
func (d *Directory) SetConfigured(homes map[chat.Platform]chat.Address) { d.configured.Store(&homes) }

// SetHome makes a chat the home channel of its platform, instead of the configured one,
// and stores it. It fails if nothing can be sent to the chat unasked.
func (d *Directory) SetHome(ctx context.Context, at chat.Address) error {
	if !d.parts.Accounts.CanSendUnasked(at) {
		return i18n.Errorf("nothing can be sent to %s unasked", at.Platform)
	}
	set := make(map[chat.Platform]chat.Address)
	maps.Copy(set, *d.set.Load())
	set[at.Platform] = at
	if err := store.Save(ctx, d.parts.Store, homeChannelsKey, set); err != nil {
		return err
	}
	d.set.Store(&set)
	return nil
}

// HomeChannels returns the home channels: the configured ones, overridden by those that
// users have set.
func (d *Directory) HomeChannels() map[chat.Platform]chat.Address {
	all := make(map[chat.Platform]chat.Address)
	maps.Copy(all, *d.configured.Load())
	maps.Copy(all, *d.set.Load())
	for p, at := range all {
		all[p] = d.parts.Moves.Current(at)
	}
	return all
}

// maxScannedSessions is the maximum number of sessions that chats are found by.
const maxScannedSessions = 1000

// Chats returns the sessions of the chats that messages can be sent to unasked, newest
// first.
func (d *Directory) Chats(ctx context.Context) ([]session.Record, error) {
	known, err := d.parts.Store.Sessions(ctx, session.Query{Max: maxScannedSessions})
	return slices.DeleteFunc(known, func(r session.Record) bool { return !d.parts.Accounts.CanSendUnasked(r.Address) }), err
}

// An Info describes a target.
type Info struct {
	Name string // accepted by Resolve
	Note string // description; untrusted
}

// Known returns the home channels and the chats with sessions.
func (d *Directory) Known(ctx context.Context) ([]Info, error) {
	var all []Info
	for _, p := range slices.Sorted(maps.Keys(d.HomeChannels())) {
		all = append(all, Info{string(p), "the home channel"})
	}
	chats, err := d.Chats(ctx)
	for _, r := range chats {
		i := Info{strings.TrimSuffix(string(r.Address.Platform)+":"+r.Address.Chat+":"+r.Address.Thread, ":"), strings.TrimSpace(string(r.Address.Kind) + " " + r.Name)}
		if !slices.ContainsFunc(all, func(o Info) bool { return o.Name == i.Name }) {
			all = append(all, i)
		}
	}
	return all, err
}

// Resolve returns the addresses that a comma-separated list of targets names, each
// once: "origin", a platform (its home channel), platform:chat[:thread],
// platform:#name, "all" (every home channel) or "local" (none). origin is the address
// of the request; with the zero Address "origin" is an error.
func (d *Directory) Resolve(ctx context.Context, text string, origin chat.Address) ([]chat.Address, error) {
	var all []chat.Address
	for part := range strings.SplitSeq(text, ",") {
		found, err := d.resolveOne(ctx, strings.TrimSpace(part), origin)
		if err != nil {
			return nil, err
		}
		for _, a := range found {
			if !slices.Contains(all, a) {
				all = append(all, a)
			}
		}
	}
	return all, nil
}

func (d *Directory) resolveOne(ctx context.Context, name string, origin chat.Address) ([]chat.Address, error) {
	homes := d.HomeChannels()
	switch name {
	case "", "local":
		return nil, nil
	case "origin":
		if origin.Platform == "" || origin.Platform == chat.Cron {
			return nil, i18n.Errorf("origin is nowhere: this did not come from a chat")
		}
		return []chat.Address{origin}, nil
	case "all":
		addresses := slices.SortedFunc(maps.Values(homes), func(a, b chat.Address) int { return cmp.Compare(a.Platform, b.Platform) })
		if len(addresses) == 0 {
			return nil, i18n.Errorf("no platform has a home channel; `/sethome` in a chat makes it one")
		}
		return addresses, nil
	}
	platform, chatRef, exact := strings.Cut(name, ":")
	if len(d.parts.Accounts.Names(chat.Platform(platform))) == 0 {
		return nil, i18n.Errorf("%q is no target: no platform of that name is connected", name)
	}
	if !exact {
		home, ok := homes[chat.Platform(platform)]
		if !ok {
			return nil, i18n.Errorf("%s has no home channel; `/sethome` in a chat makes it one", platform)
		}
		return []chat.Address{home}, nil
	}
	at, err := d.findChat(ctx, chat.Platform(platform), chatRef)
	if err != nil {
		return nil, err
	}
	return []chat.Address{d.parts.Moves.Current(at)}, nil
}

// findChat finds the chat of a platform by "ID[:thread]" or "#name". Names are known
// only of chats with stored sessions.
func (d *Directory) findChat(ctx context.Context, p chat.Platform, text string) (chat.Address, error) {
	known, err := d.parts.Store.Sessions(ctx, session.Query{Max: maxScannedSessions})
	if err != nil {
		return chat.Address{}, err
	}
	id, thread, _ := strings.Cut(text, ":")
	name, byName := strings.CutPrefix(text, "#")
	var found []chat.Address
	for _, r := range known {
		at := r.Address
		switch {
		case at.Platform != p:
			continue
		case byName && !strings.EqualFold(strings.TrimPrefix(r.Name, "#"), name):
			continue
		case !byName && (at.Chat != id || at.Thread != thread):
			continue
		}
		if !slices.Contains(found, at) {
			found = append(found, at)
		}
	}
	switch {
	case len(found) == 1 || len(found) > 1 && !byName:
		return found[0], nil
	case len(found) > 1:
		return chat.Address{}, i18n.Errorf("%d chats of %s are called #%s; name one by its id", len(found), p, name)
	case byName:
		return chat.Address{}, i18n.Errorf("no chat of %s is known as #%s: nobody has spoken to me there", p, name)
	}
	return d.newChatAddress(p, id, thread)
}

// newChatAddress returns the address of a chat without sessions. It fails if the
// platform has several accounts.
func (d *Directory) newChatAddress(p chat.Platform, id, thread string) (chat.Address, error) {
	at := chat.Address{Platform: p, Kind: d.parts.Accounts.Profile(p).KindOf(id), Chat: id, Thread: thread}
	names := d.parts.Accounts.Names(p)
	if len(names) > 1 {
		return at, i18n.Errorf("%s has %d accounts, and nobody has written in %s yet; write there once, so that I know which", p, len(names), id)
	}
	at.Account = names[0]
	return at, nil
}

// A Message is a message that the agent or the operator sends to targets.
type Message struct {
	To    string // accepted by Resolve
	Text  string // Markdown
	Files []chat.File
	// Creator is the creator of the scheduled prompt whose run sends it, zero for others.
	Creator access.Principal
}

// Send enqueues the text and files of m for all its targets and returns the rows. If
// any of it cannot be sent, nothing is. turn is the turn that sends it, "" for the
// operator. The conversations of the target chats learn of the message with their next
// turn, except that of origin, whose transcript has it.
func (d *Directory) Send(ctx context.Context, origin chat.Address, turn string, m Message) ([]outbox.Row, error) {
	to, err := d.Resolve(ctx, m.To, origin)
	if err != nil {
		return nil, err
	}
	if len(to) == 0 {
		return nil, errors.New("that names no place to send to")
	}
	var rows []outbox.Row
	for _, at := range to {
		f := delivery.Draft{To: at, Turn: turn, Role: outbox.Notice}
		if strings.TrimSpace(m.Text) != "" {
			rows = append(rows, d.parts.Delivery.Render(m.Text, f)...)
		}
		for i := range m.Files {
			rows = append(rows, outbox.Row{Role: f.Role, Turn: f.Turn, Msg: chat.Outbound{To: at, File: &m.Files[i]}})
		}
	}
	if len(rows) == 0 {
		return nil, errors.New("there is nothing to send: neither text nor files")
	}
	d.announceMu.Lock() // held until the announcements are stored
	defer d.announceMu.Unlock()
	if rows, err = d.parts.Delivery.Enqueue(ctx, rows...); err != nil {
		return nil, err
	}
	source, text := "sent from another conversation", m.Text
	if turn == "" {
		source = "sent by the operator"
	}
	for _, f := range m.Files {
		text = strings.TrimSpace(text + "\n[file " + f.Name + "]")
	}
	d.storeAnnouncementLocked(context.WithoutCancel(ctx), announcement{Origin: source, Creator: m.Creator, Text: text}, slices.DeleteFunc(to, func(at chat.Address) bool { return at == origin }))
	return rows, nil
}

// Notify enqueues a notice of the daemon. It does nothing if nothing can be sent to the
// address unasked.
func (d *Directory) Notify(ctx context.Context, at chat.Address, md string) error {
	if !d.parts.Accounts.CanSendUnasked(at) {
		return nil
	}
	return d.parts.Delivery.SendNotice(ctx, md, delivery.Draft{To: at})
}

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
