// Package adaptertest implements the test suite that every adapter must pass
// against the simulator of its platform.
//
// A platform provides a Simulator: the simulated platform with its users, and
// the ways in which it fails. Each test runs its own Simulator inside a synctest
// bubble, so that hours pass at once and every goroutine that was started must
// have ended. Results are checked against the simulator's own record, never
// against the adapter's.
package adaptertest

import (
	"regexp"
	"testing"
	"time"

	"hermesd/gateway/chat"
	"hermesd/gateway/session"
)

// A Platform is the input of the suite for one platform.
type Platform struct {
	Profile chat.Profile
	// People are valid IDs of people, Strangers are not. Kinds are the kinds of chats by
	// their IDs.
	People, Strangers []string
	Kinds             map[string]chat.Kind
	Key               *regexp.Regexp // matches the idempotency keys of messages
	// Period is the interval at which a healthy connection shows signs of life:
	// the poll timeout or the heartbeat interval.
	Period time.Duration
	// Stop is how long Run may take to return after its context ends; 0 means one
	// second.
	Stop time.Duration
	// New creates a Simulator inside the bubble. It closes what it opens with
	// t.Cleanup.
	New func(t *testing.T) Simulator
}

// A Simulator is a simulated platform with two accounts of the daemon, "" and
// "second". Its methods are called by one goroutine.
type Simulator interface {
	// Connect creates an adapter for an account, as a new process would: state
	// that the adapter keeps over restarts is preserved.
	Connect(account string) chat.Adapter
	// Wrong creates an adapter whose credentials the platform does not know.
	Wrong() chat.Adapter
	// Secret is a credential that must not appear in any error or Health.
	Secret() string

	// Direct is the direct chat of a user with an account. Group is a group in
	// which several people write and the account answers everything. The same
	// arguments return the same chat.
	Direct(account string, n int) TestChat
	Group(account string, n int) TestChat

	// Redeliver makes the platform deliver again what it has delivered to an
	// account, as if the acknowledgements had been lost.
	Redeliver(account string)
	// Confirmed is the number of events of an account that the platform regards
	// as received. For a platform that does not track this, it is the number of
	// events that the adapter has marked as not to be fetched again.
	Confirmed(account string) int
	// Cut breaks the connections of all accounts. New ones work.
	Cut()
	// Swallow makes the present connections of all accounts stay open but carry
	// no more data. New ones work.
	Swallow()

	// Faults are the ways in which a send can fail.
	Faults() []Fault
	// Mentions, Keys and Files are the platform-specific test cases.
	Mentions() []Mention
	Keys() []Key
	Files() []File
}

// A TestChat is a chat with users and an account of the daemon.
type TestChat interface {
	// At is the address to which an answer goes.
	At() chat.Address
	// Say makes a user write text.
	Say(text string)
	// Visible returns the texts of the account's messages in the chat, in order.
	Visible() []string
	// Remove deletes one of the account's messages without telling the adapter.
	Remove(id string)
}

// A Fault is one way in which a send can fail.
type Fault struct {
	Name string
	// Inject makes the next send fail in this way.
	Inject func()
	// Outcome is the outcome that the adapter must report.
	Outcome chat.Outcome
	// After is the retry delay that the platform asks for.
	After time.Duration
}

// A Mention is a message in a group in which the account answers only when it is
// addressed.
type Mention struct {
	Name string
	Say  func()
	// Addressed reports whether the message is addressed to the account. If not,
	// the event must have an ignore rule.
	Addressed bool
	// Text is the text that the agent reads; "" is not checked.
	Text string
}

// A Key is a message and the expected key of its session.
type Key struct {
	Name   string
	Say    func()
	Policy session.KeyPolicy // without Profiles
	Want   session.Key
	// Key returns the expected key after Say was called; nil means Want.
	Key func() session.Key
}

// A File is an attachment sent by a user.
type File struct {
	Name string
	// Say makes a user send the file, alone in a message.
	Say func()
	// Bend, if not nil, changes the file that the adapter reports before it is
	// fetched.
	Bend func(chat.File) chat.File
	// Want is the expected content. If Fail is not empty, fetching must fail with
	// an error text that contains Fail.
	Want, Fail string
	// Limit is passed to Fetch; 0 means 1 MB.
	Limit int64
}
