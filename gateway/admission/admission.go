// Package admission decides what becomes of the events that platforms deliver: the inbox
// entry of each, in which lane it waits or by which rule it ends, and what its sender is
// told. Rules.Decide is a pure function of an event and its Facts; package gateway gathers
// the facts, stores the decision in one write and announces it.
package admission

import (
	"slices"
	"strings"
	"time"

	"hermesd/gateway/access"
	"hermesd/gateway/chat"
	"hermesd/gateway/command"
	"hermesd/gateway/delivery"
	"hermesd/gateway/i18n"
	"hermesd/gateway/inbox"
	"hermesd/gateway/outbox"
	"hermesd/gateway/session"
)

// Rules are what is the same for all events.
type Rules struct {
	Profile     string            // of the session keys
	Policy      session.KeyPolicy // of the session keys
	Mode        inbox.Mode        // of conversations that have none of their own
	Acknowledge bool              // tell senders that their message waits for the running turn
	MaxWaiting  int               // messages that may wait in one lane
	Commands    *command.Table
	Printer     i18n.Printer // translates notices
}

// Session returns the key of the conversation to which an event belongs.
func (r Rules) Session(in chat.Inbound) session.Key {
	return session.KeyFor(r.Profile, in.Address, in.Sender.ID, r.Policy)
}

// Facts are what is known about an event at one moment. A turn may end before the
// decision is stored, so they determine modes and texts only.
type Facts struct {
	Now    time.Time
	Grant  access.Grant
	Denial access.Denial // of a sender without a valid Grant
	// PairingRule ends the message of a sender who may be paired; "" for all others.
	// PairingCode is the code that the sender is offered, if any.
	PairingRule, PairingCode string

	// What follows is about the lane of Rules.Session, and set if Grant is valid.

	Waiting   int        // unclaimed entries
	Active    bool       // it runs a turn
	Paused    bool       // no turn starts
	Free      bool       // a turn can start at once
	Mode      inbox.Mode // of the conversation, if it has one
	Question  bool       // the next message answers a question of a tool
	Approvals []string   // IDs of the pending approval requests
	MayChange bool       // the sender may stop the running turn, or join it
	// Skill reports whether the command of Rules.UnknownCommand is a skill.
	Skill      bool
	Unattended bool // see chat.Profile
}

// A Tally counts the entries of a batch by lane. The zero Tally is empty.
type Tally struct{ entries map[inbox.Lane]int }

func (t *Tally) add(l inbox.Lane) {
	if t.entries == nil {
		t.entries = make(map[inbox.Lane]int)
	}
	t.entries[l]++
}

// A Decision is what becomes of an event.
type Decision struct {
	Entry inbox.Entry
	Claim bool // a turn can start at once
	// Notice is stored with the entry; nil if there is nothing to tell.
	Notice *Notice
	// Acknowledgement reports whether Notice only says that the message waits.
	Acknowledgement bool
	// Refusal is stored instead if MaxWaiting messages wait in the lane when the entry
	// is stored. It is nil if the lane cannot be full.
	Refusal *Notice
}

// A Notice is a message to the sender of an event.
type Notice struct {
	Text  string // Markdown
	Draft delivery.Draft
}

// TooManyWaiting is the outcome of a message that is refused because its lane is full.
var TooManyWaiting = inbox.Outcome{Result: inbox.Failed, Reason: "too many messages wait"}

// Decide decides about an event. t counts the earlier events of its batch.
func (r Rules) Decide(in chat.Inbound, f Facts, t *Tally) Decision {
	e := inbox.Entry{Inbound: in, State: inbox.Waiting, Accepted: f.Now}
	switch {
	case in.IgnoreRule != "":
		return Decision{Entry: end(e, in.IgnoreRule)}
	case in.Kind == chat.Migrated:
		return Decision{Entry: end(e, "moved")}
	case !f.Grant.Valid():
		return r.deny(e, f)
	}
	e.Grant = f.Grant
	e.Session = r.Session(in)
	e.Lane = inbox.LaneOf(e.Session)
	switch in.Kind {
	case chat.Message:
		r.setMode(&e, f)
	case chat.Edit: // the message keeps its mode
		_, e.Inbound.Text = r.modeCommand(in, e.Grant.Principal().Level)
	}
	name, _, isCommand := command.Parse(e.Inbound.Text)
	switch isCommand = isCommand && !f.Skill; {
	case in.Kind == chat.Callback && !isCommand:
		return Decision{Entry: end(e, "no_such_button")}
	case isCommand && in.Kind != chat.Edit: // the data of a button is a command as well
		e.Exclusive = true
		if r.Commands.Immediate(name) {
			e.Lane = inbox.ImmediateLaneOf(e.Session)
		}
	}
	if e.Background { // its lane is new
		f.Waiting, f.Active, f.Question = 0, false, false
	}
	d := Decision{Entry: e, Claim: f.Free}
	if in.Kind == chat.Message && !e.Exclusive && f.Waiting+t.entries[e.Lane] >= r.MaxWaiting {
		d.Refusal = r.refusal(in)
	}
	if text := r.acknowledgement(e, f); text != "" {
		d.Notice, d.Acknowledgement = &Notice{text, delivery.Draft{To: in.Address, Role: outbox.Notice, Quiet: true}}, true
	}
	t.add(e.Lane)
	return d
}

