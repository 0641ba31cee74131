package slack

import (
	"bytes"
	"time"

	"hermesd/adapters/slack/internal/event"
	"hermesd/gateway/chat"
)

// PanicOn makes the conversion of envelopes that contain text panic.
func (a *Adapter) PanicOn(text string) {
	a.conv = func(c event.Converter, e event.Envelope, now time.Time) (chat.Inbound, bool, error) {
		if bytes.Contains(e.Payload, []byte(text)) {
			panic("conversion")
		}
		return c.Convert(e, now)
	}
}
