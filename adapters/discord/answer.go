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

// maxAnswers limits the number of remembered interactions.
const maxAnswers = 1000

// The types of interaction responses that acknowledge.
const (
	deferMessage = 5 // for a command: the answer will edit this message
	deferUpdate  = 6 // for a button: no change now
)

// An openInteraction is an interaction that can still be answered. Tokens are
// kept in memory only: after a restart a command is answered by an ordinary
// message.
type openInteraction struct {
	inbound.Interaction
	at    chat.Address
	until time.Time
	used  string        // ID of the Outbound that answers the command
	made  string        // ID of the message with the answer
	acked chan struct{} // closed once the acknowledgment succeeded or failed
	once  *sync.Once
}

// told releases those who wait for the acknowledgment.
func (n openInteraction) told() { n.once.Do(func() { close(n.acked) }) }

// openInteractions is the list of interactions that can still be answered.
type openInteractions struct {
	mu   sync.Mutex         // guards the fields below
	open []*openInteraction // in order of arrival
}

// add adds an interaction unless it is already in the list.
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
	now := time.Now()
	s.open = slices.DeleteFunc(s.open, func(n *openInteraction) bool { return !n.until.After(now) })
}

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

// waits reports whether a command at an address has no answer yet.
func (s *openInteractions) waits(at chat.Address) bool {
	_, ok := s.find(func(n *openInteraction) bool { return n.Command && n.used == "" && n.at == at })
	return ok
}

// claim returns the command that m answers: the one that m replies to, otherwise
// the oldest at its address. The command stays assigned to m's ID.
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

// acknowledge tells Discord that an interaction is on disk. Discord allows three
// seconds; after that it shows the user that the interaction failed.
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
	a.log.Warn("cannot acknowledge interaction", zap.String("interaction", n.ID), zap.Error(err))
	a.answers.drop(n.ID)
}

// respond sends m as the answer to a command, by editing Discord's deferred
// response. done is false if there is no such command, or its token has expired:
// then m is sent as an ordinary message.
func (a *Adapter) respond(ctx context.Context, m chat.Outbound, p messagePayload) (id string, done bool, err error) {
	if m.File != nil || m.ID == "" {
		return "", false, nil
	}
	n, ok := a.answers.claim(m)
	if !ok || !a.acknowledged(ctx, n) {
		return "", false, nil
	}
	id, err = a.made(ctx, apiclient.Call{Method: "PATCH", Path: n.original(), Body: edited(p), Bucket: "answer/" + n.ID})
	switch s := apierror.Status(err); {
	case err == nil:
		a.nonces.put(nonce(m.ID), id)
		a.answers.change(n.ID, func(n *openInteraction) { n.made = id })
		return id, true, nil
	case s >= 400 && s < 500 && s != http.StatusTooManyRequests:
		a.answers.drop(n.ID)  // its token has expired, or
		return "", false, nil // the ordinary send can try other forms
	}
	return "", true, apierror.SendError(err)
}

// rewrite edits the answer to a command, which needs no permission in the
// channel. done is false if the message is not such an answer, or its token has
// expired.
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

// acknowledged reports whether Discord has been told that an interaction was
// accepted. It waits for a running acknowledgment.
func (a *Adapter) acknowledged(ctx context.Context, n openInteraction) bool {
	ctx, cancel := context.WithTimeout(ctx, ackTimeout)
	defer cancel()
	select {
	case <-n.acked:
		return a.answers.knows(n.ID)
	case <-ctx.Done():
		return false
	}
}

// original is the path of the response that Discord shows for a command.
func (n openInteraction) original() string {
	return "webhooks/" + n.App + "/" + n.Token + "/messages/@original"
}

// responded reports whether m has become the answer to a command.
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
	return chat.Receipt{}, true, nil // still deferred; the next attempt edits it
}

// AnswerCallback implements chat.CallbackAnswerer: only the user who pressed the
// button sees text. A callback that can no longer be answered counts as
// answered: nobody waits for it any more.
func (a *Adapter) AnswerCallback(ctx context.Context, callback chat.Inbound, text string) error {
	n, ok := a.answers.byID(callback.IdempotencyKey)
	if !ok || text == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	if !a.acknowledged(ctx, n) { // before that a follow-up cannot be delivered
		return nil
	}
	p := messagePayload{Content: text, Mentions: mentions{Parse: []string{}}, Flags: flagEphemeral}
	err := a.wire.Do(ctx, apiclient.Call{
		Method: "POST", Path: "webhooks/" + n.App + "/" + n.Token, Body: p, Bucket: "answer/" + n.ID,
	}, nil)
	if s := apierror.Status(err); err == nil || s == http.StatusNotFound || s == http.StatusUnauthorized {
		return nil
	}
	return apierror.SendError(err)
}

// Dismiss implements chat.Dismisser. A command that a rule ignores is not
// acknowledged, so that Discord itself reports to the user that there is no
// answer, and no other message to the address is used as its answer. A message that
// a rule ends starts no conversation.
func (a *Adapter) Dismiss(in chat.Inbound) {
	a.dismissed.Store(in.IdempotencyKey, true)
	n, ok := a.answers.byID(in.IdempotencyKey)
	if !ok {
		return
	}
	a.answers.drop(n.ID)
	n.told()
}
