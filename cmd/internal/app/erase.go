package app

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"

	"hermesd/cmd/internal/admin"
	"hermesd/gateway/erase"
	"hermesd/gateway/session"
	"hermesd/storage"
	"hermesd/storage/bolt"
	"hermesd/storage/index"
)

// MediaDir is where the daemon of a home keeps the files that people send.
func MediaDir(h *storage.Home) string { return h.Path("cache", "media") }

// eraser deletes conversations wherever something of them is kept.
func (a *App) eraser() *erase.Eraser {
	o := erase.Options{Store: a.store, Media: a.cache, Cached: a.endCommands}
	if a.found != nil {
		o.Index = a.found
	}
	return erase.New(o)
}

// endCommands ends what a conversation that is deleted has left running.
func (a *App) endCommands(id session.ID) {
	if a.commands != nil {
		a.commands.EndSession(string(id))
	}
}

// background implements gateway.Options.Running.
func (a *App) background(id session.ID) (running int, end func()) {
	if a.commands == nil {
		return 0, nil
	}
	return a.commands.Background(string(id)), func() { a.endCommands(id) }
}

// forgotten deletes what a conversation that was deleted in a chat has left
// outside of the store.
func (a *App) forgotten(gone session.Deleted) {
	if err := a.eraser().DeleteDerived(context.Background(), gone); err != nil {
		a.opts.Log.Error("delete a conversation", zap.String("session", string(gone.ID)), zap.Error(err))
	}
}

// expiryEvery is how often conversations are looked for that are kept no longer.
const expiryEvery = time.Hour

// expire deletes the conversations whose time is over, until ctx ends.
func (a *App) expire(ctx context.Context) {
	days := a.opts.Config.Sessions.RetentionDays
	if days == 0 {
		return
	}
	tick := time.NewTicker(expiryEvery)
	defer tick.Stop()
	for {
		gone, err := a.eraser().Expired(ctx, time.Now().AddDate(0, 0, -days))
		if len(gone) > 0 {
			a.opts.Log.Info("conversations were deleted because of sessions.retention_days", zap.Int("sessions", len(gone)))
		}
		if err != nil && ctx.Err() == nil {
			a.opts.Log.Error("delete old conversations", zap.Error(err))
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// maintainedStore is the store, and the index that is compacted with it.
type maintainedStore struct {
	*bolt.Store
	found *index.Index
}

// Maintenance is what keeps a store whole, and the index beside it; found may be nil.
func Maintenance(store *bolt.Store, found *index.Index) admin.Maintenance {
	return maintainedStore{store, found}
}

// Compact gives the space back of both, and what was deleted is in neither file
// any more.
func (k maintainedStore) Compact(ctx context.Context) error {
	err := k.Store.Compact(ctx)
	if k.found != nil {
		err = errors.Join(err, k.found.Compact(ctx))
	}
	return err
}
