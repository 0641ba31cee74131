package gateway

import (
	"hermesd/gateway/access"
	"hermesd/gateway/chat"
)

// Access decides whether the sender of an event is authorized. Its decisions may change
// at any time; each event is checked once, when it is accepted.
type Access interface {
	Check(in chat.Inbound) (access.Grant, access.Denial)
}
