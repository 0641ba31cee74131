// Package session defines session keys, session IDs and the stored record of a session.
//
// A Key names a conversation permanently; an ID names one run of it between resets. A
// key has one current ID. The package stores nothing; its functions may be called from
// any goroutine.
package session

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"hermesd/agent/llm"
	"hermesd/gateway/chat"
	"hermesd/gateway/i18n"
)

// A Key names a conversation:
//
//	agent:<profile>:<platform>:<type>[:<scope>]:<chat>[:<thread>][:<user>]
//
// KeyFor is the only function that builds one, and no code parses one.
type Key string

// An ID names one run of a conversation: YYYYMMDD_HHMMSS_ and 8 hex digits.
type ID string

// NewID returns a new random ID for a session that starts at now.
func NewID(now time.Time) ID {
	var b [4]byte
	rand.Read(b[:])
	return ID(now.UTC().Format("20060102_150405_") + hex.EncodeToString(b[:]))
}

// KeyPolicy determines which conversations are separate, in particular for each user.
type KeyPolicy struct {
	Profiles      chat.Profiles // of the platforms with KeyScope at least
	GroupPerUser  bool          // groups and channels
	ThreadPerUser bool          // threads
}

// Shared reports whether all users of a share one conversation.
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
// belongs. The profiles "" and "default" become "main".
//
// Two addresses, or two users where sessions are per user, never share a key, provided
// that the platform's thread IDs and user IDs do not overlap: the key format puts a
// group's thread and a group's member in the same position.
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
	if p.Profiles.Of(a.Platform).KeyScope {
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

// HasPlatform reports whether k belongs to the given profile and platform.
func (k Key) HasPlatform(profile string, p chat.Platform) bool {
	prefix := "agent:" + profileName(profile) + ":" + escape(string(p))
	return strings.HasPrefix(string(k), prefix+":") || strings.HasPrefix(string(k), prefix+"/")
}

// BackgroundKey returns the key of a background conversation of k, whose turns do not
// wait for those of k. name distinguishes several of them.
func BackgroundKey(k Key, name string) Key { return k + ":bg:" + Key(escape(name)) }

// profileName returns the form of a profile in keys. A profile that is really called
// main is written "main~", to distinguish it from the default profile.
func profileName(profile string) string {
	switch profile {
	case "", "default":
		return "main"
	case "main":
		return "main~"
	}
	return strings.ReplaceAll(escape(profile), "~", "%7E")
}

// escape percent-encodes the characters that separate the parts of a key, the account
// from its platform, and the lane suffix from the key. It also encodes control
// characters and invalid UTF-8.
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

// A Record is the stored state of one session.
type Record struct {
	ID      ID           `json:"id"`
	Key     Key          `json:"key"`
	Address chat.Address `json:"at"`
	Owner   string       `json:"owner,omitempty"` // user ID, if the session is not shared
	Shared  bool         `json:"shared,omitempty"`
	// OwnersOnly: only principals of level owner write in this session.
	OwnersOnly bool   `json:"owners_only,omitempty"`
	Name       string `json:"name,omitempty"` // name of the chat or the person; untrusted
	Title      string `json:"title,omitempty"`
	// TitleAuto: Title was generated. A title set by a user replaces a generated one,
	// never the reverse.
	TitleAuto bool      `json:"title_auto,omitempty"`
	Created   time.Time `json:"created"`
	Updated   time.Time `json:"updated"`
	// Messages is the length of the active transcript, Start the number of its first
	// row. Rows are numbered in the order of writing and never change. Archive lists
	// the rows that compactions removed. The store maintains Start and Archive.
	Messages int    `json:"messages"`
	Start    int    `json:"start,omitempty"`
	Archive  []Span `json:"archive,omitempty"`
	Turns    int    `json:"turns"`
	// Calls is the number of model calls in the session's ledger.
	Calls int `json:"calls,omitempty"`
	// Revision counts the replacements of the frozen prompt. PendingBreak is the
	// declared reason why the prefix of the next call may differ from the last one.
	Revision     int    `json:"revision,omitempty"`
	PendingBreak string `json:"break,omitempty"`
	// Settings are the choices of users for this session.
	Settings Settings `json:"settings,omitzero"`
	// PromptTokens is the prompt size that the provider reported for the last call; 0
	// if it reported none.
	PromptTokens int `json:"prompt_tokens,omitempty"`
	// PromptMessages is the number of active messages in that call, UnstoredDigest a
	// digest of what was sent in addition to the stored prompt.
	PromptMessages int    `json:"prompt_at,omitempty"`
	UnstoredDigest string `json:"beside,omitempty"`
	// Files are the names of the attachments of its messages in the media cache. They
	// are deleted with the session.
	Files []string `json:"files,omitempty"`
	// Crashes counts consecutive crashes during a turn of this session.
	Crashes int `json:"crashes,omitempty"`
	// Usage is the sum of the token usage of the session's calls; nil before the first.
	Usage *llm.Usage `json:"usage,omitempty"`
}

// A Span is the half-open range [From, To) of transcript rows.
type Span struct {
	From int `json:"f"`
	To   int `json:"t"`
}

// Active returns the numbers of the rows of the active transcript.
func (r Record) Active() Span { return Span{From: r.Start, To: r.Start + r.Messages} }

// A Query selects sessions; the zero Query selects all, the most recently used first.
type Query struct {
	Before time.Time // only those that were last used before it, if set
	Oldest bool      // the least recently used first
	Max    int       // 0: no limit
}

// Archived returns the number of archived messages.
func (r Record) Archived() int {
	n := 0
	for _, s := range r.Archive {
		n += s.To - s.From
	}
	return n
}

// Settings are the choices of users for one session. A zero field means the configured
// value.
type Settings struct {
	Provider     string `json:"provider,omitempty"`
	Model        string `json:"model,omitempty"`
	Effort       string `json:"effort,omitempty"`
	Personality  string `json:"personality,omitempty"`
	BusyMode     string `json:"busy,omitempty"`     // interrupt, queue or steer
	ToolProgress string `json:"progress,omitempty"` // off, new, all or verbose
	Voice        bool   `json:"voice,omitempty"`    // answers are also sent as speech
}

// ErrNotFound is returned for a session ID that does not exist.
var ErrNotFound = errors.New("there is no such conversation")

// ErrBusy is returned when a session cannot be deleted because a turn of its
// conversation is running.
var ErrBusy = errors.New("an answer is under way in this conversation; stop it with /stop, or wait until it is there")

// Deleted is the result of deleting a session.
type Deleted struct {
	ID       ID  `json:"id"`
	Messages int `json:"messages"` // including archived ones
	Entries  int `json:"entries"`  // inbox entries whose text was deleted
	Rows     int `json:"rows"`     // outbox rows whose text was deleted, or will be once they are settled
	// Files are the names of files in the media cache that nothing else refers to.
	// The store does not delete them.
	Files []string `json:"files,omitempty"`
	// Stays is what the external memory cannot delete; the store does not know it.
	Stays string `json:"stays,omitempty"`
}

// Locks allow one turn at a time per session. Lanes already guarantee this, except after
// a chat migration, when the old and the new lane lead to the same session. The zero
// Locks is ready for use. Its methods may be called from any goroutine.
type Locks struct {
	mu       sync.Mutex // guards what follows
	busy     map[ID]chan struct{}
	released uint64 // number of calls of Release
}

// TryAcquire locks the session and returns nil, or returns a channel that is closed when
// the holder releases the lock.
func (l *Locks) TryAcquire(id ID) (busy <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if ch, ok := l.busy[id]; ok {
		return ch
	}
	if l.busy == nil {
		l.busy = make(map[ID]chan struct{})
	}
	l.busy[id] = make(chan struct{})
	return nil
}

// Acquire locks the session once no other turn holds it. If ctx ends first it returns the
// cause.
func (l *Locks) Acquire(ctx context.Context, id ID) error {
	for {
		busy := l.TryAcquire(id)
		if busy == nil {
			return nil
		}
		select {
		case <-busy:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Release releases the lock of the session, which the caller must hold.
func (l *Locks) Release(id ID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.busy[id])
	delete(l.busy, id)
	l.released++
}

// Releases returns how often sessions were released. Only the holder of a session commits
// turns of it. If the number is the same before a record is read and after its session is
// locked, there was no such commit in between.
func (l *Locks) Releases() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.released
}

// A ResetPolicy determines when a conversation automatically starts a new session. The
// zero ResetPolicy means never. A reset deletes nothing.
type ResetPolicy struct {
	Idle  time.Duration // time without a message after which it is due; 0: never
	Daily bool          // once a day, at Hour
	Hour  int           // 0 to 23
	// Zone is the time zone of Hour; nil: time.Local.
	Zone *time.Location
}

// Due reports whether a session that was last used at last is reset at now, and returns
// the reason in the language of p.
func (r ResetPolicy) Due(p i18n.Printer, last, now time.Time) (reason string, due bool) {
	if last.IsZero() {
		return "", false
	}
	if r.Idle > 0 && now.Sub(last) >= r.Idle {
		return p.T("nothing was said for %s", formatSpan(p, now.Sub(last))), true
	}
	if r.Daily && last.Before(r.dayStart(now)) {
		return p.T("a new day has begun at %d:00", r.Hour), true
	}
	return "", false
}

// dayStart returns the latest start of a day at or before now.
func (r ResetPolicy) dayStart(now time.Time) time.Time {
	zone := r.Zone
	if zone == nil {
		zone = time.Local
	}
	n := now.In(zone)
	b := time.Date(n.Year(), n.Month(), n.Day(), r.Hour, 0, 0, 0, zone)
	if b.After(now) {
		b = time.Date(n.Year(), n.Month(), n.Day()-1, r.Hour, 0, 0, 0, zone)
	}
	return b
}

func formatSpan(p i18n.Printer, d time.Duration) string {
	if d < 2*time.Hour {
		return p.T("%d minutes", int(d.Minutes()))
	}
	if d < 48*time.Hour {
		return p.T("%d hours", int(d.Hours()))
	}
	return p.T("%d days", int(d.Hours()/24))
}

// maxSpeakerName is the maximum length of a speaker's name in characters.
const maxSpeakerName = 40

// unnamedSpeaker replaces a name without visible characters.
const unnamedSpeaker = "somebody"

// CleanSpeakerName returns name in the form used in the `[name] ` before a message of a
// shared session: one line of at most 40 characters without brackets and invisible
// characters. The name is untrusted; the result cannot end the bracket, start a line or
// look like a tag. It is never empty.
func CleanSpeakerName(name string) string {
	var b strings.Builder
	n, space := 0, false
	for _, r := range name {
		switch {
		case unicode.IsSpace(r):
			space = n > 0
			continue
		case isHidden(r):
			continue
		}
		if space && n < maxSpeakerName-1 {
			b.WriteByte(' ')
			n++
		}
		space = false
		if n++; n > maxSpeakerName {
			break
		}
		b.WriteRune(r)
	}
	if b.Len() == 0 {
		return unnamedSpeaker
	}
	return b.String()
}

// isHidden reports whether r is removed from names: brackets of any script, characters
// without a glyph, and those that change the direction of others.
func isHidden(r rune) bool {
	switch r {
	case '<', '>', '＜', '＞', unicode.ReplacementChar:
		return true
	case '(', ')':
		return false
	}
	return unicode.In(r, unicode.Ps, unicode.Pe, unicode.C) || !unicode.IsGraphic(r) || unicode.Is(unicode.Other_Default_Ignorable_Code_Point, r)
}
