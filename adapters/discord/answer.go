package discord

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"hermesd/adapters/discord/internal/apiclient"
	"hermesd/adapters/discord/internal/apierror"
	"hermesd/adapters/discord/internal/inbound"
	"hermesd/gateway/chat"
)

// maxAnswers bounds how many interactions are remembered.
const maxAnswers = 1000

// How Discord is told that an interaction was taken.
const (
	deferMessage = 5 // a command: an answer follows, which is this message
	deferUpdate  = 6 // a button: nothing changes for now
)

// An openInteraction is what is open to one interaction. The tokens live in memory only:
// after a restart a command is answered by an ordinary message.
type openInteraction struct {
	inbound.Interaction
	at    chat.Address
	until time.Time
	used  string        // id of the Outbound that has become the answer to a command
	made  string        // id of the message that it has become
	acked chan struct{} // closed once Discord has been told, or not
	once  *sync.Once
}

// told lets those go on who wait for Discord to be told.
func (n openInteraction) told() { n.once.Do(func() { close(n.acked) }) }

// openInteractions are the interactions that can still be answered.
type openInteractions struct {
	mu   sync.Mutex         // guards what follows
	open []*openInteraction // in the order of arrival
}

// add takes an interaction up, once.
func (s *openInteractions) add(n *openInteraction) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sweepLocked()
	if slices.ContainsFunc(s.open, func(o *openInteraction) bool { return o.ID == n.ID }) {
		return
	}
	if len(s.open) >= maxAnswers {
		s.open = s.open[1:]
	}
	s.open = append(s.open, n)
}

func (s *openInteractions) sweepLocked() {
	now, kept := time.Now(), s.open[:0]
	for _, n := range s.open {
		if n.until.After(now) {
			kept = append(kept, n)
		}
	}
	clear(s.open[len(kept):])
	s.open = kept
}

// byID returns the interaction with an id.
func (s *openInteractions) byID(id string) (openInteraction, bool) {
	return s.find(func(n *openInteraction) bool { return n.ID == id })
}

func (s *openInteractions) find(match func(*openInteraction) bool) (openInteraction, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sweepLocked()
	for _, n := range s.open {
		if match(n) {
			return *n, true
		}
	}
	return openInteraction{}, false
}

func (s *openInteractions) knows(id string) bool {
	_, ok := s.byID(id)
	return ok
}

// waits reports whether a command at a place has no answer yet.
func (s *openInteractions) waits(at chat.Address) bool {
	_, ok := s.find(func(n *openInteraction) bool { return n.Command && n.used == "" && n.at == at })
	return ok
}

// claim returns the command that m answers: the one that it quotes, else the
// oldest at its place; and it stays the one for m's id.
func (s *openInteractions) claim(m chat.Outbound) (openInteraction, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sweepLocked()
	var best *openInteraction
	for _, n := range s.open {
		if !n.Command || n.at != m.To {
			continue
		}
		if m.ID != "" && n.used == m.ID {
			return *n, true
		}
		if n.used == "" && (best == nil || n.ID == m.ReplyTo) {
			best = n
		}
	}
	if best == nil {
		return openInteraction{}, false
	}
	best.used = m.ID
	return *best, true
}

func (s *openInteractions) change(id string, f func(*openInteraction)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range s.open {
		if n.ID == id {
			f(n)
		}
	}
}

func (s *openInteractions) drop(id string) {
	s.change(id, func(n *openInteraction) { n.until = time.Time{} })
}

// acknowledge tells Discord that an interaction is on disk. It has three
// seconds; a press or command that comes too late shows people that it failed.
func (a *Adapter) acknowledge(ctx context.Context, n openInteraction) {
	defer n.told()
	ctx, cancel := context.WithTimeout(ctx, ackTimeout)
	defer cancel()
	kind := deferUpdate
	if n.Command {
		kind = deferMessage
	}
	body := struct {
		Type int `json:"type"`
	}{kind}
	err := a.wire.Do(ctx, apiclient.Call{
		Method: "POST", Path: "interactions/" + n.ID + "/" + n.Token + "/callback", Body: body,
	}, nil)
	if err == nil || apiclient.Code(err) == apierror.Acknowledged {
		return
	}
	a.log.Warn("acknowledge an interaction", zap.String("interaction", n.ID), zap.Error(err))
	a.answers.drop(n.ID)
}

