package conversation

import (
	"bytes"
	"cmp"
	"container/list"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"hermesd/agent"
	"hermesd/agent/llm"
	"hermesd/agent/llm/ledger"
	"hermesd/agent/prompt"
	"hermesd/gateway/access"
	"hermesd/gateway/chat"
	"hermesd/gateway/i18n"
	"hermesd/gateway/inbox"
	"hermesd/gateway/session"
	"hermesd/gateway/store"
	"hermesd/hygiene"
)

// Options are the values that configure a Book.
type Options struct {
	Policy     session.KeyPolicy
	Reset      func(chat.Address) session.ResetPolicy // of sessions at an address
	CacheBytes int64                                  // of memory for conversations that no turn has
	Printer    i18n.Printer
	Log        *zap.Logger
}

// Parts are the collaborators of a Book. All are set.
type Parts struct {
	Store  store.Sessions
	Locks  *session.Locks
	Passes *hygiene.Passes
	// Prefix builds the cached prompt of a session, and returns texts for the user about
	// what was omitted, and why.
	Prefix func(session.Record) (prompt.Prefix, []string)
	// HasBackground reports whether a background command of a session runs, whose result
	// a user still expects.
	HasBackground func(session.ID) bool
	Options       Options
}

// A Book loads conversations, each for one turn at a time. Its methods may be called from
// any goroutine.
type Book struct {
	Parts

	mu    sync.Mutex // guards what follows
	used  int64      // bytes of memory
	order *list.List // of *Conversation that no turn has, most recently used first
	byID  map[session.ID]*list.Element
}

// NewBook returns a Book.
func NewBook(p Parts) *Book {
	return &Book{Parts: p, order: list.New(), byID: make(map[session.ID]*list.Element)}
}

