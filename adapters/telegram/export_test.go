package telegram

import (
	"hermesd/adapters/telegram/internal/update"
	"hermesd/gateway/chat"
)

// What tests from outside need to see of the pure parts.
var (
	MenuName = menuName
	FileName = fileName
)

// Take converts one update as the adapter does, with its walls.
func (a *Adapter) Take(raw []byte) (chat.Inbound, bool) {
	in, v := a.convert(a.converter(), raw)
	return in, v == update.Taken
}
