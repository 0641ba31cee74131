// Package session decides to which conversation a message belongs.
//
// A Key names a conversation and lasts; an ID names one run of it between
// resets. A key points to one id at a time.
package session

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

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

// KeyPolicy says which conversations are per user.
type KeyPolicy struct {
	GroupPerUser  bool
	ThreadPerUser bool
}

// Shared reports whether several people speak in the sessions at a.
func (p KeyPolicy) Shared(a chat.Address) bool {
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
// belongs. profile "" and "default" are the profile main.
//
// Two places, or two people where sessions are per user, never share a key, as
// far as a platform keeps its ids for topics and for people apart: the table of
// forms that hermes users know writes a group's topic and a group's member the
// same way.
func KeyFor(profile string, a chat.Address, user string, p KeyPolicy) Key {
	platform := escape(string(a.Platform))
	if a.Account != "" {
		platform += "/" + escape(a.Account)
	}
	parts := []string{"agent", profileName(profile), platform, escape(string(a.Kind))}
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

// HasPlatform reports whether k is a key of the platform p.
func (k Key) HasPlatform(profile string, p chat.Platform) bool {
	at := "agent:" + profileName(profile) + ":" + escape(string(p))
	return strings.HasPrefix(string(k), at+":") || strings.HasPrefix(string(k), at+"/")
}

// BackgroundKey returns the key of a conversation beside the one of k: what runs in
// it does not wait for k's turns. name tells several apart.
func BackgroundKey(k Key, name string) Key { return k + ":bg:" + Key(escape(name)) }

// profileName returns how a profile stands in keys. One that is really called
// main must not be taken for having none.
func profileName(profile string) string {
	switch profile {
	case "", "default":
		return "main"
	case "main":
		return "main~"
	}
	return strings.ReplaceAll(escape(profile), "~", "%7E")
}

// escape keeps a foreign id from running into its neighbours: the parts of a
// key, the account behind its platform, and the mark of a lane behind the key.
// Keys are valid UTF-8 without control characters whatever the ids are.
func escape(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case strings.ContainsRune("%:/!", r), unicode.IsControl(r), r == utf8.RuneError && n == 1:
			for _, c := range []byte(s[i : i+n]) {
				fmt.Fprintf(&b, "%%%02X", c)
			}
		default:
			b.WriteString(s[i : i+n])
		}
		i += n
	}
	return b.String()
}

// A Record is what is kept of one session id.
type Record struct {
	ID      ID           `json:"id"`
	Key     Key          `json:"key"`
	Address chat.Address `json:"at"`
	Owner   string       `json:"owner,omitempty"` // user id, of a session that is not shared
	Shared  bool         `json:"shared,omitempty"`
	// OwnersOnly says that nobody but an owner of the gateway speaks here.
	OwnersOnly bool   `json:"owners_only,omitempty"`
	Name       string `json:"name,omitempty"` // of the chat or the person; untrusted
	Title      string `json:"title,omitempty"`
	// TitleAuto says that the daemon has made up Title itself; a person's title
	// takes its place, and never the other way round.
	TitleAuto bool      `json:"title_auto,omitempty"`
	Created   time.Time `json:"created"`
	Updated   time.Time `json:"updated"`
	// Messages is the length of the active transcript, and Start the number of its
	// first row: rows are numbered as they are written and never change. The store
	// counts Start and keeps Archive, which are the rows that compactions took out.
	Messages int    `json:"messages"`
	Start    int    `json:"start,omitempty"`
	Archive  []Span `json:"archive,omitempty"`
	Turns    int    `json:"turns"`
	// Calls is how many calls of models the session's ledger counts.
	Calls int `json:"calls,omitempty"`
	// Revision counts how often the frozen prompt was replaced, and Break says why
	// the prefix of the next call may differ from that of the last one.
	Revision     int    `json:"revision,omitempty"`
	PendingBreak string `json:"break,omitempty"`
	// Settings are what people have chosen for this session.
	Settings Settings `json:"settings,omitzero"`
	// PromptTokens is what the provider reported for the last call; 0 if it
	// reported nothing.
	PromptTokens int `json:"prompt_tokens,omitempty"`
	// PromptMessages is how many active messages that call was sent, and Beside stands
	// for what it was sent beside the stored prompt.
	PromptMessages int    `json:"prompt_at,omitempty"`
	UnstoredDigest string `json:"beside,omitempty"`
	// Files are the names of the files in the media cache with which its messages
	// came; they go with it.
	Files []string `json:"files,omitempty"`
	// Crashes counts the crashes in a row in which a turn was under way.
	Crashes int `json:"crashes,omitempty"`
	// Usage sums what the session's calls cost in tokens.
	Usage json.RawMessage `json:"usage,omitempty"`
}

// A Span is the rows of a transcript from From up to To, which is not in it.
type Span struct {
	From int `json:"f"`
	To   int `json:"t"`
}

// Archived is how many messages of the session are archived.
func (r Record) Archived() int {
	n := 0
	for _, s := range r.Archive {
		n += s.To - s.From
	}
	return n
}

// Settings are what people choose for one session; what is empty is as
// configured.
type Settings struct {
	Provider     string `json:"provider,omitempty"`
	Model        string `json:"model,omitempty"`
	Effort       string `json:"effort,omitempty"`
	Personality  string `json:"personality,omitempty"`
	BusyMode     string `json:"busy,omitempty"`     // interrupt, queue or steer
	ToolProgress string `json:"progress,omitempty"` // off, new, all or verbose
	Voice        bool   `json:"voice,omitempty"`    // answers are spoken too
}

// An Creation is a session's first appearance in the store: its record and its
// frozen prompt, which changes only by a Commit that says so.
type Creation struct {
	Record Record
	Prompt json.RawMessage
}