// Use returns the current conversation of an entry once no other turn has it: from memory
// if it is there and matches the store, else from the store, else a new one. The caller
// must call Release.
//
// A session that is due for a reset is replaced by a new one, unless the turn is resumed
// in it or a background command of it runs.
func (b *Book) Use(ctx context.Context, e inbox.Entry, resumed bool) (*Conversation, error) {
	for {
		released := b.Locks.Releases()
		c, err := b.load(ctx, e, resumed)
		if err != nil {
			return nil, err
		}
		if busy := b.Locks.TryAcquire(c.Record.ID); busy != nil {
			select {
			case <-busy:
				continue
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		}
		if c.created != nil || b.Locks.Releases() == released {
			return c, nil
		}
		current, _, err := b.Store.Session(ctx, e.Session)
		if err == nil && current.ID == c.Record.ID && isUnchanged(current, c.Record) {
			c.Record = current
			return c, nil
		}
		b.Locks.Release(c.Record.ID) // another turn has committed in between
		if err != nil {
			return nil, fmt.Errorf("load session %s: %w", e.Session, err)
		}
	}
}

// isUnchanged reports whether there was no commit between two reads of a session. The
// length alone does not show that, because a compaction may not change it.
func isUnchanged(a, b session.Record) bool {
	return a.Messages == b.Messages && a.Start == b.Start && a.Revision == b.Revision && a.Calls == b.Calls && a.Turns == b.Turns
}

// UseStored returns a stored conversation, once no other turn has it; nil if it is not
// stored. The caller must call Release.
func (b *Book) UseStored(ctx context.Context, id session.ID) (*Conversation, error) {
	if err := b.Locks.Acquire(ctx, id); err != nil {
		return nil, err
	}
	rec, ok, err := b.Store.SessionByID(ctx, id)
	if err == nil && ok {
		var c *Conversation
		if c, err = b.loadStored(ctx, rec); err == nil {
			return c, nil
		}
	}
	b.Locks.Release(id)
	if err != nil {
		return nil, fmt.Errorf("load session %s: %w", id, err)
	}
	return nil, nil
}

// Release lets other turns have the conversation.
func (b *Book) Release(c *Conversation) { b.Locks.Release(c.Record.ID) }

// UnsavedEngine returns the state of the context engine if neither the store nor a
// recorded step has it, else nil. While a pass uses the engine it is nil too: a later turn
// stores its state.
func (b *Book) UnsavedEngine(c *Conversation) json.RawMessage {
	e := &c.Engine
	if e.Engine == nil || b.Passes.Get(c.Record.ID) != nil {
		return nil
	}
	state := e.State()
	if state == nil || bytes.Equal(state, e.Saved) || bytes.Equal(state, e.Recorded) {
		return nil
	}
	return state
}

// Delta adds the changes of the turn to m. used is what its model calls have used. It
// must be called once per turn, before the commit.
func (b *Book) Delta(c *Conversation, m *store.Turn, used llm.Usage) (err error) {
	if m.Messages, err = encode(c.Transcript.Since(c.stored)); err != nil {
		return err
	}
	m.Compactions, m.Calls = c.compactions, c.calls
	if c.promptChanged {
		if m.Prompt, err = json.Marshal(c.Prefix); err != nil {
			return fmt.Errorf("encode prompt of %s: %w", c.Record.ID, err)
		}
		c.Record.Revision++
		c.promptChanged = false
	}
	if c.Engine.Engine != nil && b.Passes.Get(c.Record.ID) == nil { // a running pass uses the engine
		if state := c.Engine.State(); state != nil && !bytes.Equal(state, c.Engine.Saved) {
			m.Engine, c.Engine.Saved = state, state
		}
	}
	if c.Record.PendingBreak == "" { // declared for a call that was not made
		c.Record.PendingBreak = string(c.ledger.Declared())
	}
	m.Create = c.created
	m.Session = c.Record
	m.Session.Messages = c.Transcript.Len()
	m.Session.Turns++
	m.Session.Crashes = 0
	m.Session.Calls += len(c.calls)
	m.Session.Updated = time.Now().UTC()
	if c.Record.Usage != nil {
		used = used.Add(*c.Record.Usage)
	}
	m.Session.Usage = &used
	return nil
}

// Committed keeps a conversation whose changes are in the store by the commit m.
func (b *Book) Committed(c *Conversation, m store.Turn) {
	c.committed(m)
	b.keep(c)
}

// Discard drops the messages that the turn has added, and keeps the conversation if it
// then equals the store.
func (b *Book) Discard(c *Conversation) {
	if c.HasChanges() {
		return
	}
	c.Transcript.Truncate(c.stored)
	if c.created == nil {
		c.clean()
		b.keep(c)
	}
}

func (b *Book) load(ctx context.Context, e inbox.Entry, resumed bool) (*Conversation, error) {
	rec, ok, err := b.Store.Session(ctx, e.Session)
	if err != nil {
		return nil, fmt.Errorf("load session %s: %w", e.Session, err)
	}
	if !ok {
		return b.New(e, "")
	}
	reason, due := b.Options.Reset(rec.Address).Due(b.Options.Printer, rec.Updated, e.Accepted)
	if due && !resumed && !b.HasBackground(rec.ID) {
		c, err := b.New(e, "")
		if err == nil {
			c.ResetNotice = b.Options.Printer.T("A new conversation begins, because %s. The old one is kept as `%s`.", reason, rec.ID)
		}
		return c, err
	}
	return b.loadStored(ctx, rec)
}

// loadStored returns a stored conversation: from memory if it is there and matches the
// store, else from the store.
func (b *Book) loadStored(ctx context.Context, rec session.Record) (*Conversation, error) {
	if c := b.Forget(rec.ID); c != nil && c.Transcript.Len() == rec.Messages && c.Record.Revision == rec.Revision {
		c.Record = rec
		return c, nil
	}
	c := &Conversation{Record: rec}
	if err := b.read(ctx, c); err != nil {
		return nil, err
	}
	return c, b.Resume(ctx, c, nil, nil)
}

// read reads the prompt and the transcript of c from the store.
func (b *Book) read(ctx context.Context, c *Conversation) (err error) {
	if c.Prefix, err = store.LoadPrompt(ctx, b.Store, c.Record.ID); err != nil {
		return err
	}
	c.bytes = int64(len(c.Prefix.System()))
	rows, err := b.Store.Rows(ctx, c.Record.ID, c.Record.Active())
	if err != nil {
		return fmt.Errorf("load transcript of %s: %w", c.Record.ID, err)
	}
	messages, err := store.Decode(rows, c.Record.Start)
	if err != nil {
		return fmt.Errorf("decode transcript of %s: %w", c.Record.ID, err)
	}
	for _, row := range rows {
		c.bytes += int64(len(row))
	}
	c.Transcript = llm.NewTranscript(messages...)
	c.clean()
	return nil
}

// maxLoadedCalls is the number of a session's last calls that are loaded to restore
// its ledger.
const maxLoadedCalls = 500

// Resume restores the ledger from the store and from what the recorded steps of an
// earlier run of the turn have: its calls and the state of its context engine.
func (b *Book) Resume(ctx context.Context, c *Conversation, calls []store.Doc[ledger.Record], engine json.RawMessage) error {
	stored, err := store.LoadCalls(ctx, b.Store, c.Record.ID, max(0, c.Record.Calls-maxLoadedCalls))
	if err != nil {
		return err
	}
	return c.resume(stored, calls, engine)
}

// Undo restores the conversation as it was before the turn. The turn's compactions are
// dropped too, because their results contain the input. Its calls stay.
func (b *Book) Undo(ctx context.Context, c *Conversation) error {
	if len(c.compactions) == 0 {
		c.Transcript.Truncate(c.stored)
	} else {
		before := &Conversation{Record: c.Record}
		if err := b.read(context.WithoutCancel(ctx), before); err != nil {
			return err
		}
		c.Prefix, c.Transcript, c.bytes = before.Prefix, before.Transcript, before.bytes
		c.Engine.Drop() // its state includes the dropped compactions
		c.compactions, c.promptChanged, c.stored = nil, false, before.Transcript.Len()
	}
	if c.Record.PromptMessages == 0 || c.Record.PromptMessages > c.stored {
		c.Record.PromptTokens, c.Record.PromptMessages = 0, 0
	}
	c.Record.PendingBreak = string(ledger.Undo)
	return nil
}

// New returns a new session for the conversation of e. The turn's commit, or its first
// step, stores it.
func (b *Book) New(e inbox.Entry, title string) (*Conversation, error) {
	now := time.Now().UTC()
	rec := session.Record{
		ID: session.NewID(now), Key: e.Session, Address: e.Inbound.Address, Title: title,
		Shared: b.Options.Policy.Shared(e.Inbound.Address), Created: now, Updated: now, Name: e.Inbound.ChatName,
	}
	if e.Occurrence != nil {
		rec.ID = e.Occurrence.Session()
	}
	if !rec.Shared {
		rec.Owner, rec.OwnersOnly = e.Inbound.Sender.ID, e.Grant.Principal().Level == access.Owner
	}
	c := &Conversation{Record: rec, Transcript: llm.NewTranscript(), ledger: ledger.New()}
	c.Prefix, c.Notes = b.Prefix(rec)
	raw, err := json.Marshal(c.Prefix)
	if err != nil {
		return nil, fmt.Errorf("encode prompt of %s: %w", rec.ID, err)
	}
	c.created, c.bytes = &store.Creation{Record: rec, Prompt: raw}, int64(len(raw))
	return c, nil
}

// Forget removes a conversation from memory and returns it, nil if it is not there.
func (b *Book) Forget(id session.ID) *Conversation {
	b.mu.Lock()
	defer b.mu.Unlock()
	e, ok := b.byID[id]
	if !ok {
		return nil
	}
	return b.remove(e)
}

// keep keeps c in memory, and drops the conversations that were used least recently to
// stay within the budget.
func (b *Book) keep(c *Conversation) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if e, ok := b.byID[c.Record.ID]; ok {
		b.remove(e)
	}
	b.byID[c.Record.ID] = b.order.PushFront(c)
	b.used += c.memoryCost()
	for b.used > b.Options.CacheBytes && b.order.Len() > 0 {
		b.endEngine(b.remove(b.order.Back()))
	}
}

