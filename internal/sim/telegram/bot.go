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

// BotOptions describe a bot. The zero value is a bot whose fields are all
// generated.
type BotOptions struct {
	ID        int64  // default: from 7000000001 up
	Token     string // default: "<id>:" and 35 characters
	Name      string // first name, default the username
	Username  string // default "sim<id>_bot"
	NoGroups  bool   // cannot be added to groups
	Privacy   bool   // privacy mode: sees only some of the messages in groups
	Topics    bool   // forum topics in private chats
	FirstID   int    // update_id of the first update; default: derived from Options.Seed
	NextMsgID int    // first message_id in private chats; default 1
}

// A Bot is a bot account of the API.
type Bot struct {
	s       *Server
	me      wireMe
	token   string
	privacy bool

	// s.mu guards the fields below.
	private   map[int64]*Chat // private chats by user
	nextMsg   int             // all private chats share one sequence of message IDs
	queue     queue
	allowed   []string // nil: the default kinds
	poll      *poll
	lastPoll  pollMark
	conflicts time.Time // earliest time of the next undelayed 409
	hook      *webhook
	commands  map[string][]wireCommand
	callbacks map[string]time.Time // open callback queries and when they expire
	granted   map[string]grant     // files that may be downloaded, by path
}

// AddBot creates a bot. It panics if the token or the ID already exists.
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

// ID returns the user ID of the bot.
func (b *Bot) ID() int64 { return b.me.ID }

// Token returns the token with which the bot calls the API.
func (b *Bot) Token() string { return b.token }

// Username returns the username of the bot, without the @.
func (b *Bot) Username() string { return b.me.Username }

// SetPrivacy switches privacy mode, as the owner of the bot does with
// BotFather.
func (b *Bot) SetPrivacy(on bool) {
	b.s.mu.Lock()
	defer b.s.mu.Unlock()
	b.privacy = on
	b.me.CanReadAllGroupMessages = !on
}

// Pending returns the number of unconfirmed updates.
func (b *Bot) Pending() int {
	b.s.mu.Lock()
	defer b.s.mu.Unlock()
	b.expireLocked(time.Now())
	return b.queue.live
}

// ErrPending reports that update IDs cannot be reset while updates are pending.
var ErrPending = errors.New("telegram: updates are pending")

// Reseed makes next the ID of the next update; it may be lower than earlier
// IDs. The real server does this with a random ID after a week without updates.
// It returns ErrPending if updates are pending.
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

// NextUpdate returns the ID of the next update; 0 if it has not been chosen
// yet.
func (b *Bot) NextUpdate() int {
	b.s.mu.Lock()
	defer b.s.mu.Unlock()
	return b.queue.next
}

// Push offers an update of any kind with any content, valid or not, and returns
// its update_id. It ignores allowed_updates.
func (b *Bot) Push(kind string, content []byte) int {
	b.s.mu.Lock()
	defer b.s.mu.Unlock()
	name, _ := json.Marshal(kind)
	body := append(append(name, ':'), content...)
	return b.addLocked(&item{kind: kind, body: body, offer: &Offer{Kind: kind}})
}

// PushRaw offers an update whose JSON is what write returns for the update_id;
// it may be invalid JSON.
func (b *Bot) PushRaw(kind string, write func(id int) []byte) int {
	b.s.mu.Lock()
	defer b.s.mu.Unlock()
	it := &item{kind: kind, raw: true, offer: &Offer{Kind: kind}}
	it.body = write(b.queue.next)
	return b.addLocked(it)
}

// Repeat offers the content of an earlier update, confirmed or not, under a new
// update_id, and returns that ID; 0 if there is no such update.
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

// Shuffle permutes the contents of the pending updates; the IDs stay in order.
// It tests receivers that must not rely on the order.
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
	l := b.s.recorder
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, it := range waiting {
		it.offer.Update = it.id
	}
}

// defaultOff lists the kinds that a bot receives only if it asks for them.
var defaultOff = []string{"chat_member", "message_reaction", "message_reaction_count"}

func (b *Bot) wants(kind string) bool {
	if b.allowed == nil {
		return !slices.Contains(defaultOff, kind)
	}
	return slices.Contains(b.allowed, kind)
}

// offerLocked offers content to the bot if the bot wants that kind.
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
	b.s.recorder.offered(it.offer)
	switch {
	case b.hook != nil:
		b.hook.addLocked(it)
	case b.poll != nil:
		b.poll.wakeUp()
	}
	return it.id
}

func (b *Bot) expireLocked(now time.Time) {
	b.s.recorder.settled(now, false, offersOf(b.queue.expire(now))...)
}

func offersOf(items []*item) []*Offer {
	out := make([]*Offer, len(items))
	for i, it := range items {
		out[i] = it.offer
	}
	return out
}

// encode returns the update as it is sent.
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

// maxRecent is the number of updates that Repeat can still find.
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
