package pipeline

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.uber.org/zap"

	"hermesd/gateway/chat"
	"hermesd/gateway/inbox"
	"hermesd/gateway/session"
)

// Start restores the state of the previous process and starts delivery, lanes, the
// scheduler and pruning. They run until Stop, not until ctx ends.
func (pl *Pipeline) Start(ctx context.Context) error {
	if err := errors.Join(pl.loadPause(ctx), pl.parts.Chat.Targets.Load(ctx)); err != nil {
		return err
	}
	if err := pl.resumption.load(ctx); err != nil {
		return fmt.Errorf("list interrupted turns: %w", err)
	}
	pl.parts.Chat.Lanes.Start(pl.run)
	if err := pl.control.ResumeQueues(ctx); err != nil {
		return err
	}
	if err := pl.control.AnnounceRestart(ctx); err != nil {
		return fmt.Errorf("announce restart: %w", err)
	}
	background, cancel := context.WithCancel(context.WithoutCancel(ctx))
	pl.cancelBackground = cancel
	pl.parts.Chat.Accounts.Start(background)
	pl.parts.Agent.Memory.External.Start(context.WithoutCancel(ctx)) // Stop closes it
	if !pl.parts.Work.Pause.IsRestricted() {
		pl.background.Go(func() { pl.parts.Chat.Cron.Run(background) })
	}
	pl.background.Go(func() { pl.runPruning(background) })
	return nil
}

// run runs the next turn of a lane.
func (pl *Pipeline) run(ctx context.Context, l inbox.Lane) {
	pl.runner.Run(ctx, l)
	pl.resumption.laneRan(l)
}

// loadPause restores a pause from the store.
func (pl *Pipeline) loadPause(ctx context.Context) error {
	since, err := pl.parts.Work.Pause.Load(ctx)
	if since != nil {
		pl.parts.Settings.Log.Warn("daemon is paused until /pause off", zap.ByteString("since", since))
	}
	return err
}

// pruneInterval is the interval at which data past its retention is deleted.
const pruneInterval = time.Hour

func (pl *Pipeline) runPruning(ctx context.Context) {
	tick := time.NewTicker(pruneInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			if err := pl.parts.Store.Prune(ctx, now); err != nil && ctx.Err() == nil {
				pl.parts.Settings.Log.Error("cannot prune store", zap.Error(err))
			}
		}
	}
}

// Stop starts no new turn and lets running turns finish for the drain timeout; then it
// interrupts them and stores them for the next start. Messages are accepted during
// Stop. It waits for running sends. The drain ends early with ctx; each later step is
// limited by stopStepTimeout, or sends by a sixth of the drain timeout if turns have left
// that much of it. The error says what did not end.
func (pl *Pipeline) Stop(ctx context.Context) error {
	lanes := pl.parts.Chat.Lanes
	pl.stopOnce.Do(func() {
		pl.resumption.stop()
		lanes.Stop()
		if pl.cancelBackground != nil {
			pl.cancelBackground()
		}
	})
	drain, cancel := context.WithTimeout(ctx, pl.parts.Settings.DrainTimeout)
	defer cancel()
	err := lanes.Wait(drain)
	if err != nil {
		running, _ := lanes.Running()
		pl.parts.Settings.Log.Warn("running turns interrupted and kept", zap.Int("turns", running))
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopStepTimeout)
		defer cancel()
		pl.runner.Close()
		err = lanes.Close(grace)
	}
	pl.runner.Close()
	pl.runner.Wait()
	pl.runner.Release(context.WithoutCancel(ctx))
	pl.parts.Agent.Memory.External.Close()
	sends := stopStepTimeout
	if end, _ := drain.Deadline(); drain.Err() == nil {
		sends = max(sends, min(time.Until(end), pl.parts.Settings.DrainTimeout/6))
	}
	err = errors.Join(err, pl.parts.Chat.Delivery.Close(sends))
	pl.background.Wait()
	pl.parts.Chat.Accounts.Close()
	return err
}

// stopStepTimeout limits each step of Stop that must not be cut short by the drain timeout.
const stopStepTimeout = 10 * time.Second

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
	if err := pl.parts.Chat.Cron.Manager().Follow(ctx, moves.Current); err != nil {
		return err
	}
	pl.parts.Settings.Log.Info("chat migrated", zap.Stringer("from", in.Address), zap.Stringer("to", *in.MigratedTo))
	return pl.control.ResumeQueues(ctx) // waiting entries and rows have new lanes and queues
}
