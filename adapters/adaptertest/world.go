// Package adaptertest is the suite that every adapter passes against the
// simulator of its platform.
//
// A platform joins by a World: the simulator with its people, and the ways in
// which it fails. Each test has a World of its own inside a synctest bubble,
// so that hours pass at once and everything that was started must have ended.
// The judge is the simulator's own record, never the adapter.
package adaptertest

import (
	"testing"
	"time"

	"hermesd/gateway/chat"
	"hermesd/gateway/session"
)

// A Platform is what the suite needs of one platform.
type Platform struct {
	Name chat.Platform
	// Period is how often a healthy connection shows that it lives: the poll
	// timeout, the heartbeat interval.
	Period time.Duration
	// Stop is how long Run may take to end with its context; 0: a second.
	Stop time.Duration
	// New makes a World, inside the bubble. What it opens it closes by
	// t.Cleanup.
	New func(t *testing.T) Simulator
}

// A Simulator is a simulated platform with two accounts of ours on it, "" and
// "second". Its methods are called by one goroutine.
type Simulator interface {
	// Connect makes an adapter for an account, as a new process would: what the
	// platform's adapter remembers over restarts it finds again.
	Connect(account string) chat.Adapter
	// Wrong makes an adapter whose credentials the platform does not know.
	Wrong() chat.Adapter
	// Secret is a credential that may appear in no error and no Health.
	Secret() string

	// Direct is a person's direct chat with an account; Group one in which
	// several people speak and the account answers everything. The same
	// arguments name the same room.
	Direct(account string, n int) TestChat
	Group(account string, n int) TestChat

	// Redeliver makes the platform deliver again what it has delivered to an
	// account, as if it had lost the acknowledgements.
	Redeliver(account string)
	// Confirmed is how many of the events of an account the platform regards as
	// received; where it does not hold them back, how many the adapter has marked
	// as those that it need not ask for again.
	Confirmed(account string) int
	// Cut breaks the connections of all accounts. New ones work.
	Cut()
	// Swallow lets the present connections of all accounts stand and carry
	// nothing more. New ones work.
	Swallow()

	// Faults are the ways in which a send can fail.
	Faults() []Fault
	// Mentions, Keys and Files are the platform's own cases.
	Mentions() []Mention
	Keys() []Key
	Files() []File
}

// A TestChat is a place in which people and an account of ours speak.
type TestChat interface {
	// At is where an answer goes.
	At() chat.Address
	// Say lets a person write.
	Say(text string)
	// Visible returns the texts that stand in the room and are the account's,
	// in order.
	Visible() []string
	// Remove takes one of the account's messages away behind its back.
	Remove(id string)
}

// A Fault is one way in which a send can fail.
type Fault struct {
	Name string
	// Inject makes the next send suffer it.
	Inject func()
	// Outcome is what the adapter must know of it.
	Outcome chat.Outcome
	// After is what the platform asks to wait.
	After time.Duration
}

// A Mention is a message of a group in which the account answers only when it
// is meant.
type Mention struct {
	Name string
	Say  func()
	// Addressed is whether it is meant. If not, it must have a rule.
	Addressed bool
	// Text is what the agent reads; "" is not looked at.
	Text string
}

// A Key is a message and the session to which it belongs.
type Key struct {
	Name   string
	Say    func()
	Policy session.KeyPolicy
	Want   session.Key
	// Key returns what is wanted once Say was called; nil: it is Want.
	Key func() session.Key
}

// A File is an attachment that somebody sent.
type File struct {
	Name string
	// Say lets somebody send it, alone in a message.
	Say func()
	// Bend, if set, makes of the file as the adapter tells it the one that is
	// fetched.
	Bend func(chat.File) chat.File
	// Want is the content; if Fail is set, fetching has to fail with a text that
	// contains Fail instead.
	Want, Fail string
	// Limit is given to Fetch; 0: 1 MB.
	Limit int64
}
