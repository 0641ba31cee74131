package telegram

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"
)

// BotOptions describe a bot. The zero value is a bot with everything chosen.
type BotOptions struct {
	ID        int64  // default: from 7000000001 up
	Token     string // default: "<id>:" and 35 characters
	Name      string // first name, default the username
	Username  string // default "sim<id>_bot"
	NoGroups  bool   // may not be added to groups
	Privacy   bool   // privacy mode: sees little of groups
	Topics    bool   // forum topics in private chats
	FirstID   int    // update id of the first update; default: chosen by the seed
	NextMsgID int    // first message id in private chats, default 1
}

// A Bot is an account of the API.
type Bot struct {
	s       *Server
	me      wireMe
	token   string
	privacy bool

	// s.mu guards what follows.
	private   map[int64]*Chat // private chats by user
	nextMsg   int             // private chats share one sequence of ids
	queue     queue
	allowed   []string // nil: the default kinds
	poll      *poll
	lastPoll  pollMark
	conflicts time.Time // earliest time of the next undelayed 409
	hook      *webhook
	commands  map[string][]wireCommand
	callbacks map[string]time.Time // open callback queries and when they end
	granted   map[string]grant     // files that may be downloaded, by path
}

// AddBot makes a bot. A token or id that exists already is an error of the
// caller and panics.
func (s *Server) AddBot(o BotOptions) *Bot {
	s.mu.Lock()
	defer s.mu.Unlock()
	if o.ID == 0 {
		if id, _, ok := strings.Cut(o.Token, ":"); ok {
			o.ID, _ = strconv.ParseInt(id, 10, 64)
		}
	}
	if o.ID == 0 {
		o.ID = 7_000_000_001 + int64(len(s.bots))
	}
	if o.Token == "" {
		o.Token = fmt.Sprintf("%d:AA%033d", o.ID, o.ID)
	}
	if o.Username == "" {
		o.Username = fmt.Sprintf("sim%d_bot", o.ID)
	}
	if o.Name == "" {
		o.Name = o.Username
	}
	if s.bots[o.Token] != nil || s.people[o.ID] != nil {
		panic("telegram: the bot " + strconv.FormatInt(o.ID, 10) + " exists already")
	}
	b := &Bot{
		s: s, token: o.Token, privacy: o.Privacy,
		me: wireMe{
			Person:        Person{ID: o.ID, IsBot: true, FirstName: o.Name, Username: o.Username},
			CanJoinGroups: !o.NoGroups, CanReadAllGroupMessages: !o.Privacy, HasTopicsEnabled: o.Topics,
		},
		private: map[int64]*Chat{}, nextMsg: max(1, o.NextMsgID),
		queue:    queue{rng: rand.New(rand.NewPCG(s.opts.Seed, uint64(o.ID))), next: o.FirstID},
		commands: map[string][]wireCommand{}, callbacks: map[string]time.Time{}, granted: map[string]grant{},
	}
	s.bots[o.Token] = b
	s.people[o.ID] = &User{s: s, person: b.me.Person, bot: b}
	return b
}

// ID is the bot's user id.
func (b *Bot) ID() int64 { return b.me.ID }

// Token is what the bot calls the API with.
func (b *Bot) Token() string { return b.token }

// Username is the bot's name without the @.
func (b *Bot) Username() string { return b.me.Username }

// SetPrivacy switches privacy mode, as the bot's owner does at BotFather.
func (b *Bot) SetPrivacy(on bool) {
	b.s.mu.Lock()
	defer b.s.mu.Unlock()
	b.privacy = on
	b.me.CanReadAllGroupMessages = !on
}

// Pending is the number of updates that are not confirmed.
func (b *Bot) Pending() int {
	b.s.mu.Lock()
	defer b.s.mu.Unlock()
	b.expireLocked(time.Now())
	return b.queue.live
}

// ErrPending says that update ids cannot start anew while updates wait.
var ErrPending = errors.New("telegram: updates are pending")

// Reseed lets the ids of the updates go on from next, which may be lower than
// before. The real server does it, at random, after a week without updates.
func (b *Bot) Reseed(next int) error {
	b.s.mu.Lock()
	defer b.s.mu.Unlock()
	b.expireLocked(time.Now())
	if b.queue.live > 0 {
		return ErrPending
	}
	b.queue.items, b.queue.next = nil, max(1, next)
	return nil
}

// NextUpdate is the id that the next update will get; 0 if none was chosen.
func (b *Bot) NextUpdate() int {
	b.s.mu.Lock()
	defer b.s.mu.Unlock()
	return b.queue.next
}

