// Package session decides to which conversation a message belongs.
//
// A Key names a conversation and lasts; an ID names one run of it between
// resets. A key points to one id at a time.
package session

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"strings"
	"time"

	"hermesd/gateway/chat"
)

// A Key names a conversation:
//
//	agent:<profile>:<platform>:<type>[:<scope>]:<chat>[:<thread>][:<user>]
//
// KeyFor is the only place that makes one; nothing takes one apart.
type Key string

// An ID names one run of a conversation: YYYYMMDD_HHMMSS_ and 8 hex digits.
type ID string

// NewID returns a fresh id for a session that starts at now.
func NewID(now time.Time) ID {
	var b [4]byte
	rand.Read(b[:])
	return ID(now.UTC().Format("20060102_150405_") + hex.EncodeToString(b[:]))
}

// Policy says which conversations are per user.
type Policy struct {
	GroupPerUser  bool
	ThreadPerUser bool
}

// Shared reports whether several people speak in the sessions at a.
func (p Policy) Shared(a chat.Address) bool {
	switch {
	case a.Kind == chat.DM:
		return false
	case a.Thread != "" || a.Kind == chat.Thread:
		return !p.ThreadPerUser
	default:
		return !p.GroupPerUser
	}
}

// KeyFor returns the key of the conversation to which a message from user at a
// belongs. profile "" is main.
func KeyFor(profile string, a chat.Address, user string, p Policy) Key {
	if profile == "" {
		profile = "main"
	}
	parts := []string{"agent", profile, string(a.Platform), string(a.Kind)}
	if a.Account != "" {
		parts[2] += "/" + a.Account
	}
	add := func(s string) {
		if s != "" {
			parts = append(parts, escape(s))
		}
	}
	if a.Platform == chat.Slack {
		add(a.Scope)
	}
	add(a.Chat)
	if a.Kind == chat.DM && a.Chat == "" {
		add(user)
	}
	add(a.Thread)
	if a.Kind != chat.DM && !p.Shared(a) {
		add(user)
	}
	return Key(strings.Join(parts, ":"))
}

// escape keeps a foreign id from running into its neighbours.
func escape(s string) string {
	return strings.NewReplacer("%", "%25", ":", "%3A", "\x00", "%00", "\n", "%0A").Replace(s)
}

// A Record is what is kept of one session id.
type Record struct {
	ID      ID           `json:"id"`
	Key     Key          `json:"key"`
	At      chat.Address `json:"at"`
	Owner   string       `json:"owner,omitempty"` // user id, of a session that is not shared
	Shared  bool         `json:"shared,omitempty"`
	Name    string       `json:"name,omitempty"` // of the chat or the person; untrusted
	Title   string       `json:"title,omitempty"`
	Created time.Time    `json:"created"`
	Updated time.Time    `json:"updated"`
	// Messages is the length of the stored transcript.
	Messages int `json:"messages"`
	Turns    int `json:"turns"`
	// PromptTokens is what the provider reported for the last call; 0 if it
	// reported nothing.
	PromptTokens int `json:"prompt_tokens,omitempty"`
	// Crashes counts the crashes in a row in which a turn was under way.
	Crashes int `json:"crashes,omitempty"`
	// Usage sums what the session's calls cost in tokens.
	Usage json.RawMessage `json:"usage,omitempty"`
}

// An Opening is a session's first appearance in the store: its record and its
// frozen prompt, which is stored once and never changes.
type Opening struct {
	Record Record
	Prompt json.RawMessage
}
