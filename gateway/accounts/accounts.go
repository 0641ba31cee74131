// Package accounts holds the connected accounts. A Set finds the adapter of an account
// and makes the calls to platforms whose result nothing waits for: reactions, answers to
// button presses and notices that bypass the outbox. It does not run adapters, and it
// does not send the rows of the outbox.
package accounts

import (
	"cmp"
	"context"
	"iter"
	"maps"
	"slices"
	"time"

	"go.uber.org/zap"

	"hermesd/gateway/chat"
)

// Options configure a Set.
type Options struct {
	// ReplyToMode is the reply_to_mode of each account: off, first or all.
	ReplyToMode map[chat.Account]string
	Profiles    chat.Profiles // of all platforms
	Log         *zap.Logger
}

// A Set is the set of connected accounts. Its methods may be called from any goroutine
// once the last account is added.
type Set struct {
	opts          Options
	adapters      map[chat.Account]chat.Adapter
	reactions     *bestEffortQueue
	callbacks     *bestEffortQueue // answers to button presses
	outageNotices *bestEffortQueue
}

// New returns a Set without accounts.
func New(o Options) *Set {
	return &Set{
		opts: o, adapters: make(map[chat.Account]chat.Adapter),
		reactions:     newBestEffortQueue(o.Log.Named("reactions")),
		callbacks:     newBestEffortQueue(o.Log.Named("presses")),
		outageNotices: newBestEffortQueue(o.Log.Named("outage")),
	}
}

// Add adds an account, or replaces its adapter. It must not be called after Start.
func (s *Set) Add(account chat.Account, a chat.Adapter) {
	s.adapters[account] = a
	if _, ok := a.(chat.Reactor); ok {
		s.reactions.serve(account)
	}
	if _, ok := a.(chat.CallbackAnswerer); ok {
		s.callbacks.serve(account)
	}
	if !s.Profile(account.Platform).Answers {
		s.outageNotices.serve(account)
	}
}

// Start starts the calls that nothing waits for; until then they wait. Reactions end
// with ctx, the other calls with Close: buttons are pressed during shutdown as well.
func (s *Set) Start(ctx context.Context) {
	s.reactions.start(ctx)
	s.callbacks.start(context.WithoutCancel(ctx))
	s.outageNotices.start(context.WithoutCancel(ctx))
}

// Close drops the calls that wait and waits for those that run.
func (s *Set) Close() {
	s.reactions.close()
	s.callbacks.close()
	s.outageNotices.close()
}

// Adapter returns the adapter of an account; ok is false if the account is not
// connected.
func (s *Set) Adapter(account chat.Account) (a chat.Adapter, ok bool) {
	a, ok = s.adapters[account]
	return a, ok
}

// All returns the accounts with their adapters, in no particular order.
func (s *Set) All() iter.Seq2[chat.Account, chat.Adapter] { return maps.All(s.adapters) }

// Platforms returns the names of the connected platforms, sorted.
func (s *Set) Platforms() []string {
	var names []string
	for account := range s.adapters {
		names = append(names, string(account.Platform))
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Names returns the names of the accounts of a platform, sorted; none if the platform is
// not connected.
func (s *Set) Names(p chat.Platform) []string {
	var names []string
	for account := range s.adapters {
		if account.Platform == p {
			names = append(names, account.Name)
		}
	}
	slices.Sort(names)
	return names
}

// CanSendUnasked reports whether a message that answers no other message can be sent to
// an address: its account is connected, and its platform takes such messages.
func (s *Set) CanSendUnasked(at chat.Address) bool {
	_, ok := s.adapters[at.AccountID()]
	return ok && s.Profile(at.Platform).Unasked
}

// Profile returns the profile of a platform.
func (s *Set) Profile(p chat.Platform) chat.Profile { return s.opts.Profiles.Of(p) }

// ReplyToMode returns the reply_to_mode of an account, "" if none is configured.
func (s *Set) ReplyToMode(account chat.Account) string { return s.opts.ReplyToMode[account] }

// ClockAhead returns by how much the clock of this host is ahead of the clock of the
// account's platform, which dates its messages; 0 if unknown.
func (s *Set) ClockAhead(account chat.Account) time.Duration {
	if a, ok := s.adapters[account]; ok {
		return a.Health().ClockAhead
	}
	return 0
}

// Health is the state of one account.
type Health struct {
	chat.Account
	chat.Health
}

// Health returns the state of all accounts, ordered by platform and name.
func (s *Set) Health() []Health {
	var all []Health
	for account, a := range s.adapters {
		all = append(all, Health{account, a.Health()})
	}
	slices.SortFunc(all, func(a, b Health) int {
		return cmp.Or(cmp.Compare(a.Platform, b.Platform), cmp.Compare(a.Account.Name, b.Account.Name))
	})
	return all
}

// ThreadHistory returns the messages of the thread of in between since and in, none if
// the adapter does not implement chat.ThreadReader.
func (s *Set) ThreadHistory(ctx context.Context, in chat.Inbound, since time.Time) ([]chat.Quote, error) {
	h, ok := s.adapters[in.Address.AccountID()].(chat.ThreadReader)
	if !ok {
		return nil, nil
	}
	return h.MessagesBefore(ctx, in, since)
}

// React enqueues a reaction on a user's message that shows its state. Nothing waits for
// it, and it may be dropped.
func (s *Set) React(in chat.Inbound, reaction chat.Reaction) {
	account := in.Address.AccountID()
	reactor, ok := s.adapters[account].(chat.Reactor)
	if !ok || in.Kind != chat.Message {
		return
	}
	s.reactions.add(account, func(ctx context.Context) {
		if err := reactor.React(ctx, in.Address, in.ID, reaction); err != nil && ctx.Err() == nil {
			s.opts.Log.Debug("cannot set reaction", zap.String("platform", string(account.Platform)), zap.Error(err))
		}
	})
}

// AnswerCallback confirms a button press to the platform and shows text, which may be
// "". It does so after it has returned: some platforms require that Accept returns first.
func (s *Set) AnswerCallback(in chat.Inbound, text string) {
	account := in.Address.AccountID()
	a, ok := s.adapters[account].(chat.CallbackAnswerer)
	if !ok {
		return
	}
	s.callbacks.add(account, func(ctx context.Context) {
		if err := a.AnswerCallback(ctx, in, text); err != nil {
			s.opts.Log.Warn("cannot answer callback", zap.Error(err))
		}
	})
}

// Dismiss informs an adapter that implements chat.Dismisser that in will not be answered.
func (s *Set) Dismiss(in chat.Inbound) {
	if a, ok := s.adapters[in.Address.AccountID()].(chat.Dismisser); ok {
		a.Dismiss(in)
	}
}

// SendOutageNotice enqueues a notice that the store has failed. It bypasses the outbox,
// which cannot be written either, and may be dropped. It does nothing on platforms
// with Profile.Answers.
func (s *Set) SendOutageNotice(m chat.Outbound) {
	account := m.To.AccountID()
	s.outageNotices.add(account, func(ctx context.Context) {
		if _, err := s.adapters[account].Send(ctx, m); err != nil {
			s.opts.Log.Warn("cannot send outage notice", zap.String("platform", string(account.Platform)), zap.Error(err))
		}
	})
}
