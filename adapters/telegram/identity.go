package telegram

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"sync"

	"go.uber.org/zap"

	"hermesd/adapters/telegram/internal/inbound"
	"hermesd/gateway/chat"
	"hermesd/internal/backoff"
)

// An Identity is the bot's own account. Username is empty until it is known.
// ReadsAll is true if privacy mode is off.
type Identity = inbound.Identity

// A botIdentity holds the bot's identity. The ID is part of the token; the name
// has to be fetched.
type botIdentity struct {
	known chan struct{} // closed once the name is known

	mu sync.Mutex // guards the fields below
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

// Identity returns the bot's own identity; ok is false until its name is known.
func (a *Adapter) Identity() (id Identity, ok bool) {
	id = a.me.get()
	return id, id.Username != ""
}

// learn determines the bot's name: from memory at once, then from Telegram,
// retrying until it succeeds.
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
		a.log.Warn("cannot fetch bot identity", zap.Error(err))
		if backoff.Sleep(ctx, b.Next()) != nil {
			return
		}
	}
}

// ask fetches the bot's identity from Telegram and stores it.
func (a *Adapter) ask(ctx context.Context) error {
	actx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	u, err := a.api.GetMe(actx)
	if err != nil {
		return err
	}
	id := Identity{ID: u.ID, Username: u.Username, Name: strings.TrimSpace(u.FirstName + " " + u.LastName), ReadsAll: u.CanReadAllGroupMessages}
	if id.Username == "" {
		id.Username = strconv.FormatInt(u.ID, 10) // never matches a mention
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
		a.log.Warn("cannot save bot identity", zap.Error(err))
	}
	return nil
}

// recall loads the identity that an earlier process stored.
func (a *Adapter) recall(ctx context.Context) {
	if a.o.Memory == nil {
		return
	}
	v, err := a.o.Memory.Value(ctx, a.memoryKey())
	if err != nil {
		a.log.Warn("cannot load bot identity", zap.Error(err))
		return
	}
	var id Identity
	if json.Unmarshal(v, &id) == nil && id.ID == a.api.ID() && id.Username != "" {
		a.me.set(id)
	}
}

// memoryKey contains the bot's ID and not the account's name, because an account
// may change its token.
func (a *Adapter) memoryKey() string {
	return string(chat.Telegram) + ".me." + strconv.FormatInt(a.api.ID(), 10)
}
