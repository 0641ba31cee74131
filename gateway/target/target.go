// Package target finds the chats that users and tools name as targets of messages, and
// sends messages to chats unasked. A target is "origin", a platform (its home channel),
// "telegram:1" or "telegram:#name", "all" or "local". A Directory also stores what was
// said in a chat from outside of its conversation, so that the next turn there knows it.
package target

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"hermesd/gateway/accounts"
	"hermesd/gateway/chat"
	"hermesd/gateway/chatmigration"
	"hermesd/gateway/delivery"
	"hermesd/gateway/i18n"
	"hermesd/gateway/session"
	"hermesd/gateway/store"
)

// A Store stores the data of a Directory. When a method returns without an error its
// change is on disk.
type Store interface {
	// Sessions returns the records of all sessions, newest first, at most max.
	Sessions(ctx context.Context, max int) ([]session.Record, error)
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
	Location *time.Location // of the times in announcements; nil: time.Local
	Log      *zap.Logger    // nil: no log
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
	if o.Location == nil {
		o.Location = time.Local
	}
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
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
	known, err := d.parts.Store.Sessions(ctx, maxScannedSessions)
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
	known, err := d.parts.Store.Sessions(ctx, maxScannedSessions)
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
	at := chat.Address{Platform: p, Kind: chat.Group, Chat: id, Thread: thread}
	names := d.parts.Accounts.Names(p)
	if len(names) > 1 {
		return at, i18n.Errorf("%s has %d accounts, and nobody has written in %s yet; write there once, so that I know which", p, len(names), id)
	}
	at.Account = names[0]
	if p == chat.Telegram && !strings.HasPrefix(id, "-") {
		at.Kind = chat.DM
	}
	return at, nil
}