// end returns e as done, with rule as its reason and without its content: what
// unauthorized senders write is not stored.
func end(e inbox.Entry, rule string) inbox.Entry {
	e.State = inbox.Done
	e.Ended = e.Accepted
	e.Outcome = &inbox.Outcome{Result: inbox.Silent, Reason: rule}
	e.Inbound.Text, e.Inbound.ReplyTo, e.Inbound.Files = "", nil, nil
	return e
}

// deny ends the entry of an unauthorized event, with a pairing code if the sender is
// offered one.
func (r Rules) deny(e inbox.Entry, f Facts) Decision {
	if f.PairingRule == "" {
		return Decision{Entry: end(e, f.Denial.Rule)}
	}
	d := Decision{Entry: end(e, f.PairingRule)}
	if f.PairingCode == "" {
		return d
	}
	d.Entry.Outcome.Result = inbox.Replied
	text := r.Printer.T("You are not authorized, so I did not process your message. To request access, send this code to the operator:\n\n`%s`\n\n"+
		"It expires in one hour and works only for you. They enter it with `hermesd pairing approve %s %s`.", f.PairingCode, e.Inbound.Address.Platform, f.PairingCode)
	d.Notice = &Notice{text, delivery.Draft{To: e.Inbound.Address, Role: outbox.Notice, ReplyTo: e.Inbound.ID, Secret: true}}
	return d
}

// refusal returns the notice that a message was not accepted because its lane is full.
func (r Rules) refusal(in chat.Inbound) *Notice {
	text := r.Printer.T("⚠️ %d messages already wait here; I did not take this one. Send it again later, or `/stop`.", r.MaxWaiting)
	return &Notice{text, delivery.Draft{To: in.Address, Role: outbox.Notice, ReplyTo: in.ID, Purpose: chat.PurposeFailure, ReplyToIDs: []string{in.ID}}}
}

// acknowledgement returns what tells the sender of e that the message waits because the
// daemon is paused or a turn is running; "" if it does not, or need not be said.
func (r Rules) acknowledgement(e inbox.Entry, f Facts) string {
	switch {
	case e.Inbound.Kind == chat.Edit || e.Lane.Immediate() || f.Unattended:
	case f.Paused:
		return r.Printer.T("⏸ I am paused: your message waits until `/pause off`.")
	case !r.Acknowledge || !f.Active:
	case e.Mode == inbox.Queue:
		return r.Printer.T("⏳ I work on something else; your message is next. `/stop` ends what runs.")
	case e.Mode == inbox.Steer && !f.Question: // else the message answers it
		return r.Printer.T("↪️ I take that into account as soon as the step that runs is done.")
	}
	return ""
}

// setMode sets what a message does to a running turn: it answers a question or approval
// request of the turn, or follows /queue, /steer or /bg, or the mode of the conversation.
// It may change the text: the message is what follows /queue.
func (r Rules) setMode(e *inbox.Entry, f Facts) {
	name, text := r.modeCommand(e.Inbound, e.Grant.Principal().Level)
	_, _, isCommand := command.Parse(e.Inbound.Text)
	switch answer := r.approves(text); {
	case name == "queue":
		e.Mode = inbox.Queue
	case name == "steer":
		e.Mode = inbox.Steer
	case name == "bg":
		e.Session = session.BackgroundKey(e.Session, e.Inbound.IdempotencyKey)
		e.Lane, e.Background = inbox.LaneOf(e.Session), true
	case isCommand:
	case len(f.Approvals) == 1 && answer != "":
		text = answer + " " + f.Approvals[0]
	case f.Question:
		e.Mode = inbox.Steer
	default:
		e.Mode = r.Mode
		if f.Mode != "" {
			e.Mode = f.Mode
		}
		if e.Mode == inbox.Interrupt {
			e.Mode = "" // the default of an entry without a mode
		}
	}
	e.Inbound.Text = text
	if e.Mode == inbox.Steer && !f.MayChange {
		e.Mode = inbox.Queue
	}
}

// modeCommand returns the command /queue, /steer or /bg of a message or an edit and the text
// after it; others have no such command and are all text.
func (r Rules) modeCommand(in chat.Inbound, level access.Level) (name, text string) {
	word, args, ok := command.Parse(in.Text)
	if ok && args != "" {
		cmd, known := r.Commands.Lookup(word)
		if known && level >= cmd.Level && slices.Contains([]string{"queue", "steer", "bg"}, cmd.Name) {
			return cmd.Name, args
		}
	}
	return "", in.Text
}

// UnknownCommand returns the command of a message of a sender with this level that is not
// in the table. It may be the name of a skill: then the message is an ordinary one.
func (r Rules) UnknownCommand(in chat.Inbound, level access.Level) (name, args string, ok bool) {
	if in.Kind != chat.Message {
		return "", "", false
	}
	_, text := r.modeCommand(in, level)
	name, args, ok = command.Parse(text)
	_, known := r.Commands.Lookup(name)
	return name, args, ok && !known
}

// approves returns the command that a plain yes or no stands for, in English or the active
// language; "" if text is neither.
func (r Rules) approves(text string) string {
	word := strings.ToLower(strings.Trim(strings.TrimSpace(text), ".!"))
	in := func(words string) bool { return word != "" && slices.Contains(strings.Fields(words), word) }
	switch {
	case in("yes ok okay approve allow"), in(r.Printer.T(plainYes)):
		return "/approve"
	case in("no deny cancel"), in(r.Printer.T(plainNo)):
		return "/deny"
	}
	return ""
}

// The words of one language that approve and deny. Their translation holds the words of
// the other language; single letters count in the active language only.
const (
	plainYes = "yes y"
	plainNo  = "no n"
)
