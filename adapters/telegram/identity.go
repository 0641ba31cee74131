package telegram

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"sync"

	"go.uber.org/zap"

	"hermesd/adapters/internal/backoff"
	"hermesd/adapters/telegram/internal/inbound"
	"hermesd/gateway/chat"
)

// An Identity is what Telegram says of the bot itself; Username is empty until
// it is known. ReadsAll says that privacy mode is off.
type Identity = inbound.Identity

// A botIdentity holds the bot's identity. The id stands in the token; the name has to
// be asked for.
type botIdentity struct {
	known chan struct{} // closed once the name is known

	mu sync.Mutex // guards what follows
	id Identity
}

func newSelf(id int64) *botIdentity {
	return &botIdentity{known: make(chan struct{}), id: Identity{ID: id}}
}

func (s *botIdentity) get() Identity {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.id
}

func (s *botIdentity) set(id Identity) {
	s.mu.Lock()
	defer s.mu.Unlock()
	first := s.id.Username == "" && id.Username != ""
	s.id = id
	if first {
		close(s.known)
	}
}

// Identity returns what is known of the bot itself; ok is false until its name
// is known.
func (a *Adapter) Identity() (id Identity, ok bool) {
	id = a.me.get()
	return id, id.Username != ""
}

// learn finds out the bot's name: from memory at once, from Telegram in the
// background, as often as it takes.
func (a *Adapter) learn(ctx context.Context, stop context.CancelCauseFunc) {
	a.recall(ctx)
	var b backoff.Backoff
	for ctx.Err() == nil {
		err := a.ask(ctx)
		if err == nil {
			return
		}
		if ce := configError(err); ce != nil {
			stop(ce)
			return
		}
		a.log.Warn("ask for the bot's own name", zap.Error(err))
		if backoff.Sleep(ctx, b.Next()) != nil {
			return
		}
	}
}

// ask asks Telegram who the bot is, and remembers the answer.
func (a *Adapter) ask(ctx context.Context) error {
	actx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	u, err := a.api.GetMe(actx)
	if err != nil {
		return err
	}
	id := Identity{ID: u.ID, Username: u.Username, Name: strings.TrimSpace(u.FirstName + " " + u.LastName), ReadsAll: u.CanReadAllGroupMessages}
	if id.Username == "" {
		id.Username = strconv.FormatInt(u.ID, 10) // never equal to a mention
	}
	a.me.set(id)
	if a.o.Memory == nil {
		return nil
	}
	v, err := json.Marshal(id)
	if err == nil {
		err = a.o.Memory.SetValue(ctx, a.memoryKey(), v)
	}
	if err != nil && ctx.Err() == nil {
		a.log.Warn("remember the bot's own name", zap.Error(err))
	}
	return nil
}

// recall takes the name that an earlier process was told.
func (a *Adapter) recall(ctx context.Context) {
	if a.o.Memory == nil {
		return
	}
	v, err := a.o.Memory.Value(ctx, a.memoryKey())
	if err != nil {
		a.log.Warn("recall the bot's own name", zap.Error(err))
		return
	}
	var id Identity
	if json.Unmarshal(v, &id) == nil && id.ID == a.api.ID() && id.Username != "" {
		a.me.set(id)
	}
}

// memoryKey names the bot and not the account, which may change its token.
func (a *Adapter) memoryKey() string {
	return string(chat.Telegram) + ".me." + strconv.FormatInt(a.api.ID(), 10)
}