// respond sends m as the answer to a command, by changing what Discord shows
// for it. done is false if there is none, or no longer: then m goes as an
// ordinary message.
func (a *Adapter) respond(ctx context.Context, m chat.Outbound, p messagePayload) (id string, done bool, err error) {
	if m.File != nil || m.ID == "" {
		return "", false, nil
	}
	n, ok := a.answers.claim(m)
	if !ok || !a.acknowledged(ctx, n) {
		return "", false, nil
	}
	c := edited(p)
	id, err = a.made(ctx, apiclient.Call{Method: "PATCH", Path: n.original(), Body: c, Bucket: "answer/" + n.ID})
	switch s := apierror.Status(err); {
	case err == nil:
		a.nonces.put(nonce(m.ID), id)
		a.answers.change(n.ID, func(n *openInteraction) { n.made = id })
		return id, true, nil
	case s == http.StatusNotFound || s == http.StatusUnauthorized || s == http.StatusForbidden:
		a.answers.drop(n.ID) // the token has ended
		return "", false, nil
	case s >= 400 && s < 500 && s != http.StatusTooManyRequests:
		a.answers.drop(n.ID)
		return "", false, nil // the ordinary way has other shapes to offer
	}
	return "", true, apierror.SendError(err)
}

// rewrite changes the answer to a command, which needs no right in the channel.
// done is false if the message is none, or its token has ended.
func (a *Adapter) rewrite(ctx context.Context, id string, c editPayload) (done bool, err error) {
	n, ok := a.answers.find(func(n *openInteraction) bool { return n.made != "" && n.made == id })
	if !ok {
		return false, nil
	}
	err = a.wire.Do(ctx, apiclient.Call{Method: "PATCH", Path: n.original(), Body: c, Bucket: "answer/" + n.ID}, nil)
	switch s := apierror.Status(err); {
	case err == nil:
		return true, nil
	case s == http.StatusNotFound || s == http.StatusUnauthorized || s == http.StatusForbidden:
		return false, nil
	}
	return true, apierror.SendError(err)
}

// acknowledged reports whether Discord knows that an interaction was taken. That
// is being told, at the moment, or not at all.
func (a *Adapter) acknowledged(ctx context.Context, n openInteraction) bool {
	t := time.NewTimer(ackTimeout)
	defer t.Stop()
	select {
	case <-n.acked:
		return a.answers.knows(n.ID)
	case <-t.C:
	case <-ctx.Done():
	}
	return false
}

// original is the message that Discord shows for a command.
func (n openInteraction) original() string {
	return "webhooks/" + n.App + "/" + n.Token + "/messages/@original"
}

// responded looks whether m has become the answer to a command.
func (a *Adapter) responded(ctx context.Context, m chat.Outbound) (chat.Receipt, bool, error) {
	n, ok := a.answers.find(func(n *openInteraction) bool { return n.Command && n.used == m.ID && m.ID != "" })
	if !ok {
		return chat.Receipt{}, false, nil
	}
	var s sent
	err := a.wire.Do(ctx, apiclient.Call{Method: "GET", Path: n.original(), Bucket: "answer/" + n.ID}, &s)
	switch {
	case apierror.Status(err) == http.StatusNotFound:
		return chat.Receipt{}, false, nil
	case err != nil:
		return chat.Receipt{}, true, apierror.SendError(err)
	case s.Content == plainContent(m):
		return chat.Receipt{ID: s.ID}, true, nil
	}
	return chat.Receipt{}, true, nil // still waiting; the next attempt changes it
}

// AnswerCallback implements chat.Answerer: the person who pressed sees text, nobody
// else does. A press that can no longer be answered counts as answered: nobody
// waits for it any more.
func (a *Adapter) AnswerCallback(ctx context.Context, callback chat.Inbound, text string) error {
	n, ok := a.answers.byID(callback.IdempotencyKey)
	if !ok || text == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	if !a.acknowledged(ctx, n) { // before that Discord does not know the way to the person
		return nil
	}
	p := messagePayload{Content: text, Mentions: mentions{Parse: []string{}}, Flags: flagEphemeral}
	err := a.wire.Do(ctx, apiclient.Call{
		Method: "POST", Path: "webhooks/" + n.App + "/" + n.Token, Body: p, Bucket: "answer/" + n.ID,
	}, nil)
	switch s := apierror.Status(err); {
	case err == nil, s == http.StatusNotFound, s == http.StatusUnauthorized:
		return nil
	}
	return apierror.SendError(err)
}
