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

// A sessionState is a session as turns use it: its record, its frozen prompt
// and its transcript. One lane at a time holds it.
type sessionState struct {
	record           session.Record
	prefix           prompt.Prefix
	transcript       *llm.Transcript
	created          *session.Creation // set until the session is in the store
	bytes            int64             // of the stored prompt and rows
	over             string            // why the session before this one is over; "" if it is not
	model            ModelChoice       // that answers the turn
	ledger           *ledger.Ledger
	lastModel        string          // who answered last, as provider/model
	found            Discovery       // nil until it is needed
	engine           agent.Engine    // nil until it is needed
	limits           agent.Limits    // that it was told
	savedEngineState json.RawMessage // what the store has of it
	notes            []string        // what the person should know of the prompt, once
}

// load returns the conversation of an entry: from memory if it is there and
// still what the store has, else from the store, else a new one.
//
// A session that is over by the reset policy is left for a new one, unless
// the turn is resumed in it, or something runs in its background.
func (r *Runner) load(ctx context.Context, e inbox.Entry, resumed bool) (*sessionState, error) {
	rec, ok, err := r.opts.Store.Session(ctx, e.Session)
	if err != nil {
		return nil, fmt.Errorf("session %s: %w", e.Session, err)
	}
	if !ok {
		return r.begin(e, "")
	}
	if why, due := r.reset(rec.Address).Due(r.opts.Printer, rec.Updated, e.Accepted); due && !resumed && !r.hasBackgroundWork(rec.ID) {
		s, err := r.begin(e, "")
		if err == nil {
			s.over = r.opts.Printer.T("A new conversation begins, because %s. The old one is kept as `%s`.", why, rec.ID)
		}
		return s, err
	}
	return r.stored(ctx, rec)
}

// stored returns the conversation of a stored session: from memory if it is there
// and still what the store has, else from the store.
func (r *Runner) stored(ctx context.Context, rec session.Record) (*sessionState, error) {
	if s := r.cache.take(rec.ID); s != nil && s.transcript.Len() == rec.Messages && s.record.Revision == rec.Revision {
		s.record = rec
		return s, nil
	}
	s := &sessionState{record: rec}
	if err := r.read(ctx, s); err != nil {
		return nil, err
	}
	return s, s.account(ctx, r.opts.Store, nil)
}

// read reads the prompt and the transcript of s from the store.
func (r *Runner) read(ctx context.Context, s *sessionState) (err error) {
	if s.prefix, err = r.prompt(ctx, s.record.ID); err != nil {
		return err
	}
	s.bytes = int64(len(s.prefix.System()))
	rows, err := r.opts.Store.Transcript(ctx, s.record.ID, 0)
	if err != nil {
		return fmt.Errorf("transcript of %s: %w", s.record.ID, err)
	}
	messages := make([]llm.Message, len(rows))
	for i, row := range rows {
		if err := json.Unmarshal(row, &messages[i]); err != nil {
			return fmt.Errorf("transcript of %s, message %d: %w", s.record.ID, i, err)
		}
		s.bytes += int64(len(row))
	}
	s.transcript = llm.NewTranscript(messages...)
	return nil
}

// prompt returns the frozen prompt of a session.
func (r *Runner) prompt(ctx context.Context, id session.ID) (p prompt.Prefix, err error) {
	raw, err := r.opts.Store.Prompt(ctx, id)
	if err == nil {
		err = json.Unmarshal(raw, &p)
	}
	if err != nil {
		return p, fmt.Errorf("prompt of %s: %w", id, err)
	}
	return p, nil
}

// begin makes a new session for the conversation of e.
func (r *Runner) begin(e inbox.Entry, title string) (*sessionState, error) {
	now := time.Now().UTC()
	rec := session.Record{
		ID: session.NewID(now), Key: e.Session, Address: e.Inbound.Address, Title: title,
		Shared: r.opts.Policy.Shared(e.Inbound.Address), Created: now, Updated: now, Name: e.Inbound.ChatName,
	}
	if e.Occurrence != nil {
		rec.ID = e.Occurrence.Session()
	}
	if !rec.Shared {
		rec.Owner, rec.OwnersOnly = e.Inbound.Sender.ID, e.Principal.Level == access.Owner
	}
	s := &sessionState{record: rec, transcript: llm.NewTranscript(), ledger: ledger.New()}
	s.prefix, s.notes = r.opts.Prefix(rec)
	raw, err := json.Marshal(s.prefix)
	if err != nil {
		return nil, fmt.Errorf("prompt of %s: %w", rec.ID, err)
	}
	s.created, s.bytes = &session.Creation{Record: rec, Prompt: raw}, int64(len(raw))
	return s, nil
}

// perMessage is what a message in memory costs beyond its bytes, and perByte
// how often its bytes stand there: decoded, as they came, and encoded with room
// to grow.
const (
	perMessage = 400
	perByte    = 3
)

func (s *sessionState) cost() int64 {
	return 1024 + int64(s.transcript.Len())*perMessage + s.bytes*perByte
}

// A cache keeps the conversations that were used last, within a budget of
// bytes. What it forgets is read from the store again.
type cache struct {
	budget int64
	// forgotten is told of each conversation that is given up.
	forgotten func(*sessionState)

	mu    sync.Mutex // guards what follows
	used  int64
	order *list.List // of *conversation, the one used last in front
	byID  map[session.ID]*list.Element
}

func newCache(budget int64, forgotten func(*sessionState)) *cache {
	return &cache{budget: budget, forgotten: forgotten, order: list.New(), byID: make(map[session.ID]*list.Element)}
}

// take hands a conversation out; the cache does not have it any more.
func (c *cache) take(id session.ID) *sessionState {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.byID[id]
	if !ok {
		return nil
	}
	return c.drop(e)
}

// put keeps s, and forgets others to stay within the budget.
func (c *cache) put(s *sessionState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e, ok := c.byID[s.record.ID]; ok {
		c.drop(e)
	}
	c.byID[s.record.ID] = c.order.PushFront(s)
	c.used += s.cost()
	for c.used > c.budget && c.order.Len() > 0 {
		c.forgotten(c.drop(c.order.Back()))
	}
}

func (c *cache) drop(e *list.Element) *sessionState {
	s := c.order.Remove(e).(*sessionState)
	delete(c.byID, s.record.ID)
	c.used -= s.cost()
	return s
}

// reset is when sessions of a place start over by themselves.
func (r *Runner) reset(at chat.Address) session.ResetPolicy {
	if r.opts.Reset == nil {
		return session.ResetPolicy{}
	}
	return r.opts.Reset(at)
}

// hasBackgroundWork reports whether something that a session has started runs in the
// background. Somebody will come back for it.
func (r *Runner) hasBackgroundWork(id session.ID) bool {
	if r.opts.BackgroundCommands == nil {
		return false
	}
	n, _ := r.opts.BackgroundCommands(id)
	return n > 0
}
