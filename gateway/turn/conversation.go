package turn

import (
	"container/list"
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"hermesd/agent"
	"hermesd/agent/llm"
	"hermesd/agent/llm/ledger"
	"hermesd/agent/prompt"
	"hermesd/gateway/access"
	"hermesd/gateway/chat"
	"hermesd/gateway/inbox"
	"hermesd/gateway/session"
)

// A conversation is a session as turns use it: its record, its frozen prompt
// and its transcript. One lane at a time holds it.
type conversation struct {
	rec    session.Record
	prefix prompt.Prefix
	tr     *llm.Transcript
	open   *session.Creation // set until the session is in the store
	bytes  int64             // of the stored prompt and rows
	over   string            // why the session before this one is over; "" if it is not
	model  Choice            // that answers the turn
	ledger *ledger.Ledger
	asked  string          // who answered last, as provider/model
	found  Discovery       // nil until it is needed
	engine agent.Engine    // nil until it is needed
	limits agent.Limits    // that it was told
	kept   json.RawMessage // what the store has of it
	notes  []string        // what the person should know of the prompt, once
}

// load returns the conversation of an entry: from memory if it is there and
// still what the store has, else from the store, else a new one.
//
// A session that is over by the reset policy is left for a new one, unless
// the turn is resumed in it, or something runs in its background.
func (r *Runner) load(ctx context.Context, e inbox.Entry, resumed bool) (*conversation, error) {
	rec, ok, err := r.o.Store.Session(ctx, e.Session)
	if err != nil {
		return nil, fmt.Errorf("session %s: %w", e.Session, err)
	}
	if !ok {
		return r.begin(e, "")
	}
	if why, due := r.reset(rec.Address).Due(r.o.Words, rec.Updated, e.Accepted); due && !resumed && !r.working(rec.ID) {
		s, err := r.begin(e, "")
		if err == nil {
			s.over = r.o.Words.T("A new conversation begins, because %s. The old one is kept as `%s`.", why, rec.ID)
		}
		return s, err
	}
	return r.stored(ctx, rec)
}

// stored returns the conversation of a stored session: from memory if it is there
// and still what the store has, else from the store.
func (r *Runner) stored(ctx context.Context, rec session.Record) (*conversation, error) {
	if s := r.cache.take(rec.ID); s != nil && s.tr.Len() == rec.Messages && s.rec.Revision == rec.Revision {
		s.rec = rec
		return s, nil
	}
	s := &conversation{rec: rec}
	if err := r.read(ctx, s); err != nil {
		return nil, err
	}
	return s, s.account(ctx, r.o.Store, nil)
}

// read reads the prompt and the transcript of s from the store.
func (r *Runner) read(ctx context.Context, s *conversation) (err error) {
	if s.prefix, err = r.prompt(ctx, s.rec.ID); err != nil {
		return err
	}
	s.bytes = int64(len(s.prefix.System()))
	rows, err := r.o.Store.Transcript(ctx, s.rec.ID, 0)
	if err != nil {
		return fmt.Errorf("transcript of %s: %w", s.rec.ID, err)
	}
	messages := make([]llm.Message, len(rows))
	for i, row := range rows {
		if err := json.Unmarshal(row, &messages[i]); err != nil {
			return fmt.Errorf("transcript of %s, message %d: %w", s.rec.ID, i, err)
		}
		s.bytes += int64(len(row))
	}
	s.tr = llm.NewTranscript(messages...)
	return nil
}

// prompt returns the frozen prompt of a session.
func (r *Runner) prompt(ctx context.Context, id session.ID) (p prompt.Prefix, err error) {
	raw, err := r.o.Store.Prompt(ctx, id)
	if err == nil {
		err = json.Unmarshal(raw, &p)
	}
	if err != nil {
		return p, fmt.Errorf("prompt of %s: %w", id, err)
	}
	return p, nil
}

// begin makes a new session for the conversation of e.
func (r *Runner) begin(e inbox.Entry, title string) (*conversation, error) {
	now := time.Now().UTC()
	rec := session.Record{
		ID: session.NewID(now), Key: e.Session, Address: e.Inbound.Address, Title: title,
		Shared: r.o.Policy.Shared(e.Inbound.Address), Created: now, Updated: now, Name: e.Inbound.ChatName,
	}
	if e.Occurrence != nil {
		rec.ID = e.Occurrence.Session()
	}
	if !rec.Shared {
		rec.Owner, rec.OwnersOnly = e.Inbound.Sender.ID, e.Principal.Level == access.Owner
	}
	s := &conversation{rec: rec, tr: llm.NewTranscript(), ledger: ledger.New()}
	s.prefix, s.notes = r.o.Prefix(rec)
	raw, err := json.Marshal(s.prefix)
	if err != nil {
		return nil, fmt.Errorf("prompt of %s: %w", rec.ID, err)
	}
	s.open, s.bytes = &session.Creation{Record: rec, Prompt: raw}, int64(len(raw))
	return s, nil
}

// perMessage is what a message in memory costs beyond its bytes, and perByte
// how often its bytes stand there: decoded, as they came, and encoded with room
// to grow.
const (
	perMessage = 400
	perByte    = 3
)

func (s *conversation) cost() int64 {
	return 1024 + int64(s.tr.Len())*perMessage + s.bytes*perByte
}

// A cache keeps the conversations that were used last, within a budget of
// bytes. What it forgets is read from the store again.
type cache struct {
	budget int64
	// forgotten is told of each conversation that is given up.
	forgotten func(*conversation)

	mu    sync.Mutex // guards what follows
	used  int64
	order *list.List // of *conversation, the one used last in front
	byID  map[session.ID]*list.Element
}

func newCache(budget int64, forgotten func(*conversation)) *cache {
	return &cache{budget: budget, forgotten: forgotten, order: list.New(), byID: make(map[session.ID]*list.Element)}
}

// take hands a conversation out; the cache does not have it any more.
func (c *cache) take(id session.ID) *conversation {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.byID[id]
	if !ok {
		return nil
	}
	return c.drop(e)
}

// put keeps s, and forgets others to stay within the budget.
func (c *cache) put(s *conversation) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e, ok := c.byID[s.rec.ID]; ok {
		c.drop(e)
	}
	c.byID[s.rec.ID] = c.order.PushFront(s)
	c.used += s.cost()
	for c.used > c.budget && c.order.Len() > 0 {
		c.forgotten(c.drop(c.order.Back()))
	}
}

func (c *cache) drop(e *list.Element) *conversation {
	s := c.order.Remove(e).(*conversation)
	delete(c.byID, s.rec.ID)
	c.used -= s.cost()
	return s
}

// reset is when sessions of a place start over by themselves.
func (r *Runner) reset(at chat.Address) session.ResetPolicy {
	if r.o.Reset == nil {
		return session.ResetPolicy{}
	}
	return r.o.Reset(at)
}

// working reports whether something that a session has started runs in the
// background. Somebody will come back for it.
func (r *Runner) working(id session.ID) bool {
	if r.o.Running == nil {
		return false
	}
	n, _ := r.o.Running(id)
	return n > 0
}
