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

// MediaDir returns the directory in which the daemon of a home directory caches
// media files.
func MediaDir(h *storage.Home) string { return h.Path("cache", "media") }

// newEraser returns what deletes conversations from the store, the search index, the
// media cache and the background commands, and has the external memory told.
func (a *App) newEraser() *erase.Eraser {
	commands, external := a.commands, a.memory
	end := func(id session.ID) {
		commands.EndSession(string(id))
		external.Wake()
	}
	return erase.New(erase.Options{Store: a.store, Index: a.searchIndex, Media: a.cache, Cached: end, Forget: external.ForgetSession})
}

// deleteDerived returns a function that deletes the data outside of the store of a
// conversation that was deleted in a chat.
func deleteDerived(e *erase.Eraser, log *zap.Logger) func(session.Deleted) {
	return func(deleted session.Deleted) {
		if err := e.DeleteDerived(context.Background(), deleted); err != nil {
			log.Error("cannot delete derived data", zap.String("session", string(deleted.ID)), zap.Error(err))
		}
	}
}

// expiryInterval is the time between two deletions of expired conversations.
const expiryInterval = time.Hour

// runExpiry deletes conversations older than sessions.retention_days, until ctx
// ends.
func (a *App) runExpiry(ctx context.Context) {
	days := a.opts.Config.Sessions.Retention()
	if days == 0 {
		return
	}
	tick := time.NewTicker(expiryInterval)
	defer tick.Stop()
	for {
		deleted, err := a.eraser.Expired(ctx, time.Now().AddDate(0, 0, -days))
		if len(deleted) > 0 {
			a.opts.Log.Info("deleted conversations older than sessions.retention_days", zap.Int("sessions", len(deleted)))
		}
		if err != nil && ctx.Err() == nil {
			a.opts.Log.Error("cannot delete expired conversations", zap.Error(err))
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// maintainedStore compacts the search index together with the store.
type maintainedStore struct {
	*bolt.Store
	index *index.Index
}

// Maintenance returns the maintenance operations of a store and its search index.
func Maintenance(store *bolt.Store, searchIndex *index.Index) admin.Maintenance {
	return maintainedStore{store, searchIndex}
}

// Compact implements admin.Maintenance. It compacts both files: they release free
// space and no longer contain deleted data.
func (k maintainedStore) Compact(ctx context.Context) error {
	return errors.Join(k.Store.Compact(ctx), k.index.Compact(ctx))
}
