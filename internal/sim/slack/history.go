package slack

import (
	"encoding/base64"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Page sizes of histories.
const (
	historyDefault    = 100
	repliesDefault    = 1000
	historyMost       = 999
	repliesMost       = 1000
	restrictedHistory = 15
)

// A window is the part of a history that a call asks for.
type window struct {
	oldest, latest string // "": no bound
	inclusive      bool
	limit          int
	cursor         string // the ts at which the page continues
}

// window parses oldest, latest, inclusive, limit and cursor.
func (c *call) window(otherwise, most int) (window, *apiError) {
	w := window{inclusive: c.bool("inclusive"), limit: otherwise}
	var ok bool
	if w.oldest, ok = normalTS(c.str("oldest")); !ok {
		return w, refuse("invalid_ts_oldest")
	}
	if w.latest, ok = normalTS(c.str("latest")); !ok {
		return w, refuse("invalid_ts_latest")
	}
	if raw := c.str("limit"); raw != "" {
		n, err := strconv.Atoi(raw)
		if err != nil || n < 0 {
			return w, refuse("invalid_limit")
		}
		if n > 0 {
			w.limit = min(n, most)
		}
	}
	if c.app.opts.Restricted {
		w.limit = min(w.limit, restrictedHistory)
	}
	var refused *apiError
	w.cursor, refused = c.cursor("next_ts:")
	return w, refused
}

var anyTS = regexp.MustCompile(`^([0-9]{1,10})(\.[0-9]{0,6})?$`)

// normalTS pads a time to the width of a ts, so that times can be compared as
// text. It returns "" for values that mean no bound (empty, zero and "now") and
// reports false for an invalid value.
func normalTS(raw string) (string, bool) {
	if raw == "" || raw == "0" || raw == "now" {
		return "", true
	}
	m := anyTS.FindStringSubmatch(raw)
	if m == nil {
		return "", false
	}
	frac := strings.TrimPrefix(m[2], ".")
	return strings.Repeat("0", 10-len(m[1])) + m[1] + "." + frac + strings.Repeat("0", 6-len(frac)), true
}

// cursor parses a cursor made by nextCursor.
func (c *call) cursor(prefix string) (string, *apiError) {
	raw := c.str("cursor")
	if raw == "" {
		return "", nil
	}
	text, err := base64.StdEncoding.DecodeString(raw)
	at, ok := strings.CutPrefix(string(text), prefix)
	if err != nil || !ok {
		return "", refuse("invalid_cursor")
	}
	return at, nil
}

func nextCursor(prefix, at string) obj {
	return obj{"next_cursor": base64.StdEncoding.EncodeToString([]byte(prefix + at))}
}

func (w window) holds(ts string) bool {
	return (w.oldest == "" || ts > w.oldest || w.inclusive && ts == w.oldest) &&
		(w.latest == "" || ts < w.latest || w.inclusive && ts == w.latest)
}

// shownLocked returns messages in the format of an answer.
func (c *call) shownLocked(list []*message) []obj {
	out := make([]obj, len(list))
	for i, m := range list {
		if out[i] = m.wire(); c.bool("include_all_metadata") {
			m.withMetadata(out[i])
		}
	}
	return out
}

// readableLocked returns the channel whose history a call asks for.
func (c *call) readableLocked() (*Channel, *apiError) {
	if c.str("channel") == "" {
		return nil, missingField("channel")
	}
	ch, refused := c.channelLocked(c.str("channel"))
	if refused == nil {
		refused = c.needLocked(ch.kind.noun() + ":history")
	}
	if refused == nil && !ch.hasLocked(c.bot.user) {
		refused = refuse("not_in_channel")
	}
	return ch, refused
}

// history implements conversations.history: newest first, without the replies
// in threads.
func history(c *call) (obj, *apiError) {
	ch, refused := c.readableLocked()
	if refused != nil {
		return nil, refused
	}
	w, refused := c.window(historyDefault, historyMost)
	if refused != nil {
		return nil, refused
	}
	var list []*message
	more := ""
	for _, m := range slices.Backward(ch.msgs) {
		inThread := m.Thread != "" && m.Thread != m.TS && !m.Broadcast
		if inThread || !m.Deleted.IsZero() || !w.holds(m.TS) || w.cursor != "" && m.TS > w.cursor {
			continue
		}
		if len(list) == w.limit {
			more = m.TS
			break
		}
		list = append(list, m)
	}
	out := obj{"messages": c.shownLocked(list), "has_more": more != "", "pin_count": 0}
	if more != "" && !c.s.opts.NoCursors {
		out["response_metadata"] = nextCursor("next_ts:", more)
	}
	return out, nil
}

// replies implements conversations.replies: oldest first. Every page begins
// with the root of the thread, whatever the bounds are.
func replies(c *call) (obj, *apiError) {
	ch, refused := c.readableLocked()
	if refused != nil {
		return nil, refused
	}
	if c.str("ts") == "" {
		return nil, missingField("ts")
	}
	w, refused := c.window(repliesDefault, repliesMost)
	if refused != nil {
		return nil, refused
	}
	root := ch.liveLocked(c.str("ts"))
	if root == nil {
		return nil, refuse("thread_not_found")
	}
	list := []*message{root}
	more := ""
	for _, m := range root.repliesLocked() {
		if !w.holds(m.TS) || m.TS < w.cursor {
			continue
		}
		if len(list) > w.limit {
			more = m.TS
			break
		}
		list = append(list, m)
	}
	out := obj{"messages": c.shownLocked(list), "has_more": more != ""}
	if more != "" && !c.s.opts.NoCursors {
		out["response_metadata"] = nextCursor("next_ts:", more)
	}
	return out, nil
}
