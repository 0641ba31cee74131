package pipeline

import (
	"context"
	"fmt"
	"slices"

	"go.uber.org/zap"

	"hermesd/gateway/chat"
	"hermesd/gateway/session"
)

// Accept accepts a batch of events, in one write; see gateway.Gateway.Accept. It
// implements chat.Sink. Chats that got a new ID are moved before any event is accepted: a
// migration applies to the events before it too, and stays if the batch is refused.
func (pl *Pipeline) Accept(ctx context.Context, batch []chat.Inbound) error {
	for _, in := range batch {
		if in.Kind == chat.Migrated && in.MigratedTo != nil {
			if err := pl.migrateChat(ctx, in); err != nil {
				return err
			}
		}
	}
	batch = slices.Clone(batch)
	for i, in := range batch {
		if in.Kind != chat.Migrated && in.IgnoreRule == "" { // it may have been sent before the chat migrated
			batch[i].Address = pl.parts.Chat.Moves.Current(in.Address)
		}
	}
	return pl.gateway.Accept(ctx, batch)
}

// migrateChat moves everything that belongs to a chat to the chat's new ID.
func (pl *Pipeline) migrateChat(ctx context.Context, in chat.Inbound) error {
	s, moves := pl.parts.Settings.Admission, pl.parts.Chat.Moves
	rekey := func(r session.Record) session.Key {
		at := r.Address
		at.Chat, at.Kind = in.MigratedTo.Chat, in.MigratedTo.Kind
		return session.KeyFor(s.Profile, at, r.Owner, s.Policy)
	}
	err := pl.resumption.migrate(ctx, func() error { return pl.parts.Store.MigrateChat(ctx, in.Address, *in.MigratedTo, rekey) })
	if err != nil {
		return fmt.Errorf("migrate chat %s to %s: %w", in.Address, *in.MigratedTo, err)
	}
	if err := moves.Add(ctx, in.Address, *in.MigratedTo); err != nil {
		return err
	}
	if err := pl.parts.Work.Cron.Manager().Follow(ctx, moves.Current); err != nil {
		return err
	}
	pl.parts.Settings.Log.Info("chat migrated", zap.Stringer("from", in.Address), zap.Stringer("to", *in.MigratedTo))
	return pl.control.ResumeQueues(ctx) // waiting entries and rows have new lanes and queues
}
