// Package directory caches the names of users and the kinds of channels, which
// Slack's events contain only as IDs. Its main type is Directory.
package directory

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/slack-go/slack"
	"go.uber.org/zap"

	"hermesd/adapters/slack/internal/inbound"
	"hermesd/gateway/chat"
)

const (
	maxKnown  = 5000          // maximum number of users and channels
	freshFor  = 6 * time.Hour // names can change
	askAgain  = time.Minute   // after a failed lookup
	retention = 2             // a full memory is cut by this
)

// A Directory is a bounded cache. It looks up missing entries with Slack's API.
// It is safe for concurrent use.
type Directory struct {
	api *slack.Client
	log *zap.Logger

	mu    sync.Mutex // guards the fields below
	users map[string]cacheEntry
	rooms map[string]cacheEntry
}

// A cacheEntry is Slack's answer to a lookup, or its failure.
type cacheEntry struct {
	name, handle string
	kind         chat.Kind
	until        time.Time // when to look up again
}

// New returns an empty directory that uses api.
func New(api *slack.Client, log *zap.Logger) *Directory {
	return &Directory{api: api, log: log, users: map[string]cacheEntry{}, rooms: map[string]cacheEntry{}}
}

// Name returns the known name and handle of a user.
func (p *Directory) Name(user string) (name, handle string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	k := p.users[user]
	return k.name, k.handle
}

// Room returns the known data of a channel.
func (p *Directory) Room(channel string) inbound.ChannelInfo {
	p.mu.Lock()
	defer p.mu.Unlock()
	k := p.rooms[channel]
	return inbound.ChannelInfo{Kind: k.kind, Name: k.name}
}

// Load finds out what is not known of what an envelope is about. What Slack
// does not tell in time stays unknown for a while.
func (p *Directory) Load(ctx context.Context, a inbound.Subject) {
	if a.User != "" && p.stale(p.users, a.User) {
		u, err := p.api.GetUserInfoContext(ctx, a.User)
		k := cacheEntry{until: time.Now().Add(askAgain)}
		if err != nil {
			p.log.Debug("cannot look up user name", zap.Error(err))
		} else {
			k = cacheEntry{
				name:   cmp.Or(u.Profile.DisplayName, u.RealName, u.Profile.RealName, u.Name),
				handle: u.Name, until: time.Now().Add(freshFor),
			}
		}
		p.keep(p.users, a.User, k)
	}
	if a.Channel != "" && a.Kind != "im" && p.stale(p.rooms, a.Channel) {
		c, err := p.api.GetConversationInfoContext(ctx, &slack.GetConversationInfoInput{ChannelID: a.Channel})
		k := cacheEntry{until: time.Now().Add(askAgain)}
		if err != nil {
			p.log.Debug("cannot look up channel name", zap.Error(err))
		} else {
			k = cacheEntry{name: c.Name, kind: chat.Channel, until: time.Now().Add(freshFor)}
			switch {
			case c.IsIM:
				k.kind = chat.DM
			case c.IsMpIM:
				k.kind = chat.Group
			}
		}
		p.keep(p.rooms, a.Channel, k)
	}
}

func (p *Directory) stale(m map[string]cacheEntry, id string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return time.Now().After(m[id].until)
}

// keep remembers k. What was known before is not forgotten because Slack does
// not tell it now.
func (p *Directory) keep(m map[string]cacheEntry, id string, k cacheEntry) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if old, ok := m[id]; ok && k.name == "" && k.kind == "" {
		old.until = k.until
		k = old
	}
	if len(m) >= maxKnown {
		n := len(m) / retention
		for id := range m { // any of them
			if n--; n < 0 {
				break
			}
			delete(m, id)
		}
	}
	m[id] = k
}