func (b *Book) remove(e *list.Element) *Conversation {
	c := b.order.Remove(e).(*Conversation)
	delete(b.byID, c.Record.ID)
	b.used -= c.memoryCost()
	return c
}

// endEngine ends the context engine of a dropped conversation, unless a pass uses it.
func (b *Book) endEngine(c *Conversation) {
	if l, ok := c.Engine.Engine.(agent.Lifecycle); ok && !b.Passes.HandOver(c.Record.ID, c.Engine.Engine) {
		l.End()
	}
}

// Rebuild builds the prompt of a session again; reason is that of the prefix break
// of the next call. It returns a text for the user.
func (b *Book) Rebuild(ctx context.Context, rec session.Record, reason string) (*store.Rebuild, string, error) {
	old, err := store.LoadPrompt(ctx, b.Store, rec.ID)
	if err != nil {
		b.Options.Log.Error("cannot load old prompt", zap.Error(err))
	}
	next, notes := b.Prefix(rec)
	r := &store.Rebuild{Session: rec.ID}
	switched := reason == string(ledger.ModelSwitch)
	if switched { // another model has none of the prefix cached, even with the same prompt
		r.Break = reason
	}
	if next.Hash() == old.Hash() && switched {
		return r, strings.Join(notes, "\n"), nil
	}
	if next.Hash() == old.Hash() {
		return r, strings.Join(append(notes, b.Options.Printer.T("The prompt is the same as before; nothing is lost of the provider's cache.")), "\n"), nil
	}
	if r.Prompt, err = json.Marshal(next); err != nil {
		return nil, "", fmt.Errorf("encode prompt of %s: %w", rec.ID, err)
	}
	r.Break = cmp.Or(r.Break, rec.PendingBreak, reason)
	return r, strings.Join(append(notes, b.Options.Printer.T("The prompt is built again: %s.", b.describeDifferences(old, next))), "\n"), nil
}

