// Package providertest holds the tests that every memory provider must pass, run against
// its simulator in virtual time, and a fuzz test of what it does with answers.
package providertest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"hermesd/agent/memory/provider"
	"hermesd/internal/sim/memory"
)

// Options describe a provider under test.
type Options struct {
	// New returns a provider and what it talks to, both without data. The suite closes the
	// provider; New registers the cleanup of everything else.
	New func(t *testing.T) Target
	// Settle is how long it takes until what was stored is recalled.
	Settle time.Duration
	// End: what was said is recalled only after the end of its conversation.
	End bool
	// KeepsFacts: the provider cannot remove a fact.
	KeepsFacts bool
	// Health is what the provider says of itself.
	Health provider.Health
	// Inputs has a valid input of each tool.
	Inputs map[string]string
	// ByID has an input of each tool of everybody that changes or deletes what it names by an
	// ID; ID stands for it.
	ByID map[string]string
	// NoFaults leaves out the tests with faults, which another mode of the provider has to
	// pass.
	NoFaults bool
	// Real: the provider runs programs, so the tests wait in real time.
	Real bool
}

// A Target is a provider and what it talks to.
type Target struct {
	Provider provider.Provider
	Server   *memory.Server // nil: the provider is not reached over HTTP
	Key      string         // must not be part of an error
	// Count returns how many copies of a text are stored.
	Count func(text string) int
}

// Texts that are stored, each with a word that no other has.
const (
	teaText    = "I prefer jasmine tea in the morning."
	coffeeText = "I prefer espresso after lunch."
	fruitText  = "I prefer papaya over melon."
)

// Owner returns the scope of an owner in a session.
func Owner(session string) provider.Scope {
	return provider.Scope{UserID: "8439114563", Session: session, Key: "agent-main-telegram-dm-8439114563", Platform: "telegram", Chat: "8439114563"}
}

// Other returns the scope of another person in a session.
func Other(session string) provider.Scope {
	return provider.Scope{Person: "telegram-77", Session: session, Key: "agent-main-telegram-dm-77", Platform: "telegram", Chat: "77"}
}

// Turn returns the event of a turn; number makes its key.
func Turn(number int, s provider.Scope, text string) provider.Event {
	now := time.Now()
	return provider.Event{Key: key(number), Kind: provider.Turn, Scope: s, At: now, Messages: []provider.Message{
		{Role: "user", Text: text, At: now.Add(-time.Second)}, {Role: "assistant", Text: "Noted.", At: now},
	}}
}

// Added returns the event of an added fact; number makes its key.
func Added(number int, s provider.Scope, text string) provider.Event {
	return provider.Event{Key: key(number), Kind: provider.Added, Scope: s, At: time.Now(), Fact: provider.Fact{Target: "user", Text: text}}
}

func key(number int) string { return fmt.Sprintf("6f1c2a34-0000-5000-8000-%012d", number) }

// A subject is a target in one test.
type subject struct {
	Target
	t *testing.T
	o Options
}

// Suite tests a provider.
func Suite(t *testing.T, o Options) {
	others := goleak.IgnoreCurrent()
	for name, test := range map[string]func(*subject){
		"it describes itself":                          describes,
		"a turn is recalled later":                     recallsTurn,
		"a fact is recalled until it is removed":       recallsFact,
		"what is forgotten is not recalled":            forgets,
		"an event that is sent twice is stored once":   storesOnce,
		"turns that are told together are stored once": storesBatch,
		"long and empty messages are stored":           storesAnyLength,
		"calls of tools are stored once or ignored":    storesToolUses,
		"a person changes only what is theirs":         changesOnlyTheirs,
		"what is known of a person has a limit":        standingIsShort,
		"calls may run at the same time":               runsConcurrently,
		"tools answer":                                 toolsAnswer,
		"tools refuse what they do not understand":     toolsRefuse,
		"an event that was not sent is not there yet":  knowsWhatIsMissing,
	} {
		t.Run(name, func(t *testing.T) { o.run(t, test) })
	}
	if !o.NoFaults {
		t.Run("faults", o.faults)
		t.Run("lost answers", o.lostAnswers)
		t.Run("calls end with their context", o.contexts)
	}
	goleak.VerifyNone(t, others)
}

// run runs a test with a new target.
func (o Options) run(t *testing.T, test func(*subject)) {
	t.Helper()
	body := func(t *testing.T) {
		s := &subject{o.New(t), t, o}
		t.Cleanup(func() {
			if err := s.Provider.Close(); err != nil {
				t.Errorf("close: %v", err)
			}
		})
		test(s)
	}
	if o.Real {
		body(t)
		return
	}
	synctest.Test(t, body)
}

