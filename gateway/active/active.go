// Package active knows which turns run or are about to, and in whose name. Tools ask it
// for the rights of their turn. The main type is Turns. Runs interrupts the runs of lanes.
package active

import (
	"maps"
	"slices"
	"sync"

	"hermesd/agent/llm"
	"hermesd/gateway/access"
	"hermesd/gateway/chat"
	"hermesd/gateway/inbox"
	"hermesd/gateway/session"
	"hermesd/gateway/store"
)

// An Actor is the principal in whose name the tools of a turn run. If several users
// wrote to the turn it is the least privileged one.
type Actor struct {
	Principal access.Principal
	Address   chat.Address
	Name      string // of the chat; untrusted text
	Turn      string
}

// Turns is the registry of running turns, by session, and of the claims for the next
// ones, by lane. The zero Turns is ready for use. Its methods may be called from any
// goroutine.
type Turns struct {
	mu        sync.Mutex // guards what follows
	bySession map[session.ID]*running
	offered   map[inbox.Lane]store.Claim
}

type running struct {
	actor      Actor
	lane       inbox.Lane
	onlyAuthor bool      // the actor wrote all messages of the turn
	usage      llm.Usage // of calls that are not part of the conversation
}

// Set registers the turn of claim c in a session. It is called again whenever entries
// join the claim; the usage that Charge has added is kept.
func (t *Turns) Set(id session.ID, c store.Claim) {
	in, least := c.Entries[len(c.Entries)-1].Inbound, LeastPrivileged(c.Entries)
	r := &running{actor: Actor{Turn: c.Turn, Principal: least, Address: in.Address, Name: in.ChatName}, lane: c.Lane, onlyAuthor: WroteAll(least, c.Entries)}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.bySession == nil {
		t.bySession = make(map[session.ID]*running)
	}
	if old, ok := t.bySession[id]; ok {
		r.usage = old.usage
	}
	t.bySession[id] = r
}

// Remove unregisters the turn of a session, if there is one, and returns the usage that
// Charge has added to it.
func (t *Turns) Remove(id session.ID) llm.Usage {
	t.mu.Lock()
	defer t.mu.Unlock()
	r, ok := t.bySession[id]
	if !ok {
		return llm.Usage{}
	}
	delete(t.bySession, id)
	return r.usage
}

// Actor returns the actor of the running turn of a session; ok is false if none runs.
func (t *Turns) Actor(id session.ID) (a Actor, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	r, ok := t.bySession[id]
	if !ok {
		return Actor{}, false
	}
	return r.actor, true
}

// Charge adds the usage of a model call that is not part of the conversation to the
// running turn of the session, if there is one.
func (t *Turns) Charge(id session.ID, u llm.Usage) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if r, ok := t.bySession[id]; ok {
		r.usage = r.usage.Add(u)
	}
}

// OfferClaim passes a claim that was made when its entry was accepted to the next run
// of its lane.
func (t *Turns) OfferClaim(c store.Claim) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.offered == nil {
		t.offered = make(map[inbox.Lane]store.Claim)
	}
	t.offered[c.Lane] = c
}

// OfferedClaim returns the claim of lane l that waits for a run, if there is one.
func (t *Turns) OfferedClaim(l inbox.Lane) (store.Claim, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c, ok := t.offered[l]
	return c, ok
}

// TakeOfferedClaim removes and returns the offered claim of lane l, if there is one.
func (t *Turns) TakeOfferedClaim(l inbox.Lane) (store.Claim, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c, ok := t.offered[l]
	delete(t.offered, l)
	return c, ok
}

// TakeOfferedClaims removes and returns the offered claims of all lanes.
func (t *Turns) TakeOfferedClaims() []store.Claim {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := slices.Collect(maps.Values(t.offered))
	t.offered = nil
	return all
}

// IsOnlyAuthor reports whether a turn of lane l runs, or its claim has been offered, and
// by wrote all of its messages.
func (t *Turns) IsOnlyAuthor(l inbox.Lane, by access.Principal) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if c, offered := t.offered[l]; offered {
		return WroteAll(by, c.Entries)
	}
	for _, r := range t.bySession {
		if r.lane == l {
			return r.onlyAuthor && r.actor.Principal.SamePerson(by)
		}
	}
	return false
}

// LeastPrivileged returns the principal with the lowest level among the authors of
// entries, so that a merged input grants no author the permissions of another one.
func LeastPrivileged(entries []inbox.Entry) access.Principal {
	least := entries[0].Grant.Principal()
	for _, e := range entries {
		if p := e.Grant.Principal(); p.Level < least.Level {
			least = p
		}
	}
	return least
}

// WroteAll reports whether by is the author of all entries.
func WroteAll(by access.Principal, entries []inbox.Entry) bool {
	for _, e := range entries {
		if !e.Grant.Principal().SamePerson(by) {
			return false
		}
	}
	return true
}
