package turn

import (
	"context"
	"errors"
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

// A Actor is in whose name the tools of a turn act: of several people it is
// the one who may least.
type Actor struct {
	Principal access.Principal
	Address   chat.Address
	Name      string // of the chat; untrusted
	Turn      string
}

// activeTurns are the sessions that have a turn under way, with what its tools may
// ask and tell from goroutines of their own.
type activeTurns struct {
	mu sync.Mutex // guards what follows
	of map[session.ID]*activeTurn
}

type activeTurn struct {
	actor Actor
	usage llm.Usage
}

func (p *activeTurns) set(id session.ID, who Actor) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.of == nil {
		p.of = make(map[session.ID]*activeTurn)
	}
	if at, ok := p.of[id]; ok {
		at.actor = who
		return
	}
	p.of[id] = &activeTurn{actor: who}
}

// remove ends the presence of a session and returns what was spent beside its own
// calls.
func (p *activeTurns) remove(id session.ID) llm.Usage {
	p.mu.Lock()
	defer p.mu.Unlock()
	at, ok := p.of[id]
	if !ok {
		return llm.Usage{}
	}
	delete(p.of, id)
	return at.usage
}

// Actor returns who speaks in the turn of a session that is under way, if one
// is.
func (r *Runner) Actor(id session.ID) (Actor, bool) {
	r.active.mu.Lock()
	defer r.active.mu.Unlock()
	at, ok := r.active.of[id]
	if !ok {
		return Actor{}, false
	}
	return at.actor, true
}

// actorPrincipal is By of the Speaker; nobody where there is no turn.
func (r *Runner) actorPrincipal(id session.ID) access.Principal {
	s, _ := r.Actor(id)
	return s.Principal
}

// AddUsage puts a model call that is none of the conversation's own onto the bill:
// of the turn that is under way in the session, and of the daemon.
func (r *Runner) AddUsage(id session.ID, c agent.Call) {
	r.spending.add(ledger.Record{Provider: c.Provider, Model: c.Model, Usage: c.Usage})
	r.active.mu.Lock()
	defer r.active.mu.Unlock()
	if at, ok := r.active.of[id]; ok {
		at.usage = at.usage.Add(c.Usage)
	}
}

// updateActor says who speaks now. It is said again whenever somebody joins the turn.
func (t *turn) updateActor() {
	in := t.last().Inbound
	t.runner.active.set(t.session.record.ID, Actor{Turn: t.claim.Turn, Principal: t.leastPrivileged(), Address: in.Address, Name: in.ChatName})
}

// title has a name made for a conversation whose first answer is told, beside
// what people wait for. It never takes the place of a person's, and is not made
// up for after a restart.
func (t *turn) title(answer string) {
	name, rec := t.runner.opts.Title, t.session.record
	if name == nil || rec.Title != "" || t.stored > 0 {
		return
	}
	asked := written(t.claim.Entries)
	t.runner.goBackground(func(ctx context.Context) {
		title, call, err := name(ctx, asked, answer)
		t.runner.AddUsage(rec.ID, call)
		if err == nil {
			_, err = t.runner.opts.Store.SuggestTitle(ctx, rec.ID, title)
		}
		if err != nil && !errors.Is(err, context.Canceled) {
			t.log.Warn("title", zap.Error(err))
		}
	})
}

// written is what the people of entries wrote.
func written(entries []inbox.Entry) string {
	var b strings.Builder
	for _, e := range entries {
		b.WriteString(e.Inbound.Text + "\n")
	}
	return strings.TrimSpace(b.String())
}
