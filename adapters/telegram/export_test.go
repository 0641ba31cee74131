package telegram

import (
	"bytes"
	"encoding/json"
	"time"

	"hermesd/adapters/telegram/internal/inbound"
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
	return in, v == inbound.Converted
}

// PanicOn makes the conversion of updates that contain text panic.
func (a *Adapter) PanicOn(text string) {
	a.conv = func(c inbound.Converter, raw json.RawMessage, now time.Time) (chat.Inbound, inbound.ConvertResult, error) {
		if bytes.Contains(raw, []byte(text)) {
			panic("conversion")
		}
		return c.Convert(raw, now)
	}
}
