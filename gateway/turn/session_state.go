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

// A sessionState is a session in memory: its record, its cached prompt and its
// transcript. One turn at a time holds it.
type sessionState struct {
	record           session.Record
	prefix           prompt.Prefix
	transcript       *llm.Transcript
	created          *session.Creation // set until the session is in the store
	bytes            int64             // of the stored prompt and rows
	resetNotice      string            // text about the reset of the previous session; "" if there was none
	model            ModelChoice       // of the current turn
	ledger           *ledger.Ledger
	lastModel        string          // model of the last call, as provider/model
	discovery        Discovery       // nil until it is needed
	engine           agent.Engine    // nil until it is needed
	limits           agent.Limits    // last set on engine
	savedEngineState json.RawMessage // state of engine in the store
	notes            []string        // texts about the prompt that the user has not seen yet
}

// loadSession returns the current session of an entry: from memory if it is there and
// matches the store, else from the store, else a new one.
//
// A session that is due for a reset is replaced by a new one, unless the turn is
// resumed in it or a background command of it runs.
func (r *Runner) loadSession(ctx context.Context, e inbox.Entry, resumed bool) (*sessionState, error) {
	rec, ok, err := r.opts.Store.Session(ctx, e.Session)
	if err != nil {
		return nil, fmt.Errorf("load session %s: %w", e.Session, err)
	}
	if !ok {
		return r.newSession(e, "")
	}
	if reason, due := r.resetPolicy(rec.Address).Due(r.opts.Printer, rec.Updated, e.Accepted); due && !resumed && !r.hasBackgroundWork(rec.ID) {
		s, err := r.newSession(e, "")
		if err == nil {
			s.resetNotice = r.opts.Printer.T("A new conversation begins, because %s. The old one is kept as `%s`.", reason, rec.ID)
		}
		return s, err
	}
	return r.loadStoredSession(ctx, rec)
}

// loadStoredSession returns a stored session: from memory if it is there and matches
// the store, else from the store.
func (r *Runner) loadStoredSession(ctx context.Context, rec session.Record) (*sessionState, error) {
	if s := r.cache.take(rec.ID); s != nil && s.transcript.Len() == rec.Messages && s.record.Revision == rec.Revision {
		s.record = rec
		return s, nil
	}
	s := &sessionState{record: rec}
	if err := r.readPromptAndTranscript(ctx, s); err != nil {
		return nil, err
	}
	return s, s.loadLedger(ctx, r.opts.Store, nil)
}

// readPromptAndTranscript reads the prompt and the transcript of s from the store.
func (r *Runner) readPromptAndTranscript(ctx context.Context, s *sessionState) (err error) {
	if s.prefix, err = r.loadPrompt(ctx, s.record.ID); err != nil {
		return err
	}
	s.bytes = int64(len(s.prefix.System()))
	rows, err := r.opts.Store.Transcript(ctx, s.record.ID, 0)
	if err != nil {
		return fmt.Errorf("load transcript of %s: %w", s.record.ID, err)
	}
	messages := make([]llm.Message, len(rows))
	for i, row := range rows {
		if err := json.Unmarshal(row, &messages[i]); err != nil {
			return fmt.Errorf("decode transcript of %s, message %d: %w", s.record.ID, i, err)
		}
		s.bytes += int64(len(row))
	}
	s.transcript = llm.NewTranscript(messages...)
	return nil
}

// loadPrompt returns the cached prompt of a session.
func (r *Runner) loadPrompt(ctx context.Context, id session.ID) (p prompt.Prefix, err error) {
	raw, err := r.opts.Store.Prompt(ctx, id)
	if err == nil {
		err = json.Unmarshal(raw, &p)
	}
	if err != nil {
		return p, fmt.Errorf("load prompt of %s: %w", id, err)
	}
	return p, nil
}

// newSession returns a new session for the conversation of e. The turn's commit, or
// its first step, stores it.
func (r *Runner) newSession(e inbox.Entry, title string) (*sessionState, error) {
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
		return nil, fmt.Errorf("encode prompt of %s: %w", rec.ID, err)
	}
	s.created, s.bytes = &session.Creation{Record: rec, Prompt: raw}, int64(len(raw))
	return s, nil
}

// bytesPerMessage is the fixed memory cost of a message. memoryPerByte is the number of
// copies of its bytes in memory: decoded, as received, and encoded with spare
// capacity.
const (
	bytesPerMessage = 400
	memoryPerByte   = 3
)

func (s *sessionState) memoryCost() int64 {
	return 1024 + int64(s.transcript.Len())*bytesPerMessage + s.bytes*memoryPerByte
}

// A cache holds the most recently used sessions within a budget of bytes. An
// evicted session is loaded from the store again.
type cache struct {
	budget int64
	// onEvict is called for each evicted session, with mu held.
	onEvict func(*sessionState)

	mu    sync.Mutex // guards what follows
	used  int64
	order *list.List // of *sessionState, most recently used first
	byID  map[session.ID]*list.Element
}

func newCache(budget int64, forgotten func(*sessionState)) *cache {
	return &cache{budget: budget, onEvict: forgotten, order: list.New(), byID: make(map[session.ID]*list.Element)}
}

// take removes a session from the cache and returns it, nil if it is not there.
func (c *cache) take(id session.ID) *sessionState {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.byID[id]
	if !ok {
		return nil
	}
	return c.remove(e)
}

// put adds s, and evicts the sessions that were used least recently to stay within the
// budget.
func (c *cache) put(s *sessionState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e, ok := c.byID[s.record.ID]; ok {
		c.remove(e)
	}
	c.byID[s.record.ID] = c.order.PushFront(s)
	c.used += s.memoryCost()
	for c.used > c.budget && c.order.Len() > 0 {
		c.onEvict(c.remove(c.order.Back()))
	}
}

func (c *cache) remove(e *list.Element) *sessionState {
	s := c.order.Remove(e).(*sessionState)
	delete(c.byID, s.record.ID)
	c.used -= s.memoryCost()
	return s
}

// resetPolicy returns the reset policy of sessions at an address.
func (r *Runner) resetPolicy(address chat.Address) session.ResetPolicy {
	if r.opts.Reset == nil {
		return session.ResetPolicy{}
	}
	return r.opts.Reset(address)
}

// hasBackgroundWork reports whether a background command of a session runs, whose
// result a user still expects.
func (r *Runner) hasBackgroundWork(id session.ID) bool {
	if r.opts.BackgroundCommands == nil {
		return false
	}
	n, _ := r.opts.BackgroundCommands(id)
	return n > 0
}
