// Package chat holds the words in which people and the daemon speak: where a
// message comes from, what it says, what goes back, and what a platform can do.
//
// Adapters translate one platform into these words and back; nothing else in
// the daemon knows a platform's own types. The package imports nothing of ours.
package chat

import (
	"strings"
	"time"
)

// A Platform names a surface on which people talk to the daemon.
type Platform string

// The platforms that exist.
const (
	Telegram Platform = "telegram"
	Discord  Platform = "discord"
	Slack    Platform = "slack"
	Console  Platform = "console"
	HTTP     Platform = "http"
	Cron     Platform = "cron"
)

// A Kind is the type of a conversation, as it stands in session keys.
type Kind string

// The kinds of conversation. A broadcast channel is a Channel; a Discord
// channel or a Slack channel in which people talk is a Group.
const (
	DM      Kind = "dm"
	Group   Kind = "group"
	Thread  Kind = "thread"
	Channel Kind = "channel"
)

// An Address is a place on a platform where messages come from and go to. It
// is comparable, so it can be a map key. Ids are the platform's own, opaque to
// everything but its adapter.
type Address struct {
	Platform Platform `json:"p"`
	Account  string   `json:"a,omitempty"` // which account of the platform; "" is the only one
	Kind     Kind     `json:"k"`
	Scope    string   `json:"s,omitempty"` // Slack team, Discord guild
	Chat     string   `json:"c"`
	Thread   string   `json:"t,omitempty"` // topic or thread inside the chat
}

// WithoutThread returns the address without its thread and kind: the unit to which
// platforms apply their rate limits and in which sends keep their order.
func (a Address) WithoutThread() Address {
	return Address{Platform: a.Platform, Account: a.Account, Scope: a.Scope, Chat: a.Chat}
}

// An Account is one login on one platform: the unit that an adapter connects.
type Account struct {
	Platform Platform `json:"p"`
	Name     string   `json:"a,omitempty"` // "" is the only one
}

// AccountID returns the account to which a belongs.
func (a Address) AccountID() Account { return Account{a.Platform, a.Account} }

// String returns the form that `send` and `deliver` accept as a target:
// platform:chat or platform:chat:thread.
func (a Address) String() string {
	parts := []string{string(a.Platform), a.Chat}
	if a.Thread != "" {
		parts = append(parts, a.Thread)
	}
	return strings.Join(parts, ":")
}

// A Person is who speaks. ID is the platform's immutable id; Name and Handle
// can change at any time, come from outside and are never trusted.
type Person struct {
	ID     string `json:"id"`
	Name   string `json:"n,omitempty"`
	Handle string `json:"h,omitempty"` // user name without @
	Bot    bool   `json:"b,omitempty"`
	// Roles are the ids of the roles that the platform's own administrators have
	// given the person, where it has such a thing.
	Roles []string `json:"r,omitempty"`
}

// An EventKind says what kind of thing happened.
type EventKind string

// The events that adapters report.
const (
	Message  EventKind = "message"  // somebody wrote, or sent a file
	Edit     EventKind = "edit"     // somebody changed an earlier message
	Callback EventKind = "callback" // somebody pressed a button of ours
	Migrated EventKind = "moved"    // the chat has a new id: Inbound.MovedTo
)

// An Inbound is one normalised event. It is stored as JSON before the platform
// hears that we have it, so every field survives a restart.
type Inbound struct {
	// IdempotencyKey is the idempotency key, unique within platform and account: the same
	// event delivered again has the same key.
	IdempotencyKey string `json:"key"`
	// ID is the platform's id of the message, unique within the chat.
	ID      string    `json:"id"`
	Kind    EventKind `json:"ev"`
	Address Address   `json:"from"`
	Sender  Person    `json:"by"`
	SentAt  time.Time `json:"at"` // the platform's own clock
	Text    string    `json:"text,omitempty"`

	ChatName string `json:"chat,omitempty"`  // untrusted
	Topic    string `json:"topic,omitempty"` // untrusted
	// Prompt is the operator's extra prompt for this chat; it becomes part of
	// the overlay.
	Prompt string `json:"prompt,omitempty"`

	Files      []File   `json:"files,omitempty"`
	ReplyTo    *Quote   `json:"reply,omitempty"`
	MigratedTo *Address `json:"moved,omitempty"` // of a Moved event

	// Addressed: the message is meant for us: a direct chat, a mention, a
	// reply to one of ours, or a chat in which we answer everything.
	Addressed bool `json:"addr,omitempty"`
	// IgnoreRule, if set, names the rule by which the adapter wants this event left
	// unanswered. It is recorded for `why` and ends there.
	IgnoreRule string `json:"rule,omitempty"`
	// HasEarlierMessages: there may be messages before this one in its thread that the agent
	// was not shown. The adapter, a Historian, can tell them.
	HasEarlierMessages bool `json:"earlier,omitempty"`
	// EditedKey is the Key of the message that an Edit changes.
	EditedKey string `json:"amends,omitempty"`
	// Part, if set, says that more pieces of the same thing may follow.
	Part *Part `json:"part,omitempty"`
}

// A Part marks a message as one piece of something that the platform or the
// person's client has split: an album, or a text over the message limit. Pieces
// with one Group, in one session, become one input.
type Part struct {
	Group string        `json:"g"`           // album id; for split texts "text"
	Wait  time.Duration `json:"w,omitempty"` // hold this long for a following piece; 0 only if one is waiting already
}

// A Quote is the message to which somebody replied.
type Quote struct {
	ID      string `json:"id"`
	Text    string `json:"text,omitempty"`
	Author  string `json:"by,omitempty"`
	FromBot bool   `json:"own,omitempty"` // it was one of ours
}

// A FileKind says how a platform presents a file.
type FileKind string

// The kinds of file.
const (
	Photo    FileKind = "photo"
	Voice    FileKind = "voice"
	Audio    FileKind = "audio"
	Video    FileKind = "video"
	Document FileKind = "document"
	Sticker  FileKind = "sticker"
)

// A File is an attachment. Coming in it has a Ref, which only its adapter
// understands, until it has been fetched; then it has a Path. Going out it has
// a Path.
type File struct {
	Kind FileKind `json:"k"`
	Ref  string   `json:"ref,omitempty"`
	Name string   `json:"n,omitempty"` // as the sender named it; never used as a path
	MIME string   `json:"m,omitempty"`
	Size int64    `json:"s,omitempty"`    // bytes; 0 if unknown
	Path string   `json:"path,omitempty"` // where it lies on our disk
	// FetchError, if set, says in words why the file could not be had.
	FetchError string `json:"problem,omitempty"`
}
