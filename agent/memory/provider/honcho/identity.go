package honcho

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strings"

	"hermesd/agent/memory/provider"
	"hermesd/internal/lazyregexp"
)

// Limits of IDs in characters: upstream's for sessions, and Honcho's.
const (
	maxSession = 100
	maxID      = 512
)

var (
	notID  = lazyregexp.New(`[^a-zA-Z0-9_-]`)
	notIDs = lazyregexp.New(`[^a-zA-Z0-9_-]+`)
)

// clean returns a valid ID of a peer or workspace.
func clean(id string) string {
	return limited(notID().ReplaceAllString(id, "-"), id, maxID)
}

// limited cuts an ID that is too long; the sum of what it was made of keeps it different
// from others.
func limited(id, from string, limit int) string {
	if len(id) <= limit {
		return id
	}
	sum := hash(from)
	return strings.TrimRight(id[:limit-len(sum)-1], "-") + "-" + sum
}

func hash(s string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(s)))[:8] }

// user returns the peer of a person; that of the owner as upstream derives it.
func (c *config) user(s provider.Scope) string {
	alias := c.aliases[s.UserID]
	switch {
	case s.Person != "":
		return clean(s.Person)
	case c.pin && c.peer != "":
		return clean(c.peer)
	case alias != "":
		return clean(alias)
	case s.UserID != "" && c.prefix != "":
		raw := c.prefix + s.UserID
		id := notID().ReplaceAllString(raw, "-")
		if id != raw || id == clean(c.peer) || slices.Contains(slices.Collect(maps.Values(c.aliases)), id) {
			id += "-" + hash(raw)
		}
		return limited(id, raw, maxID)
	case s.UserID != "":
		return clean(s.UserID)
	}
	return clean(cmp.Or(c.peer, "user-"+s.Platform+"-"+s.Chat))
}

// session returns the name of a conversation's session: that of its chat, which is the
// same for all conversations of a chat, else that of the conversation, else the workspace.
func (c *config) session(s provider.Scope) string {
	slug := func(s string) string { return strings.Trim(notIDs().ReplaceAllString(s, "-"), "-") }
	name, from := slug(s.Key), s.Key
	if name == "" && s.Session != "" {
		name, from = slug(s.Session), s.Session
		if c.peerPrefix && c.peer != "" {
			name = clean(c.peer) + "-" + name
		}
	}
	if name == "" {
		name, from = c.workspace, c.workspace
	}
	name = limited(name, from, maxSession)
	if c.aiPrefix {
		name = c.ai + "-" + name
		name = limited(name, name, maxSession)
	}
	return name
}