// describeDifferences returns a list of the layers and tools in which two prompts
// differ.
func (b *Book) describeDifferences(old, next prompt.Prefix) string {
	layers := func(p prompt.Prefix) map[string]string {
		m := make(map[string]string)
		for _, l := range p.Layers() {
			m[l.Name] = l.Text
		}
		return m
	}
	var parts []string
	before, after := layers(old), layers(next)
	for _, l := range next.Layers() {
		switch text, had := before[l.Name]; {
		case !had:
			parts = append(parts, b.Options.Printer.T("%s is new", l.Name))
		case text != l.Text:
			parts = append(parts, b.Options.Printer.T("%s has changed", l.Name))
		}
	}
	for _, l := range old.Layers() {
		if _, has := after[l.Name]; !has {
			parts = append(parts, b.Options.Printer.T("%s is gone", l.Name))
		}
	}
	names := func(p prompt.Prefix) (out []string) {
		for _, tool := range p.Tools() {
			out = append(out, tool.Name)
		}
		return out
	}
	oldTools, newTools := names(old), names(next)
	for _, n := range newTools {
		if !slices.Contains(oldTools, n) {
			parts = append(parts, b.Options.Printer.T("the tool %s is new", n))
		}
	}
	for _, n := range oldTools {
		if !slices.Contains(newTools, n) {
			parts = append(parts, b.Options.Printer.T("the tool %s is gone", n))
		}
	}
	if len(parts) == 0 {
		return b.Options.Printer.T("the tools are described differently")
	}
	return strings.Join(parts, ", ")
}
