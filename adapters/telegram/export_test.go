package telegram

import (
	"encoding/json"
	"time"

	"github.com/go-telegram/bot/models"

	"hermesd/gateway/chat"
)

// What tests from outside need to see of the pure parts.
var (
	Render   = render
	MenuName = menuName
	FileName = fileName
	Cut      = cut
)

// Mask is what keeps the token out of errors.
func Mask(s, token string) string { return mask(s, token) }

// A Result is what conversion makes of an update.
type Result struct {
	In               chat.Inbound
	Taken, Wait, Out bool
}

// Convert converts a raw update as a bot with the given identity and settings.
func Convert(cfg Config, me Identity, raw string) (Result, error) {
	r, err := newRules(cfg)
	if err != nil {
		return Result{}, err
	}
	u, err := decode(json.RawMessage(raw))
	if err != nil {
		return Result{}, err
	}
	in, v := converter{me: me, rules: r}.convert(u, time.Unix(42, 0))
	return Result{In: in, Taken: v == taken, Wait: v == waits, Out: v == skipped}, nil
}

// Take is the one conversion that the adapter itself calls, with its walls.
func (a *Adapter) Take(raw []byte) (chat.Inbound, bool) {
	in, v := a.convert(converter{me: a.me.get(), rules: a.rules}, raw)
	return in, v == taken
}

// FileURL is the address of a file on the server.
func (a *Adapter) FileURL(path string) (string, error) { return a.fileURL(path) }

// Entities are the library's, which no other package may name.
type Entities = []models.MessageEntity
