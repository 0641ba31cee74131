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

// A Speaker is in whose name the tools of a turn act: of several people it is
// the one who may least.
type Speaker struct {
	By   access.Principal
	At   chat.Address
	Name string // of the chat; untrusted
	Turn string
}

// present are the sessions that have a turn under way, with what its tools may
// ask and tell from goroutines of their own.
type present struct {
	mu sync.Mutex // guards what follows
	of map[session.ID]*presence
}

type presence struct {
	who   Speaker
	spent llm.Usage
}

func (p *present) enter(id session.ID, who Speaker) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.of == nil {
		p.of = make(map[session.ID]*presence)
	}
	if at, ok := p.of[id]; ok {
		at.who = who
		return
	}
	p.of[id] = &presence{who: who}
}

// leave ends the presence of a session and returns what was spent beside its own
// calls.
func (p *present) leave(id session.ID) llm.Usage {
	p.mu.Lock()
	defer p.mu.Unlock()
	at, ok := p.of[id]
	if !ok {
		return llm.Usage{}
	}
	delete(p.of, id)
	return at.spent
}

// Speaker returns who speaks in the turn of a session that is under way, if one
// is.
func (r *Runner) Speaker(id session.ID) (Speaker, bool) {
	r.present.mu.Lock()
	defer r.present.mu.Unlock()
	at, ok := r.present.of[id]
	if !ok {
		return Speaker{}, false
	}
	return at.who, true
}

// speaker is By of the Speaker; nobody where there is no turn.
func (r *Runner) speaker(id session.ID) access.Principal {
	s, _ := r.Speaker(id)
	return s.By
}

// Charge puts a model call that is none of the conversation's own onto the bill:
// of the turn that is under way in the session, and of the daemon.
func (r *Runner) Charge(id session.ID, c agent.Call) {
	r.spending.add(ledger.Record{Provider: c.Provider, Model: c.Model, Usage: c.Usage})
	r.present.mu.Lock()
	defer r.present.mu.Unlock()
	if at, ok := r.present.of[id]; ok {
		at.spent = at.spent.Add(c.Usage)
	}
}

// appear says who speaks now. It is said again whenever somebody joins the turn.
func (t *turn) appear() {
	in := t.last().Inbound
	t.r.present.enter(t.s.rec.ID, Speaker{Turn: t.c.Turn, By: t.least(), At: in.Address, Name: in.ChatName})
}

// title has a name made for a conversation whose first answer is told, beside
// what people wait for. It never takes the place of a person's, and is not made
// up for after a restart.
func (t *turn) title(answer string) {
	name, rec := t.r.o.Title, t.s.rec
	if name == nil || rec.Title != "" || t.stored > 0 {
		return
	}
	asked := written(t.c.Entries)
	t.r.aside(func(ctx context.Context) {
		title, call, err := name(ctx, asked, answer)
		t.r.Charge(rec.ID, call)
		if err == nil {
			_, err = t.r.o.Store.SuggestTitle(ctx, rec.ID, title)
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
