package app

import (
	"context"
	"fmt"
	"os"

	"hermesd/cmd/internal/config"
	"hermesd/gateway/access"
	"hermesd/gateway/access/pairing"
	"hermesd/gateway/chat"
	"hermesd/gateway/delivery"
)

// openPairing reads who is paired, and takes over whom an upstream Hermes of
// this home has paired.
func (a *App) openPairing(ctx context.Context) (err error) {
	if a.pairing, err = pairing.Open(ctx, a.store, a.opts.Log.Named("pairing")); err != nil {
		return err
	}
	if err := a.pairing.Import(ctx, os.DirFS(a.opts.Home)); err != nil {
		return fmt.Errorf("take over pairings: %w", err)
	}
	return nil
}

// checker returns who may speak: by a configuration, and by being paired.
func (a *App) checker(c *config.Config) (*access.Checker, error) {
	p := c.AccessPolicy()
	p.Pairing, p.PreviousIDs = a.pairing, a.moves.Previous
	return access.New(p)
}

// tell says a sentence of the daemon (see words.N) in a chat, by the outbox.
func (a *App) tell(ctx context.Context, to chat.Address, text string) error {
	return a.gateway.Delivery().SendNotice(ctx, a.words.Translate(text), delivery.Draft{To: to})
}