// calls returns how many calls the server has had.
func (s *subject) calls() int {
	if s.Server == nil {
		return 0
	}
	return len(s.Server.Calls())
}

// sync stores an event.
func (s *subject) sync(e provider.Event) provider.Receipt {
	s.t.Helper()
	r, err := s.Provider.Sync(s.t.Context(), e)
	if err != nil {
		s.t.Fatalf("sync of %s: %v", e.Kind, err)
	}
	return r
}

// repeat stores an event as the queue does that cannot know whether it was stored.
func (s *subject) repeat(e provider.Event) {
	s.t.Helper()
	stored, err := s.Provider.Synced(s.t.Context(), e, provider.Receipt{})
	if err != nil && !errors.Is(err, provider.ErrUnknown) {
		s.t.Fatalf("synced of %s: %v", e.Kind, err)
	}
	if !stored {
		s.sync(e)
	}
}

// store stores an event and waits until it can be recalled.
func (s *subject) store(e provider.Event) provider.Receipt {
	s.t.Helper()
	r := s.sync(e)
	if s.o.End && e.Kind == provider.Turn {
		s.sync(provider.Event{Key: key(900_000), Kind: provider.End, Scope: e.Scope, At: time.Now()})
	}
	time.Sleep(s.o.Settle)
	stored, err := s.Provider.Synced(s.t.Context(), e, r)
	if err != nil && !errors.Is(err, provider.ErrUnknown) || err == nil && !stored {
		s.t.Errorf("synced of a stored %s: %v, %v", e.Kind, stored, err)
	}
	return r
}

// recalled reports whether a word is in what is recalled for a query.
func (s *subject) recalled(scope provider.Scope, query, word string) bool {
	s.t.Helper()
	items, err := s.Provider.Recall(s.t.Context(), scope, query)
	if err != nil {
		s.t.Fatalf("recall: %v", err)
	}
	for _, i := range items {
		if i.Text == "" {
			s.t.Errorf("item %+v", i)
		}
		if strings.Contains(strings.ToLower(i.Text), word) {
			return true
		}
	}
	return false
}

// An op is one call of a provider.
type op struct {
	name string
	// bodyless: the answer may be empty.
	bodyless bool
	call     func(context.Context, provider.Provider) error
}

// errorText reports whether the result of a tool tells the model of an error.
func errorText(result string) bool { return strings.Contains(strings.ToLower(result), "error") }

// ops returns calls of every kind.
func (o Options) ops(p provider.Provider) []op {
	sync := func(e provider.Event) func(context.Context, provider.Provider) error {
		return func(ctx context.Context, p provider.Provider) error { _, err := p.Sync(ctx, e); return err }
	}
	s := Owner("one")
	removed := Added(3, s, fruitText)
	removed.Kind, removed.Fact.ID = provider.Removed, "1"
	ops := []op{
		{"check", true, func(ctx context.Context, p provider.Provider) error { _, err := p.Check(ctx); return err }},
		{"standing", false, func(ctx context.Context, p provider.Provider) error { _, err := p.Standing(ctx, s); return err }},
		{"sync turn", false, sync(Turn(1, s, teaText))},
		{"sync added", false, sync(Added(2, s, fruitText))},
		{"sync removed", true, sync(removed)},
		{"sync checkpoint", true, sync(provider.Event{Key: key(4), Kind: provider.Checkpoint, Scope: s, At: time.Now(), Messages: Turn(4, s, teaText).Messages})},
		{"sync end", true, sync(provider.Event{Key: key(5), Kind: provider.End, Scope: s, At: time.Now()})},
		{"sync forget", true, sync(provider.Event{Key: key(6), Kind: provider.Forget, Scope: s, At: time.Now()})},
		{"synced", false, func(ctx context.Context, p provider.Provider) error {
			_, err := p.Synced(ctx, Turn(1, s, teaText), provider.Receipt{})
			if errors.Is(err, provider.ErrUnknown) {
				return nil
			}
			return err
		}},
	}
	about := p.About()
	if !about.NoRecall {
		ops = append(ops, op{"recall", false, func(ctx context.Context, p provider.Provider) error {
			_, err := p.Recall(ctx, s, "jasmine")
			return err
		}})
	}
	for _, tool := range about.Tools {
		ops = append(ops, op{"tool " + tool.Name, true, func(ctx context.Context, p provider.Provider) error {
			result, err := p.Call(ctx, s, tool.Name, json.RawMessage(o.Inputs[tool.Name]))
			if err == nil && errorText(result) {
				return &provider.Error{Class: provider.Refused, Text: result}
			}
			return err
		}})
	}
	return ops
}