// Push offers an update of any kind with any content, valid or not, and
// returns its id. It passes by allowed_updates.
func (b *Bot) Push(kind string, content []byte) int {
	b.s.mu.Lock()
	defer b.s.mu.Unlock()
	name, _ := json.Marshal(kind)
	body := append(append(name, ':'), content...)
	return b.addLocked(&item{kind: kind, body: body, offer: &Offer{Kind: kind}})
}

// PushRaw offers an update that is written as make returns it for the id it
// gets; it may be no JSON at all.
func (b *Bot) PushRaw(kind string, write func(id int) []byte) int {
	b.s.mu.Lock()
	defer b.s.mu.Unlock()
	it := &item{kind: kind, raw: true, offer: &Offer{Kind: kind}}
	it.body = write(b.queue.next)
	return b.addLocked(it)
}

// Repeat offers the content of an earlier update, confirmed or not, again
// under a new id, and returns that id; 0 if there is no such update.
func (b *Bot) Repeat(update int) int {
	b.s.mu.Lock()
	defer b.s.mu.Unlock()
	old, ok := b.s.recent[recentKey{b.ID(), update}]
	if !ok {
		return 0
	}
	o := *old.offer
	o.Delivered, o.Times, o.Confirmed, o.Forgotten = time.Time{}, 0, time.Time{}, false
	return b.addLocked(&item{kind: old.kind, body: old.body, raw: old.raw, lane: old.lane, offer: &o})
}

// Shuffle puts the contents of the pending updates into another order; the ids
// stay in order. It is for receivers that must not rely on the order.
func (b *Bot) Shuffle() {
	b.s.mu.Lock()
	defer b.s.mu.Unlock()
	waiting := b.queue.pending()
	b.queue.rng.Shuffle(len(waiting), func(i, j int) {
		x, y := waiting[i], waiting[j]
		x.kind, y.kind = y.kind, x.kind
		x.body, y.body = y.body, x.body
		x.raw, y.raw = y.raw, x.raw
		x.lane, y.lane = y.lane, x.lane
		x.offer, y.offer = y.offer, x.offer
	})
	l := b.s.ledger
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, it := range waiting {
		it.offer.Update = it.id
	}
}

// defaultOff are the kinds that a bot gets only when it asks for them.
var defaultOff = []string{"chat_member", "message_reaction", "message_reaction_count"}

func (b *Bot) wants(kind string) bool {
	if b.allowed == nil {
		return !slices.Contains(defaultOff, kind)
	}
	return slices.Contains(b.allowed, kind)
}

// offerLocked offers content to the bot, if it wants that kind.
func (b *Bot) offerLocked(kind string, content any, o Offer, lane int64) int {
	if !b.wants(kind) {
		return 0
	}
	raw, err := json.Marshal(content)
	if err != nil {
		panic(fmt.Sprintf("telegram: encode %s: %v", kind, err))
	}
	o.Kind = kind
	return b.addLocked(&item{kind: kind, body: append([]byte(`"`+kind+`":`), raw...), lane: lane, offer: &o})
}

func (b *Bot) addLocked(it *item) int {
	now := time.Now()
	b.expireLocked(now)
	b.queue.push(it, now)
	it.offer.Bot, it.offer.Update, it.offer.At = b.ID(), it.id, now
	b.s.rememberLocked(b.ID(), it)
	b.s.ledger.offered(it.offer)
	switch {
	case b.hook != nil:
		b.hook.addLocked(it)
	case b.poll != nil:
		b.poll.wakeUp()
	}
	return it.id
}

func (b *Bot) expireLocked(now time.Time) {
	b.s.ledger.settled(now, false, offersOf(b.queue.expire(now))...)
}

func offersOf(items []*item) []*Offer {
	out := make([]*Offer, len(items))
	for i, it := range items {
		out[i] = it.offer
	}
	return out
}

// encode is the update as it is sent.
func (it *item) encode() []byte {
	if it.raw {
		return it.body
	}
	out := append(make([]byte, 0, len(it.body)+32), `{"update_id":`...)
	out = strconv.AppendInt(out, int64(it.id), 10)
	out = append(out, ',')
	return append(append(out, it.body...), '}')
}

type recentKey struct {
	bot    int64
	update int
}

// maxRecent bounds the updates that Repeat can find again.
const maxRecent = 4096

func (s *Server) rememberLocked(bot int64, it *item) {
	key := recentKey{bot, it.id}
	kept := *it
	s.recent[key] = &kept
	s.recentOrder = append(s.recentOrder, key)
	if len(s.recentOrder) > maxRecent {
		delete(s.recent, s.recentOrder[0])
		s.recentOrder = s.recentOrder[1:]
	}
}
