// Package chat defines the types that adapters and the gateway exchange: addresses,
// inbound events, outbound messages, delivery errors and adapter capabilities. It
// imports only package secret of this module.
//
// Adapters convert between a platform's own types and these; no other package knows the
// platform's types. All types are plain values without locks.
package chat

import (
	"strings"
	"time"
)

// A Platform is a system through which events reach the daemon.
type Platform string

// The platforms.
const (
	Telegram Platform = "telegram"
	Discord  Platform = "discord"
	Slack    Platform = "slack"
	Console  Platform = "console"
	HTTP     Platform = "http"
	Cron     Platform = "cron"
)

// A Kind is the type of a chat. It is part of session keys.
type Kind string

// The kinds of chat. A broadcast channel is a Channel; a Discord or Slack channel in
// which people talk is a Group.
const (
	DM      Kind = "dm"
	Group   Kind = "group"
	Thread  Kind = "thread"
	Channel Kind = "channel"
)

// An Address identifies a chat or thread on a platform, where messages come from and go
// to. It is comparable, so it can be a map key. IDs are those of the platform and
// opaque to everything but its adapter.
type Address struct {
	Platform Platform `json:"p"`
	Account  string   `json:"a,omitempty"` // account name; "": the platform has one account
	Kind     Kind     `json:"k"`
	Scope    string   `json:"s,omitempty"` // Slack team, Discord guild
	Chat     string   `json:"c"`
	Thread   string   `json:"t,omitempty"` // topic or thread inside the chat
}

// WithoutThread returns the address without its thread and kind. Platforms apply rate
// limits per such address, and sends to it keep their order.
func (a Address) WithoutThread() Address {
	return Address{Platform: a.Platform, Account: a.Account, Scope: a.Scope, Chat: a.Chat}
}

// An Account is one login on one platform, to which one adapter connects.
type Account struct {
	Platform Platform `json:"p"`
	Name     string   `json:"a,omitempty"` // "": the platform has one account
}

// AccountID returns the account to which a belongs.
func (a Address) AccountID() Account { return Account{a.Platform, a.Account} }

// String returns the form accepted as a target by `send` and `deliver`: platform:chat
// or platform:chat:thread.
func (a Address) String() string {
	parts := []string{string(a.Platform), a.Chat}
	if a.Thread != "" {
		parts = append(parts, a.Thread)
	}
	return strings.Join(parts, ":")
}

// A Person is the sender of an event. ID is the platform's immutable ID; Name and
// Handle are untrusted and can change at any time.
type Person struct {
	ID     string `json:"id"`
	Name   string `json:"n,omitempty"`
	Handle string `json:"h,omitempty"` // user name without @
	Bot    bool   `json:"b,omitempty"`
	// Roles are the IDs of the person's roles on a platform that has roles, such as
	// Discord.
	Roles []string `json:"r,omitempty"`
}

// An EventKind is the type of an event.
type EventKind string

// The kinds of event.
const (
	Message  EventKind = "message"  // a new message or file
	Edit     EventKind = "edit"     // an earlier message was edited
	Callback EventKind = "callback" // a button of an outbound message was pressed
	Migrated EventKind = "moved"    // the chat has a new ID, Inbound.MigratedTo
)

// An Inbound is one normalized event. It is stored as JSON before it is acknowledged to
// the platform, so every field survives a restart.
type Inbound struct {
	// IdempotencyKey is unique within platform and account. The same event delivered
	// again has the same key.
	IdempotencyKey string `json:"key"`
	// ID is the platform's message ID, unique within the chat.
	ID      string    `json:"id"`
	Kind    EventKind `json:"ev"`
	Address Address   `json:"from"`
	Sender  Person    `json:"by"`
	SentAt  time.Time `json:"at"` // by the platform's clock
	Text    string    `json:"text,omitempty"`

	ChatName string `json:"chat,omitempty"`  // untrusted
	Topic    string `json:"topic,omitempty"` // untrusted
	// Prompt is the operator's additional prompt for this chat. It becomes part of the
	// overlay.
	Prompt string `json:"prompt,omitempty"`

	Files      []File   `json:"files,omitempty"`
	ReplyTo    *Quote   `json:"reply,omitempty"`
	MigratedTo *Address `json:"moved,omitempty"` // if Kind is Migrated

	// Addressed: the message is for the bot: a direct chat, a mention, a reply to one
	// of its messages, or a chat in which it answers everything.
	Addressed bool `json:"addr,omitempty"`
	// IgnoreRule, if set, names the rule by which the adapter ignores this event. The
	// event is stored, so that `why` can report it, and gets no answer.
	IgnoreRule string `json:"rule,omitempty"`
	// HasEarlierMessages: the thread may contain earlier messages that the agent has
	// not seen. The adapter is then a ThreadReader.
	HasEarlierMessages bool `json:"earlier,omitempty"`
	// EditedKey is the IdempotencyKey of the message that an Edit changes.
	EditedKey string `json:"amends,omitempty"`
	// Part, if set: more pieces of the same input may follow.
	Part *Part `json:"part,omitempty"`
}

// A Part marks a message as one piece of an input that the platform or the user's
// client has split: an album, or a text above the message limit. Pieces with the same
// Group in the same session become one input.
type Part struct {
	Group string        `json:"g"`           // album ID; "text" for a split text
	Wait  time.Duration `json:"w,omitempty"` // how long to wait for the next piece; 0: do not wait, only continue an earlier piece
}

// A Quote is a message that another one replies to, or an earlier message of a thread.
type Quote struct {
	ID      string `json:"id"`
	Text    string `json:"text,omitempty"`
	Author  string `json:"by,omitempty"`
	FromBot bool   `json:"own,omitempty"` // written by the bot itself
}

// A FileKind is the way in which a platform presents a file.
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

// A File is an attachment. An inbound file has a Ref, which only its adapter
// understands, until it has been fetched, and a Path afterwards. An outbound file has a
// Path.
type File struct {
	Kind FileKind `json:"k"`
	Ref  string   `json:"ref,omitempty"`
	Name string   `json:"n,omitempty"` // given by the sender; never used as a path
	MIME string   `json:"m,omitempty"`
	Size int64    `json:"s,omitempty"`    // bytes; 0 if unknown
	Path string   `json:"path,omitempty"` // on the local disk
	// FetchError, if set, says in words why the file could not be fetched.
	FetchError string `json:"problem,omitempty"`
}
