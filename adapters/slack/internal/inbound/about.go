package inbound

import "encoding/json"

// Subject names what an envelope concerns, so that it can be looked up before it
// is converted. Each may be empty.
type Subject struct {
	Channel string
	// Kind is the channel's kind in the payload; "" if it has none.
	Kind string
	User string
	// ResponseURL accepts an answer to a slash command where the bot cannot
	// write.
	ResponseURL string
}

// Of returns the subject of an envelope.
func Of(e Envelope) Subject {
	switch e.Type {
	case EventsAPI:
		var p callback
		if json.Unmarshal(e.Payload, &p) != nil {
			return Subject{}
		}
		a := Subject{Channel: p.Event.Channel, Kind: p.Event.ChannelType, User: p.Event.User}
		if p.Event.Message != nil {
			a.User = p.Event.Message.User
		}
		return a
	case Interactive:
		var p press
		if json.Unmarshal(e.Payload, &p) != nil {
			return Subject{}
		}
		return Subject{Channel: p.place(), User: p.User.ID}
	case SlashCommand:
		var p slash
		if json.Unmarshal(e.Payload, &p) != nil {
			return Subject{}
		}
		return Subject{Channel: p.ChannelID, Kind: p.kind(), User: p.UserID, ResponseURL: p.ResponseURL}
	}
	return Subject{}
}
