package slack

import (
	"bytes"
	"time"

	"hermesd/adapters/slack/internal/inbound"
	"hermesd/gateway/chat"
)

// PanicOn makes the conversion of envelopes that contain text panic.
func (a *Adapter) PanicOn(text string) {
	a.conv = func(c inbound.Converter, e inbound.Envelope, now time.Time) (chat.Inbound, bool, error) {
		if bytes.Contains(e.Payload, []byte(text)) {
			panic("conversion")
		}
		return c.Convert(e, now)
	}
}
