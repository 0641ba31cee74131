package app

import (
	"context"
	"fmt"
	"os"

	"hermesd/cmd/internal/config"
	"hermesd/cmd/internal/platforms"
	"hermesd/gateway/access"
	"hermesd/gateway/access/pairing"
	"hermesd/gateway/chat"
	"hermesd/gateway/delivery"
)

// openPairing opens the pairings and imports those of an upstream Hermes in this
// home directory.
func (a *App) openPairing(ctx context.Context) (err error) {
	if a.pairing, err = pairing.Open(ctx, a.store, platforms.Profiles(), a.opts.Log.Named("pairing")); err != nil {
		return err
	}
	if err := a.pairing.Import(ctx, os.DirFS(a.opts.Home)); err != nil {
		return fmt.Errorf("import pairings: %w", err)
	}
	return nil
}

// checker returns the access checker for a configuration and the pairings.
func (a *App) checker(c *config.Config) (*access.Checker, error) {
	p := c.AccessPolicy()
	p.Pairing, p.PreviousIDs = a.pairing, a.migrations.Previous
	return access.New(p)
}

// sendNotice sends a sentence of the i18n catalog to a chat, through the outbox.
func (a *App) sendNotice(ctx context.Context, to chat.Address, text string) error {
	return a.outgoing.Delivery.SendNotice(ctx, a.printer.Translate(text), delivery.Draft{To: to})
}
