package turn

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"

	"go.uber.org/zap"

	"hermesd/agent"
	"hermesd/agent/llm"
	"hermesd/agent/llm/ledger"
	"hermesd/gateway/access"
	"hermesd/gateway/chat"
	"hermesd/gateway/inbox"
	"hermesd/gateway/session"
)

// An Actor is the principal in whose name the tools of a turn run. If several users
// wrote to the turn it is the least privileged one.
type Actor struct {
	Principal access.Principal
	Address   chat.Address
	Name      string // of the chat; untrusted text
	Turn      string
}

// activeTurns is the registry of running turns, by session. Tools use it from their
// own goroutines.
type activeTurns struct {
	mu        sync.Mutex // guards what follows
	bySession map[session.ID]*activeTurn
}

type activeTurn struct {
	actor Actor
	lane  inbox.Lane
	sole  bool      // the actor wrote all messages of the turn
	usage llm.Usage // of calls that are not part of the conversation
}

// set registers the turn of a session; the usage of one that is registered is kept.
func (a *activeTurns) set(id session.ID, active activeTurn) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.bySession == nil {
		a.bySession = make(map[session.ID]*activeTurn)
	}
	if old, ok := a.bySession[id]; ok {
		active.usage = old.usage
	}
	a.bySession[id] = &active
}

// remove unregisters the turn of a session and returns the usage that AddUsage has
// added to it.
func (a *activeTurns) remove(id session.ID) llm.Usage {
	a.mu.Lock()
	defer a.mu.Unlock()
	active, ok := a.bySession[id]
	if !ok {
		return llm.Usage{}
	}
	delete(a.bySession, id)
	return active.usage
}

// Actor returns the actor of the running turn of a session; ok is false if none
// runs. It may be called from any goroutine.
func (r *Runner) Actor(id session.ID) (actor Actor, ok bool) {
	r.active.mu.Lock()
	defer r.active.mu.Unlock()
	active, ok := r.active.bySession[id]
	if !ok {
		return Actor{}, false
	}
	return active.actor, true
}

// actorPrincipal returns the principal of the actor, the zero Principal if no turn
// runs.
func (r *Runner) actorPrincipal(id session.ID) access.Principal {
	actor, _ := r.Actor(id)
	return actor.Principal
}

// IsSoleAuthor reports whether a turn of lane l runs, or has been claimed, and by wrote all
// of its messages. It may be called from any goroutine.
func (r *Runner) IsSoleAuthor(l inbox.Lane, by access.Principal) bool {
	r.mu.Lock()
	c, offered := r.offered[l]
	r.mu.Unlock()
	if offered {
		return !slices.ContainsFunc(c.Entries, func(e inbox.Entry) bool { return !e.Principal.SamePerson(by) })
	}
	r.active.mu.Lock()
	defer r.active.mu.Unlock()
	for _, active := range r.active.bySession {
		if active.lane == l {
			return active.sole && active.actor.Principal.SamePerson(by)
		}
	}
	return false
}

// AddUsage adds the usage of a model call that is not part of the conversation to
// the running turn of the session, if there is one, and to UsageByModel. It may be
// called from any goroutine.
func (r *Runner) AddUsage(id session.ID, c agent.Call) {
	r.usage.add(ledger.Record{Provider: c.Provider, Model: c.Model, Usage: c.Usage})
	r.active.mu.Lock()
	defer r.active.mu.Unlock()
	if active, ok := r.active.bySession[id]; ok {
		active.usage = active.usage.Add(c.Usage)
	}
}

// updateActor registers the actor of the turn. It is called again whenever entries
// join the turn.
func (t *turn) updateActor() {
	in, least, sole := t.last().Inbound, t.leastPrivileged(), true
	for _, e := range t.claim.Entries {
		sole = sole && e.Principal.SamePerson(least)
	}
	actor := Actor{Turn: t.claim.Turn, Principal: least, Address: in.Address, Name: in.ChatName}
	t.runner.active.set(t.session.record.ID, activeTurn{actor: actor, lane: t.claim.Lane, sole: sole})
}

// generateTitle starts, in the background, the generation of a title for a
// conversation after its first answer. It never replaces a title that a user has
// set, and is not repeated after a restart.
func (t *turn) generateTitle(answer string) {
	generate, rec := t.runner.opts.Title, t.session.record
	if generate == nil || rec.Title != "" || t.storedMessages > 0 {
		return
	}
	question := inboundText(t.claim.Entries)
	t.runner.goBackground(func(ctx context.Context) {
		title, call, err := generate(ctx, question, answer)
		t.runner.AddUsage(rec.ID, call)
		if err == nil {
			_, err = t.runner.opts.Store.SuggestTitle(ctx, rec.ID, title)
		}
		if err != nil && !errors.Is(err, context.Canceled) {
			t.log.Warn("cannot generate title", zap.Error(err))
		}
	})
}

// inboundText returns the texts of entries, one per line.
func inboundText(entries []inbox.Entry) string {
	var b strings.Builder
	for _, e := range entries {
		b.WriteString(e.Inbound.Text + "\n")
	}
	return strings.TrimSpace(b.String())
}
